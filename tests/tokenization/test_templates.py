"""Templates of unknown origin are rendered where they can do no harm."""

from __future__ import annotations

import pytest

templates = pytest.importorskip("trainproof.tokenization.templates")

MESSAGES = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "say"}]


def render(template: str) -> str:
    text: str = templates.Renderer(template, "<s>", "</s>").render(MESSAGES)
    return text


def test_a_template_gets_messages_and_tokens() -> None:
    template = (
        "{{ bos_token }}{% for m in messages %}\n"
        "{%- if m.role == 'user' %}[{{ m.content | trim }}]\n"
        "{%- else %}{% generation %}{{ m.content }}{% endgeneration %}{{ eos_token }}{% endif %}\n"
        "{%- endfor %}{% if add_generation_prompt %}more{% endif %}"
    )
    assert render(template) == "<s>[ask]say</s>"


def test_what_templates_use_of_jinja_is_there() -> None:
    assert (
        render("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}x{% endfor %}")
        == "x"
    )
    assert render("{{ messages[0] | tojson }}") == '{"role": "user", "content": "ask"}'
    assert render("{{ [messages[0]] | tojson(indent=1) }}") == (
        '[\n {\n  "role": "user",\n  "content": "ask"\n }\n]'
    )
    assert render("{{ strftime_now('%Y') }}") == "01 Jan 2000"
    assert render("{{ 3 * 4 }}{% set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}") == "122"


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ ''.__class__ }}{{ (1).__class__.__base__ }}",
        "{{ messages.append(1) }}",
        "{{ 'x' * 10000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{{ 99999 * 99999 }}",
        "{{ messages | tojson(indent=100000000) }}",
        "{{ messages | tojson(separators=(', ' ~ messages, ': ')) }}",
        "{% for a in range(10000000) %}x{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(999) %}{{ messages }}{% endfor %}{% endfor %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ nothing.there }}",
        "{{ messages[0].content | format(1, 2) }}",
    ],
)
def test_what_a_template_must_not_do_is_refused(template: str) -> None:
    with pytest.raises(templates.Refused):
        render(template)


@pytest.mark.parametrize("template", ["{% for %}", "{{", "{% generation %}x", "{{ (" + "(" * 5000])
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(templates.Refused):
        templates.Renderer(template, "", "")
