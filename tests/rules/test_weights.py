"""Rules about the numbers in checkpoints."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level, measured
from trainproof.model.data import RunView
from trainproof.model.outcome import Level, Skip, State
from trainproof.model.tensors import (
    CheckpointDirectory,
    DirectoryKind,
    Group,
    Kind,
    Layout,
    OptimizerState,
    Scalar,
    TensorInfo,
    TensorStats,
    Unread,
)
from trainproof.rules.saved_examples import PATH, saved, tensor, trained, zero


def masked(name: str) -> RunView:
    stats = TensorStats(4, 0, 0, 2, 2, 0.0, 0.0, 0.0)
    return saved(TensorInfo(name, "float32", (2, 2), 16, PATH, stats), tensor("fc.weight"))


def test_each_file_with_values_that_are_not_finite_is_told_with_its_counts() -> None:
    view = saved(tensor("a", nan=2), tensor("b", inf=3), tensor("c"))
    cell = judge("TP-CKPT-NAN", view)
    assert level(cell) == (Level.FAIL, "")
    assert cell.hits[0].evidence.where.tensor == "a"
    assert cell.hits[0].evidence.measured == {
        "tensors": 3,
        "bad": 2,
        "names": "a, b",
        "nan": 2,
        "inf": 3,
        "elements": 32,
    }


def test_optimizer_state_is_a_warning_of_its_own() -> None:
    view = saved(tensor("w"), tensor("optimizer/exp_avg", nan=1, group=Group.OPTIMIZER))
    assert level(judge("TP-CKPT-NAN", view)) == (Level.WARN, "optimizer")


def test_where_only_an_optimizer_was_saved_its_state_is_what_was_looked_at() -> None:
    view = saved(tensor("state/0/exp_avg", group=Group.OPTIMIZER))
    cell = judge("TP-CKPT-NAN", view)
    assert (cell.state, cell.checks[0].measured) == (State.CLEAN, {"tensors": 1})


@pytest.mark.parametrize("name", ["observer.min_val", "obs/max_val", "state_dict/metric.best"])
def test_an_extreme_that_has_seen_nothing_yet_is_infinite(name: str) -> None:
    assert judge("TP-CKPT-NAN", saved(tensor(name, (2,), inf=2))).state is State.CLEAN
    assert level(judge("TP-CKPT-NAN", saved(tensor(name, (2,), inf=1)))) == (Level.FAIL, "")
    assert level(judge("TP-CKPT-NAN", saved(tensor(name, (2,), nan=2)))) == (Level.FAIL, "")


def test_what_is_infinite_throughout_may_be_meant_so_unless_it_is_called_a_weight() -> None:
    buffer, weight = tensor("bias_table", inf=16), tensor("fc.weight", inf=16)
    assert level(judge("TP-CKPT-NAN", saved(buffer, tensor("w")))) == (Level.WARN, "arrays")
    assert level(judge("TP-CKPT-NAN", saved(buffer, weight))) == (Level.FAIL, "")


def test_a_best_value_that_starts_at_infinity_is_no_finding() -> None:
    view = saved(tensor("w"), tensor("callbacks/best", (1,), inf=1, group=Group.STATE))
    assert judge("TP-CKPT-NAN", view).state is State.CLEAN


def test_negative_infinity_belongs_in_a_mask_and_nowhere_else() -> None:
    assert judge("TP-CKPT-NAN", masked("attn.causal_mask")).state is State.CLEAN
    assert judge("TP-CKPT-NAN", masked("attn.q_proj.weight")).state is State.FIRED


def test_arrays_need_not_be_weights() -> None:
    view = saved(tensor("arr_0", nan=1), layout=Layout.NPZ)
    assert level(judge("TP-CKPT-NAN", view)) == (Level.WARN, "arrays")


def test_one_tensor_that_was_not_measured_keeps_the_rule_open() -> None:
    view = saved(tensor("a"), tensor("b", measured=False))
    (check,) = judge("TP-CKPT-NAN", view).checks
    assert check.skip is Skip.NEED_UNREADABLE
    assert check.measured["first_unread"] == "model.pt: b (it was not read)"


def test_an_object_of_torch_that_was_not_read_keeps_the_rule_open() -> None:
    nested = Unread("n", "torch._tensor._rebuild_from_type_v2: a part of it is no tensor")
    assert judge("TP-CKPT-NAN", saved(tensor("a"), unread=(nested,))).state is State.NOT_CHECKED
    own = Unread("args", "an object of argparse.Namespace")
    assert judge("TP-CKPT-NAN", saved(tensor("a"), unread=(own,))).state is State.CLEAN


def test_a_checkpoint_without_weights_is_not_judged_by_them() -> None:
    for id in ("TP-CKPT-NAN", "TP-CKPT-ZERO", "TP-CKPT-BN", "TP-CKPT-LORA-B", "TP-CKPT-ADAM"):
        assert judge(id, saved(tensor("ids", dtype="int64"))).skip is Skip.NOT_SAVED


def test_a_matrix_of_zeros_is_a_warning() -> None:
    view = saved(zero("layers.0.fc.weight"), tensor("layers.1.fc.weight"))
    assert level(judge("TP-CKPT-ZERO", view)) == (Level.WARN, "")


@pytest.mark.parametrize(
    "one",
    [
        zero("fc.bias", (16,)),
        zero("q.lora_B.default.weight"),
        zero("blocks.0.adaLN_modulation.1.weight"),
        zero("control.zero_convs.0.weight"),
        zero("pos_embed.weight"),
        zero("fc.weight", (3, 3)),
        zero("fc.weight", dtype="int8"),
    ],
    ids=lambda one: one.name,
)
def test_what_is_zero_at_the_start_by_its_role_is_no_finding(one: TensorInfo) -> None:
    assert judge("TP-CKPT-ZERO", saved(one, tensor("head.weight"))).state is State.CLEAN


def test_a_vector_of_zeros_is_no_matrix_whatever_its_rank() -> None:
    """The scale of global response normalisation in ConvNeXt V2: 1 x 1 x 1 x channels."""
    view = saved(zero("stages.0.grn.weight", (1, 1, 1, 64)), tensor("head.weight"))
    assert judge("TP-CKPT-ZERO", view).state is State.CLEAN


def test_a_model_whose_scales_have_not_moved_may_have_an_output_of_zeros() -> None:
    def view(least: float) -> RunView:
        norms = (tensor(f"{name}.norm.weight", (4,), low=least, high=1.0) for name in "ab")
        return saved(zero("out.weight"), *norms)

    assert level(judge("TP-CKPT-ZERO", view(least=1.0))) == (Level.INFO, "start")
    assert level(judge("TP-CKPT-ZERO", view(least=0.9))) == (Level.WARN, "")


def test_adam_without_a_state_has_not_stepped() -> None:
    def view(states: int) -> RunView:
        betas = (Scalar("optimizer/param_groups/0/betas/0", 0.9),)
        adam = OptimizerState("optimizer", 1, 2, states, 0)
        return saved(zero("out.weight"), optimizers=(adam,), scalars=betas)

    assert judge("TP-CKPT-ZERO", view(0)).state is State.CLEAN
    assert level(judge("TP-CKPT-ZERO", view(2))) == (Level.WARN, "")


def test_a_parameter_without_values_fails_and_an_empty_buffer_does_not() -> None:
    assert level(judge("TP-CKPT-EMPTY", saved(tensor("fc.weight", (0,))))) == (Level.FAIL, "")
    view = saved(tensor("cache", (0, 4)), tensor("fc.weight"))
    assert judge("TP-CKPT-EMPTY", view).state is State.CLEAN


def test_a_tensor_of_the_meta_device_has_no_data() -> None:
    one = TensorInfo("w", "float32", (2, 2), 16, PATH, None, "no data", Kind.META)
    assert level(judge("TP-CKPT-EMPTY", saved(one))) == (Level.FAIL, "meta")


def test_a_running_variance_is_neither_negative_nor_nan() -> None:
    for bad in (tensor("bn.running_var", (4,), low=-1e-3), tensor("bn.running_var", (4,), nan=1)):
        assert level(judge("TP-CKPT-BN", saved(bad))) == (Level.FAIL, "")
    view = saved(tensor("bn.running_mean", (4,), low=-5), tensor("bn.running_var", (4,), low=0))
    assert judge("TP-CKPT-BN", view).state is State.CLEAN


def test_an_adapter_that_never_moved_fails_and_one_that_moved_in_part_warns() -> None:
    a = tensor("q.lora_A.weight")
    none = trained(a, zero("q.lora_B.weight"), zero("v.lora_B.weight"))
    some = saved(a, zero("q.lora_B.weight"), tensor("v.lora_B.weight"))
    assert level(judge("TP-CKPT-LORA-B", none)) == (Level.FAIL, "")
    assert level(judge("TP-CKPT-LORA-B", some)) == (Level.WARN, "some")


def test_an_adapter_of_which_nothing_tells_that_it_was_trained_may_be_new() -> None:
    """``save_pretrained`` right after ``get_peft_model`` leaves such a file."""
    matrices = (tensor("q.lora_A.weight"), zero("q.lora_B.weight"))
    assert level(judge("TP-CKPT-LORA-B", saved(*matrices))) == (Level.WARN, "untold")
    stepped = saved(*matrices, optimizers=(OptimizerState("optimizer", 1, 2, 2, 0, (40,)),))
    kohya = saved(*matrices, metadata=(Scalar("ss_steps", "1600"),))
    for view in (stepped, kohya):
        assert level(judge("TP-CKPT-LORA-B", view)) == (Level.FAIL, "")


def test_an_adapter_that_was_saved_at_step_0_has_not_been_trained() -> None:
    start = CheckpointDirectory("checkpoint-0", DirectoryKind.TRAINER, (PATH,), 0)
    view = saved(zero("q.lora_B.weight"), directories=(start,))
    assert judge("TP-CKPT-LORA-B", view).state is State.CLEAN
    alone = saved(zero("q.lora_B.weight"))
    assert alone.checkpoint is not None
    counted = replace(alone, checkpoint=replace(alone.checkpoint, step=0))
    assert judge("TP-CKPT-LORA-B", counted).state is State.CLEAN


def test_an_output_layer_may_be_zero_at_step_0_and_no_later() -> None:
    view = saved(zero("fc.weight"), tensor("head.weight"))
    assert view.checkpoint is not None
    for step, state in ((0, State.CLEAN), (1, State.FIRED), (None, State.FIRED)):
        told = replace(view, checkpoint=replace(view.checkpoint, step=step))
        assert judge("TP-CKPT-ZERO", told).state is state


def test_values_at_the_end_of_the_range_of_fp16_were_clipped() -> None:
    clipped = tensor("w", dtype="float16", low=-65504.0, largest=3)
    cell = judge("TP-CKPT-FP16-RANGE", saved(clipped, tensor("b", dtype="float16")))
    assert level(cell) == (Level.WARN, "")
    assert (measured(cell)["clipped"], measured(cell)["elements"]) == (3, 16)
    assert judge("TP-CKPT-FP16-RANGE", saved(tensor("w", high=65504.0))).skip is Skip.NOT_SAVED
    mask = tensor("attn.mask", dtype="float16", largest=3)
    assert judge("TP-CKPT-FP16-RANGE", saved(mask)).skip is Skip.NOT_SAVED


@pytest.mark.parametrize(("dtype", "variant"), [("float16", "small"), ("bfloat16", "small-bf16")])
def test_a_matrix_of_subnormal_numbers_is_info(dtype: str, variant: str) -> None:
    small = tensor("w", (40, 40), dtype=dtype, sampled=1000, subnormal=900)
    cell = judge("TP-CKPT-FP16-RANGE", saved(small))
    assert level(cell) == (Level.INFO, variant)
    assert measured(cell)["share"] == 0.9


@pytest.mark.parametrize(
    "one",
    [
        tensor("w", (40, 40), dtype="float16", sampled=1000, subnormal=899),
        tensor("w", (40, 40), dtype="float16", sampled=99, subnormal=99),
        tensor("w", (1600,), dtype="float16", sampled=1000, subnormal=1000),
        tensor("q.lora_B.weight", (40, 40), dtype="float16", sampled=1000, subnormal=1000),
    ],
    ids=["some", "few", "vector", "starts at zero"],
)
def test_small_numbers_that_say_nothing_of_the_conversion(one: TensorInfo) -> None:
    assert judge("TP-CKPT-FP16-RANGE", saved(one)).state is State.CLEAN


def test_a_mean_of_squares_is_not_negative() -> None:
    name = "optimizer/state/0/exp_avg_sq"
    bad = saved(tensor(name, low=-1e-9, group=Group.OPTIMIZER))
    assert level(judge("TP-CKPT-ADAM", bad)) == (Level.FAIL, "")
    first = saved(tensor("optimizer/state/0/exp_avg", low=-1, group=Group.OPTIMIZER))
    assert judge("TP-CKPT-ADAM", first).skip is Skip.NOT_SAVED


@pytest.mark.parametrize(
    ("layout", "name", "nan", "variant"),
    [
        (Layout.PICKLE, "x", 1, "arrays"),
        (Layout.JOBLIB, ".coef_", 1, "arrays"),
        (Layout.XGBOOST, "trees/0/base_weights", 1, "arrays"),
        (Layout.ONNX, "w", 1, ""),
        (Layout.ONNX, "w", 0, "arrays"),
        (Layout.HDF5, "features", 1, "arrays"),
        (Layout.HDF5, "model_weights/dense/kernel", 1, ""),
        (Layout.HDF5, "layers/dense/vars/0", 1, ""),
        (Layout.KERAS, "layers/dense/vars/0", 1, ""),
    ],
)
def test_arrays_that_need_not_be_weights_are_a_warning(
    layout: Layout, name: str, nan: int, variant: str
) -> None:
    cell = judge("TP-CKPT-NAN", saved(tensor(name, nan=nan, inf=1), layout=layout))
    assert level(cell) == (Level.WARN if variant else Level.FAIL, variant)


@pytest.mark.parametrize(("code", "state"), [("V64", State.NOT_CHECKED), ("U3", State.CLEAN)])
def test_records_of_a_forest_were_not_read_and_are_not_passed(code: str, state: State) -> None:
    reason = f"joblib.numpy_pickle.NumpyArrayWrapper: an array of numpy type {code}"
    view = saved(tensor("x"), layout=Layout.JOBLIB, unread=(Unread(".nodes", reason),))
    assert judge("TP-CKPT-NAN", view).state is state
