"""Which tensors of two checkpoints are the same one."""

from __future__ import annotations

from msgspec.structs import replace

from trainproof.checkpoints.matching import Matched, match
from trainproof.model.tensors import Group, TensorInfo


def tensors(*names: str, artifact: str = "m.pt", group: Group = Group.MODEL) -> list[TensorInfo]:
    return [TensorInfo(name, "float32", (2,), 8, artifact, group=group) for name in names]


def names(found: Matched) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    pairs = [(one.name, before.name) for one, before in found.pairs]
    return pairs, [one.name for one in found.added], [one.name for one in found.gone]


def test_names_decide() -> None:
    found = match(tensors("a", "b", "c"), tensors("b", "a", "d"))
    assert names(found) == ([("a", "a"), ("b", "b")], ["c"], ["d"])
    assert (found.prefix, found.prefix_before) == ("", "")


def test_a_prefix_that_one_side_has_is_taken_off() -> None:
    ours = tensors("model/module.a.w", "model/module.b.w", "model/module.c.w")
    found = match(ours, tensors("a.w", "b.w", "c.w"))
    assert (found.prefix, found.prefix_before, len(found.pairs)) == ("model/module.", "", 3)


def test_prefixes_of_both_sides_are_taken_off() -> None:
    found = match(tensors("net.a.w", "net.b.w"), tensors("_orig_mod.a.w", "_orig_mod.b.w"))
    assert (found.prefix, found.prefix_before, len(found.pairs)) == ("net.", "_orig_mod.", 2)


def test_a_prefix_that_would_not_help_stays() -> None:
    found = match(tensors("x.a", "x.b"), tensors("c", "d"))
    assert (found.prefix, found.pairs) == ("", ())


def test_a_prefix_that_both_share_stays() -> None:
    found = match(tensors("model.a", "model.b"), tensors("model.a", "model.c"))
    assert (found.prefix, found.prefix_before) == ("", "")
    assert names(found)[0] == [("model.a", "model.a")]


def test_prefixes_are_those_of_weights_alone() -> None:
    state = tensors("state/0/exp_avg", group=Group.OPTIMIZER)
    found = match([*tensors("module.a"), *state], [*tensors("a"), *state])
    assert len(found.pairs) == 2


def test_a_name_in_several_files_goes_with_the_file() -> None:
    ours = [*tensors("w", artifact="2/a.pt"), *tensors("w", artifact="2/b.pt")]
    theirs = [*tensors("w", artifact="1/b.pt"), *tensors("w", artifact="1/a.pt")]
    found = match(ours, theirs)
    assert [(one.artifact, before.artifact) for one, before in found.pairs] == [
        ("2/a.pt", "1/a.pt"),
        ("2/b.pt", "1/b.pt"),
    ]


def test_shards_of_other_numbers_match_by_the_name_of_the_tensor() -> None:
    ours = [*tensors("a", artifact="x-1-of-2"), *tensors("b", artifact="x-2-of-2")]
    theirs = [replace(one, artifact="x-1-of-1") for one in ours]
    assert len(match(ours, theirs).pairs) == 2


def test_nothing_matches_nothing() -> None:
    assert names(match([], tensors("a"))) == ([], [], ["a"])
