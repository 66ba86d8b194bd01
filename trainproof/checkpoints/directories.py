"""Files that are one checkpoint together, and whether all of them are there. Pure.

Works on names, sizes, a few small text files, and what was read of each file; so that a set is
judged in the same way wherever it is stored.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from trainproof.model.tensors import (
    CheckpointDirectory,
    Defect,
    DefectCode,
    DirectoryKind,
    Scalar,
    TensorInfo,
)

_MAX_JSON = 64 << 20

Text = Callable[[str], bytes | None]
"""The bytes of a small file by its path, None where it is not there or too large."""


class Contents(msgspec.Struct, frozen=True):
    """The tensors that were read of each file, by path."""

    tensors: Mapping[str, Sequence[TensorInfo]]

    def names(self, path: str) -> set[str] | None:
        """None where the file was not read."""
        found = self.tensors.get(path)
        return None if found is None else {info.name for info in found}


def assemble(paths: Iterable[str], text: Text, contents: Contents) -> list[CheckpointDirectory]:
    """The sets among files, by directory. ``paths``: all files of a store, POSIX, relative."""
    directories: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        directory, _, name = path.rpartition("/")
        directories[directory].append(name)
    tree = _Tree({key: sorted(names) for key, names in directories.items()}, text, contents)
    made = [one for directory in sorted(directories) for one in _sets(tree, directory)]
    parents = {key.rpartition("/")[0] for key in directories if key}
    made += [one for parent in sorted(parents - set(directories)) for one in _sets(tree, parent)]
    return made


class _Tree(msgspec.Struct, frozen=True):
    names: Mapping[str, Sequence[str]]
    text: Text
    contents: Contents

    def files(self, directory: str) -> Sequence[str]:
        return self.names.get(directory, ())

    def children(self, directory: str) -> list[str]:
        """Names of the directories just below."""
        prefix = f"{directory}/" if directory else ""
        below = {
            key[len(prefix) :].partition("/")[0] for key in self.names if key.startswith(prefix)
        }
        return sorted(below - {""})

    def json(self, directory: str, name: str) -> object:
        """None where there is no such file, or no JSON in it."""
        if name not in self.files(directory):
            return None
        data = self.text(_path(directory, name))
        try:
            return json.loads(data) if data is not None and len(data) <= _MAX_JSON else None
        except (ValueError, RecursionError):
            return None

    def line(self, directory: str, name: str) -> str | None:
        """The first line of a text file."""
        data = self.text(_path(directory, name)) if name in self.files(directory) else None
        return None if data is None else data[:200].decode("utf-8", "replace").strip()


def _path(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _sets(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    for check in _CHECKS:
        yield from check(tree, directory)


def parts_among(paths: Iterable[str]) -> set[str]:
    """Files that are read together with another one, which lists what is in them."""
    there = set(paths)
    return {path for path in there if _lister(path) in there}


def _lister(path: str) -> str | None:
    directory, _, name = path.rpartition("/")
    if _CHUNK.fullmatch(name):
        return _path(directory, ".metadata")
    match = _TF_DATA.fullmatch(name)
    return _path(directory, f"{match['stem']}.index") if match else None


# --- shards -----------------------------------------------------------------------------------

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<end>\.[a-z]+)")
_INDEX = ".index.json"


def _sharded(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``model-00001-of-00003.safetensors`` and its like, with or without an index."""
    shards: defaultdict[tuple[str, str, int], dict[int, str]] = defaultdict(dict)
    for name in tree.files(directory):
        match = _SHARD.fullmatch(name)
        if match:
            key = (match["stem"], match["end"], int(match["count"]))
            shards[key][int(match["number"])] = name
    indices = [name for name in tree.files(directory) if name.endswith(_INDEX)]
    stems = {(stem, end) for stem, end, _ in shards}
    for name in indices:
        stem, dot, end = name.removesuffix(_INDEX).rpartition(".")
        stems.add((stem, dot + end))
    for stem, end in sorted(stems):
        index = f"{stem}{end}{_INDEX}"
        groups = {count: names for (s, e, count), names in shards.items() if (s, e) == (stem, end)}
        yield _shard_set(tree, directory, index if index in indices else None, groups)


