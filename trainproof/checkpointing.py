"""Walk a store for checkpoints, put together those that consist of several files, and say which
of them are compared, and which run keeps them.

A file counts as one by its name, or, where its name promises nothing, by its first bytes. What
the caller names is always judged.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from .checkpoints import Contents, assemble
from .checkpoints.recognise import layout_of
from .discover import LOG_SUFFIXES, NEVER_LOGS, WEIGHTS, pointed
from .model.artifact import Artifact, Content, Kind, Run, Unjudged
from .model.rule import SubjectKind
from .model.tensors import Layout
from .stores.interface import Entry, Passed, Store, StoreError
from .stores.regular import reason

READER = "checkpoint"
"""The name of all readers of checkpoints together: each file is given to the one it needs."""
_HEAD = 4096
_BESIDE = 20_000
"""Other files of a set's directory that are told to the worker that judges it."""

_PARTS = re.compile(r"\.metadata|_metadata|.+\.data-\d{5}-of-\d{5}|.+\.index")
_UNMISTAKABLE = frozenset({Layout.SAFETENSORS, Layout.GGUF, Layout.HDF5})
_FIRST_ENTRIES = (b"/data.pkl", b"/version", b"/constants.pkl", b"/byteorder", b"archive_format")

Found = Run | Unjudged | StoreError


def find(store: Store, root: str) -> Iterator[Found]:
    """The checkpoints below the root, one ``Run`` each; and what could not be opened."""
    artifacts: list[Artifact] = []
    others: list[str] = []
    walked = list(store.walk())
    asked = len(walked) == 1 and os.path.basename(os.path.normpath(root)) == walked[0].path
    for item in walked:
        match item:
            case Entry():
                looked = _look(store, root, item, asked)
                if isinstance(looked, Artifact):
                    artifacts.append(looked)
                    continue
                others.append(item.path)
                if looked is not None:
                    yield looked
            case Passed():
                yield Unjudged(root, item.path, item.content, item.detail)
            case StoreError():
                yield item
    yield from _grouped(root, artifacts, others)


def _look(
    store: Store, root: str, entry: Entry, asked: bool, known: bool = False
) -> Artifact | Unjudged | StoreError | None:
    """None for a file that nobody would take for a checkpoint. ``known``: whether only formats that
    are known count, whatever the name."""
    name = entry.path.rpartition("/")[2].lower()
    suffix = name.rpartition(".")[2] if "." in name else ""
    promised = suffix in WEIGHTS or _PARTS.fullmatch(name) is not None
    if not (asked or promised) and suffix in NEVER_LOGS | LOG_SUFFIXES:
        return None
    try:
        with store.open(entry.path) as stream:
            head = stream.read(_HEAD)
            size = stream.seek(0, os.SEEK_END) if entry.size is None else entry.size
    except StoreError as error:
        return error
    except OSError as error:
        return StoreError(entry.path, reason(error))
    foreign = known and layout_of(entry.path, head) is Layout.UNKNOWN
    vague = foreign or _is_vague(entry.path, head)
    if asked or (promised and not vague) or _unmistakable(head):
        return Artifact(root, entry.path, size, Kind.CHECKPOINT, READER)
    if promised:
        return Unjudged(root, entry.path, Content.UNSUPPORTED, "no known format of checkpoints")
    return None


def _is_vague(path: str, head: bytes) -> bool:
    """A generic name over a content that says nothing: most often not a checkpoint at all."""
    generic = path.lower().endswith((".bin", ".weights", ".index"))
    return generic and layout_of(path, head) is Layout.UNKNOWN


def _unmistakable(head: bytes) -> bool:
    """Whether the first bytes alone are those of a checkpoint; the name is not asked."""
    layout = layout_of("", head)
    if layout is Layout.TORCH_ZIP:
        length = int.from_bytes(head[26:28], "little")
        return head[30 : 30 + length].endswith(_FIRST_ENTRIES)
    return layout in _UNMISTAKABLE


# --- those of a run -------------------------------------------------------------------------------

