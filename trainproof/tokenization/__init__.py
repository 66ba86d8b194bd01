"""Tokenizers: what they declare, and what they do to a text."""

from __future__ import annotations

import contextlib
import os

from msgspec.structs import replace

from trainproof.model.artifact import Run
from trainproof.model.data import Fault, FaultCode
from trainproof.model.inspection import Inspection, Requests
from trainproof.model.outcome import Value
from trainproof.model.progress import Amount, Beat
from trainproof.model.tokenizer import TextUse, Tokenizer
from trainproof.stores import StoreError, open_store
from trainproof.stores.compressed import decompressed, trouble_of
from trainproof.stores.watched import watched

from .loading import Loaded, Unencodable, load
from .measuring import Use, utterance

_LINE = 16 << 20


def inspect(run: Run, requests: Requests, beat: Beat) -> Inspection:
    """Load a tokenizer and use it on the text that the caller names."""
    asked = requests.tokenizer
    (artifact,) = run.artifacts
    found = load(os.path.join(run.root, artifact.path), artifact.path)
    if isinstance(found, Fault):
        return Inspection(None, faults=(found,))
    if asked.text is None:
        return Inspection(found.facts, measured(found.facts))
    try:
        use = text_use(found, asked.text, os.path.relpath(asked.text, run.root), beat)
    except Unencodable as error:
        use = Fault(FaultCode.IO, artifact.path, str(error), fatal=True)
    if isinstance(use, Fault):
        return Inspection(None, measured(found.facts), (use,))
    facts = replace(found.facts, text=use)
    return Inspection(facts, measured(facts))


def text_use(loaded: Loaded, path: str, artifact: str, beat: Beat) -> TextUse | Fault:
    """What the tokenizer does to the lines of a file, called ``artifact`` in the report."""
    use = Use(loaded, artifact, beat)
    number = 0
    try:
        opened = open_store(path).open(os.path.basename(path))
        size = opened.seek(0, os.SEEK_END)
        opened.seek(0)

        def told(place: int) -> None:
            beat(Amount(min(place, size), size, number))

        with contextlib.closing(decompressed(watched(opened, told), path)) as stream:
            while not use.full and (line := stream.readline(_LINE)):
                number += 1
                use.add(utterance(number, line.decode("utf-8", "replace")))
            trouble = trouble_of(stream)
    except StoreError as error:
        return Fault(FaultCode.IO, artifact, error.detail, fatal=True)
    if trouble is not None and trouble.fatal:
        return Fault(trouble.code, artifact, trouble.detail, fatal=True)
    found = use.found()
    if not found.tokens:
        detail = f"{number:,} lines and no token: nothing was measured (rows of data: preflight)"
        return Fault(FaultCode.CORRUPT, artifact, detail, fatal=True)
    return found


def measured(facts: Tokenizer) -> dict[str, Value]:
    """What a person wants to know of a tokenizer."""
    told: dict[str, Value] = {"tokenizer": facts.artifact, "library": str(facts.family)}
    told["largest_id"] = facts.size - 1
    if facts.embedding is not None:
        told["embedding_rows"] = facts.embedding
    if facts.model_max_length is not None:
        told["model_max_length"] = facts.model_max_length
    for one in facts.specials:
        if one.role is not None:
            told[f"{one.role}_token"] = f"{one.text} ({'?' if one.id is None else one.id})"
    told["adds_bos"], told["adds_eos"] = facts.adds_bos, facts.adds_eos
    if facts.template is not None:
        told["chat_template"] = f"{facts.template.source}, {facts.template.characters:,} characters"
    if facts.text is not None:
        told |= _of_text(facts.text)
    return told


def _of_text(text: TextUse) -> dict[str, Value]:
    told: dict[str, Value] = {
        "text": text.artifact,
        "text_lines": text.lines,
        "text_characters": text.characters,
        "text_tokens": text.tokens,
        "unknown_tokens": text.unknown,
        "characters_per_token": round(text.characters / text.tokens, 3) if text.tokens else 0.0,
        "tokens_per_word": round(text.tokens / text.words, 3) if text.words else 0.0,
    }
    if text.seconds:
        told["tokens_per_second"] = round(text.timed_tokens / text.seconds, 3)
    return told
