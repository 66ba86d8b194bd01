"""What is generated is what is committed, and every rule's page holds its declaration."""

from __future__ import annotations

import pytest

from trainproof.docgen import stale, with_sections
from trainproof.pages import explain, rules_md
from trainproof.rules import REGISTRY


def test_generated_files_are_up_to_date() -> None:
    assert stale() == []


def test_every_rule_has_a_page_with_its_thresholds() -> None:
    page = rules_md()
    for id, rule in REGISTRY.items():
        assert explain(rule) in page
        assert f"## {id}\n" in page
        for threshold in rule.info.thresholds:
            assert f"`{threshold.name}` | {threshold.default} |" in explain(rule)


def test_a_generated_section_is_renewed_and_the_rest_is_kept() -> None:
    text = "before\n<!-- generated: exit codes -->\nold\n<!-- end generated -->\nafter\n"
    made = with_sections(text)
    assert made.startswith("before\n<!-- generated: exit codes -->\n| code | meaning |")
    assert made.endswith("<!-- end generated -->\nafter\n")
    assert "old" not in made
    assert with_sections(made) == made


def test_a_section_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no end"):
        with_sections("<!-- generated: exit codes -->\n")
