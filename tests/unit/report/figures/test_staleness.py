import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.report import read_run
from unstale.report.figures.staleness import MAX_COLUMNS, MAX_ROWS, arrival_grid, arrival_grids

ages = st.dictionaries(st.integers(0, 600), st.integers(0, 9), max_size=5)


@given(st.lists(ages, min_size=1, max_size=300))
def test_no_update_is_lost_in_the_grid(met):
    grid = arrival_grid(["a"], {(i + 1, 0): found for i, found in enumerate(met)})
    assert len(grid.columns) <= MAX_COLUMNS
    assert grid.num_rows <= MAX_ROWS + 1
    drawn = sum(sum(c.rows) * (c.last - c.first + 1) for c in grid.columns)
    assert drawn == pytest.approx(sum(sum(found.values()) for found in met))
    assert [c.first for c in grid.columns[1:]] == [c.last + 1 for c in grid.columns[:-1]]
    fresh = sum(c.rows[0] * (c.last - c.first + 1) for c in grid.columns)
    assert fresh == pytest.approx(sum(found.get(0, 0) for found in met))


def test_the_numbers_of_a_column():
    grid = arrival_grid(["a"], {(1, 0): {0: 3, 40: 1}, (1, 1): {0: 4}})
    (column,) = grid.columns
    assert grid.width == 2
    assert column.mean == pytest.approx(40 / 8)
    assert column.highest == 40
    assert column.rows[0] == 3.5
    assert column.rows[20] == 0.5


def test_methods_that_met_the_same_share_a_grid(finished):
    grids = arrival_grids(read_run(finished))
    assert [grid.labels for grid in grids] == [
        ("unweighted", "weighted", "first_order", "convert"),
        ("no_delay",),
    ]
    assert [grid.has_stale for grid in grids] == [True, False]


def test_methods_share_a_grid_though_one_got_further(fake_run):
    folder = fake_run(finished=False, reached={("convert", 2): 47, ("weighted", 1): 0})
    grids = arrival_grids(read_run(folder))
    assert grids[0].labels == ("unweighted", "weighted", "first_order", "convert")
    assert grids[0].columns[-1].last == 100
