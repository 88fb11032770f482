"""Replies from strangers: whatever comes, arrays that fit or a reason."""

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st
from pretend_clients import npy, reply
from torch import nn

from unstale.flower.arrays import Layout, RefusedReplyError
from unstale.flower.decode import MAX_METRICS, ReplyForm, ReplyLimits, decode, decode_metrics
from unstale.server.checks import MOST_EXAMPLES

LAYOUT = Layout(nn.Linear(3, 2))
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.ones(2, np.float32)


def taken(content, version=4, max_bytes=10_000):
    return decode(content, ReplyForm(LAYOUT, max_bytes), version=version)


def code_of(content, **options):
    with pytest.raises(RefusedReplyError) as refused:
        taken(content, **options)
    assert refused.value.reason.endswith(".")
    assert len(refused.value.reason) < 500
    return refused.value.code


def arrays(weight=WEIGHT, bias=BIAS):
    return {"weight": Array(weight), "bias": Array(bias)}


def raw(data, dtype="float32", shape=(2, 3), stype="numpy.ndarray"):
    return {"weight": Array(dtype, shape, stype, data), "bias": Array(BIAS)}


def test_what_was_sent_comes_out():
    found = taken(reply(arrays(), 7, loss=0.5, note=[1.0]))
    assert torch.equal(found.weights["weight"], torch.from_numpy(WEIGHT))
    assert torch.equal(found.weights["bias"], torch.from_numpy(BIAS))
    assert found.num_examples == 7
    assert found.metrics == {"loss": 0.5}
    found.weights["weight"].add_(1)  # memory of its own


@pytest.mark.parametrize("as_sent", [np.asfortranarray(WEIGHT), WEIGHT.astype(">f4")])
def test_the_order_of_bytes_and_axes_is_the_senders(as_sent):
    assert torch.equal(taken(reply(arrays(as_sent))).weights["weight"], torch.from_numpy(WEIGHT))


def test_empty_and_scalar_arrays():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.none = nn.Parameter(torch.empty(0, 3))
            self.one = nn.Parameter(torch.tensor(2.0))

    layout = Layout(Odd())
    sent = layout.encode(dict(Odd().named_parameters()))
    content = RecordDict({"a": sent, "m": MetricRecord({"num-examples": 1})})
    found = decode(content, ReplyForm(layout, 9999), version=0)
    assert found.weights["none"].shape == (0, 3)
    assert found.weights["one"] == 2.0


def test_names_of_other_records_do_not_matter():
    content = RecordDict({"a": ArrayRecord(arrays()), "b": MetricRecord({"num-examples": 2})})
    assert taken(content).num_examples == 2


