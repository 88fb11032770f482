import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unstale.data.split import stratified_test_mask

SAMPLES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=120)


@given(SAMPLES, st.floats(0, 1), st.randoms(use_true_random=False))
def test_exact_in_all_and_within_one_sample_per_class_and_per_user(samples, part, random) -> None:
    labels, users = (np.array(column) for column in zip(*samples, strict=True))
    order = np.array(random.sample(range(len(labels)), len(labels)))
    num_test = int(part * len(labels))
    test = stratified_test_mask(labels, order, num_test, users)
    assert test.sum() == num_test
    share = num_test / len(labels)
    for label in set(labels.tolist()):
        of_class = labels == label
        assert abs(test[of_class].sum() - share * of_class.sum()) < 1
        for user in set(users[of_class].tolist()):
            cell = of_class & (users == user)
            assert abs(test[cell].sum() - share * cell.sum()) < 1
            # What is tested comes last in the given order.
            if test[cell].any() and not test[cell].all():
                assert order[cell & test].min() > order[cell & ~test].max()


def test_a_rare_class_over_many_users_is_tested() -> None:
    labels = np.array([0] * 100 + [1] * 12)
    users = np.concatenate([np.arange(100) % 10, np.arange(12) % 10])
    test = stratified_test_mask(labels, np.arange(112), 112 // 5, users)
    assert test[labels == 1].sum() in (2, 3)
