"""The text about checkpoints: what each file is and holds, its tensors, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainproof.model.outcome import Level
from trainproof.model.report import (
    CheckpointDrift,
    CheckpointSummary,
    FailOn,
    Number,
    Report,
    SubjectReport,
    TensorDifference,
    TensorSummary,
    Verdict,
)
from trainproof.model.text import printable

from .terminal import Style, cells, finding_lines, fit, number
from .view import by_severity, full_path, holes, meaning, name, plural, ranked, tallied

FILES = 500
"""Files that get a line; the report has all of them."""
CHANGES = 20
LEAST_CHANGES = 3
"""Tensors that changed that get a line: of all checkpoints together, and at least of each. The
report has all of them."""
HOLES = 20
_VERDICT_CELLS = max(map(len, Verdict))
_NAME_CELLS = 44
_TENSOR_CELLS = 52
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def checkpoints(
    report: Report,
    *,
    tensors: bool = False,
    color: bool = False,
    width: int = 100,
    verbose: bool = False,
    quiet: bool = False,
    fail_on: FailOn = FailOn.FAIL,
    ascii: bool = False,
) -> bytes:
    """A line for each file, worst checkpoint first; what changed since the checkpoint before; the
    findings; what could not be checked.

    ``tensors``: also a line for each tensor, and for each that changed. ``quiet``: checkpoints
    that are not PASS, and the exit code. ``verbose``: nothing is capped, and INFO findings are
    told.
    """
    style = Style(color, width, ascii)
    subjects = ranked(report)
    if quiet:
        subjects = [subject for subject in subjects if subject.verdict is not Verdict.PASS]
    verdict = style.word(report.worst_verdict)
    lines = [f"trainproof {printable(report.trainproof_version)}: {verdict}. {tallied(report)}."]
    if report.error is not None:
        lines += style.wrap(f"The audit itself failed: {report.error}", "")
    lines += _files(style, subjects, verbose)
    if not quiet:
        lines += _tensors(style, subjects) if tensors else ()
        lines += _changes(style, subjects, tensors or verbose)
        lines += _findings(style, subjects, verbose)
        lines += _open(style, report, verbose)
    lines += ["", *style.wrap(meaning(report, fail_on), "")]
    return style.encode(lines)


# Files -------------------------------------------------------------------------------------


def _files(style: Style, subjects: Sequence[SubjectReport], verbose: bool) -> Iterator[str]:
    if not subjects:
        return
    rows = [row for subject in subjects for row in _rows(style, subject)]
    shown = rows if verbose else rows[:FILES]
    wide = min(_NAME_CELLS, max(4, *(cells(label) for _, label, _ in shown)))
    titles = ("tensors", "parameters", "not finite", "zero")
    head = f"{'layout':14} {'size':>8}  {'read':14} {'checksums':11}"
    columns = " ".join(f"{title:>12}" for title in titles)
    yield ""
    yield style.paint(f"{'':{_VERDICT_CELLS}}  {fit('file', wide)}  {head} {columns}", "faint")
    for word, label, rest in shown:
        yield f"{word}  {fit(label, wide, keep_end=True)}  {rest}"
    if len(rows) > len(shown):
        yield f"  and {plural(len(rows) - len(shown), 'more file')}"


def _rows(style: Style, subject: SubjectReport) -> Iterator[tuple[str, str, str]]:
    """Verdict, name and the rest of the line. Several files come below their directory."""
    word, none = style.word(subject.verdict, _VERDICT_CELLS), " " * _VERDICT_CELLS
    if len(subject.checkpoints) == 1 and len(subject.artifacts) == 1:
        yield word, printable(name(subject)), _numbers(subject.checkpoints[0])
        return
    yield word, printable(name(subject)), _told(subject)
    for file in subject.checkpoints:
        yield none, f"  {printable(file.path.rpartition('/')[2])}", _numbers(file)


def _told(subject: SubjectReport) -> str:
    count = plural(len(subject.artifacts), "file")
    return count if subject.checkpoints else f"{count}, not read"


def _numbers(file: CheckpointSummary) -> str:
    known = file.measured > 0
    counts = (
        f"{file.tensors:,}",
        f"{file.parameters:,}",
        f"{file.nonfinite:,}" if known else "-",
        _share(file.zeros, file.measured) if known else "-",
    )
    said = f"{fit(printable(file.layout), 14)} {_size(file.size):>8}  {printable(file.extent):14}"
    columns = " ".join(f"{count:>12}" for count in counts)
    return f"{said} {printable(file.integrity):11} {columns}"


def _size(count: int) -> str:
    """Three digits and a decimal unit."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if not unit else f"{amount:.3g} {_UNITS[unit]}"


def _share(part: int, whole: int) -> str:
    """A percentage that shows 0 and 100 only where it is none or all."""
    if part in (0, whole):
        return "100 %" if part else "0 %"
    return f"{min(max(100 * part / whole, 0.01), 99.99):.2f} %"


# Tensors -----------------------------------------------------------------------------------