def test_buffers_may_be_missing_but_not_parameters():
    class Buffered(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.register_buffer("scale", torch.ones(()))

    form = ReplyForm(Layout(Buffered()), 9999)
    assert set(decode(reply(arrays()), form, version=0).weights) == {"weight", "bias"}
    with pytest.raises(RefusedReplyError, match="weight"):
        decode(reply({"bias": Array(BIAS), "scale": Array(np.ones(()))}), form, version=0)


BAD = {
    "shape": reply(arrays(WEIGHT.T.copy())),
    "shape broadcast": reply(arrays(bias=np.ones(1, np.float32))),
    "dtype double": reply(arrays(WEIGHT.astype(np.float64))),
    "dtype half": reply(arrays(WEIGHT.astype(np.float16))),
    "dtype integers": reply(arrays(WEIGHT.astype(np.int32))),
    "dtype complex": reply(arrays(WEIGHT.astype(np.complex64))),
    "dtype objects": reply(raw(npy(WEIGHT.astype(object), allow_pickle=True), "object")),
    "dtype void": reply(raw(npy(WEIGHT.view("V4")), "bfloat16")),
    "dtype torch": reply(raw(npy(WEIGHT), stype="torch.Tensor")),
    "payload records": reply(raw(npy(np.zeros((2, 3), [("a", "f4")])))),
    "payload nothing": reply(raw(b"")),
    "payload garbage": reply(raw(b"\x00" * 200)),
    "payload zip": reply(raw(b"PK\x03\x04" + b"\x00" * 200)),
    "payload pickle": reply(raw(b"\x80\x04K\x01.")),
    "payload too short": reply(raw(npy(WEIGHT)[:-1])),
    "payload too long": reply(raw(npy(WEIGHT) + b"\x00")),
    "payload long header": reply(raw(b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b"{}")),
    "payload version 3": reply(raw(b"\x93NUMPY\x03\x00" + npy(WEIGHT)[8:])),
    "shape claims the world": reply(raw(npy(WEIGHT).replace(b"(2, 3)", b"(9**9)"))),
    "metadata shape": reply(raw(npy(WEIGHT), shape=(3, 2))),
    "metadata dtype": reply(raw(npy(WEIGHT), dtype="float64")),
    "names": reply({"weight": Array(WEIGHT)}),
    "names extra": reply({**arrays(), "x": Array(BIAS)}),
    "names numbered": reply({"0": Array(WEIGHT), "2": Array(BIAS)}),
    "names empty": reply({}),
    "records none": RecordDict(),
    "records of settings": RecordDict({"arrays": ConfigRecord({"weight": b"abc"})}),
    "records two": RecordDict({**reply(arrays()), "more": MetricRecord({"num-examples": 3})}),
    "version": RecordDict({**reply(arrays()), "unstale": ConfigRecord({"unstale-version": 3})}),
    "version text": RecordDict({**reply(arrays()), "u": ConfigRecord({"unstale-version": "4"})}),
    "version true": RecordDict({**reply(arrays()), "u": ConfigRecord({"unstale-version": True})}),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_each_fault_has_its_code(name):
    code = name.partition(" ")[0]
    found = code_of(BAD[name], version=1 if name == "version true" else 4)
    # A shape that is no tuple is found when the header is read.
    assert found in ({"payload", "undecodable"} if name == "shape claims the world" else {code})


def test_a_version_that_is_echoed_rightly_is_fine():
    echo = ConfigRecord({"unstale-version": 4, "other": ["a", "b"]})
    assert taken(RecordDict({**reply(arrays()), "unstale": echo})).num_examples == 10


EXAMPLES = [0, -1, -10, 2.5, float("nan"), float("inf"), 1e300, 10**18, MOST_EXAMPLES + 1]


@pytest.mark.parametrize("value", [*EXAMPLES, [3], [], None])
def test_examples_are_a_positive_whole_number(value):
    content = reply(arrays())
    if value is None:
        del content["metrics"]["num-examples"]
    else:
        content["metrics"]["num-examples"] = value
    assert code_of(content) == "num_examples"


def test_true_is_no_number_of_examples():
    content = reply(arrays())
    content["metrics"].__dict__["_data"]["num-examples"] = True  # past Flower's own check
    assert code_of(content) == "num_examples"


def test_a_whole_number_may_come_as_a_float():
    assert taken(reply(arrays(), 40.0)).num_examples == 40


def test_what_is_too_large_is_refused_before_it_is_looked_at():
    class Untouchable(bytes):
        def __getitem__(self, index):
            raise AssertionError("it was decoded")

    content = reply(arrays())
    content["arrays"]["weight"].data = Untouchable(20_000)
    assert code_of(content) == "size"
    for more in (ConfigRecord({"x": b"0" * 20_000}), ConfigRecord({"x": ["ab"] * 10_000})):
        assert code_of(RecordDict({**reply(arrays()), "more": more})) == "size"
    assert code_of(reply(arrays(), **{f"m{i}": i for i in range(3000)})) == "size"


def test_a_header_that_claims_terabytes_allocates_nothing():
    layout = Layout(nn.Linear(3, 2))
    header = npy(WEIGHT).replace(b"(2, 3), }       ", b"(2, 3000000000)}")
    assert b"3000000000" in header
    with pytest.raises(RefusedReplyError) as refused:
        decode(reply(raw(header)), ReplyForm(layout, 9999), version=0)
    assert refused.value.code == "shape"


@pytest.mark.parametrize("text", ["-" * 2000 + "1", "(" * 1000, "[" * 190, "0x" + "9" * 2000, "\0"])
def test_headers_made_to_break_a_parser(text):
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(24)
    assert code_of(reply(raw(data))) in ("undecodable", "payload")


def test_metrics_are_bounded():
    content = reply(arrays(), **{f"m{i}": i for i in range(200)}, **{"x" * 500: 1})
    assert len(taken(content).metrics) == MAX_METRICS


def test_the_metrics_of_an_evaluation():
    content = RecordDict({"m": MetricRecord({"num-examples": 3, "f1": 0.5, "bad": float("nan")})})
    form = ReplyForm(LAYOUT, 1000)
    assert decode_metrics(content, form) == (3, {"f1": 0.5})
    with pytest.raises(RefusedReplyError):
        decode_metrics(RecordDict(), form)


def test_the_limit_of_bytes_follows_the_model_unless_it_is_given():
    form = ReplyForm.under(ReplyLimits(), LAYOUT, "n")
    assert (form.max_bytes, form.examples_key) == (2 * 4 * 8 + 2**20, "n")
    assert ReplyForm.under(ReplyLimits(max_bytes=7), LAYOUT, "n").max_bytes == 7


# ---- anything at all ------------------------------------------------------------------

numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats())
headers = st.builds(
    lambda text, kind: b"\x93NUMPY" + kind + len(text).to_bytes(2, "little") + text,
    st.one_of(
        st.binary(max_size=200),
        st.builds(
            lambda d, f, s: repr({"descr": d, "fortran_order": f, "shape": s}).encode(),
            st.sampled_from(["<f4", ">f4", "|O", "<U9", "V4", "f4,f4", "(9,)f4", "", "!", "M8[s]"]),
            st.sampled_from([True, False, 1, None]),
            st.one_of(
                st.just((2, 3)),
                st.tuples(st.integers(), st.integers()),
                st.lists(st.integers()),
                st.floats(),
            ),
        ),
    ),
    st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x01\x01"]),
)
datas = st.one_of(
    st.binary(max_size=300), st.builds(lambda h, b: h + b, headers, st.binary(max_size=60))
)
any_array = st.builds(
    Array,
    st.text(max_size=10) | st.just("float32"),
    st.lists(st.integers(-3, 9), max_size=3).map(tuple) | st.just((2, 3)),
    st.just("numpy.ndarray") | st.text(max_size=5),
    datas,
)
any_record = st.one_of(
    st.dictionaries(st.sampled_from(["weight", "bias", "0", "1", "\ud800"]), any_array).map(
        ArrayRecord
    ),
    st.dictionaries(st.sampled_from(["num-examples", "loss"]), numbers).map(MetricRecord),
    st.dictionaries(
        st.sampled_from(["unstale-version", "x"]), numbers | st.text() | st.binary() | st.booleans()
    ).map(ConfigRecord),
)


def taken_or_refused(content):
    try:
        return taken(content)
    except RefusedReplyError as refused:
        return refused


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=5), any_record, max_size=4).map(RecordDict))
def test_whatever_comes_is_decoded_or_refused(content):
    found = taken_or_refused(content)
    if isinstance(found, RefusedReplyError):
        assert found.code
        assert len(found.reason) < 700
    else:
        assert found.weights["weight"].shape == (2, 3)


@settings(max_examples=150, deadline=None)
@given(any_array)
def test_whatever_array_comes_is_of_the_right_form_or_refused(array):
    found = taken_or_refused(reply({"weight": array, "bias": Array(BIAS)}))
    if isinstance(found, RefusedReplyError):
        assert found.code in ("shape", "dtype", "payload", "metadata", "undecodable")
    else:
        assert found.weights["weight"].dtype == torch.float32
        assert found.weights["weight"].shape == (2, 3)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_flipped_byte_never_gets_past_the_header(data):
    sent = bytearray(npy(WEIGHT))
    at = data.draw(st.integers(0, len(sent) - 25))
    sent[at] ^= data.draw(st.integers(1, 255))
    found = taken_or_refused(reply(raw(bytes(sent))))
    # Blanks and quotes may change; what the array is may not.
    if not isinstance(found, RefusedReplyError):
        assert found.weights["weight"].shape == (2, 3)
        assert found.weights["weight"].dtype == torch.float32
