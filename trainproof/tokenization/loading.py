"""Tokenizers from files, by the libraries that wrote them. Nothing is looked up on a network."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from trainproof.model.data import Fault, FaultCode
from trainproof.model.tokenizer import Family, Special, SpecialToken, Template, Tokenizer

from .building import built
from .classes import FILES
from .settings import Beside, beside, text_of

_MAX_SIZE = 512 << 20
_THREADS = 4
"""Of a library. One for each of many cores takes more addresses than a worker may have."""
_MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
_SLOW = ("vocab.txt", "vocab.json", "merges.txt")
"""Vocabularies of which a class knows how a text is taken apart before they are asked."""
_UNREAD = ("tekken.json", "*.tiktoken")
_TIKTOKEN = re.compile(rb"[A-Za-z0-9+/]{2,}={0,2} \d+\r?\n")
_MENDS = "save_pretrained() of transformers' AutoTokenizer writes a tokenizer.json from it"
_DIGITS = re.compile(r"[^\w]*[_▁Ġ]?\d{2,}")
_LETTERS = re.compile(r"(?:##|[_▁Ġ])?[^\W\d_]{2,}")
_GENERATION = re.compile(r"\{%-?\s*generation\b")
_WRITTEN = re.compile(r"<\|[^|<>\s]{1,60}\|>|<｜[^｜<>\s]{1,60}｜>|<(?:start|end)_of_turn>")
"""Tokens as chat templates spell them."""
_WRITTEN_MOST = 100


class Unencodable(Exception):
    """The library refuses a text: its vocabulary lacks a word, and the token for unknown ones."""


class Encoder(Protocol):
    """What the rest needs of a vocabulary. ``special``: with what encoding adds by itself. Both
    ways of encoding raise Unencodable."""

    def encode(self, text: str, special: bool = False) -> list[int]: ...

    def batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def id_of(self, token: str) -> int | None: ...


class Loaded(msgspec.Struct, frozen=True):
    """A tokenizer that works. ``unknown``: the id of its unknown token. ``template``: the text of
    the chat template. ``digitwise``: no token holds two digits, ``charwise``: nor two letters.
    ``spells``: words that it does not know are spelled in smaller parts."""

    facts: Tokenizer
    encoder: Encoder
    unknown: int | None
    template: str | None
    digitwise: bool
    spells: bool = True
    charwise: bool = False
    bos: str = ""
    eos: str = ""


def load(path: str, artifact: str, template: str | None = None) -> Loaded | Fault:
    """The tokenizer at ``path``: a ``tokenizer.json``, a SentencePiece model, or a directory
    that holds one. ``template``: a file with the chat template to take instead of its own."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(_THREADS))
    try:
        place = _place(path)
        said = beside(place.directory)
        found = _read(place, said)
        if place.file is None:  # they are in it by now, under the numbers that the library gave
            said = replace(said, added={})
    except _Unread as error:
        return _fault(artifact, str(error))
    except ImportError as error:
        detail = f"needs trainproof[tokenizers]: {error.name} is not installed"
        return _fault(artifact, detail)
    except Exception as error:  # noqa: BLE001 - the libraries raise bare Exception
        detail = f"cannot be loaded: {type(error).__name__}: {error}"[:300]
        return Fault(FaultCode.CORRUPT, artifact, detail, fatal=True)
    shown = _chosen_template(said, template)
    if isinstance(shown, str):
        return _fault(artifact, shown)
    try:
        return _loaded(found, said, shown, artifact)
    except Unencodable as error:
        return _fault(artifact, str(error))


def _fault(artifact: str, detail: str) -> Fault:
    return Fault(FaultCode.IO, artifact, detail, fatal=True)


class _Unread(Exception):
    """What is there is not read; the text says what it is, and what to do."""


class _Place(msgspec.Struct, frozen=True):
    """``file``: the one that holds the whole vocabulary, None where a class reads it of several."""

    directory: str
    file: str | None


def _place(path: str) -> _Place:
    """Raises _Unread."""
    home = os.path.abspath(path)
    if os.path.isfile(home):
        directory, name = os.path.split(home)
        return _Place(directory, None if name in _SLOW else home)
    if not os.path.isdir(home):
        raise _Unread("no such file (names of a hub are not looked up: give a path)")
    names = sorted(os.listdir(home))
    for name in ("tokenizer.json", *_MODELS):
        if name in names:
            return _Place(home, os.path.join(home, name))
    if any(name in names for name in _SLOW):
        return _Place(home, None)
    models = fnmatch.filter(names, "*.model")
    if len(models) == 1:  # as spm_train names what it writes
        return _Place(home, os.path.join(home, models[0]))
    for pattern in _UNREAD:
        for name in fnmatch.filter(names, pattern):
            return _Place(home, os.path.join(home, name))
    raise _Unread("holds no tokenizer.json and no other vocabulary that is known")


