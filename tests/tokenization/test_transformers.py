"""What transformers saves and what it writes of a conversation is what is read and rendered here.

Skipped without transformers: it is no dependency of the tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.inspected import jsonl, measured, tokenizer
from tests.support.vocabularies import CHATML, bytes_bpe

transformers: Any = pytest.importorskip("transformers")
templates: Any = pytest.importorskip("trainproof.tokenization.templates")

MESSAGES = [
    {"role": "user", "content": " How deep do beans go? "},
    {"role": "assistant", "content": "Three centimetres."},
    {"role": "user", "content": "And peas?"},
    {"role": "assistant", "content": "The same."},
]
INSTRUCT = (
    "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] | trim %}\n"
    "    {%- set messages = messages[1:] %}\n"
    "{%- endif %}\n"
    "{{- bos_token }}\n"
    "{%- for message in messages %}\n"
    "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n"
    "        {{- raise_exception('roles must alternate') }}\n"
    "    {%- endif %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {{- '[INST] ' + (message['content'] | trim) + ' [/INST]' }}\n"
    "    {%- else %}\n"
    "        {% generation %}{{- ' ' + message['content'] + eos_token }}{% endgeneration %}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
)


TOOLS = [{"type": "function", "function": {"name": "dig", "parameters": {"depth": "é"}}}]
CALLING = [
    {"role": "user", "content": "Dig."},
    {
        "role": "assistant",
        "content": "",
        "reasoning_content": "It wants a hole.",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "dig", "arguments": {"depth": 3}}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "name": "dig", "content": "done"},
    {"role": "assistant", "content": "It is dug."},
]
WITH_TOOLS = (
    "{%- if tools %}{{ 'Tools:\n' + tools | tojson(indent=2) }}{%- endif %}\n"
    "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.reasoning_content %}{{ '<think>' + message.reasoning_content }}{%- endif %}"
    "{%- for call in message.tool_calls %}{{ call.function | tojson }}{%- endfor %}"
    "{%- if message.role == 'tool' %}{{ message.name + message.tool_call_id }}{%- endif %}"
    "{{ message.content + '<|im_end|>\n' }}{%- endfor %}"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = bytes_bpe(tmp_path_factory.mktemp("t"), adds=True)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(home / "tokenizer.json"),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        model_max_length=4096,
    )


@pytest.mark.parametrize("template", [CHATML, INSTRUCT])
def test_a_template_writes_what_transformers_writes(made: Any, template: str) -> None:
    expected = made.apply_chat_template(MESSAGES, chat_template=template, tokenize=False)
    renderer = templates.Renderer(template, made.bos_token, made.eos_token)
    assert renderer.render(MESSAGES) == expected
    with pytest.raises(templates.Refused):
        templates.Renderer(INSTRUCT, "<s>", "</s>").render(MESSAGES[1:])


def test_what_is_saved_is_read_as_it_was(made: Any, tmp_path: Path) -> None:
    made.chat_template = INSTRUCT
    made.save_pretrained(tmp_path / "saved")
    found = tokenizer(tmp_path / "saved")
    assert {str(one.role): one.id for one in found.specials if one.role is not None} == {
        "bos": made.bos_token_id,
        "eos": made.eos_token_id,
        "pad": made.pad_token_id,
    }
    assert (found.size, found.model_max_length) == (len(made), 4096)
    assert (found.adds_bos, found.adds_eos) == (True, True)
    assert found.template is not None
    assert (found.template.generation, found.template.writes_bos) == (True, True)


def test_tokens_that_were_added_are_beyond_the_embedding(made: Any, tmp_path: Path) -> None:
    rows = len(made)
    made.add_special_tokens({"additional_special_tokens": ["<|tool|>"]})
    made.save_pretrained(tmp_path / "saved")
    (tmp_path / "saved" / "config.json").write_text(json.dumps({"vocab_size": rows}))
    found = tokenizer(tmp_path / "saved")
    assert (found.size, found.embedding) == (rows + 1, rows)
    (tool,) = (one for one in found.specials if one.text == "<|tool|>")
    assert (tool.id, tool.pieces, tool.declared) == (rows, 1, True)


def test_conversations_are_as_long_as_transformers_says(made: Any, tmp_path: Path) -> None:
    made.chat_template = CHATML
    made.save_pretrained(tmp_path / "saved")
    path = jsonl(tmp_path / "a.jsonl", {"messages": MESSAGES[:2]}, {"messages": MESSAGES})
    found = measured(path, tokenizer=tmp_path / "saved").lengths
    assert found is not None
    text = made.apply_chat_template(MESSAGES, tokenize=False)
    assert found.longest == len(made(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("spelled", [False, True])
def test_tools_and_their_calls_are_rendered_too(made: Any, tmp_path: Path, spelled: bool) -> None:
    made.chat_template = WITH_TOOLS
    made.save_pretrained(tmp_path / "saved")
    declared = json.dumps(TOOLS) if spelled else TOOLS
    path = jsonl(tmp_path / "a.jsonl", {"messages": CALLING, "tools": declared})
    found = measured(path, tokenizer=tmp_path / "saved").lengths
    text = made.apply_chat_template(CALLING, tools=TOOLS, tokenize=False)
    assert "Tools:\n[\n  {" in text
    assert found is not None
    assert found.longest == len(made(text, add_special_tokens=False)["input_ids"])


def test_a_dataset_that_was_saved_to_disk_is_read_with_its_splits(tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    rows = [{"text": f"this is row number {number} of some"} for number in range(50)]
    train = datasets.Dataset.from_list(rows)
    test = datasets.Dataset.from_list([*rows[7:9], {"text": "something quite different here"}])
    datasets.DatasetDict(train=train, test=test).save_to_disk(str(tmp_path / "disk"))
    found = measured(tmp_path / "disk")
    assert (found.rows, found.held_out) == (50, 3)
    assert found.overlap is not None
    assert [str(spot) for spot in found.overlap.trained] == ["row 8", "row 9"]
