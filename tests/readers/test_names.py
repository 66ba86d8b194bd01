"""What logged tags mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.model.data import Axis, Direction, Identity, Role, Scope, Split
from trainproof.readers.names import (
    MAX_TAG,
    QUANTITIES,
    axis_rank,
    classify,
    split_of,
    words_of,
)

LOSS_TWINS = {
    Split.TRAIN: "loss train/loss Loss/Train Loss/train train_loss trainLoss TRAIN_LOSS"
    " training_loss_step training.loss trainloss TrainIterStats/loss loss_step",
    Split.EVAL: "val_loss val-loss valid_loss val/loss Loss/Validation eval_loss eval/loss"
    " validation_loss dev_loss DEV_LOSS valLoss EvalStats/loss",
    Split.TEST: "test_loss test/loss Loss/test TEST_LOSS",
}


@pytest.mark.parametrize(
    ("split", "tag"), [(split, tag) for split, tags in LOSS_TWINS.items() for tag in tags.split()]
)
def test_writers_of_one_run_agree_on_the_loss(split: Split, tag: str) -> None:
    assert classify(tag) == Identity(Role.LOSS, "loss", split, direction=Direction.LOWER)


@pytest.mark.parametrize("tag", ["train_loss_epoch", "epoch_loss", "TrainEpochStats/loss"])
def test_a_point_may_stand_for_an_epoch(tag: str) -> None:
    assert classify(tag) == Identity(
        Role.LOSS, "loss", Split.TRAIN, Scope.EPOCH, None, Direction.LOWER
    )


@pytest.mark.parametrize(
    ("tag", "base", "component"),
    [
        ("total_loss", "total_loss", None),
        ("avg_loss", "avg_loss", None),
        ("train_cost", "cost", None),
        ("epoch_cost", "cost", None),
        ("lm loss", "lm_loss", None),
        ("loss/loss", "loss_loss", None),
        ("train/box_loss", "box_loss", "box"),
        ("loss_cls", "loss_cls", "cls"),
        ("loss_gen", "loss_gen", "gen"),
        ("train_disc_loss", "disc_loss", "disc"),
        ("loss_G", "loss_g", "gen"),
        ("D_A", "d_a", "disc_a"),
        ("loss_0", "loss_0", "0"),
        ("loss_kl", "loss_kl", "kl"),
        ("loss_vf_loss", "loss_vf_loss", "vf"),
        ("Losses/Policy Loss", "losses_policy_loss", "policy"),
        ("TrainIterStats/loss_mel_ce", "loss_mel_ce", "mel_ce"),
        ("train/ent_coef_loss", "ent_coef_loss", "ent_coef"),
        ("CrossEntropy", "crossentropy", "crossentropy"),
        ("l_pix", "l_pix", "pix"),
        ("value_loss", "value_loss", "value"),
        ("loss_mask", "loss_mask", "mask"),
        ("errD", "err_d", "disc"),
        ("errG", "err_g", "gen"),
    ],
)
def test_the_total_and_the_parts_of_a_loss(tag: str, base: str, component: str | None) -> None:
    identity = classify(tag)
    assert (identity.role, identity.base, identity.component) == (Role.LOSS, base, component)


NO_LOSS = (
    "loss_weight loss_scale loss/clip_factor best_val_loss min_loss loss_std lambda_weight"
    " train_runtime eval_loss_vs_iterations avg_batch_cost avg_reader_cost time_cost"
    " query_cost api_cost"
)


@pytest.mark.parametrize("tag", NO_LOSS.split())
def test_what_only_sounds_like_a_loss(tag: str) -> None:
    assert classify(tag).role is not Role.LOSS


HIGHER = (
    "acc accuracy val_acc test_acc1 train/top_5_accuracy metrics/mAP50-95(B) metrics/mAP50(B)"
    " metrics/precision(B) bbox/AP coco/bbox_mAP mIoU psnr bleu f1 train_BinaryF1Score AUC"
    " rewards/accuracies mean_token_accuracy fast_rcnn/cls_accuracy DEV_F1"
)
LOWER = "RMSE val_mae wer cer fid perplexity ppl val_bpb error_rate test_err lpips"


@pytest.mark.parametrize(
    ("tag", "direction"),
    [(tag, Direction.HIGHER) for tag in HIGHER.split()]
    + [(tag, Direction.LOWER) for tag in LOWER.split()],
)
def test_metrics_and_their_directions(tag: str, direction: Direction) -> None:
    identity = classify(tag)
    assert (identity.role, identity.direction) == (Role.METRIC, direction)


@pytest.mark.parametrize(
    ("tag", "component", "direction"),
    [
        ("reward", None, Direction.HIGHER),
        ("rollout/ep_rew_mean", None, Direction.HIGHER),
        ("EpRewMean", None, Direction.HIGHER),
        ("Environment/Cumulative Reward", None, Direction.HIGHER),
        ("episode_reward", None, Direction.HIGHER),
        ("Episode reward", None, Direction.HIGHER),
        ("eval/mean_reward", None, Direction.HIGHER),
        ("objective/rlhf_reward", None, Direction.HIGHER),
        ("rewards/margins", "margins", Direction.HIGHER),
        ("rewards/chosen", "chosen", Direction.NONE),
        ("rewards/rejected", "rejected", Direction.NONE),
        ("rewards/accuracy_reward/mean", "accuracy", Direction.HIGHER),
    ],
)
def test_rewards(tag: str, component: str | None, direction: Direction) -> None:
    identity = classify(tag)
    assert identity.role is Role.REWARD
    assert (identity.component, identity.direction) == (component, direction)


@pytest.mark.parametrize(
    ("role", "tags"),
    [
        (Role.LR, "lr,lr-Adam,lr-Adam/pg1,lr/pg0,learning_rate,current_lr,current_lr_0,train_lr"),
        (Role.LR, "Policy/Learning Rate,train/learning_rate,LEARNING_RATE"),
        (Role.GRAD_NORM, "grad_norm,grad-norm,gradient_norm,grad_norm_0,grad_2.0_norm_total"),
        (Role.GRAD_NORM, "train/grad_norm,gnorm,avg_grad_norm,gradnorm"),
        (Role.LOSS_SCALE, "loss-scale,loss_scale,loss scale,amp_scaler,grad_scale"),
        (Role.STEP_TIME, "step_time,iteration-time,avg_step_time,batch_time,sec_per_step"),
        (Role.STEP_TIME, "avg_batch_cost,train_step_timing in s,timing_s/step"),
        (Role.LOADER_TIME, "loader_time,data_time,avg_loader_time,avg_reader_cost,data_cost"),
        (Role.THROUGHPUT, "samples_per_second,eval_samples_per_second,tokens_per_sec,tok/s,it/s"),
        (Role.THROUGHPUT, "time/fps,train_steps_per_second,ips,tokens_per_second_per_gpu"),
        (Role.GPU_UTIL, "gpu_util,system.gpu.0.gpu"),
        (Role.GPU_MEMORY, "gpu_mem,GPU_mem,memory,max_mem,system.gpu.0.memoryAllocated"),
        (Role.KL, "kl,approx_kl,kl_div,objective/kl,loss/approximate_kullback-leibler"),
        (Role.ENTROPY, "entropy,train/entropy_loss,loss_ent,Policy/Entropy"),
        (Role.STEP, "step,_step,global_step,trainer/global_step,iter,iteration,total_timesteps"),
        (Role.STEP, "time/total_timesteps,TimestepsSoFar,train/n_updates,current_steps"),
        (Role.EPOCH, "epoch,train/epoch,EPOCH"),
        (Role.WALL_TIME, "time,elapsed,_timestamp,time/time_elapsed,TimeElapsed,train_time"),
        (Role.OTHER, "hp_metric,eval_runtime,train_runtime,num_tokens,total_flos,eta_seconds"),
        (Role.OTHER, "consumed samples,lm loss vs samples,learning-rate vs samples,reward_std"),
        (Role.OTHER, "train/train_loss,epoch_time,params-norm,ep_len_mean,base_lr,weight_decay"),
        (Role.OTHER, "best_val_acc,frac_reward_zero_std,system.memory,clip_range,num_batches"),
        (Role.UNKNOWN, "foo,log_cond,x1,Curvature/Param_0,损失"),
    ],
)
def test_roles(role: Role, tags: str) -> None:
    assert {tag: classify(tag).role for tag in tags.split(",")} == dict.fromkeys(
        tags.split(","), role
    )


@pytest.mark.parametrize(
    ("json_tag", "board_tag"),
    [
        ("learning_rate", "train/learning_rate"),
        ("grad_norm", "train/grad_norm"),
        ("eval_loss", "eval/loss"),
        ("eval_samples_per_second", "eval/samples_per_second"),
        ("rewards/chosen", "train/rewards/chosen"),
        ("eval_rewards/margins", "eval/rewards/margins"),
        ("loader_time", "TrainIterStats/loader_time"),
    ],
)
def test_twins_in_two_trackers_are_one_series(json_tag: str, board_tag: str) -> None:
    assert classify(json_tag) == classify(board_tag)


def test_the_average_of_the_whole_run_is_no_point_of_the_loss() -> None:
    assert classify("train/train_loss").role is Role.OTHER
    assert classify("train/loss").role is Role.LOSS


def test_an_evaluation_set_of_its_own_is_a_component() -> None:
    assert classify("eval_math_loss") == Identity(
        Role.LOSS, "math_loss", Split.EVAL, Scope.STEP, "math", Direction.LOWER
    )


def test_words_are_cut_at_separators_and_humps() -> None:
    assert words_of("Environment/Cumulative Reward") == ["environment", "cumulative", "reward"]
    assert words_of("EpRewMean") == ["eprewmean"]
    assert words_of("TimestepsSoFar") == ["timesteps", "so", "far"]
    assert words_of("BinaryF1Score") == ["binary", "f1", "score"]
    assert words_of("metrics/mAP50-95(B)") == ["metrics", "map50", "95", "b"]
    assert words_of("") == []


def test_how_well_columns_place_points() -> None:
    assert axis_rank("step") == (0, Axis.STEP)
    assert axis_rank("global_step") == (1, Axis.STEP)
    assert axis_rank("time/total_timesteps") == (2, Axis.STEP)
    assert axis_rank("time/iterations") == (3, Axis.STEP)
    assert axis_rank("train/n_updates") == (4, Axis.STEP)
    assert axis_rank("epoch") == (5, Axis.EPOCH)
    assert axis_rank("") == axis_rank("Unnamed: 0") == (6, Axis.INDEX)
    assert axis_rank("loss") is axis_rank("step_time") is None


def test_the_split_that_a_text_names() -> None:
    assert [split_of(text) for text in ("train", "val", "Validation", "test", "other")] == [
        Split.TRAIN,
        Split.EVAL,
        Split.EVAL,
        Split.TEST,
        None,
    ]


def test_no_entry_of_the_table_stands_behind_one_that_hides_it() -> None:
    """Each phrase gets the role that it is declared with, unless an earlier one holds it."""
    hidden = []
    for role, _, phrases in QUANTITIES:
        for phrase in (" ".join(p.split()) for p in phrases.split(",")):
            if classify(phrase).role not in (role, Role.OTHER, Role.WALL_TIME):
                hidden.append((phrase, role, classify(phrase).role))
    assert hidden == []


@given(st.text(max_size=60))
def test_any_text_has_an_identity(tag: str) -> None:
    identity = classify(tag)
    assert identity.role in Role
    assert identity == classify(tag)


def test_a_tag_of_any_length_is_cut() -> None:
    assert len(words_of("a_" * 10 * MAX_TAG)) == MAX_TAG / 2
