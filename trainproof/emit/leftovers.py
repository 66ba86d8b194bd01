"""What an audit saw and did not judge, as every report for a terminal tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainproof.model.report import Problem, Report

from .terminal import Style
from .view import full_path, plural

NAMED = 10
UNRECOGNISED = "not-a-log"
DATA = "saved-data"
NUMBERS = "unnamed-numbers"
ARCHIVE = "archive"


def blemishes(
    style: Style, found: Iterable[tuple[str, Problem]], *, every: bool = False
) -> Iterator[str]:
    """Problems, each with the root of its path, in files that were read all the same."""
    told = [(root, problem) for root, problem in found if not problem.fatal]
    if not told:
        return
    yield ""
    yield style.title(f"Read with blemishes: {plural(len(told), 'place')}")
    shown = told if every else told[:NAMED]
    for root, problem in shown:
        place = full_path(root, problem.path) + (f":{problem.line}" if problem.line else "")
        yield from style.wrap(f"{place}: {problem.code}: {problem.detail}", "  ", "    ")
    yield from more(len(told) - len(shown))


def not_judged(style: Style, report: Report, *, every: bool = False) -> Iterator[str]:
    """How many files were no logs, by what they are, and those worth naming."""
    files = report.not_judged
    total = sum(files.counts.values())
    if not total:
        return
    yield ""
    yield style.title(f"Seen and not judged: {plural(total, 'file')}")
    kinds = (f"{count:,} {content}" for content, count in sorted(files.counts.items()))
    yield from style.wrap(", ".join(kinds), "  ")
    shown = files.files if every else files.files[:NAMED]
    for file in shown:
        detail = f" ({file.detail})" if file.detail else ""
        yield from style.wrap(f"{file.path}: {file.content}{detail}", "  ", "    ")
    yield from more(len(files.files) - len(shown) + files.unlisted)
    if files.counts.get(DATA):
        hint = f"{DATA}: tensors that no layer is named by; trainproof checkpoint judges them too."
        yield from style.wrap(hint, "  ")
    if files.counts.get(ARCHIVE):
        yield from style.wrap(f"{ARCHIVE}: looked into where it is a PATH of its own.", "  ")
    if not report.reports and files.counts.get(NUMBERS):
        hint = (
            f"{NUMBERS}: one number a line, or a step and one. A name such as loss.txt says that"
            " they are a loss, and so does --format-hint numbers for one file."
        )
        yield from style.wrap(hint, "  ")
    if not report.reports and files.counts.get(UNRECOGNISED):
        hint = "No file was recognised as a log. --format-hint NAME says what one of them is."
        yield from style.wrap(hint, "  ")


def more(count: int) -> Iterator[str]:
    """How many there are besides those that were shown."""
    if count > 0:
        yield f"  and {count:,} more"
