"""What is run in the interpreter that is going to run the training: read as text, for ``-c``.

It must work in every Python from 3.8 on. Until the user's module is imported it uses built-in
modules only: any other could be shadowed by a file of the user's.

Arguments: the descriptor to answer on, then ``import MODULE SECONDS`` (after which to say where it
is) or ``packages NAME...``. The answer is made of fields that end in NUL.
"""

from __future__ import annotations

import os
import sys

FIELD = 2000


def answer(*fields: object) -> None:
    text = "".join(str(field)[:FIELD].replace("\0", "") + "\0" for field in fields)
    os.write(int(sys.argv[1]), text.encode("utf-8", "backslashreplace"))


def place(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost frame of the user's own, or else of the innermost that has a
    file; of what could not be parsed, its own."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    home, inner, own, trace = os.getcwd() + os.sep, ("", 0), ("", 0), error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<"):
            inner = name, trace.tb_lineno
        if name.startswith(home) and "site-packages" not in name:
            own = inner
        trace = trace.tb_next
    return own if own[0] else inner


def named(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def import_it(module: str, seconds: str) -> None:
    import faulthandler  # noqa: PLC0415 - built in

    faulthandler.enable()
    faulthandler.dump_traceback_later(float(seconds))
    try:
        __import__(module)
    except BaseException as error:  # noqa: BLE001 - whatever the user's module raises
        answer("raised", named(type(error)), error, *place(error))
        os._exit(1)
    answer("imported")
    os._exit(0)  # threads and exit handlers of the module are not what was asked about


def packages(names: list[str]) -> None:
    sys.path[:] = [path for path in sys.path if path]
    from importlib import metadata  # noqa: PLC0415

    for name in names:
        try:
            answer(name, metadata.version(name))
        except Exception:  # noqa: BLE001 - not installed, or its metadata are broken
            continue
    major, minor, micro = sys.version_info[:3]
    answer("python", f"{major}.{minor}.{micro}")


if sys.argv[2] == "import":
    import_it(*sys.argv[3:])
else:
    packages(sys.argv[3:])