_SAVED = frozenset(
    {"pt", "pth", "ckpt", "bin", "safetensors", "distcp", "gguf", "keras", "h5", "onnx", "pt2"}
)
"""Suffixes under which a training keeps checkpoints. What else bears them is told by a word in the
name, or else by the content."""
_DATA = re.compile(
    r"^(train|val|valid|test|dev)([._-]|$)|(^|[._-])(data|dataset|preds?|predictions?|logits|outputs?"
    r"|features?|samples?|targets?|labels?|cache|replay|buffer|latents?|activations?|hidden_states"
    r"|tokens|inputs?|masks?|images?)([._-]|$)"
)
"""Words in the names of tensors that were saved and are no state of a training."""
_OF_MODELS = frozenset({"ckpt", "distcp", "gguf", "keras", "onnx", "pt2"})
_PROMISE = re.compile(
    r"(?<![a-z])(models?|checkpoints?|ckpts?|chkpts?|weights?|(global_?)?step|iter(ation)?|epochs?|best"
    r"|last|latest|final|optim(izer)?|state_?dict|pretrained|ema|lora|adapter)(?![a-z])"
)
"""Words in the names of files that nobody gives to anything but a state of a training."""
_BIN = re.compile(
    r"(pytorch_model|adapter_model|diffusion_pytorch_model|optimizer|scheduler|sampler|training_args)"
    r"([._-].*)?\.bin"
)
"""Files of torch among all that are called ``.bin``."""
_PIECE = re.compile(r".+-\d{5}-of-\d{5}\.[a-z]+|.+\.bin")


def is_saved(path: str) -> bool:
    """Whether a file beside a log is taken for a checkpoint by its name."""
    name = path.rpartition("/")[2].lower()
    stem, _, suffix = name.rpartition(".")
    saved = suffix in _SAVED or _PARTS.fullmatch(name) is not None
    return saved and _DATA.search(stem) is None


def is_promised(run: Run) -> bool:
    """Whether the names of a checkpoint's files leave no doubt that it is one. Data are kept in
    pieces too; all other sets of files are none but those of a trainer."""
    paths = [artifact.path for artifact in run.artifacts]
    if any(map(_promises, paths)):
        return True
    return paths != [run.id] and not all(map(_PIECE.fullmatch, paths))