def _read(place: _Place, said: Beside) -> _Vocabulary:
    """Raises _Unread, ImportError, and what the libraries raise."""
    if place.file is None:
        return _of_class(place.directory, said)
    _bounded(place.file)
    with open(place.file, "rb") as file:
        head = file.read(512)
    if head.startswith(b"version https://git-lfs"):
        raise _Unread(f"{os.path.basename(place.file)} is a Git LFS pointer: git lfs pull gets it")
    if os.path.basename(place.file) == "tekken.json":
        raise _Unread(f"tekken.json is read by mistral-common only: {_MENDS}")
    if _TIKTOKEN.match(head):
        name = os.path.basename(place.file)
        told = "a tiktoken vocabulary: how it takes text apart is in the code around it"
        raise _Unread(f"{name} is {told}. {_MENDS}")
    if head.lstrip()[:1] == b"{":
        return _huggingface(place.file)
    return _sentencepiece(place.file)


def _bounded(path: str) -> None:
    if os.path.getsize(path) > _MAX_SIZE:
        raise _Unread(f"{os.path.basename(path)} is larger than {_MAX_SIZE >> 20} MiB")


def _of_class(directory: str, said: Beside) -> _Vocabulary:
    """A vocabulary as the class of transformers reads it that the files beside it name."""
    build, name = said.declared.build, said.declared.name
    there = [name for name in _SLOW if os.path.isfile(os.path.join(directory, name))]
    if build is None:
        if name:
            told = f"is read by {name}, which is not known here: {_MENDS}"
        else:
            told = "has no class: tokenizer_class in tokenizer_config.json, or model_type in"
            told = f"{told} config.json, says which one reads it"
        raise _Unread(f"{', '.join(there)} {told}")
    for needed in FILES[build]:
        if needed not in there:
            raise _Unread(f"{name} reads {' and '.join(FILES[build])}, and there is no {needed}")
        _bounded(os.path.join(directory, needed))
    return _rust(built(directory, said, build))


def _chosen_template(said: Beside, path: str | None) -> tuple[str, str] | str | None:
    """The text of the template and where it is from; a sentence where it cannot be had."""
    if path is not None:
        text = text_of(path)
        return f"the template {path} cannot be read" if text is None else (text, path)
    return None if said.template is None else (said.template, said.template_source)


class _Vocabulary(msgspec.Struct, frozen=True):
    """``unknown`` and ``roles`` as the vocabulary itself has them."""

    encoder: Encoder
    family: Family
    size: int
    total: bool
    digitwise: bool
    charwise: bool
    spells: bool
    unknown: int | None
    roles: dict[Special, tuple[str, int]]


def _loaded(
    found: _Vocabulary, said: Beside, template: tuple[str, str] | None, artifact: str
) -> Loaded:
    of_class = {
        role: text
        for role, text in said.declared.defaults.items()
        if found.encoder.id_of(text) is not None
    }
    of_model = {role: text for role, (text, _) in found.roles.items()}
    roles = of_model | of_class | dict(said.roles)
    bos, eos = roles.get(Special.BOS, ""), roles.get(Special.EOS, "")
    written = template[0] if template else ""
    adds = _adds(found, said, roles)
    size = max((found.size, *(id + 1 for id in said.added.values())))
    facts = Tokenizer(
        artifact=artifact,
        family=found.family,
        declares=said.found or bool(of_class) or found.family is Family.SENTENCEPIECE,
        size=size,
        total=found.total,
        adds_bos=adds[0],
        adds_eos=adds[1],
        framing=_framing(found, adds),
        add_eos=said.add_eos,
        specials=tuple(_specials(found, roles, said, written)),
        embedding=said.embedding,
        model_max_length=said.model_max_length,
        template=_shown(template, bos),
    )
    return Loaded(
        facts=facts,
        encoder=found.encoder,
        unknown=found.unknown,
        template=written or None,
        digitwise=found.digitwise,
        charwise=found.charwise,
        spells=found.spells,
        bos=bos,
        eos=eos,
    )


def _shown(template: tuple[str, str] | None, bos: str) -> Template | None:
    if template is None:
        return None
    text, source = template
    return Template(
        source=source,
        generation=bool(_GENERATION.search(text)),
        writes_bos="bos_token" in text or (bool(bos) and bos in text),
        characters=len(text),
    )


def _adds(found: _Vocabulary, said: Beside, roles: dict[Special, str]) -> tuple[bool, bool]:
    """Whether encoding begins with the beginning of text and ends with its end."""
    if found.family is Family.SENTENCEPIECE:  # the library that wraps it adds them
        begins = said.declared.begins if said.add_bos is None else said.add_bos
        return begins, said.declared.ends if said.add_eos is None else said.add_eos
    ids = found.encoder.encode("a", special=True)
    bos, eos = (found.encoder.id_of(roles.get(r, "")) for r in (Special.BOS, Special.EOS))
    return bos is not None and ids[:1] == [bos], eos is not None and ids[-1:] == [eos]


