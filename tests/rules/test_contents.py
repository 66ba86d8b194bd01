"""Rules about numbers of a checkpoint that belong together."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level
from trainproof.model.outcome import Level, Skip, State
from trainproof.model.tensors import Group, Layout
from trainproof.rules.saved_examples import copied, narrow, saved, stepped, tensor, zero

BIG = (128, 128)


def test_rounded_weights_are_told_with_what_they_could_save() -> None:
    cell = judge("TP-CKPT-BF16-CONTENT", saved(narrow("a", BIG), narrow("b", BIG)))
    assert level(cell) == (Level.INFO, "")
    assert cell.hits[0].evidence.measured == {"tensors": 2, "elements": 32768, "saved": 65536}


@pytest.mark.parametrize(
    "view",
    [
        saved(narrow("a", BIG), tensor("b", BIG)),
        saved(narrow("a", (9, 9))),
        saved(narrow("a", BIG), layout=Layout.ONNX),
        saved(tensor("a", BIG, dtype="bfloat16")),
    ],
    ids=["one that was not rounded", "few values", "an exported graph", "another type"],
)
def test_rounded_weights_need_all_matrices_and_enough_of_them(view) -> None:
    assert judge("TP-CKPT-BF16-CONTENT", view).state is not State.FIRED


def test_a_matrix_of_one_value_says_nothing_about_rounding() -> None:
    one = replace(narrow("a", BIG), stats=replace(zero("a", BIG).stats, bfloat16=True))
    assert judge("TP-CKPT-BF16-CONTENT", saved(one)).checks[0].skip is Skip.NOT_SAVED


def test_equal_layers_are_named_with_the_one_they_repeat() -> None:
    cell = judge("TP-CKPT-CLONED-LAYERS", copied(same=True))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured == {
        "layers": 2,
        "bad": 1,
        "names": "model.layers.1",
        "twin": "model.layers.0",
        "tensors": 2,
        "scales": 0,
    }


def test_layers_may_begin_as_copies() -> None:
    view = copied(same=True)
    assert view.checkpoint is not None
    for step, state in ((0, State.CLEAN), (1, State.FIRED)):
        told = replace(view, checkpoint=replace(view.checkpoint, step=step))
        assert judge("TP-CKPT-CLONED-LAYERS", told).state is state


def test_a_model_whose_scales_have_not_moved_may_have_equal_layers() -> None:
    """torch.nn.TransformerEncoder copies its layer, and a bare state dictionary tells no step."""
    view = copied(same=True)
    assert view.checkpoint is not None
    (file,) = view.checkpoint.files
    norms = tuple(tensor(f"layers.{i}.norm.weight", (4,), low=1.0, high=1.0) for i in range(2))
    fresh = replace(view.checkpoint, files=(replace(file, tensors=(*file.tensors, *norms)),))
    cell = judge("TP-CKPT-CLONED-LAYERS", replace(view, checkpoint=fresh))
    assert level(cell) == (Level.INFO, "start")


def test_layers_that_share_their_memory_are_tied_by_design() -> None:
    assert judge("TP-CKPT-CLONED-LAYERS", copied(same=True, storages=True)).state is State.CLEAN


def test_experts_may_be_copies() -> None:
    view = saved(
        *(
            replace(tensor(f"layers.{layer}.experts.{part}.w"), crc=1)
            for layer in range(2)
            for part in range(2)
        )
    )
    assert judge("TP-CKPT-CLONED-LAYERS", view).checks[0].skip is Skip.NOT_SAVED


def test_an_average_that_has_just_begun_is_no_copied_layer() -> None:
    view = saved(
        *(
            replace(tensor(f"{model}.layers.{layer}.{part}.w"), crc=2 * layer + number)
            for model in ("model", "ema")
            for layer in range(2)
            for number, part in enumerate(("q", "k"))
        )
    )
    assert judge("TP-CKPT-CLONED-LAYERS", view).state is State.CLEAN


def test_one_equal_matrix_is_no_equal_layer() -> None:
    view = saved(
        *(
            replace(tensor(f"layers.{layer}.{part}.w"), crc=layer * number)
            for layer in range(2)
            for number, part in enumerate(("q", "k"))
        )
    )
    assert judge("TP-CKPT-CLONED-LAYERS", view).state is State.CLEAN


def statistics(mean: float, variance: float, batches: int):
    return saved(
        tensor("bn.running_mean", (4,), zeros=4 * (mean == 0), low=mean, high=mean),
        tensor("bn.running_var", (4,), low=variance, high=variance),
        tensor("bn.num_batches_tracked", (), dtype="int64", low=batches, high=batches),
    )


def test_statistics_of_the_start_after_batches_are_told() -> None:
    cell = judge("TP-CKPT-BN-STATIC", statistics(0.0, 1.0, 7))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured == {
        "tensors": 1,
        "bad": 1,
        "names": "bn",
        "batches": 7,
    }


@pytest.mark.parametrize("given", [(0.0, 1.0, 0), (0.5, 1.0, 7), (0.0, 2.0, 7)])
def test_a_fresh_layer_and_one_that_moved_are_silent(given: tuple[float, float, int]) -> None:
    assert judge("TP-CKPT-BN-STATIC", statistics(*given)).state is State.CLEAN


def test_matrices_without_gradients_are_told() -> None:
    cell = judge("TP-CKPT-NO-GRADIENT", stepped(zero_square=True))
    assert level(cell) == (Level.WARN, "")
    assert cell.hits[0].evidence.measured == {
        "tensors": 2,
        "bad": 1,
        "names": "state/1/exp_avg_sq",
        "elements": 16,
        "step": 1000,
    }


@pytest.mark.parametrize(
    "view",
    [
        stepped(zero_square=True, step=9),
        stepped(zero_square=True, dtype="float16"),
        stepped(zero_square=True, shape=(4,)),
    ],
    ids=["too early", "fp16", "a bias"],
)
def test_zero_squares_that_are_normal_are_silent(view) -> None:
    assert judge("TP-CKPT-NO-GRADIENT", view).state is State.CLEAN


@pytest.mark.parametrize("largest", [1e-13, 1.0])
def test_a_mean_too_small_for_its_square_is_no_contradiction(largest: float) -> None:
    view = saved(
        tensor("state/0/exp_avg", low=0.0, high=largest, group=Group.OPTIMIZER),
        zero("state/0/exp_avg_sq", group=Group.OPTIMIZER),
    )
    assert (judge("TP-CKPT-ADAM-STUCK", view).state is State.FIRED) == (largest == 1.0)


def test_states_of_fp16_may_lose_their_squares() -> None:
    view = saved(
        tensor("state/0/exp_avg", group=Group.OPTIMIZER, dtype="float16"),
        zero("state/0/exp_avg_sq", group=Group.OPTIMIZER, dtype="float16"),
    )
    assert judge("TP-CKPT-ADAM-STUCK", view).checks[0].skip is Skip.NOT_SAVED