def _promises(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    suffix = name.rpartition(".")[2]
    if suffix == "bin":
        return _BIN.fullmatch(name) is not None
    return suffix in _OF_MODELS or _PROMISE.search(name) is not None


_NUMBER = re.compile(r"\d+")
_SERIES = 1000
"""Files of one name but for its numbers, which promises nothing: more are samples of data, and are
not opened to see."""


def find_among(
    store: Store, root: str, paths: Iterable[str], others: Sequence[str]
) -> Iterator[Found]:
    """The checkpoints that the files at ``paths`` are; ``others`` is all else below the root."""
    artifacts: list[Artifact] = []
    rest = list(others)
    paths = list(paths)
    series = Counter(_NUMBER.sub("*", path) for path in paths if not _promises(path))
    for path in paths:
        if series[_NUMBER.sub("*", path)] > _SERIES:
            rest.append(path)
            yield Unjudged(root, path, Content.SAVED_DATA)
            continue
        looked = _look(store, root, Entry(path), asked=False, known=True)
        if isinstance(looked, Artifact):
            artifacts.append(looked)
            continue
        rest.append(path)
        if isinstance(looked, StoreError) or (
            looked and _promises(path.rpartition("/")[2].lower())
        ):
            yield looked
    for run in _grouped(root, artifacts, rest):
        pointers = list(_pointers(store, run))
        fetched = not pointers or len(pointers) < len(run.artifacts)
        yield from (run,) if fetched else pointers


def _pointers(store: Store, run: Run) -> Iterator[Unjudged]:
    """Files that were left behind when the repository was cloned: whose fault that is, nobody
    knows who was not asked about them."""
    for one in run.artifacts:
        if one.size <= _POINTER_BYTES:
            with suppress(StoreError, OSError), store.open(one.path) as stream:
                detail = pointed(stream.read(_HEAD))
                if detail is not None:
                    yield Unjudged(run.root, one.path, Content.LFS_POINTER, detail)


_POINTER_BYTES = 1024
"""The specification of Git LFS: a pointer is shorter than this."""

_SAVES = re.compile(
    r"(ckpts?|checkpoints?|weights|models?|saves?|saved|saved_models?|snapshots?|global_step|step"
    r"|iter|iteration|epoch)([-_=]?\d+)?"
)
"""Names of directories for what a training saves, beside those for its logs."""


def homes(saved: Iterable[Run], runs: Iterable[Run]) -> dict[Run, Run]:
    """Each checkpoint and the run that keeps it: that of the nearest directory above it, or the
    only run that lies in that directory."""
    places: defaultdict[tuple[str, str], set[Run]] = defaultdict(set)
    named: dict[tuple[str, str], Run] = {}
    for run in runs:
        named[run.root, run.id] = run
        for path in {artifact.path for artifact in run.artifacts}:
            for directory in _above(path):
                places[run.root, directory].add(run)
    found = ((one, _home(one, named, places)) for one in saved)
    return {one: home for one, home in found if home is not None}


_Place = tuple[str, str]


def _home(one: Run, named: Mapping[_Place, Run], places: Mapping[_Place, set[Run]]) -> Run | None:
    alone = [artifact.path for artifact in one.artifacts] == [one.id]
    below = ""
    for directory in _above(one.id) if alone else (one.id, *_above(one.id)):
        key = one.root, directory
        if key in named:
            return named[key]
        if found := places.get(key):
            near = not below or _SAVES.fullmatch(below) is not None
            return next(iter(found)) if near and len(found) == 1 else None
        below = directory.rpartition("/")[2]
    return None


def _above(path: str) -> Iterator[str]:
    """The directories that a path lies in, nearest first, "." last."""
    while path:
        path = path.rpartition("/")[0]
        yield path or "."


# --- sets ---------------------------------------------------------------------------------------


def _grouped(root: str, artifacts: Sequence[Artifact], others: Sequence[str]) -> Iterator[Run]:
    """One for each directory that holds a set, and one for each file that is in none.

    Names alone decide: what files say is read in a worker.
    """
    by_path = {artifact.path: artifact for artifact in artifacts}
    paths = [*by_path, *others]
    sets: defaultdict[str, set[str]] = defaultdict(set)
    for one in assemble(paths, lambda _: None, Contents({})):
        sets[one.path].update(one.files)
    taken: set[str] = set()
    for directory, files in sorted(sets.items()):
        members = tuple(by_path[path] for path in sorted(files) if path in by_path)
        if members or not _holds_any(directory, by_path):
            taken.update(artifact.path for artifact in members)
            beside = tuple(_beside(directory, paths, members))
            yield Run(directory or ".", root, members, SubjectKind.CHECKPOINT, beside)
    yield from (_alone(one) for one in artifacts if one.path not in taken)


def _holds_any(directory: str, by_path: Mapping[str, Artifact]) -> bool:
    return any(path.rpartition("/")[0] == directory for path in by_path)


def _beside(directory: str, paths: Iterable[str], members: Sequence[Artifact]) -> Iterator[str]:
    prefix, own = f"{directory}/" if directory else "", {member.path for member in members}
    below = (path for path in paths if path.startswith(prefix) and path not in own)
    return (path for _, path in zip(range(_BESIDE), below, strict=False))


def _alone(artifact: Artifact) -> Run:
    return Run(artifact.path, artifact.root, (artifact,), SubjectKind.CHECKPOINT)


# --- which are compared -------------------------------------------------------------------------

_COUNTED = re.compile(
    r"(?<![a-z])(checkpoint|ckpt|global_step|step|iter|iteration|epoch)([-_=]?)(\d{1,18})(?!\d)",
    re.IGNORECASE,
)


def predecessors(runs: Iterable[Run]) -> dict[Run, Run]:
    """Each checkpoint whose name is that of another one but for a greater number of the training's
    steps or epochs, and the nearest such one."""
    chains: defaultdict[tuple[str, str], list[tuple[list[int], Run]]] = defaultdict(list)
    for run in runs:
        numbers = [int(found[3]) for found in _COUNTED.finditer(run.id)]
        if numbers:
            chains[run.root, _COUNTED.sub(r"\1\2*", run.id)].append((numbers, run))
    return {
        later: earlier
        for chain in chains.values()
        for (_, earlier), (_, later) in pairwise(sorted(chain, key=lambda one: one[0]))
    }


def counterparts(runs: Sequence[Run], references: Sequence[Run]) -> dict[Run, Run]:
    """Each checkpoint and the only reference, or else the one that lies at the same place below its
    root. A checkpoint is not compared with itself."""
    by_id = {one.id: one for one in references}
    (only,) = references if len(references) == 1 else (None,)
    found = {run: only or by_id.get(run.id) for run in runs}
    return {run: one for run, one in found.items() if one and files_of(one) != files_of(run)}


def files_of(run: Run) -> frozenset[str]:
    """Where its files really are: equal for two names of one run."""
    return frozenset(os.path.realpath(f"{one.root}/{one.path}") for one in run.artifacts)