def _shard_set(
    tree: _Tree, directory: str, index: str | None, groups: Mapping[int, Mapping[int, str]]
) -> CheckpointDirectory:
    present = sorted(name for names in groups.values() for name in names.values())
    defects = list(_numbering(groups))
    if index is not None:
        defects += _against_index(tree, directory, index, present)
    files = [*([index] if index else []), *present]
    defects += _twice(tree, directory, present)
    unique = tuple(dict.fromkeys(defects))
    paths = tuple(_path(directory, name) for name in files)
    return CheckpointDirectory(directory, DirectoryKind.SHARDED, paths, None, unique)


def _there(present: int, count: int, noun: str) -> str:
    """``1 of 2 shards is there``."""
    return (
        f"{present} of {count} {noun}{'s' * (count != 1)} {'is' if present == 1 else 'are'} there"
    )


def _numbering(groups: Mapping[int, Mapping[int, str]]) -> Iterator[Defect]:
    for count, names in groups.items():
        missing = [number for number in range(1, min(count, 10_000) + 1) if number not in names]
        if missing:
            shown = ", ".join(map(str, missing[:8]))
            what = f"{_there(len(names), count, 'shard')}; missing: {shown}"
            yield Defect(DefectCode.SHARD_MISSING, what)
    if len(groups) > 1:
        what = f"shards of several sets: of {' and of '.join(map(str, sorted(groups)))}"
        yield Defect(DefectCode.SHARD_EXTRA, what)


def _against_index(
    tree: _Tree, directory: str, index: str, present: Sequence[str]
) -> Iterator[Defect]:
    """Index, files and headers, in both directions."""
    given = tree.json(directory, index)
    listed = given.get("weight_map") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(listed, dict):
        yield Defect(DefectCode.HEADER, "the index is no JSON with a weight_map", index)
        return
    by_file: defaultdict[str, set[str]] = defaultdict(set)
    for tensor, name in listed.items():
        by_file[str(name)].add(tensor)
    existing = set(tree.files(directory))
    for name in sorted(by_file):
        if name not in existing:
            yield Defect(
                DefectCode.SHARD_MISSING,
                f"the index lists {len(by_file[name])} tensors in it",
                name,
            )
    for name in present:
        if name not in by_file:
            yield Defect(DefectCode.SHARD_EXTRA, "the index lists no tensor in it", name)
    for name in sorted(by_file):
        held = tree.contents.names(_path(directory, name))
        if held is not None:
            yield from _tensors(name, by_file[name], held)
    yield from _total(tree, directory, given, sorted(by_file))


def _tensors(name: str, listed: set[str], held: set[str]) -> Iterator[Defect]:
    absent, unlisted = sorted(listed - held), sorted(held - listed)
    if absent:
        what = f"{len(absent)} tensors of the index are not in the file, first: {absent[0][:200]}"
        yield Defect(DefectCode.INDEX_TENSOR_ABSENT, what, name)
    if unlisted:
        what = f"{len(unlisted)} tensors are not in the index, first: {unlisted[0][:200]}"
        yield Defect(DefectCode.INDEX_TENSOR_UNLISTED, what, name)


def _total(
    tree: _Tree, directory: str, given: Mapping[str, object], names: Sequence[str]
) -> Iterator[Defect]:
    metadata = given.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    read = [tree.contents.tensors.get(_path(directory, name)) for name in names]
    if not isinstance(total, int) or any(one is None for one in read):
        return
    size = sum(info.nbytes for one in read if one for info in one)
    if size != total:
        yield Defect(DefectCode.INDEX_SIZE, f"total_size is {total}, the tensors have {size} bytes")


