"""Readers of installed packages: found when an audit starts, and never the end of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import pytest

from tests.support.logs import healthy
from tests.support.packages import install
from trainproof import Config, ConfigError, Verdict, audit
from trainproof.model.data import FaultCode
from trainproof.model.report import ExitCode, exit_code
from trainproof.readers import READERS, reader, third_party
from trainproof.rules.examples import falling

from .readings import read, survives

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
MARK = "%curves 1\n"
SOURCE = """
import numpy as np
from trainproof.model.artifact import Kind
from trainproof.model.data import Column, Facts, Fault, FaultCode, NotJudgeable

class Reader:
    name = {name!r}
    kind = Kind.LOG
    def claims(self, path, head):
        {claims}
    def read(self, artifact, stream, options):
        steps, values = np.arange(30), np.linspace(3, 1, 30)
        {read}
"""


def source(
    name: str = "mine", claims: str = "return path.endswith('.mine')", read: str = "yield None"
) -> str:
    return SOURCE.format(name=name, claims=claims, read=read)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of packages that this process and its workers import from."""
    path = tmp_path / "site"
    path.mkdir()
    monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", str(path))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.mkdir()
    return path


def install_example(site: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    (module,) = project["tool"]["setuptools"]["py-modules"]
    install(
        site,
        project["project"]["name"],
        {module: (EXAMPLE / f"{module}.py").read_text()},
        project["project"]["entry-points"]["trainproof.readers"],
    )


def curves(path: Path, values: list[float]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = (f"loss@{10 * step}>{value}\n" for step, value in enumerate(values, 1))
    path.write_text(MARK + "".join(lines))


# --- the example --------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", [True, False])
def test_the_format_of_a_package_is_audited_like_any_other(
    site: Path, runs: Path, isolation: bool
) -> None:
    install_example(site)
    curves(runs / "good" / "run.curves", falling(60))
    curves(runs / "bad" / "run.curves", [*falling(60), *[float("nan")] * 20])
    report = audit(str(runs), isolation=isolation)
    verdicts = {run.id: run.verdict for run in report.reports}
    assert verdicts == {"bad": Verdict.FAIL, "good": Verdict.PASS}
    (bad, good) = report.reports
    assert [(a.path, a.reader, a.status) for a in good.artifacts] == [
        ("good/run.curves", "curves", "read")
    ]
    nan = next(finding for finding in bad.findings if finding.id == "TP-NAN")
    assert (nan.first_step, nan.location.line) == (610, 62)
    assert report.problems == ()


def test_the_example_survives_what_happens_to_files(site: Path) -> None:
    install_example(site)
    data = (MARK + "".join(f"loss@{n}>{n / 7}\nacc@{n}>1\n" for n in range(200))).encode()
    example = reader("curves")
    got = read(example, "run.curves", data)
    assert {column.tag: len(column) for column in got.columns} == {"loss": 200, "acc": 200}
    survives(example, "run.curves", data)


def test_the_hint_can_name_a_reader_of_a_package(site: Path) -> None:
    install_example(site)
    assert Config(format_hint="curves").format_hint == "curves"
    with pytest.raises(ConfigError, match=r"unknown format 'curve': .*, curves,"):
        Config(format_hint="curve")


# --- when plug-ins are looked for ---------------------------------------------------------------


def python(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_packages_are_imported_when_an_audit_starts_and_not_before(site: Path, runs: Path) -> None:
    mark = site / "imported"
    install(
        site, "noisy", {"noisy": f"open({str(mark)!r}, 'w')\n" + source()}, {"n": "noisy:Reader"}
    )
    everything = (
        "import trainproof.api; from trainproof.cli.app import command_line; command_line()"
    )
    python("-c", everything, cwd=runs)
    python("-m", "trainproof", "rules", "list", cwd=runs)
    assert not mark.exists()
    python("-m", "trainproof", "audit", str(runs), cwd=runs)
    assert mark.exists()


def test_the_working_directory_names_no_code_to_run(tmp_path: Path, runs: Path) -> None:
    mark = tmp_path / "imported"
    install(runs, "evil", {"evil": f"open({str(mark)!r}, 'w')\n"}, {"evil": "evil:Reader"})
    done = python("-m", "trainproof", "audit", ".", "--json", "-", cwd=runs)
    assert json.loads(done.stdout)["problems"] == []
    assert not mark.exists()


# --- plug-ins that cannot be used ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value", "detail"),
    [
        ("", "nowhere_at_all:Reader", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 / 0", "{}:Reader", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "{}:Reader", "SystemExit: 0"),
        ("x = 1", "{}:Reader", "AttributeError: module '{}' has no attribute 'Reader'"),
        ("Reader = 1", "{}:Reader", "the name None is not one of"),
        ("class Reader:\n def __init__(self, x): pass", "{}:Reader", "TypeError: "),
        (source(name="csv"), "{}:Reader", "another reader is called 'csv'"),
        (source(name="Not a name\n"), "{}:Reader", "the name 'Not a name\\n' is not one of"),
        (source() + "    kind = 'log!'", "{}:Reader", "its kind is neither"),
        (source() + "    read = None", "{}:Reader", "it has no method 'read'"),
    ],
    ids=str.split("absent raises exits no-object no-reader arguments taken misnamed kind method"),
)
def test_a_plug_in_that_cannot_be_used_is_a_problem_and_the_rest_goes_on(
    site: Path, runs: Path, *, code: str, value: str, detail: str
) -> None:
    name = f"broken_{zlib.crc32(code.encode())}"
    install(site, "broken-plugin", {name: code}, {"bad": value.format(name)})
    install_example(site)
    healthy(runs / "a" / "log.jsonl")
    curves(runs / "b" / "run.curves", falling(60))
    report = audit(str(runs), isolation=False)
    assert {run.id: run.verdict for run in report.reports} == {
        "a": Verdict.PASS,
        "b": Verdict.PASS,
    }
    (problem,) = report.problems
    assert (problem.code, problem.path, problem.fatal) == (
        "reader-failed",
        "trainproof.readers/bad",
        True,
    )
    expected = f"broken-plugin 0.1, {value.format(name)}: {detail.format(name)}"
    assert problem.detail.startswith(expected.replace("\n", "\\n"))
    assert exit_code(report) is ExitCode.CANNOT_JUDGE


def test_of_two_readers_with_one_name_the_first_entry_point_counts(site: Path) -> None:
    install(site, "one", {"twin_one": source("twin")}, {"b": "twin_one:Reader"})
    install(site, "two", {"twin_two": source("twin")}, {"a": "twin_two:Reader"})
    plugins = third_party()
    assert [one.name for one in plugins.readers] == ["twin"]
    assert [(f.artifact, f.detail) for f in plugins.faults()] == [
        ("trainproof.readers/b", "one 0.1, twin_one:Reader: another reader is called 'twin'")
    ]


def test_a_reader_that_fails_to_say_what_it_claims_is_asked_once(site: Path, runs: Path) -> None:
    install(site, "shy", {"shy": source("shy", claims="raise OSError(path)")}, {"s": "shy:Reader"})
    healthy(runs / "a" / "log.jsonl")
    healthy(runs / "b" / "log.jsonl")
    report = audit(str(runs), isolation=False)
    assert [run.verdict for run in report.reports] == [Verdict.PASS] * 2
    assert [(p.path, p.detail) for p in report.problems] == [
        ("trainproof.readers/s", "shy 0.1: asked about a/log.jsonl: OSError: a/log.jsonl")
    ]
    again = audit(str(runs), isolation=False)
    assert again.problems == report.problems


@pytest.mark.parametrize(
    ("deed", "detail"),
    [
        ("yield 1 / 0", "ZeroDivisionError: division by zero"),
        ("yield 5", "TypeError: it yields a int"),
        (
            "yield Column('loss', steps.astype('int32'), values)",
            "TypeError: column 'loss' has an array that is not of int64",
        ),
        (
            "yield Column('loss', steps, values.astype('float32'))",
            "TypeError: column 'loss' has an array that is not of float64",
        ),
        ("yield Column(5, steps, values)", "TypeError: column 5 has a tag, an axis or"),
        ("yield Facts(max_steps='many')", "ValidationError: Expected `int | null`"),
        ("yield NotJudgeable('nothing')", "ValidationError: Invalid enum value 'nothing'"),
        ("return 5", "TypeError: 'int' object is not iterable"),
    ],
    ids=str.split("raises no-item int32 float32 tag facts content no-iterator"),
)
def test_what_a_reader_does_wrong_costs_the_file_that_it_was_reading(
    site: Path, runs: Path, deed: str, detail: str
) -> None:
    name = f"deed_{zlib.crc32(deed.encode())}"
    install(site, "deeds", {name: source(read=deed)}, {"mine": f"{name}:Reader"})
    (runs / "x").mkdir()
    (runs / "x" / "log.mine").write_text("anything\n")
    healthy(runs / "a" / "log.jsonl")
    report = audit(str(runs), isolation=False)
    assert [run.id for run in report.reports] == ["a", "x"]
    assert report.reports[0].verdict is Verdict.PASS
    (problem,) = report.reports[1].problems
    assert (problem.code, problem.path, problem.fatal) == ("reader-failed", "x/log.mine", True)
    assert problem.detail.startswith(detail)


def test_a_fault_is_about_the_file_that_was_read_whatever_its_reader_says(site: Path) -> None:
    deed = "yield Fault(FaultCode.CORRUPT, 'elsewhere', 'odd', False)"
    install(site, "liar", {"liar": source("liar", read=deed)}, {"liar": "liar:Reader"})
    (fault,) = read(reader("liar"), "here.mine", b"").faults
    assert (fault.code, fault.artifact) == (FaultCode.CORRUPT, "here.mine")


def test_the_built_in_readers_are_not_changed_by_plug_ins(site: Path) -> None:
    before = READERS
    install_example(site)
    assert [one.name for one in third_party().readers] == ["curves"]
    assert READERS is before
