"""The walker follows what an unpickler would do, and stops where one would be fooled."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import pickles as p
from trainproof.checkpoints.limits import Limits
from trainproof.checkpoints.pickles.allowlist import classify
from trainproof.checkpoints.pickles.nodes import Call, Global, Items, Large, Pairs, Persistent
from trainproof.checkpoints.pickles.survey import Survey
from trainproof.checkpoints.pickles.walker import walk
from trainproof.model.data import FaultCode
from trainproof.model.tensors import DefectCode, Safety


def test_containers_and_constants() -> None:
    walked = walk(p.pickle(p.list_(p.integer(-3), p.number(0.5), p.text("é"), b"N\x88\x89")))
    assert walked.damage is None
    assert isinstance(walked.root, Items)
    assert walked.root.values == [-3, 0.5, "é", None, True, False]


def test_a_mapping_keeps_duplicate_keys_and_never_hashes_them() -> None:
    walked = walk(p.pickle(p.dict_([(p.EMPTY_LIST, p.NONE), (p.EMPTY_LIST, p.NONE)])))
    assert isinstance(walked.root, Pairs)
    assert len(walked.root.values) == 2


def test_calls_are_recorded_and_not_made() -> None:
    walked = walk(p.pickle(p.EVIL))
    assert isinstance(walked.root, Call)
    assert isinstance(walked.root.function, Global)
    assert walked.root.function.path == "posix.getpid"
    assert walked.globals == (("posix", "getpid"),)


def test_a_storage_is_a_persistent_reference() -> None:
    walked = walk(p.pickle(p.storage("0", "FloatStorage", 4)))
    assert isinstance(walked.root, Persistent)


@pytest.mark.parametrize(
    "body",
    [
        b"iposix\ngetpid\n",
        p.text("posix") + p.text("getpid") + p.STACK_GLOBAL + p.EMPTY_TUPLE + p.REDUCE,
        b"U\x05posixU\x06getpid" + p.STACK_GLOBAL + p.EMPTY_TUPLE + p.REDUCE,
        b"S'posix'\nS'getpid'\n" + p.STACK_GLOBAL + p.EMPTY_TUPLE + p.REDUCE,
        p.text("posix") + b"q\x00" + p.text("x") + b"0h\x00" + p.text("getpid") + p.STACK_GLOBAL,
        p.global_("posix", "getpid") + b"0N",
        b"(cposix\ngetpid\no",
        p.global_("posix", "getpid") + p.EMPTY_TUPLE + b"}\x92",
    ],
    ids=["inst", "stack", "old-text", "quoted", "memo", "popped", "obj", "newobj-ex"],
)
def test_a_global_is_seen_however_it_is_named(body: bytes) -> None:
    start = p.MARK if body.startswith(b"i") else b""
    assert ("posix", "getpid") in walk(p.pickle(start + body)).globals


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends before its STOP"),
        (b"\x80\x02N", "ends before its STOP"),
        (b".", "no value on the stack"),
        (b"0.", "empty stack"),
        (b"(t(R.", "behind a mark"),
        (b"1.", "no mark"),
        (b"h\x05.", "memo 5 was never set"),
        (b"q\x00.", "no value on the stack"),
        (b"\x80\x63.", "protocol 99"),
        (b"\xff.", "0xff does not exist"),
        (b"T\xff\xff\xff\xff.", "length is negative"),
        (b"}(N" + p.SETITEMS + b".", "key without a value"),
        (p.integer(1) + p.NONE + p.NONE + p.SETITEM + b".", "items are set on int"),
        (b"}" + p.MARK + p.NONE + p.APPENDS + b".", "appended to Pairs"),
        (p.global_("sys", "modules") + p.text("a") + p.NONE + b"s.", "items are set on sys.mod"),
        (p.global_("os", "path") + b"}b.", "attributes are set on os.path"),
        (b"\x95" + struct.pack("<Q", 1 << 63) + b"N.", "runs past the end"),
        (b"\x95" + struct.pack("<Q", 2) + p.text("abc") + b".", "straddles"),
        (b"\x97.", "outside of the pickle"),
        (p.integer(1) + p.integer(2) + p.STACK_GLOBAL + b".", "not text"),
        (b"X\x02\x00\x00\x00\xff\xff.", "not UTF-8"),
    ],
)
def test_what_no_unpickler_accepts_ends_the_walk(data: bytes, why: str) -> None:
    walked = walk(data)
    assert walked.damage is not None
    assert why in walked.damage.what


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (p.pickle(p.NONE * 20 + p.EMPTY_LIST), Limits(stack=10)),
        (p.pickle(p.NONE + b"0N" * 20), Limits(ops=10)),
        (p.pickle(p.EMPTY_LIST + b"0]" * 20), Limits(nodes=10)),
        (p.pickle(p.NONE + b"".join(b"q" + bytes([i]) for i in range(20))), Limits(memo=10)),
        (p.pickle(p.text("x" * 20)), Limits(text=10)),
        (p.pickle(b"".join(p.global_("a", f"b{i}") for i in range(20))), Limits(globals=10)),
    ],
)
def test_a_limit_ends_the_walk(data: bytes, limits: Limits) -> None:
    walked = walk(data, limits=limits)
    assert walked.damage is not None
    assert walked.damage.code is FaultCode.TOO_LARGE


def test_enormous_integers_are_not_converted() -> None:
    root = walk(p.pickle(b"I" + b"9" * 60_000 + b"\n")).root
    assert isinstance(root, Large)
    root = walk(p.pickle(b"\x8b" + struct.pack("<i", 2000) + b"\x01" * 2000)).root
    assert isinstance(root, Large)


def test_a_self_referring_list_and_shared_ones_take_no_time() -> None:
    laughs = b"]q\x00" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
    )
    assert walk(p.pickle(laughs)).damage is None
    assert walk(p.pickle(b"]q\x00h\x00a")).damage is None


@pytest.mark.parametrize(
    ("module", "name", "safety"),
    [
        ("torch._utils", "_rebuild_tensor_v2", Safety.SAFE),
        ("collections", "OrderedDict", Safety.SAFE),
        ("__builtin__", "set", Safety.SAFE),
        ("torch.nn.modules.linear", "Linear", Safety.SAFE),
        ("torch.nn.modules.module", "_global_hooks", Safety.UNKNOWN),
        ("mymodel", "Net", Safety.UNKNOWN),
        ("transformers.training_args", "TrainingArguments", Safety.SAFE),
        ("transformers.trainer_utils", "SaveStrategy", Safety.SAFE),
        ("transformers.trainer_utils", "set_seed", Safety.UNKNOWN),
        ("omegaconf.dictconfig", "DictConfig", Safety.SAFE),
        ("numpy", "float64", Safety.SAFE),
        ("numpy", "load", Safety.UNKNOWN),
        ("numpy.random._pickle", "__generator_ctor", Safety.SAFE),
        ("sklearn.tree._tree", "Tree", Safety.SAFE),
        ("sklearn.utils._testing", "TempMemmap", Safety.UNKNOWN),
        ("sklearn.datasets._base", "fetch_file", Safety.UNKNOWN),
        ("posix", "system", Safety.UNSAFE),
        ("__builtin__", "eval", Safety.UNSAFE),
        ("builtins", "getattr", Safety.UNSAFE),
        ("torch.hub", "load", Safety.UNSAFE),
        ("mymodel", "Net.__init__", Safety.UNSAFE),
        ("copyreg.extension", "7", Safety.UNSAFE),
    ],
)
def test_names_are_safe_only_where_a_list_says_so(module: str, name: str, safety: Safety) -> None:
    assert classify(module, name) is safety


def test_a_survey_says_whether_the_restricted_loader_would_accept_it() -> None:
    cases = {
        p.pickle(p.dict_({"w": p.tensor("0", (2,))})): True,
        p.pickle(p.EVIL): False,
        p.pickle(p.text("a"), p.PROTO4 + b"\x95" + struct.pack("<Q", 7)): False,
        p.pickle(p.call("argparse", "Namespace")): False,
    }
    for data, accepted in cases.items():
        survey = Survey()
        survey.pickle(data)
        assert survey.weights_only is accepted


def test_what_follows_a_damage_is_not_called_safe() -> None:
    survey = Survey()
    survey.pickle(p.PROTO2 + b"\xff" + p.EVIL + b".")
    assert survey.safety is Safety.UNKNOWN
    assert [defect.code for defect in survey.defects] == [DefectCode.PICKLE]


def test_writing_into_a_global_is_unsafe() -> None:
    survey = Survey()
    survey.pickle(p.pickle(p.global_("collections", "OrderedDict") + b"}b"))
    assert survey.safety is Safety.UNSAFE


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_value_or_a_damage(data: bytes) -> None:
    walked = walk(data)
    assert walked.damage is not None or walked.end <= len(data)
