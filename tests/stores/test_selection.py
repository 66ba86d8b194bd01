"""The globs of ``--include`` and ``--exclude``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.stores.selection import Selection


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "runs/a.csv", True),
        ("*.csv", "runs/a.csv.bak", False),
        ("runs/*.csv", "runs/a.csv", True),
        ("runs/*.csv", "runs/b/a.csv", False),
        ("runs/*.csv", "x/runs/a.csv", False),
        ("runs/**/*.csv", "runs/a.csv", True),
        ("runs/**/*.csv", "runs/b/c/a.csv", True),
        ("**/tb/**", "exp/tb/events", True),
        ("**/tb/**", "tb/events", True),
        ("runs", "runs/a/b.csv", True),
        ("runs/", "runs/a/b.csv", True),
        ("runs/**", "runs/a/b.csv", True),
        ("/runs", "runs/a.csv", True),
        ("./runs/a", "runs/a/b.csv", True),
        ("runs", "runs2/a.csv", False),
        ("/runs/a", "x/runs/a", False),
        ("**", "anything/at/all", True),
        ("seed?", "seed1/x", True),
        ("seed?", "seed10/x", False),
        ("seed[0-3]", "seed2/x", True),
        ("seed[0-3]", "seed4/x", False),
        ("seed[!0-3]", "seed4/x", True),
        ("a[", "a[", True),
        ("a[]]", "a]", True),
        ("a[^]", "a^", True),
        ("a[[b]", "a[", True),
        ("a[b-a]", "ab", False),
        ("a[]", "a[]", True),
        ("a.csv", "axcsv", False),
        ("a+(b)", "a+(b)", True),
        ("*.csv", "new\nline.csv", True),
        ("a[!b]c", "a/c", False),
    ],
)
def test_a_pattern_stands_for_a_path_and_everything_below_it(
    glob: str, path: str, matches: bool
) -> None:
    assert Selection(exclude=(glob,)).prunes(path) is matches
    assert bool(Selection(exclude=(glob,)).refuses(path)) is matches
    assert bool(Selection(include=(glob,)).refuses(path)) is not matches


def test_exclusion_wins_over_inclusion() -> None:
    selection = Selection(include=("runs",), exclude=("*.log",))
    assert selection.refuses("runs/a.csv") == ""
    assert selection.refuses("runs/a.log") == "excluded by pattern"
    assert selection.refuses("other/a.csv") == "not included by pattern"


def test_without_patterns_everything_is_taken() -> None:
    assert Selection().everything
    assert Selection().refuses("any/thing") == ""
    assert not Selection(exclude=("x",)).everything


@pytest.mark.parametrize(
    ("glob", "taken"),
    [("[+--]", "+,-"), ("[--.]", "-."), ("[---]", "-"), ("[b-a]", ""), ("[!b-a]", "+,-.ab")],
)
def test_a_range_may_end_with_a_hyphen_or_hold_nothing(glob: str, taken: str) -> None:
    selection = Selection((glob,))
    assert "".join(one for one in "+,-.ab" if not selection.refuses(one)) == taken


@given(st.text("ab*?[]!^&~|-/.\\\n", max_size=12), st.text("ab/.\n", min_size=1, max_size=12))
def test_no_pattern_is_an_error(glob: str, path: str) -> None:
    included, excluded = Selection(include=(glob,)), Selection(exclude=(glob,))
    assert bool(included.refuses(path)) is not bool(excluded.refuses(path))