def _framing(found: _Vocabulary, adds: tuple[bool, bool]) -> int:
    """Tokens that are put around one text."""
    if found.family is Family.SENTENCEPIECE:
        return sum(adds)
    return len(found.encoder.encode("a", special=True)) - len(found.encoder.encode("a"))


def _specials(
    found: _Vocabulary, roles: dict[Special, str], said: Beside, template: str
) -> Iterator[SpecialToken]:
    """Those with a role, those without, and those that only the template names."""
    for role, text in roles.items():
        yield _special(found, said, text, role)
    known = set(roles.values())
    for text in said.extra:
        if text not in known:
            yield _special(found, said, text, None)
    written = dict.fromkeys(_WRITTEN.findall(template))
    for text in list(written)[:_WRITTEN_MOST]:
        if text not in known and text not in said.extra:
            yield _special(found, said, text, None, declared=False)


def _special(
    found: _Vocabulary, said: Beside, text: str, role: Special | None, declared: bool = True
) -> SpecialToken:
    """A piece that is in the vocabulary and that encoding does not give is split all the same;
    but for SentencePiece, which leaves control symbols to the library around it. That library adds
    declared tokens, too: some classes keep rows of the embedding for theirs (XLM-R, T5)."""
    id = found.encoder.id_of(text)
    if text in said.added:
        return SpecialToken(text, role, said.added[text] if id is None else id, 1, declared)
    pieces = found.encoder.encode(text)
    around = found.family is Family.SENTENCEPIECE and (
        id is not None or (declared and said.room(found.size))
    )
    whole = around or (id is not None and id in pieces)
    return SpecialToken(text, role, id, 1 if whole else max(2, len(pieces)), declared)


# --- tokenizer.json -------------------------------------------------------------------------


class _Rust:
    """A tokenizer of the ``tokenizers`` library."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def encode(self, text: str, special: bool = False) -> list[int]:
        try:
            return list(self._inner.encode(text, add_special_tokens=special).ids)
        except Exception as error:  # noqa: BLE001 - the library raises it as it is
            raise Unencodable(f"cannot encode a text: {error}"[:300]) from None

    def batch(self, texts: Sequence[str]) -> list[list[int]]:
        try:
            found = self._inner.encode_batch(list(texts), add_special_tokens=False)
        except Exception as error:  # noqa: BLE001 - the library raises it as it is
            raise Unencodable(f"cannot encode a text: {error}"[:300]) from None
        return [list(one.ids) for one in found]

    def id_of(self, token: str) -> int | None:
        id: int | None = self._inner.token_to_id(token) if token else None
        return id


def _huggingface(path: str) -> _Vocabulary:
    return _rust(import_module("tokenizers").Tokenizer.from_file(path))


def _rust(tokenizer: Any) -> _Vocabulary:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    model = tokenizer.model
    kind = type(model).__name__
    unknown = "<unk>" if kind == "Unigram" else getattr(model, "unk_token", None)
    byte_level = "ByteLevel" in repr(tokenizer.pre_tokenizer) + repr(tokenizer.decoder)
    return _Vocabulary(
        encoder=_Rust(tokenizer),
        family=Family.TOKENIZERS,
        size=1 + max(vocabulary.values(), default=-1),
        total=byte_level or bool(getattr(model, "byte_fallback", False)),
        digitwise=not any(map(_DIGITS.fullmatch, vocabulary)),
        charwise=kind != "WordLevel" and not any(map(_LETTERS.fullmatch, vocabulary)),
        spells=kind != "WordLevel",
        unknown=vocabulary.get(unknown) if unknown else None,
        roles={},
    )


# --- SentencePiece --------------------------------------------------------------------------


class _Pieces:
    """A SentencePiece model."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def encode(self, text: str, special: bool = False) -> list[int]:
        return list(self._inner.encode(text, add_bos=special, add_eos=special))

    def batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(one) for one in self._inner.encode(list(texts), num_threads=_THREADS)]

    def id_of(self, token: str) -> int | None:
        if not token:
            return None
        id = int(self._inner.piece_to_id(token))
        return id if self._inner.id_to_piece(id) == token else None


def _sentencepiece(path: str) -> _Vocabulary:
    inner: Any = import_module("sentencepiece").SentencePieceProcessor()
    inner.load(path)
    size = int(inner.get_piece_size())
    pieces = [inner.id_to_piece(id) for id in range(size)]
    ids = {
        Special.BOS: int(inner.bos_id()),
        Special.EOS: int(inner.eos_id()),
        Special.PAD: int(inner.pad_id()),
        Special.UNK: int(inner.unk_id()),
    }
    return _Vocabulary(
        encoder=_Pieces(inner),
        family=Family.SENTENCEPIECE,
        size=size,
        total=any(inner.is_byte(id) for id in range(min(size, 300))),
        digitwise=not any(map(_DIGITS.fullmatch, pieces)),
        charwise=not any(map(_LETTERS.fullmatch, pieces)),
        spells=True,
        unknown=ids[Special.UNK],
        roles={role: (inner.id_to_piece(id), id) for role, id in ids.items() if id >= 0},
    )
