"""The table of commands, whole and cut down to the one that was asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

from trainproof.cli.app import command_line


def names(wanted: str | None) -> list[str]:
    command = get_command(command_line(wanted))
    return list(command.commands)  # type: ignore[attr-defined]


def test_all_commands_are_there_unless_one_of_them_is_wanted() -> None:
    everything = names(None)
    assert everything[:2] == ["audit", "doctor"]
    assert "rules" in everything
    assert names("no such command") == everything
    for name in everything:
        assert names(name) == [name]


def test_one_alone_has_the_options_that_it_has_among_all() -> None:
    everything = get_command(command_line())
    for name, one in everything.commands.items():  # type: ignore[attr-defined]
        (alone,) = get_command(command_line(name)).commands.values()  # type: ignore[attr-defined]
        assert [p.name for p in alone.params] == [p.name for p in one.params]
        assert (alone.help, alone.hidden) == (one.help, one.hidden)


@pytest.mark.parametrize("spared", ["cli.watching", "cli.inspecting", "pages"])
def test_what_other_commands_need_is_not_imported(spared: str) -> None:
    code = (
        "import sys; from trainproof.cli.app import command_line;"
        f" command_line('checkpoint'); print('trainproof.{spared}' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
