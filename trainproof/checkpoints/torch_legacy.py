"""What ``torch.save`` wrote before torch 1.6, and pickles that are nothing but a pickle.

Five pickles (a magic number, the version, the machine, the object, the keys of the storages),
then each storage: its number of elements as 8 bytes, and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainproof.model.data import FaultCode
from trainproof.model.tensors import (
    Defect,
    DefectCode,
    Depth,
    Extent,
    GlobalUse,
    Integrity,
    Layout,
    Presence,
    Safety,
)

from .distributed import is_metadata, read_metadata
from .draft import Draft, Item
from .dtypes import itemsize
from .measure import Block, Measured, measure, stretches
from .pickles.allowlist import classify
from .pickles.nodes import Call, Items, Large, Node, Pairs, path_of
from .pickles.walker import Walked, walk
from .source import Damage
from .torch_contents import contents_of
from .torch_objects import JOBLIB_ARRAY, Contents, NotRead, joblib_array
from .zipped import read_directory

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
_COUNT = 8
_JOBLIB = "joblib.numpy_pickle"


def read_legacy(draft: Draft) -> Iterator[Item]:
    """Tensors, then facts."""
    draft.integrity = Integrity.ABSENT
    data = draft.source.head(draft.limits.pickle_bytes)
    whole = len(data) == draft.source.size
    first = draft.survey.pickle(data, raw=lambda *given: _array(draft, *given), whole=whole)
    if first.root != MAGIC:
        yield from _bare(draft, data, first)
        return
    draft.layout = Layout.TORCH_LEGACY
    roots: list[Node] = [first.root]
    walked = first
    while walked.damage is None and len(roots) < 5:
        walked = draft.survey.pickle(data, "", walked.end, whole=whole)
        roots.append(walked.root)
    if walked.damage is not None:
        yield draft.fault(walked.damage)
        draft.reason = walked.damage.what
        yield draft.done(Extent.NOT_CHECKED)
        return
    yield from _object(draft, roots, walked.end)


def _object(draft: Draft, roots: list[Node], at: int) -> Iterator[Item]:
    if roots[1] != VERSION:
        draft.defects.append(Defect(DefectCode.HEADER, f"the version is {_short(roots[1])}"))
    contents = contents_of(roots[3], draft.limits)
    places = dict(_places(draft, contents, roots[4], at))
    presence = {
        key: Presence.ABSENT if key not in places else Presence.CUT
        for key, storage in contents.storages.items()
        if places.get(key, (0, -1))[1] != storage.nbytes
    }
    measured = Measured()
    if draft.values:
        blocks = {key: _block(draft, start, size) for key, (start, size) in places.items()}
        big = not _little_endian(roots[2])
        tensors = contents.tensors.values()
        measured = measure(tensors, blocks, big, draft.budget, draft.limits)
    if presence:
        cut = sum(one is Presence.CUT for one in presence.values())
        what = f"{len(presence)} of {len(contents.storages)} storages are not whole, {cut} cut"
        draft.defects.append(Defect(DefectCode.TRUNCATED, what))
        yield draft.fault(Damage(FaultCode.TRUNCATED, what), fatal=False)
    yield from draft.contents(contents, measured, presence)
    yield draft.done()


def _as_plain_pickle(draft: Draft, data: bytes) -> None:
    """What another program than joblib, which takes arrays for opcodes, would import of evil."""
    for module, name in walk(data, 0, draft.limits).globals:
        if classify(module, name) is Safety.UNSAFE:
            draft.survey.merge([GlobalUse(f"{module}.{name}"[: draft.limits.label], Safety.UNSAFE)])


def _short(node: Node) -> str:
    return str(node)[:40] if isinstance(node, int | float | str) else type(node).__name__


def _little_endian(machine: Node) -> bool:
    pairs = machine.values if isinstance(machine, Pairs) else []
    return all(value is not False for key, value in pairs if key == "little_endian")


def _places(
    draft: Draft, contents: Contents, keys: Node, at: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Key, and first byte and number of bytes in the file, of each storage in the file's order."""
    size = draft.source.size
    for node in keys.values if isinstance(keys, Items) else []:
        key = node.decode("latin-1") if isinstance(node, bytes) else str(_short(node))
        storage = contents.storages.get(key)
        if storage is None or at + _COUNT > size:
            break
        count = int.from_bytes(draft.source.read(at, _COUNT), "little", signed=True)
        at += _COUNT
        if count != storage.count or count < 0:
            what = f"{count} elements in front of its data, {storage.count} in the pickle"
            draft.defects.append(Defect(DefectCode.STORAGE_SIZE, what, key))
            return
        nbytes = count * itemsize(storage.dtype)
        yield key, (at, min(nbytes, size - at))
        at += nbytes
    if at < size:
        what = f"{size - at} bytes after the last storage"
        draft.defects.append(Defect(DefectCode.CONTAINER_ODD, what))


