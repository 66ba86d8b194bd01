"""Everything that is written from declarations. ``python -m trainproof.docgen --check`` is a CI
step: what is generated must not differ from what is committed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from typer.main import get_command

from .cli.app import command_line
from .pages import exit_codes_table, report_schema_text, rules_md, skips_table

ROOT = Path(__file__).parent.parent
_BEGIN, _END = "<!-- generated: {} -->", "<!-- end generated -->"


def help_text() -> str:
    """What ``trainproof --help`` prints, at a width of 80 columns."""
    command = get_command(command_line())
    with command.make_context("trainproof", [], terminal_width=80, resilient_parsing=True) as ctx:
        return command.get_help(ctx) + "\n"


SECTIONS: Mapping[str, Callable[[], str]] = {
    "exit codes": exit_codes_table,
    "skips": skips_table,
}
"""Tables inside hand-written pages, between ``<!-- generated: NAME -->`` and its end."""

FILES: Mapping[str, Callable[[], str]] = {
    "RULES.md": rules_md,
    "schemas/report.schema.json": report_schema_text,
    "trainproof/cli/help.txt": help_text,
}


def with_sections(text: str) -> str:
    """``text`` with each generated section renewed. Raises ValueError for one without an end."""
    for name, make in SECTIONS.items():
        begin = _BEGIN.format(name)
        if begin in text:
            before, _, rest = text.partition(begin)
            _, end, after = rest.partition(_END)
            if not end:
                raise ValueError(f"section {name!r} has no end")
            text = f"{before}{begin}\n{make()}{_END}{after}"
    return text


def contents() -> dict[str, str]:
    """Path below the repository to what it must hold."""
    made = {name: make() for name, make in FILES.items()}
    for name in ("CONTRACTS.md", "README.md"):
        page = ROOT / name
        if page.is_file():
            made[name] = with_sections(page.read_text("utf-8"))
    return made


def stale() -> list[str]:
    return [
        name
        for name, text in contents().items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text("utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        names = stale()
        sys.stderr.writelines(f"stale: {n} (run: python -m trainproof.docgen)\n" for n in names)
        return int(bool(names))
    for name, text in contents().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
