"""A settings file is honoured exactly or refused with a reason."""

from __future__ import annotations

import pytest

from trainproof.config import Config, ConfigError, anchor, parse
from trainproof.model.report import Anchor, FailOn


def test_a_settings_file_gives_every_type_its_own() -> None:
    config = parse(
        "trainproof.toml",
        """
        ignore = ["TP-GPU-UTIL"]
        exclude = ["**/old/**"]
        fail-on = "warn"
        jobs = 2
        timeout = 30
        [tags]
        loss = "my_objective"
        [thresholds.TP-NAN]
        in_a_row = 5
        [anchors]
        "s3://lab/runs" = "train.yaml:3"
        """,
    )
    assert config == Config(
        ignore=("TP-GPU-UTIL",),
        exclude=("**/old/**",),
        fail_on=FailOn.WARN,
        jobs=2,
        timeout=30,
        tags=(("loss", "my_objective"),),
        thresholds={"TP-NAN": {"in_a_row": 5}},
        anchors={"s3://lab/runs": Anchor("train.yaml", 3)},
    )


def test_pyproject_counts_only_with_its_own_table() -> None:
    assert parse("pyproject.toml", "[tool.other]\nx = 1\n") is None
    config = parse("pyproject.toml", "[tool.trainproof]\njobs = 3\n")
    assert config is not None
    assert config.jobs == 3


@pytest.mark.parametrize(
    "text",
    [
        "jobs = ",
        "nonsense = 1",
        "paths = ['x']",
        "jobs = 'many'",
        "jobs = -1",
        "ignore = 'TP-NAN'",
        "ignore = [1]",
        "fail-on = 'sometimes'",
        "tags = ['loss']",
        "thresholds = {TP-NAN = 3}",
        "thresholds = {TP-NO-SUCH = {x = 1}}",
        "follow-symlinks = 1",
    ],
)
def test_a_wrong_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse("trainproof.toml", text)


def test_selection_keeps_the_order_of_the_registry() -> None:
    everything = Config().rules
    chosen = Config(select=("TP-NAN*", "TP-DIVERGE"), ignore=("TP-NAN-GRAD",)).rules
    assert "TP-NAN" in chosen
    assert "TP-NAN-GRAD" not in chosen
    assert list(chosen) == [id for id in everything if id in chosen]


def test_an_anchor_is_a_file_with_a_line_from_one() -> None:
    assert anchor("a/b.yaml:12") == Anchor("a/b.yaml", 12)
    assert anchor("a/b.yaml") == Anchor("a/b.yaml", 1)
    with pytest.raises(ConfigError):
        anchor("a.yaml:0")


def test_how_much_of_checkpoints_is_read_is_one_of_four_words() -> None:
    assert parse("trainproof.toml", 'checkpoints = "none"\ncheckpoint-limit = 5') == Config(
        checkpoints="none", checkpoint_limit=5
    )
    for settings in ({"checkpoints": "all"}, {"checkpoint_limit": -1}):
        with pytest.raises(ConfigError):
            Config(**settings)  # type: ignore[arg-type]
