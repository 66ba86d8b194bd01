"""Console text: what a training prints, in whatever form it prints it."""

from __future__ import annotations

from .reader import ConsoleText

__all__ = ["ConsoleText"]
