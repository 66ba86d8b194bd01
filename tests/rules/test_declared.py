"""Rules about checkpoints and what their configuration says."""

from __future__ import annotations

import pytest

from tests.rules.judging import judge, level
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, State
from trainproof.model.tensors import DirectoryKind
from trainproof.rules.saved_examples import adapter, described, pretrained, saved, tensor


def test_an_embedding_of_other_size_is_told() -> None:
    cell = judge("TP-CKPT-CONFIG", pretrained(rows=90))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured == {
        "sets": 1,
        "directory": ".",
        "detail": "model.embed_tokens.weight has 90 rows",
        "key": "vocab_size",
        "said": 100,
        "held": 90,
    }


def test_missing_layers_are_told() -> None:
    cell = judge("TP-CKPT-CONFIG", pretrained(layers=1))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["detail"] == "layers are missing: 1"


def test_another_type_is_a_warning() -> None:
    cell = judge("TP-CKPT-CONFIG", pretrained(dtype="bfloat16"))
    assert level(cell) == (Level.WARN, "dtype")
    assert cell.hits[0].evidence.measured["share"] == 1.0


@pytest.mark.parametrize(
    "said",
    [
        {"quantization_config": 3},
        {"auto_map": 1},
        {"text_config": 9},
        {"architectures/0": "LlamaModel"},
        {"vocab_size": None},
        {"hidden_size": 4096},
    ],
)
def test_sizes_are_compared_only_where_they_mean_the_tensors(said: dict[str, object]) -> None:
    assert judge("TP-CKPT-CONFIG", pretrained(rows=90, **said)).state is State.CLEAN


def test_more_layers_than_declared_are_left_out() -> None:
    assert judge("TP-CKPT-CONFIG", pretrained(layers=3)).state is State.CLEAN


def test_weights_that_were_not_all_read_are_not_compared() -> None:
    view = described(DirectoryKind.PRETRAINED, "config.json", {"vocab_size": 3})
    assert judge("TP-CKPT-CONFIG", view).state is not State.FIRED


def test_a_missing_head_is_told() -> None:
    cell = judge("TP-CKPT-HEAD", pretrained(head=False))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured["rows"] == 100


@pytest.mark.parametrize("tied", [True, None])
def test_a_tied_head_need_not_be_there(tied: bool | None) -> None:
    view = pretrained(head=False, tie_word_embeddings=tied)
    assert judge("TP-CKPT-HEAD", view).state is State.CLEAN


def test_matrices_of_different_rank_are_told() -> None:
    cell = judge("TP-CKPT-ADAPTER", adapter((4, 16), (16, 8)))
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.measured["detail"] == "A has rank 4 and B has rank 8"


def test_another_rank_than_declared_is_told() -> None:
    cell = judge("TP-CKPT-ADAPTER", adapter((4, 16), (16, 4)))
    assert level(cell) == (Level.FAIL, "rank")
    assert cell.hits[0].evidence.measured["detail"] == "4, not 8"


@pytest.mark.parametrize(
    "said", [{"rank_pattern": 2}, {"peft_type": "LOHA"}, {"target_parameters/0": "w"}, {"r": None}]
)
def test_ranks_that_may_differ_are_not_compared(said: dict[str, object]) -> None:
    assert judge("TP-CKPT-ADAPTER", adapter((4, 16), (16, 4), **said)).state is State.CLEAN


def test_a_matrix_without_its_partner_is_a_warning() -> None:
    cell = judge("TP-CKPT-ADAPTER", saved(tensor("q.lora_A.weight")))
    assert level(cell) == (Level.WARN, "partner")
    assert cell.hits[0].evidence.measured["detail"] == "B is missing"


def test_an_adapter_without_a_tensor_is_told() -> None:
    view = described(DirectoryKind.ADAPTER, "adapter_config.json", {})
    cell = judge("TP-CKPT-ADAPTER", view)
    assert level(cell) == (Level.FAIL, "none")
    assert cell.hits[0].evidence.measured == {"size": 1000}


def test_convolutions_of_an_adapter_are_laid_out_otherwise() -> None:
    view = saved(tensor("c.lora_A.weight", (4, 3, 3, 3)), tensor("c.lora_B.weight", (8, 4, 1, 1)))
    assert judge("TP-CKPT-ADAPTER", view).state is not State.FIRED


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod."])
def test_the_name_of_a_wrapper_is_told(wrapper: str) -> None:
    cell = judge("TP-CKPT-PREFIX", saved(tensor(f"model/{wrapper}a"), tensor(f"model/{wrapper}b")))
    assert level(cell) == (Level.INFO, "")
    assert cell.hits[0].evidence.measured == {
        "tensors": 2,
        "prefix": wrapper.rstrip("."),
        "names": f"{wrapper}a",
    }


@pytest.mark.parametrize("view", [saved(tensor("module.a"), tensor("b")), saved(tensor("mod.a"))])
def test_a_part_of_that_name_is_no_wrapper(view: RunView) -> None:
    assert judge("TP-CKPT-PREFIX", view).state is State.CLEAN