def _twice(tree: _Tree, directory: str, names: Sequence[str]) -> Iterator[Defect]:
    """A tensor in two files of one set: loaders keep whichever comes last."""
    first: dict[str, str] = {}
    for name in names:
        for tensor in sorted(tree.contents.names(_path(directory, name)) or ()):
            if first.setdefault(tensor, name) != name:
                what = f"{tensor[:200]} is in {first[tensor]} as well"
                yield Defect(DefectCode.TENSOR_TWICE, what, name)
                break


# --- directories of trainers --------------------------------------------------------------------

_NUMBERED = re.compile(r"(?:checkpoint|global_step|iter|step|epoch|ckpt)[-_]?0*(\d+)")
_WEIGHTS = re.compile(
    r"(model|pytorch_model|adapter_model|diffusion_pytorch_model)(-\d{5}-of-\d{5}|\.fp16)?"
    r"\.(safetensors|bin)"
)


def step_of(directory: str) -> int | None:
    """The number in the name of a directory."""
    match = _NUMBERED.fullmatch(directory.rpartition("/")[2])
    return int(match[1]) if match else None


def _pretrained(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``save_pretrained`` of transformers: weights, and what kind of model they are of."""
    files = tree.files(directory)
    own = [n for n in files if _WEIGHTS.fullmatch(n) and not n.startswith("adapter_model")]
    if _CONFIG not in files or not own:
        return
    paths = tuple(_path(directory, name) for name in (_CONFIG, *own))
    said = _said(tree, directory, _CONFIG)
    yield CheckpointDirectory(
        directory, DirectoryKind.PRETRAINED, paths, step_of(directory), (), said
    )


_CONFIG, _ADAPTER_CONFIG, _TRAINER_STATE = (
    "config.json",
    "adapter_config.json",
    "trainer_state.json",
)
_SAID = 512
"""Values of one file that are kept."""


def _said(tree: _Tree, directory: str, name: str) -> tuple[Scalar, ...]:
    """What a JSON file says at its outermost level."""
    given = tree.json(directory, name)
    found = _values(name, given if isinstance(given, dict) else {})
    return tuple(one for _, one in zip(range(_SAID), found, strict=False))


def _values(name: str, given: Mapping[str, object]) -> Iterator[Scalar]:
    """Scalars as they are, lists of scalars one by one, objects by the number of their keys."""
    for key, value in given.items():
        path = f"{name}/{key}"[:_SAID]
        if isinstance(value, dict):
            yield Scalar(path, len(value))
        elif isinstance(value, list):
            yield from (
                Scalar(f"{path}/{place}", one)
                for place, one in enumerate(value[:_SAID])
                if isinstance(one, int | float | bool | str)
            )
        elif isinstance(value, int | float | bool | str):
            yield Scalar(path, value[:_SAID] if isinstance(value, str) else value)


def _has_weights(tree: _Tree, directory: str) -> bool:
    """Also in directories of their own, where diffusers keeps each model of a pipeline."""
    children = tree.children(directory)
    if any(child.startswith(("global_step", "pytorch_model_fsdp")) for child in children):
        return True
    places = (directory, *(_path(directory, child) for child in children))
    return any(_WEIGHTS.fullmatch(name) for place in places for name in tree.files(place))


def _missing(names: Iterable[str], present: Iterable[str]) -> Iterator[Defect]:
    there = set(present)
    for name in names:
        if name not in there:
            yield Defect(DefectCode.FILE_MISSING, "it is not in the directory", name)


_STATES = frozenset({"optimizer.pt", "scheduler.pt", "scaler.pt"})


def _trainer(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``checkpoint-N`` of transformers: what a resume needs. Weights beside no state at all are
    what ``save_only_model`` leaves, and ``save_model`` at the end of a training."""
    files = tree.files(directory)
    marks = {"trainer_state.json", "optimizer.pt", "training_args.bin", "scheduler.pt"} & set(files)
    if len(marks) < 2:
        return
    children = tree.children(directory)
    sharded = any(child.startswith(("global_step", "optimizer_")) for child in children)
    needed = (
        ["trainer_state.json"]
        if sharded
        else ["trainer_state.json", "optimizer.pt", "scheduler.pt"]
    )
    random = any(name.startswith("rng_state") for name in files)
    weights = _has_weights(tree, directory)
    resumes = sharded or random or not weights or not _STATES.isdisjoint(files)
    defects = list(_missing(needed, files)) if resumes else []
    if resumes and not random:
        defects.append(
            Defect(DefectCode.FILE_MISSING, "it is not in the directory", "rng_state.pth")
        )
    if not weights:
        defects.append(Defect(DefectCode.FILE_MISSING, "no file of weights is there", "model"))
    yield _made(tree, directory, DirectoryKind.TRAINER, defects, _TRAINER_STATE)


def _accelerate(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``save_state`` of accelerate."""
    files = tree.files(directory)
    if "optimizer.bin" not in files and not any(n.startswith("random_states_") for n in files):
        return
    defects = list(_missing(["random_states_0.pkl"], files))
    if not _has_weights(tree, directory):
        defects.append(Defect(DefectCode.FILE_MISSING, "no file of weights is there", "model"))
    yield _made(tree, directory, DirectoryKind.ACCELERATE, defects)


def _adapter(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """An adapter of peft: its weights mean nothing without its configuration."""
    files = tree.files(directory)
    weights = [name for name in files if name.startswith("adapter_model.")]
    if not weights and "adapter_config.json" not in files:
        return
    defects = list(_missing(["adapter_config.json"], files))
    if not weights:
        defects.append(
            Defect(DefectCode.FILE_MISSING, "no file of weights is there", "adapter_model")
        )
    yield _made(tree, directory, DirectoryKind.ADAPTER, defects, _ADAPTER_CONFIG)


def _diffusers(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """A pipeline: each of its components is a directory."""
    index = tree.json(directory, "model_index.json")
    if not isinstance(index, dict):
        return
    parts = [
        key
        for key, value in index.items()
        if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
    ]
    defects = list(_missing(parts, tree.children(directory)))
    yield _made(tree, directory, DirectoryKind.DIFFUSERS, defects)


def _made(
    tree: _Tree,
    directory: str,
    kind: DirectoryKind,
    defects: Iterable[Defect],
    document: str | None = None,
) -> CheckpointDirectory:
    """``document``: the JSON file in which the writer says what this is."""
    files = tuple(_path(directory, name) for name in tree.files(directory))
    said = () if document is None else _said(tree, directory, document)
    return CheckpointDirectory(directory, kind, files, step_of(directory), tuple(defects), said)


# --- distributed --------------------------------------------------------------------------------

_ZERO = re.compile(
    r"(?:bf16_|fp16_)?zero_pp_rank_(?P<rank>\d+)_mp_rank_(?P<part>\d+)_?(?P<what>optim|model)_states\.pt"
)
_MODEL_PART = re.compile(r"mp_rank_(\d+)(?:_\d+)?(?:_model_states\.pt)?")
_CHUNK = re.compile(r"__(\d+)_(\d+)\.distcp")


def _gaps(numbers: set[int]) -> list[int]:
    """The numbers that are missing from 0 up to the largest."""
    return [n for n in range(min(max(numbers, default=-1), 100_000)) if n not in numbers]


def _zero(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """One tag of DeepSpeed: every data-parallel rank of every model part."""
    ranks: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for name in tree.files(directory):
        match = _ZERO.fullmatch(name)
        if match:
            ranks[match["what"], int(match["part"])].add(int(match["rank"]))
    if not ranks:
        return
    world = max(max(found) for found in ranks.values()) + 1
    defects = [
        Defect(
            DefectCode.SHARD_MISSING,
            f"{what} states: {_there(len(found), world, 'rank')}",
            f"mp_rank_{part:02d}",
        )
        for (what, part), found in sorted(ranks.items())
        if len(found) != world
    ]
    yield _made(tree, directory, DirectoryKind.DEEPSPEED, defects)


def _pointed(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``latest`` of DeepSpeed and its counterpart of Megatron name the directory to resume from."""
    children = set(tree.children(directory))
    for name, kind, form in _POINTERS:
        tag = tree.line(directory, name)
        if tag is None:
            continue
        if tag.isdigit() and form:
            tag = form.format(int(tag))
        defects = (
            [] if tag in children else [Defect(DefectCode.FILE_MISSING, f"{name} names it", tag)]
        )
        yield CheckpointDirectory(
            directory, kind, (_path(directory, name),), step_of(tag), tuple(defects)
        )


_POINTERS = (
    ("latest", DirectoryKind.DEEPSPEED, ""),
    ("latest_checkpointed_iteration.txt", DirectoryKind.MEGATRON, "iter_{:07d}"),
)


def _megatron(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``iter_N``: a directory for each part of the model."""
    parts = {
        int(match[1])
        for child in tree.children(directory)
        if (match := _MODEL_PART.fullmatch(child))
    }
    if not parts or step_of(directory) is None:
        return
    defects = [
        Defect(DefectCode.SHARD_MISSING, "a part of the model is not there", f"mp_rank_{gap:02d}")
        for gap in _gaps(parts)
    ]
    yield _made(tree, directory, DirectoryKind.MEGATRON, defects)


def _chunks(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """torch.distributed.checkpoint writes ``.metadata`` last: without it nothing was committed."""
    files = tree.files(directory)
    chunks = [name for name in files if _CHUNK.fullmatch(name)]
    if not chunks:
        return
    defects = []
    if ".metadata" not in files:
        what = "the save was not finished: .metadata, which is written last, is not there"
        defects.append(Defect(DefectCode.UNCOMMITTED, what))
    yield _made(tree, directory, DirectoryKind.DISTRIBUTED, defects)


def _orbax(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """Orbax renames a directory, and notes the time, when it has committed it."""
    files = tree.files(directory)
    if "_CHECKPOINT_METADATA" not in files and "manifest.ocdbt" not in files:
        return
    if "_CHECKPOINT_METADATA" not in files and "_METADATA" not in files:
        return
    notes = tree.json(directory, "_CHECKPOINT_METADATA")
    pending = ".orbax-checkpoint-tmp" in directory
    if isinstance(notes, dict) and "init_timestamp_nsecs" in notes:
        pending = pending or not notes.get("commit_timestamp_nsecs")
    defects = [Defect(DefectCode.UNCOMMITTED, "the save was not finished")] if pending else []
    yield _made(tree, directory, DirectoryKind.ORBAX, defects)


_TF_DATA = re.compile(r"(?P<stem>.+)\.data-(?P<number>\d{5})-of-(?P<count>\d{5})")


def _tensorflow(tree: _Tree, directory: str) -> Iterator[CheckpointDirectory]:
    """``X.index`` and all of ``X.data-…``."""
    files = tree.files(directory)
    data: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for name in files:
        match = _TF_DATA.fullmatch(name)
        if match:
            data[match["stem"], int(match["count"])].add(int(match["number"]))
    for (stem, count), numbers in sorted(data.items()):
        defects = list(_missing([f"{stem}.index"], files))
        if len(numbers) != count:
            what = _there(len(numbers), count, "data file")
            defects.append(Defect(DefectCode.SHARD_MISSING, what, stem))
        yield _made(tree, directory, DirectoryKind.TENSORFLOW, defects)


_Check = Callable[[_Tree, str], Iterator[CheckpointDirectory]]
_CHECKS: tuple[_Check, ...] = (
    _sharded,
    _pretrained,
    _trainer,
    _accelerate,
    _adapter,
    _diffusers,
    _zero,
    _pointed,
    _megatron,
    _chunks,
    _orbax,
    _tensorflow,
)
