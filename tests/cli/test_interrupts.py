"""Whenever Ctrl-C comes, the program knows, and its exit code is its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from trainproof.cli.interrupts import Interrupted, Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_and_is_remembered(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    interrupts = Interrupts()
    try:
        interrupts.listen(number)
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)
    assert interrupts.asked


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    interrupts = Interrupts()
    try:
        interrupts.listen(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not interrupts.asked


@pytest.mark.parametrize(
    "interrupted",
    [
        # where text is executed, as dataclasses do while modules are imported
        "exec('os.kill(os.getpid(), signal.SIGINT); sum(range(9))')",
        # where an exception is printed and lost
        "type('Lost', (), {'__del__': lambda _: os.kill(os.getpid(), signal.SIGINT)})()",
    ],
)
def test_an_interrupt_leaves_the_exit_code_to_the_program(interrupted: str) -> None:
    program = (
        "import os, signal, sys\n"
        "from trainproof.cli.interrupts import interrupts\n"
        "interrupts.listen(signal.SIGINT)\n"
        "try:\n"
        f"    {interrupted}\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "sys.exit(7 if interrupts.asked else 8)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == 7


def test_an_interrupt_while_the_command_line_is_imported_is_no_traceback() -> None:
    program = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'trainproof.cli.app':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['trainproof', 'watch', '.']\n"
        "from trainproof.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, b"trainproof: interrupted\n")
