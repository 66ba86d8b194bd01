"""The object model to JSON: names, defaults and sentinels."""

from __future__ import annotations

import sarif_om as om

from trainproof.emit.sarif_encoding import plain


def test_names_are_those_of_the_standard() -> None:
    made = plain(om.Result(message=om.Message(text="x"), rule_id="R"))
    assert made == {"ruleId": "R", "level": "warning", "kind": "fail", "message": {"text": "x"}}


def test_the_state_of_a_suppression_has_the_name_of_the_final_standard() -> None:
    assert plain(om.Suppression(kind="external", state="accepted")) == {
        "kind": "external",
        "status": "accepted",
    }


def test_sentinels_of_what_was_not_set_are_left_out() -> None:
    assert plain(om.Location()) == {}
    assert plain(om.Location(id=0)) == {"id": 0}
    assert plain(om.Region(start_line=1)) == {"startLine": 1}
    assert plain(om.ReportingDescriptorReference(id="R")) == {"id": "R"}
    assert plain(om.Result(message=om.Message(text="x"), rank=7.5))["rank"] == 7.5


def test_levels_are_written_though_they_are_defaults() -> None:
    assert plain(om.Notification(message=om.Message(text="x")))["level"] == "warning"
    assert plain(om.ReportingConfiguration()) == {"level": "warning"}


def test_keys_of_mappings_are_nobodys_attributes() -> None:
    bag = {"rule_id": 1, "bad\udcff": float("nan"), "none": [True, 2**80]}
    assert plain(bag) == {
        "rule_id": 1,
        "bad\\xff": "NaN",
        "none": [True, "1208925819614629174706176"],
    }
