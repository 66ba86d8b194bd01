"""Ctrl-C, from the first moment on, and with the exit code that the program chooses.

An exception that is raised wherever the program happens to be is lost in a finaliser or a callback:
so that it was asked to end is remembered as well.
"""

from __future__ import annotations

import signal
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Not the class itself: where that passes through ``exec`` of a text, as when a dataclass is
    made, the interpreter ends by SIGINT whatever exit code was asked for (CPython,
    ``unhandled_keyboard_interrupt``)."""


class Interrupts:
    """``asked``: whether somebody has asked the program to end."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self, *signals: signal.Signals) -> None:
        """From now on each of these raises Interrupted. One that whoever started the program
        has it ignore (nohup, a shell's background) stays ignored."""
        for one in signals:
            if signal.getsignal(one) is not signal.SIG_IGN:
                signal.signal(one, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        raise Interrupted


interrupts = Interrupts()
