"""Which tags of a run are about which of its held-out sets, and which only about a part."""

from __future__ import annotations

import pytest

from trainproof.model.data import Role, Split
from trainproof.readers.held_out import identities
from trainproof.readers.names import classify


def told(*tags: str) -> dict[str, tuple[Role, Split, str | None, str | None]]:
    """By tag, of those that are about one of several sets: role, split, component and set."""
    return {
        tag: (one.role, one.split, one.component, one.dataset)
        for tag, one in identities(tags).items()
    }


def test_the_trainer_measures_the_time_of_each_set() -> None:
    tags = ["loss", "learning_rate", "eval_wiki_loss", "eval_wiki_accuracy", "eval_wiki_runtime"]
    assert told(*tags, "eval_wiki_code_loss", "eval_wiki_code_runtime", "eval_loss") == {
        "eval_wiki_loss": (Role.LOSS, Split.EVAL, None, "wiki"),
        "eval_wiki_accuracy": (Role.METRIC, Split.EVAL, None, "wiki"),
        "eval_wiki_runtime": (Role.OTHER, Split.EVAL, None, "wiki"),
        "eval_wiki_code_loss": (Role.LOSS, Split.EVAL, None, "wiki_code"),
        "eval_wiki_code_runtime": (Role.OTHER, Split.EVAL, None, "wiki_code"),
    }


def test_trackers_put_a_slash_behind_the_split() -> None:
    found = identities(["train/loss", "eval/wiki_loss", "eval/wiki_runtime"])
    assert (
        found["eval/wiki_loss"]
        == identities(["eval_wiki_loss", "eval_wiki_runtime"])["eval_wiki_loss"]
    )


def test_a_set_may_be_called_like_a_quantity_or_a_split() -> None:
    tags = ["eval_cost_accuracy", "eval_cost_runtime", "eval_test_loss", "eval_test_runtime"]
    found = told("loss", *tags)
    assert found["eval_cost_accuracy"] == (Role.METRIC, Split.EVAL, None, "cost")
    assert found["eval_test_loss"] == (Role.LOSS, Split.EVAL, None, "test")


@pytest.mark.parametrize("runtime", [(), ("eval_train_runtime",)])
def test_an_evaluation_of_what_is_trained_on_is_not_held_out(runtime: tuple[str, ...]) -> None:
    tags = ["loss", "eval_train_loss", *runtime]
    one = identities(tags).get("eval_train_loss") or classify("eval_train_loss")
    assert (one.split, one.component is None, one.dataset) == (Split.TRAIN, False, None)


def test_lightning_numbers_the_loaders() -> None:
    tags = ["val_loss/dataloader_idx_0", "val_loss/dataloader_idx_1", "val_acc/dataloader_idx_1"]
    assert told("train_loss", *tags) == {
        tags[0]: (Role.LOSS, Split.EVAL, None, "dataloader_idx_0"),
        tags[1]: (Role.LOSS, Split.EVAL, None, "dataloader_idx_1"),
        tags[2]: (Role.METRIC, Split.EVAL, None, "dataloader_idx_1"),
    }


@pytest.mark.parametrize(
    ("tags", "sets"),
    [
        ("eval/wiki/loss eval/code/loss", "wiki code"),
        ("val_wiki_loss val_wiki_ppl val_code_loss val_code_ppl", "wiki wiki code code"),
        ("valid/loss valid_foo/loss valid_foo/ppl", "foo foo"),
        ("valid_loss valid1_loss valid1_ppl", "1 1"),
        (
            "eval/c4_en-validation/CrossEntropyLoss eval/c4_en-validation/Perplexity"
            " eval/pile-validation/CrossEntropyLoss eval/pile-validation/Perplexity",
            "c4_en_validation c4_en_validation pile_validation pile_validation",
        ),
    ],
)
def test_a_hand_written_loop_names_its_sets(tags: str, sets: str) -> None:
    found = told("train/loss", *tags.split())
    assert [dataset for _, _, _, dataset in found.values()] == sets.split()
    assert {(split, part) for _, split, part, _ in found.values()} == {(Split.EVAL, None)}


@pytest.mark.parametrize(
    "tags",
    [
        "loss eval_loss eval_accuracy eval_runtime",
        "train_loss val_loss val_kl_loss val_recon_loss",
        "loss val_kl_loss val_recon_loss",
        "train/loss train/kl/loss train/rec/loss val/kl/loss val/rec/loss",
        "train/box_loss train/cls_loss val/box_loss val/cls_loss metrics/recall",
        "loss val_loss val_accuracy val_seg_loss val_seg_iou",
        "loss eval/wiki/loss",
        "loss_ctc loss valid/loss_ctc valid/cer_ctc valid/loss valid/cer",
        "train1_loss train2_loss",
    ],
)
def test_parts_are_no_sets(tags: str) -> None:
    assert told(*tags.split()) == {}