def _tensors(style: Style, subjects: Sequence[SubjectReport]) -> Iterator[str]:
    for subject in subjects:
        total = sum(file.tensors for file in subject.checkpoints)
        if not total:
            continue
        yield ""
        yield style.title(f"Tensors of {printable(name(subject))}")
        names = [cells(printable(one.name)) for one in subject.tensors]
        wide = min(_TENSOR_CELLS, max([4, *names]))
        head = f"{'type':10} {'shape':18} {'not finite':>12} {'zero':>8} {'abs-max':>11}"
        yield style.paint(f"  {fit('name', wide)}  {head}", "faint")
        yield from (f"  {_row(one, wide)}" for one in subject.tensors)
        if total > len(subject.tensors):
            yield f"  and {total - len(subject.tensors):,} more"


def _row(one: TensorSummary, wide: int) -> str:
    shape = _sizes(one.shape) or "-"
    said = f"{fit(printable(one.name), wide)}  {fit(printable(one.dtype), 10)} {fit(shape, 18)}"
    if one.unread:
        return f"{said} {printable(one.unread)}"
    zero = _share(one.zeros, one.elements) if one.elements else "-"
    largest = "-" if one.absmax is None else number(one.absmax)
    return f"{said} {one.nan + one.inf:>12,} {zero:>8} {largest:>11}"


# Changes -----------------------------------------------------------------------------------


def _changes(style: Style, subjects: Sequence[SubjectReport], whole: bool) -> Iterator[str]:
    """What is between each checkpoint and the one that it was compared with."""
    compared = [(subject, one) for subject in subjects if (one := subject.drift) is not None]
    for subject, drift in compared:
        told = [one for one in drift.tensors if one.change != "same"]
        shown = told if whole else told[: max(LEAST_CHANGES, CHANGES // len(compared))]
        yield ""
        yield style.title(f"{printable(name(subject))} since {printable(drift.reference)}")
        yield from style.wrap(_summed(drift), "  ", "    ")
        if shown:
            wide = min(_TENSOR_CELLS, max([4, *(cells(printable(one.name)) for one in shown)]))
            head = f"{'change':9} {'type':18} {'shape':18} {'same':>8} {'norm':>20}"
            yield style.paint(f"  {fit('name', wide)}  {head}", "faint")
        yield from (f"  {_changed(one, wide)}" for one in shown)
        if len(told) > len(shown):
            yield f"  and {len(told) - len(shown):,} more: --tensors tells them"


def _summed(drift: CheckpointDrift) -> str:
    steps = ""
    if drift.step is not None and drift.step_before is not None:
        steps = f"from step {drift.step_before:,} to step {drift.step:,}: "
    counts = (f"{count:,} {change}" for change, count in drift.changes.items())
    return f"{steps}{', '.join(counts) or 'no tensors'}"


def _changed(one: TensorDifference, wide: int) -> str:
    share = _share(one.identical, one.compared) if one.compared else "-"
    norms = f"{_norm(one.norm_before)} -> {_norm(one.norm)}" if one.norm is not None else "-"
    types = _both(one.dtype_before, one.dtype)
    shapes = _both(_sizes(one.shape_before), _sizes(one.shape))
    named = fit(printable(one.name), wide)
    line = f"{named}  {fit(printable(one.change), 9)} {fit(types, 18)} {fit(shapes, 18)}"
    return f"{line} {share:>8} {norms:>20}" + (f"  {printable(one.unread)}" if one.unread else "")


def _both(before: str | None, now: str | None) -> str:
    """One where they agree, or where there is only one."""
    if before is None or now is None or before == now:
        return printable(now or before or "-")
    return printable(f"{before} -> {now}")


def _sizes(shape: tuple[int, ...] | None) -> str | None:
    return None if shape is None else "x".join(map(str, shape)) or "scalar"


def _norm(value: Number | None) -> str:
    return "-" if value is None else number(value)


# Findings, gaps ----------------------------------------------------------------------------


def _findings(style: Style, subjects: Sequence[SubjectReport], verbose: bool) -> Iterator[str]:
    headed = False
    for subject in subjects:
        found = by_severity(subject.findings)
        found = [one for one in found if verbose or one.level is not Level.INFO]
        if found and not headed:
            yield from ("", style.title("Findings"))
            headed = True
        if found:
            yield ""
            yield from style.wrap(name(subject), "")
        for finding in found:
            yield from finding_lines(style, subject, finding)


def _open(style: Style, report: Report, verbose: bool) -> Iterator[str]:
    """What stood in the way: of the whole audit, and of each verdict."""
    told = [hole.sentence() for hole in holes(report) if hole.subject is None]
    for subject in report.reports:
        because = subject.because or "no rule that could judge it was selected"
        if subject.verdict is Verdict.NOT_CHECKED:
            told.append(f"{name(subject)}: {because}.")
        told += (
            f"{full_path(subject.root, file.path)}: {file.extent}: {file.reason}."
            for file in subject.checkpoints
            if file.reason
        )
    unjudged = report.not_judged.files
    told += (f"{file.path}: {file.content}: {file.detail or 'not judged'}." for file in unjudged)
    if told:
        yield from ("", style.title("Not read or not checked"))
    shown = told if verbose else told[:HOLES]
    for sentence in shown:
        yield from style.wrap(f"! {sentence}", "  ", "    ")
    if len(told) > len(shown):
        yield f"  and {len(told) - len(shown):,} more: -v tells them"