def _block(draft: Draft, start: int, size: int) -> Block:
    source, chunk = draft.source, draft.limits.chunk
    return Block(
        size,
        lambda: source.chunks(start, size, chunk),
        lambda at, count: source.read(start + at, count),
        start,
        source.shared,
        stretches(source, start, size, chunk),
    )


def _ends_as_zip(draft: Draft) -> bool:
    try:
        return bool(read_directory(draft.source, draft.limits).entries)
    except Damage as damage:
        # A directory that counts from the start of the archive, not of the file.
        return damage.code is FaultCode.CORRUPT


def _array(draft: Draft, call: Call, data: bytes, at: int) -> int:
    """The bytes of an array, or a pickle of its objects, that joblib writes after it."""
    if path_of(call.function) != JOBLIB_ARRAY:
        return at
    try:
        array = joblib_array(call)
    except NotRead as why:
        raise Damage(FaultCode.TOO_LARGE, f"what follows is not known: {why}") from None
    if array.itemsize is None:
        whole = len(data) == draft.source.size
        walked = draft.survey.pickle(data, "", at, whole=whole)
        if walked.damage is not None:
            raise walked.damage
        return walked.end
    start = at + 1 + data[at] if array.aligned and at < len(data) else at
    end = start + array.nbytes
    if end > len(data):
        raise Damage(FaultCode.TRUNCATED, f"an array of {array.nbytes} bytes is not whole")
    call.items[:] = [data[start:end]]
    return end


# --- bare pickles -----------------------------------------------------------------------------


def _bare(draft: Draft, data: bytes, first: Walked) -> Iterator[Item]:
    """One pickle, or several in a row. Its arrays are inside of it."""
    if _ends_as_zip(draft):
        what = "a pickle comes before a ZIP file: programs disagree on which of them counts"
        draft.defects.append(Defect(DefectCode.CONTAINER_LIE, what))
        draft.survey.worsen(Safety.UNSAFE)
    draft.layout = Layout.PICKLE
    if any(module.startswith(_JOBLIB) for module, _ in first.globals):
        draft.layout = Layout.JOBLIB
        _as_plain_pickle(draft, data)
    if isinstance(first.root, Large):
        draft.survey.worsen(Safety.UNKNOWN)
    if first.damage is not None:
        yield draft.fault(first.damage)
        draft.reason = first.damage.what
        yield draft.done(Extent.NOT_CHECKED)
        return
    draft.survey.rest(data, first.end)
    if is_metadata(first.root):
        yield from read_metadata(draft, first.root)
        return
    contents = contents_of(first.root, draft.limits)
    yield from draft.contents(contents, Measured(), {})
    only_names = draft.depth is Depth.TENSORS and not draft.tensors
    draft.reason = "the pickle holds no tensor that is read" if only_names else ""
    yield draft.done(Extent.STRUCTURE_ONLY if only_names else None)
