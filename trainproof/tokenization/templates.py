"""Chat templates, rendered in Jinja's sandbox: they come with models of unknown origin.

The sandbox gives a template no attribute of Python's inside and no way to change what it is given;
loops over ``range`` are bounded by it, products and powers by us, and the output by its length.
What runs on for all that meets the deadline of the worker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_OUTPUT = 8 << 20
_LONGEST_PRODUCT = 1 << 20
_INDENT = 16
"""Characters of an indentation or a separator of JSON."""
_DATE = "01 Jan 2000"
"""What templates get for the date of today: the same every day."""


class _Generation(Extension):
    """``{% generation %}`` marks what the assistant says; the text is what is inside."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller: Any) -> Any:
        return caller()


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Products of numbers only, and no powers: nothing grows beyond bounds."""
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "**" or not (numbers and abs(left * right) < _LONGEST_PRODUCT):
            raise SecurityError("a product that is refused")
        return left * right


class Refused(Exception):
    """The template does not take the conversation."""


class Renderer:
    """One template. Raises Refused for one that is no template at all."""

    def __init__(self, template: str, bos: str, eos: str) -> None:
        self._tokens = {"bos_token": bos, "eos_token": eos}
        environment: Environment = _Sandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda _: _DATE
        try:
            self._template = environment.from_string(template)
        except (TemplateError, RecursionError) as error:
            raise Refused(str(error)) from None

    def render(self, messages: Sequence[dict[str, Any]], tools: Any = None) -> str:
        """The text of a conversation. ``tools``: the declared ones, a list or the JSON of one.
        Raises Refused."""
        length, parts = 0, []
        try:
            for part in self._template.generate(
                messages=list(messages),
                tools=_listed(tools),
                documents=None,
                add_generation_prompt=False,
                **self._tokens,
            ):
                length += len(part)
                if length > _OUTPUT:
                    raise Refused("it writes without end")
                parts.append(part)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001 - a template can raise whatever it calls
            raise Refused(f"{type(error).__name__}: {error}"[:200]) from None
        return "".join(parts)


def _listed(tools: Any) -> Any:
    """None for what is no list with tools, as trainers have it."""
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError):
            return None
    return tools if isinstance(tools, list) and tools else None


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers has it. What is asked for comes from the template, and has bounds."""
    wide = indent is not None and not 0 <= int(indent) <= _INDENT
    if wide or (separators is not None and any(len(one) > _INDENT for one in separators)):
        raise SecurityError("an indentation that is refused")
    return json.dumps(
        value,
        ensure_ascii=bool(ensure_ascii),
        indent=None if indent is None else int(indent),
        separators=separators,
        sort_keys=bool(sort_keys),
    )


def _refuse(message: object) -> None:
    raise TemplateError(str(message))
