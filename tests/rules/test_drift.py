"""Rules about what is between two checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.rules.judging import judge, level, measured, skipped
from trainproof.model.checkpoint import Change, Twin
from trainproof.model.data import RunView
from trainproof.model.outcome import Cell, Level, Skip, State
from trainproof.model.rule import SubjectKind
from trainproof.model.tensors import Depth, Group, OptimizerState
from trainproof.rules import REGISTRY
from trainproof.rules.saved_examples import counted, drifted, halved, saved, tensor, twin

MOVED = {"change": Change.MOVED, "share": 0.9}


def moved(name: str, **fields: object) -> Twin:
    return twin(name, **{**MOVED, **fields})  # type: ignore[arg-type]


# --- never updated


def test_equal_weights_beside_an_optimizer_that_went_on_fail() -> None:
    view = drifted(twin("a.weight"), twin("b.bias", shape=(4,)), moved("m", group=Group.OPTIMIZER))
    cell = judge("TP-CKPT-NEVER-UPDATED", view)
    assert level(cell) == (Level.FAIL, "")
    assert measured(cell) == {
        "tensors": 2,
        "moved": 0,
        "optimizer": 1,
        "clock": 0,
        "reference": "checkpoint-500",
        "steps": 500,
        "apart": "500 steps lie between the two",
    }


def test_a_count_of_steps_that_grew_shows_that_the_optimizer_went_on() -> None:
    def clocked(steps: int) -> RunView:
        return saved(tensor("w"), optimizers=(OptimizerState("", 1, 2, 2, 0, (steps,)),))

    later = clocked(900)
    view = drifted(twin("w"), before=clocked(400))
    assert later.checkpoint is not None
    both = RunView(view.id, checkpoint=later.checkpoint, drift=view.drift)
    cell = judge("TP-CKPT-NEVER-UPDATED", both)
    assert (level(cell), measured(cell)["clock"]) == ((Level.FAIL, ""), 500)


@pytest.mark.parametrize(
    ("before", "now", "steps", "said"),
    [
        (0.0, 1e-4, 1, None),  # the first step of a warmup
        (0.0, 1e-4, 9, (Level.WARN, "rate")),
        (0.0, 0.0, 1, (Level.WARN, "rate")),
        (1e-4, 0.0, 9, (Level.WARN, "rate")),
        (1e-4, 1e-4, 1, (Level.FAIL, "")),
    ],
)
def test_a_rate_of_zero_moves_nothing(
    before: float, now: float, steps: int, said: tuple[Level, str] | None
) -> None:
    def clocked(step: int, rate: float) -> RunView:
        return saved(tensor("w"), optimizers=(OptimizerState("", 1, 2, 2, 0, (step,), (rate,)),))

    view = drifted(twin("w"), before=clocked(400, before))
    both = replace(view, checkpoint=clocked(400 + steps, now).checkpoint)
    cell = judge("TP-CKPT-NEVER-UPDATED", both)
    assert (None if cell.state is State.NOT_CHECKED else level(cell)) == said


def test_equal_weights_alone_may_be_a_part_that_was_frozen() -> None:
    cell = judge("TP-CKPT-NEVER-UPDATED", drifted(twin("vae.weight")))
    assert level(cell) == (Level.WARN, "unexplained")


def test_one_weight_that_moved_is_enough() -> None:
    cell = judge("TP-CKPT-NEVER-UPDATED", drifted(twin("a.weight"), moved("b.weight")))
    assert (cell.state, measured(cell)["moved"]) == (State.CLEAN, 1)


def test_the_same_step_saved_twice_is_no_fault() -> None:
    view = drifted(twin("w"), moved("m", group=Group.OPTIMIZER), steps=0)
    assert skipped(judge("TP-CKPT-NEVER-UPDATED", view)) is Skip.NEED_DEGENERATE


def test_buffers_are_not_trained() -> None:
    names = ("bn.running_mean", "rotary.inv_freq", "attn.causal_mask", "rope.cos_cached")
    view = drifted(*(twin(name) for name in names))
    assert skipped(judge("TP-CKPT-NEVER-UPDATED", view)) is Skip.NOT_SAVED


def test_what_has_no_checksum_leaves_it_open() -> None:
    view = drifted(twin("a.weight"), twin("b.weight", Change.UNKNOWN))
    cell = judge("TP-CKPT-NEVER-UPDATED", view)
    assert skipped(cell) is Skip.UNDECIDED
    assert measured(cell)["first_unread"] == "model.pt: b.weight (no checksum)"


def test_a_file_of_the_reference_that_was_lost_leaves_it_open() -> None:
    before = saved(tensor("w"), lost=("other.pt",))
    cell = judge("TP-CKPT-NEVER-UPDATED", drifted(twin("w"), before=before))
    assert skipped(cell) is Skip.NEED_UNREADABLE


def test_weights_alone_are_compared_by_name() -> None:
    view = drifted(twin("w", group=Group.AVERAGE), moved("x", group=Group.OPTIMIZER))
    assert skipped(judge("TP-CKPT-NEVER-UPDATED", view)) is Skip.NOT_SAVED


# --- frozen


def test_a_layer_between_layers_that_moved_is_named() -> None:
    twins = [moved(f"h.{i}.attn.weight") for i in (0, 1, 3)]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins, twin("h.2.attn.weight")))
    assert level(cell) == (Level.WARN, "")
    assert measured(cell)["names"] == "h.2.attn.weight"


def test_a_backbone_that_stands_still_as_a_whole_is_only_told() -> None:
    twins = [twin(f"backbone.{i}.weight") for i in range(4)]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins, moved("head.weight")))
    assert level(cell) == (Level.INFO, "part")
    assert measured(cell)["names"] == "backbone"


def test_the_first_layers_may_be_frozen_on_purpose() -> None:
    twins = [twin("h.0.w"), twin("h.1.w"), moved("h.2.w"), moved("h.3.w")]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins))
    assert level(cell) == (Level.INFO, "part")
    assert measured(cell)["names"] == "h.0, h.1"


def test_an_expert_that_nothing_was_sent_to_may_stand_still() -> None:
    twins = [moved(f"experts.{i}.weight") for i in (0, 1, 3)]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins, twin("experts.2.weight")))
    assert level(cell) == (Level.INFO, "part")


@pytest.mark.parametrize(
    ("share", "variant"), [(0.0, "part"), (0.02, "part"), (0.2, "")], ids=["unknown", "few", "many"]
)
def test_where_most_updates_are_rounded_away_a_whole_matrix_may_stand_still(
    share: float, variant: str
) -> None:
    half = {"dtype": "bfloat16", "shape": (40, 50)}
    twins = [moved("h.0.w", share=share, **half), moved("h.2.w", share=share, **half)]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins, twin("h.1.w", dtype="bfloat16")))
    assert level(cell) == (Level.INFO if variant else Level.WARN, variant)


def layers(*stuck: int, count: int = 8, share: float = 0.9, steps: int = 500) -> RunView:
    """Layers of float32 that moved in a share of their elements, but for some."""
    names = [f"layers.{i}.w" for i in range(count)]
    return drifted(
        *(
            twin(n) if i in stuck else moved(n, share=share, shape=(40, 50))
            for i, n in enumerate(names)
        ),
        steps=steps,
    )


def test_single_precision_also_rounds_updates_away() -> None:
    """The start of a warmup, at a rate of 1e-9."""
    assert level(judge("TP-CKPT-FROZEN", layers(3, share=0.5))) == (Level.WARN, "")
    assert level(judge("TP-CKPT-FROZEN", layers(3, share=0.01))) == (Level.INFO, "part")


def test_a_few_steps_may_not_have_used_every_layer() -> None:
    assert level(judge("TP-CKPT-FROZEN", layers(3, steps=2))) == (Level.INFO, "part")
    assert level(judge("TP-CKPT-FROZEN", layers(3, steps=20))) == (Level.WARN, "")


def test_where_most_stand_still_the_others_were_chosen() -> None:
    """One module for each client, task or speaker, of which some were in the batches."""
    assert level(judge("TP-CKPT-FROZEN", layers(1, 2, 4, 5, 6))) == (Level.INFO, "part")
    assert level(judge("TP-CKPT-FROZEN", layers(1, 2, 4))) == (Level.WARN, "")


def test_biases_and_zeros_may_stand_still() -> None:
    zeros = twin("h.2.w", zeros=16, low=0.0, high=0.0)
    twins = [moved("h.1.w"), moved("h.3.w"), twin("h.2.bias", shape=(4,)), zeros]
    assert judge("TP-CKPT-FROZEN", drifted(*twins)).state is State.CLEAN


def test_a_base_model_that_moves_below_an_adapter_is_a_warning() -> None:
    twins = [moved("q.lora_A.weight"), moved("q.base_layer.weight")]
    cell = judge("TP-CKPT-FROZEN", drifted(*twins))
    assert level(cell) == (Level.WARN, "base")
    assert measured(cell)["names"] == "q.base_layer.weight"


def test_a_base_model_below_an_adapter_may_stand_still() -> None:
    twins = [moved("q.lora_A.weight"), moved("q.lora_B.weight"), twin("q.base_layer.weight")]
    assert judge("TP-CKPT-FROZEN", drifted(*twins)).state is State.CLEAN


# --- stall

HALF = {"dtype": "bfloat16", "shape": (40, 50)}


def test_the_share_that_changed_is_measured_over_all_matrices() -> None:
    twins = [moved("a.w", share=0.01, **HALF), moved("b.w", share=0.02, **HALF)]
    cell = judge("TP-CKPT-STALL", drifted(*twins))
    assert level(cell) == (Level.WARN, "")
    got = measured(cell)
    assert (got["compared"], got["changed"], got["share"]) == (4000, 60, 0.015)
    assert (got["dtype"], got["tensors"]) == ("bfloat16", 2)


@pytest.mark.parametrize(
    "other",
    [{"dtype": "float32"}, {"share": 0.5}, {"name": "embed_tokens.weight"}, {"shape": (2000,)}],
    ids=["full precision", "most moved", "embedding", "vector"],
)
def test_what_is_no_stall(other: dict[str, object]) -> None:
    fields = {"name": "a.w", "share": 0.005, **HALF, **other}
    cell = judge("TP-CKPT-STALL", drifted(moved(**fields)))  # type: ignore[arg-type]
    assert cell.state is not State.FIRED


@pytest.mark.parametrize("steps", [50, None], ids=["too near", "not known"])
def test_a_stall_takes_a_hundred_steps(steps: int | None) -> None:
    view = drifted(moved("a.w", share=0.005, **HALF), steps=steps)
    assert skipped(judge("TP-CKPT-STALL", view)) is Skip.NEED_TOO_SHORT


def test_a_learning_rate_that_decayed_leaves_it_open() -> None:
    def rated(rate: float) -> RunView:
        return saved(optimizers=(OptimizerState("", 1, 1, 1, 0, (1,), (rate,)),))

    def stalled(rate: float) -> Cell:
        view = drifted(moved("a.w", share=0.005, **HALF), before=rated(1e-4))
        return judge("TP-CKPT-STALL", replace(view, checkpoint=rated(rate).checkpoint))

    assert stalled(2e-5).state is State.FIRED
    assert skipped(stalled(5e-6)) is Skip.UNDECIDED


def test_a_half_matrix_that_was_not_compared_leaves_it_open() -> None:
    twins = [moved("a.w", share=0.005, **HALF), moved("b.w", share=0.0, **HALF)]
    assert skipped(judge("TP-CKPT-STALL", drifted(*twins))) is Skip.UNDECIDED


# --- narrowed


def test_zeros_that_fp16_made_of_small_values_are_told() -> None:
    cell = judge("TP-CKPT-FP16-LOST", drifted(halved(zeros=1, subnormal=50)))
    assert level(cell) == (Level.WARN, "")
    got = measured(cell)
    assert (got["zeros"], got["zeros_before"], got["elements"], got["small"]) == (1, 0, 100, 0.5)


@pytest.mark.parametrize(
    "one", [halved(zeros=30, subnormal=49), halved(zeros=0, subnormal=100)], ids=["pruned", "small"]
)
def test_zeros_of_another_origin_and_small_values_are_no_loss(one: Twin) -> None:
    assert judge("TP-CKPT-FP16-LOST", drifted(one)).state is State.CLEAN


def test_what_fp16_cannot_hold_is_clipped_or_infinite() -> None:
    for one in (halved(high=1e5, largest=2), halved(high=1e5, inf=2)):
        cell = judge("TP-CKPT-FP16-LOST", drifted(one))
        assert level(cell) == (Level.WARN, "clipped")
        assert (measured(cell)["absmax_before"], measured(cell)["ended"]) == (1e5, 2)
    assert judge("TP-CKPT-FP16-LOST", drifted(halved(high=1e4, largest=2))).state is State.CLEAN


def test_only_a_wider_type_can_lose_values_in_fp16() -> None:
    assert judge("TP-CKPT-FP16-LOST", drifted(halved(before="bfloat16"))).state is State.CLEAN
    same = drifted(halved(before="float8_e5m2", zeros=5, subnormal=90), moved("w"))
    assert skipped(judge("TP-CKPT-FP16-LOST", same)) is Skip.NOT_SAVED


# --- averages


def _raw() -> list[Twin]:
    return [moved("model/module.w", crc=7), moved("swa/w", group=Group.AVERAGE, crc=7)]


def _stuck() -> list[Twin]:
    return [moved("model/w"), twin("swa/w", group=Group.AVERAGE)]


@pytest.mark.parametrize(("made", "variant"), [(_raw, "raw-uncounted"), (_stuck, "uncounted")])
def test_an_average_that_is_not_counted_may_not_have_begun(
    made: Callable[[], list[Twin]], variant: str
) -> None:
    cell = judge("TP-CKPT-EMA", drifted(*made()))
    assert level(cell) == (Level.INFO, variant)
    assert measured(cell)["updates"] == -1


@pytest.mark.parametrize(("before", "count"), [(0, 0), (4, 4)])
@pytest.mark.parametrize("made", [_raw, _stuck])
def test_an_average_that_counted_no_update_need_not_move(
    made: Callable[[], list[Twin]], before: int, count: int
) -> None:
    view = drifted(*made(), counted("swa/n_averaged", count, before=before))
    assert judge("TP-CKPT-EMA", view).state is State.CLEAN


@pytest.mark.parametrize(("count", "state"), [(1, State.CLEAN), (2, State.FIRED)])
def test_the_average_of_one_model_is_that_model(count: int, state: State) -> None:
    view = drifted(*_raw(), counted("swa/n_averaged", count, before=0))
    assert judge("TP-CKPT-EMA", view).state is state


@pytest.mark.parametrize(
    "name", ["swa/n_averaged", "ema/num_updates", "model_ema.num_updates", "updates"]
)
def test_updates_that_are_counted_must_move_the_average(name: str) -> None:
    cell = judge("TP-CKPT-EMA", drifted(*_stuck(), counted(name, 9, before=2)))
    assert level(cell) == (Level.WARN, "")
    assert measured(cell)["updates"] == 7


@pytest.mark.parametrize("name", ["ema/step", "weight_updates", "ema/optimization_step"])
def test_steps_that_an_average_may_have_left_out_are_no_updates(name: str) -> None:
    cell = judge("TP-CKPT-EMA", drifted(*_stuck(), counted(name, 9, before=2)))
    assert level(cell) == (Level.INFO, "uncounted")


def test_an_average_may_stand_still_while_the_weights_do() -> None:
    view = drifted(twin("model/w"), twin("ema/w", group=Group.AVERAGE))
    assert skipped(judge("TP-CKPT-EMA", view)) is Skip.NOT_SAVED


def test_one_averaged_tensor_that_moved_settles_it() -> None:
    twins = [twin("ema/a.w", group=Group.AVERAGE), moved("ema/b.w", group=Group.AVERAGE)]
    view = drifted(moved("model/a.w", crc=1), *twins)
    assert judge("TP-CKPT-EMA", view).state is State.CLEAN


def test_without_an_average_there_is_nothing_to_judge() -> None:
    assert skipped(judge("TP-CKPT-EMA", drifted(moved("w")))) is Skip.NOT_SAVED


# --- drift


def test_names_of_the_model_that_only_one_has_are_told() -> None:
    view = drifted(twin("a.w"), added=[tensor("b.w")], gone=[tensor("c.w"), tensor("d.w")])
    cell = judge("TP-CKPT-DRIFT", view)
    assert level(cell) == (Level.WARN, "")
    got = measured(cell)
    assert (got["added"], got["added_names"], got["gone_names"]) == (1, "b.w", "c.w, d.w")


def test_an_optimizer_that_only_one_has_is_no_drift() -> None:
    view = drifted(twin("a.w"), gone=[tensor("state/0/exp_avg", group=Group.OPTIMIZER)])
    assert judge("TP-CKPT-DRIFT", view).state is State.CLEAN


def test_another_shape_is_told_with_both() -> None:
    grown = twin("emb.weight", Change.RESHAPED, shape=(12, 4), before=tensor("emb.weight", (10, 4)))
    cell = judge("TP-CKPT-DRIFT", drifted(grown, twin("a.w")))
    assert level(cell) == (Level.WARN, "shape")
    assert measured(cell)["what"] == "10x4, now 12x4"


def test_ranges_that_are_observed_take_their_shape_from_the_first_batch() -> None:
    name = "1.weight_fake_quant.activation_post_process.min_val"
    view = drifted(twin("a"), twin(name, Change.RESHAPED, before=tensor(name, (1,)), shape=(16,)))
    assert judge("TP-CKPT-DRIFT", view).state is State.CLEAN


def test_another_type_alone_is_info() -> None:
    cast = twin("a.w", Change.RETYPED, dtype="bfloat16", before=tensor("a.w"))
    cell = judge("TP-CKPT-DRIFT", drifted(cast))
    assert level(cell) == (Level.INFO, "type")
    assert measured(cell)["what"] == "float32, now bfloat16"


def test_a_prefix_of_names_is_told_and_a_key_of_the_file_is_not() -> None:
    cell = judge("TP-CKPT-DRIFT", drifted(twin("a.w"), prefix="_orig_mod."))
    assert level(cell) == (Level.WARN, "prefix")
    assert judge("TP-CKPT-DRIFT", drifted(twin("a.w"), prefix="model/")).state is State.CLEAN


def test_names_are_not_missed_where_a_file_was_lost() -> None:
    before = saved(tensor("a.w"), lost=("second.pt",))
    cell = judge("TP-CKPT-DRIFT", drifted(twin("a.w"), added=[tensor("b.w")], before=before))
    assert skipped(cell) is Skip.NEED_UNREADABLE


# --- jump


def jumped(norm: float, others: int = 8, **fields: object) -> Cell:
    twins = [moved(f"h.{i}.w") for i in range(others)]
    return judge("TP-CKPT-JUMP", drifted(*twins, moved("h.9.w", norm=norm, **fields)))


@pytest.mark.parametrize(
    ("norm", "fires"), [(9.0, False), (11.0, True), (0.11, False), (0.0, True)]
)
def test_a_norm_jumps_beyond_ten_times_either_way(norm: float, fires: bool) -> None:
    assert (jumped(norm).state is State.FIRED) is fires


def test_a_jump_is_told_with_its_numbers() -> None:
    got = measured(jumped(40.0))
    assert (got["ratio"], got["usual"], got["jumped"], got["tensors"]) == (40.0, 1.0, 1, 9)


def test_all_growing_together_is_no_jump() -> None:
    twins = [moved(f"h.{i}.w", norm=30.0) for i in range(9)]
    assert judge("TP-CKPT-JUMP", drifted(*twins)).state is State.CLEAN


def test_a_matrix_that_starts_at_zero_may_grow() -> None:
    zero = tensor("h.9.w", zeros=16, low=0.0, high=0.0)
    assert jumped(40.0, before=zero).state is State.CLEAN


def test_few_matrices_do_not_say_what_is_usual() -> None:
    assert skipped(jumped(40.0, others=6)) is Skip.NEED_TOO_SHORT


# --- all


def test_a_pair_alone_gives_no_pass() -> None:
    pairs = [r for r in REGISTRY.values() if r.info.subject is SubjectKind.CHECKPOINT_PAIR]
    assert len(pairs) == 8
    assert not any(rule.info.grounds for rule in pairs)


@pytest.mark.parametrize(
    "id", [i for i, r in REGISTRY.items() if r.info.subject is SubjectKind.CHECKPOINT_PAIR]
)
def test_without_a_reference_or_at_a_lesser_depth_nothing_is_clean(id: str) -> None:
    assert skipped(judge(id, saved(tensor("w")))) is Skip.NEED_ABSENT
    fires = REGISTRY[id].fires.view
    assert fires.drift is not None
    lost = saved(tensor("w"), lost=("before.pt",)).checkpoint
    assert lost is not None
    gone = drifted(before=RunView("b", checkpoint=type(lost)((), lost=("before.pt",))))
    assert skipped(judge(id, gone)) is Skip.NEED_UNREADABLE
    silent = judge(id, drifted(twin("w", Change.UNKNOWN, measured=False), depth=Depth.STRUCTURE))
    assert silent.skip is Skip.DISABLED or id == "TP-CKPT-DRIFT"


def test_a_norm_that_was_not_computed_is_no_ratio() -> None:
    cell = jumped(math.nan)
    assert cell.state is State.CLEAN
