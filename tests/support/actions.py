"""Run a composite GitHub action here: its shell steps for real, other actions by stand-ins.

Follows what the runner documents: expressions, the status of steps, ``GITHUB_OUTPUT`` and
``GITHUB_STEP_SUMMARY`` files, and bash with ``-e -o pipefail``.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|&&|\|\||==|!=|!|\(|\)|[A-Za-z_][\w.-]*)")
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_STATUS = re.compile(r"\b(?:always|cancelled|failure|success)\(\)")

StandIn = Callable[[Mapping[str, str]], Mapping[str, str]]
"""What takes the place of another action: its inputs to its outputs; an exception fails it."""


class StepResult(msgspec.Struct, frozen=True):
    """``outcome``: success, failure or skipped, before ``continue-on-error``."""

    name: str
    outcome: str
    outputs: Mapping[str, str] = msgspec.field(default_factory=dict)
    log: str = ""


class ActionResult(msgspec.Struct, frozen=True):
    success: bool
    outputs: Mapping[str, str]
    summary: str
    steps: Mapping[str, StepResult]

    @property
    def log(self) -> str:
        return "".join(step.log for step in self.steps.values())


class Expression:
    """GitHub's expressions as far as conditions need them: ``|| && == != ! ()`` and contexts."""

    def __init__(self, text: str, lookup: Callable[[str], str | bool]) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s+", "", text):
            raise ValueError(f"not an expression: {text!r}")
        self.lookup = lookup

    def value(self) -> str | bool:
        result = self._or()
        if self.tokens:
            raise ValueError(f"left over: {self.tokens}")
        return result

    def _take(self, *wanted: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def _or(self) -> str | bool:
        left = self._and()
        while self._take("||"):
            right = self._and()
            left = left or right
        return left

    def _and(self) -> str | bool:
        left = self._equality()
        while self._take("&&"):
            right = self._equality()
            left = left and right
        return left

    def _equality(self) -> str | bool:
        left = self._unary()
        while operator := self._take("==", "!="):
            left = (left == self._unary()) is (operator == "==")
        return left

    def _unary(self) -> str | bool:
        if self._take("!"):
            return not self._unary()
        if self._take("("):
            inner = self._or()
            if not self._take(")"):
                raise ValueError("unclosed parenthesis")
            return inner
        token = self.tokens.pop(0)
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if self.tokens[:2] == ["(", ")"]:
            del self.tokens[:2]
            return self.lookup(token + "()")
        return self.lookup(token)


class _Job(msgspec.Struct):
    """What steps see of each other."""

    action: Path
    inputs: Mapping[str, str]
    runner_temp: Path
    workspace: Path
    steps: dict[str, StepResult] = msgspec.field(default_factory=dict)
    failed: bool = False
    summary: str = ""

    def lookup(self, name: str) -> str | bool:
        match name.split("."):
            case ["inputs", key]:
                return self.inputs[key]  # KeyError: the action uses what it does not declare
            case ["steps", id, "outcome"]:
                return self.steps[id].outcome
            case ["steps", id, "outputs", key]:
                return self.steps[id].outputs.get(key, "")
            case ["github", "action_path"]:
                return str(self.action)
            case ["success()"]:
                return not self.failed
            case ["failure()"]:
                return self.failed
            case ["always()"]:
                return True
            case ["cancelled()"]:
                return False
        raise KeyError(name)

    def text(self, value: object) -> str:
        return _EXPRESSION.sub(
            lambda match: str(Expression(match[1], self.lookup).value()), str(value)
        )

    def wanted(self, condition: str) -> bool:
        text = _EXPRESSION.sub(lambda match: match[1], condition) or "success()"
        if not _STATUS.search(text):
            text = f"success() && ({text})"
        return bool(Expression(text, self.lookup).value())


def run_action(
    action: Path,
    workspace: Path,
    runner_temp: Path,
    given: Mapping[str, str],
    stand_ins: Mapping[str, StandIn],
) -> ActionResult:
    """Run ``action``/action.yml in ``workspace``.

    ``stand_ins``: for ``uses``, by the action's name without its version, and for ``id`` of a
    shell step that is not to run.
    """
    document = yaml.safe_load((action / "action.yml").read_text("utf-8"))
    inputs = {name: str(spec.get("default", "")) for name, spec in document["inputs"].items()}
    job = _Job(action, {**inputs, **given}, runner_temp, workspace)
    for number, step in enumerate(document["runs"]["steps"]):
        result = _run_step(job, step, stand_ins)
        job.steps[step.get("id", str(number))] = result
        if result.outcome == "failure" and not step.get("continue-on-error"):
            job.failed = True
    outputs = {name: job.text(spec["value"]) for name, spec in document["outputs"].items()}
    return ActionResult(not job.failed, outputs, job.summary, job.steps)


def _run_step(job: _Job, step: Mapping[str, Any], stand_ins: Mapping[str, StandIn]) -> StepResult:
    name = step["name"]
    if not job.wanted(str(step.get("if", ""))):
        return StepResult(name, "skipped")
    stand_in = stand_ins.get(step.get("uses", "").partition("@")[0] or step.get("id", ""))
    if stand_in is not None:
        try:
            values = {key: job.text(value) for key, value in step.get("with", {}).items()}
            return StepResult(name, "success", stand_in(values))
        except RuntimeError as error:
            return StepResult(name, "failure", log=f"{error}\n")
    return _run_shell(job, step)


def _run_shell(job: _Job, step: Mapping[str, Any]) -> StepResult:
    files = {key: job.runner_temp / f"_{key}" for key in ("script", "output", "summary")}
    for path in files.values():
        path.write_text("")
    files["script"].write_text(step["run"])
    environment = {
        **os.environ,
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(files["output"]),
        "GITHUB_STEP_SUMMARY": str(files["summary"]),
        "GITHUB_WORKSPACE": str(job.workspace),
        "RUNNER_TEMP": str(job.runner_temp),
        **{key: job.text(value) for key, value in step.get("env", {}).items()},
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(files["script"])],
        cwd=job.workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    job.summary += files["summary"].read_text("utf-8")
    outcome = "failure" if done.returncode else "success"
    return StepResult(step["name"], outcome, _outputs(files["output"]), done.stdout)


def _outputs(path: Path) -> dict[str, str]:
    """Lines ``name=value``; the action writes no multi-line outputs."""
    pairs = (line.split("=", 1) for line in path.read_text("utf-8").splitlines())
    return dict((name, value) for name, value in pairs)
