"""Checkpoints as files: whole, undamaged, safe to load, complete."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from trainproof.model.checkpoint import Checkpoint, SavedFile
from trainproof.model.outcome import Evidence, Level, Outcome, Value, Where
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tensors import (
    CheckpointDirectory,
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    DirectoryKind,
    Extent,
    GlobalUse,
    Integrity,
    Layout,
    Presence,
    Safety,
)

from .interface import Bound, Example, rule
from .saved import HOLLOW, UNREAD, Saved, facts_of, named, settle, unopened
from .saved_examples import clocked, defect, directory, saved, tensor

_PROMISING = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""Ends of names under which nothing but a checkpoint is expected."""
_WHOLE = Example("the file is whole", saved(tensor("fc.weight"), tensor("fc.bias", (4,))))


@rule(
    id="TP-CKPT-HOLLOW",
    title="Something else stands in the place of a checkpoint",
    level=Level.FAIL,
    message="{artifact} is no checkpoint: {what}.",
    evidence="It has {size:,} {size:byte|bytes}.",
    needs={"checkpoint": Saved()},
    measures={
        "files": "files that were looked at",
        "size": "bytes of the file",
        "what": "what the file is",
        **UNREAD,
    },
    doc=Doc(
        measures="The first bytes of each file that is named or found as a checkpoint.",
        means="Whoever loads it gets an error at best. The weights were never downloaded, never"
        " written, or replaced by an error page.",
        does_not_mean="That the checkpoint is lost: the origin may still have it.",
        guards=(
            "JSON and compressed data count only under a name that promises something else.",
            "A format that is merely not known is not checked, and no finding.",
        ),
        references=(
            "svip-lab/PPGNet #2, clipseg #5: invalid load key, 'v' is a Git LFS pointer",
            "transformers #27923, DeepSeek-V3 #557: HeaderTooLarge",
            "VeritasPP #2: shards whose first bytes are zero",
        ),
    ),
    fires=Example(
        "a Git LFS pointer",
        saved(
            layout=Layout.LFS_POINTER,
            extent=Extent.NOT_CHECKED,
            reason="a Git LFS pointer: the file itself was never downloaded",
        ),
    ),
    silent=_WHOLE,
    subject=SubjectKind.CHECKPOINT,
)
def hollow(checkpoint: Checkpoint) -> Outcome:
    found = [
        Evidence(
            Where(facts.artifact),
            {"files": 1, "size": facts.size, "what": facts.reason or str(facts.layout)},
        )
        for facts in facts_of(checkpoint)
        if _stands_in(facts)
    ]
    return settle(checkpoint, found, {"files": len(checkpoint.files)}, ())


def _stands_in(facts: CheckpointFacts) -> bool:
    promised = facts.artifact.lower().endswith(_PROMISING)
    return facts.layout in HOLLOW or (promised and facts.layout in (Layout.JSON, Layout.COMPRESSED))


def _evidence(
    files: Iterable[SavedFile], codes: frozenset[DefectCode], variant: str = ""
) -> Iterator[Evidence]:
    """One place for each kind of defect of each file, with the first of that kind."""
    for file in files:
        first: dict[DefectCode, list[Defect]] = {}
        for one in file.facts.defects:
            if one.code in codes:
                first.setdefault(one.code, []).append(one)
        for code, defects in first.items():
            measured: dict[str, Value] = {
                "files": 1,
                "what": _WORDS[code],
                "defects": len(defects),
                "detail": _detail(defects[0]),
            }
            yield Evidence(Where(file.facts.artifact), measured, variant)


def _detail(one: Defect) -> str:
    return f"{one.where}: {one.detail}" if one.where else one.detail


_WORDS = {
    DefectCode.CRC: "data do not have the checksum they were written with",
    DefectCode.PLACEHOLDER: "storages were reserved and never written",
    DefectCode.CONTAINER_LIE: "the archive contradicts itself",
    DefectCode.ENTRY_NAME: "an entry of the archive points outside of it",
    DefectCode.ENCRYPTED: "an entry is marked as encrypted",
    DefectCode.STORAGE_MISSING: "the data of a tensor are missing",
    DefectCode.STORAGE_SIZE: "the data of a tensor have the wrong size",
    DefectCode.STORAGE_CONFLICT: "tensors disagree on what their data are",
    DefectCode.TENSOR_LAYOUT: "a tensor reaches outside of its data",
    DefectCode.PICKLE: "the pickle is malformed",
    DefectCode.BYTE_ORDER: "the byte order is none that exists",
    DefectCode.HEADER: "the header is wrong",
    DefectCode.CONTAINER_ODD: "the container has more in it than belongs there",
    DefectCode.COMPRESSED_STORAGE: "data are compressed, which torch.load(mmap=True) ignores",
    DefectCode.PICKLE_TAIL: "something follows the pickle",
    DefectCode.DUPLICATE_KEY: "a name occurs twice, and the last one counts",
    DefectCode.STORAGE_ORPHAN: "data belong to no tensor",
    DefectCode.TENSOR_EXPANDED: "a tensor repeats the elements of a smaller storage",
}

_DAMAGE = frozenset(
    {
        DefectCode.CRC,
        DefectCode.PLACEHOLDER,
        DefectCode.CONTAINER_LIE,
        DefectCode.ENTRY_NAME,
        DefectCode.ENCRYPTED,
        DefectCode.STORAGE_MISSING,
        DefectCode.STORAGE_SIZE,
        DefectCode.STORAGE_CONFLICT,
        DefectCode.TENSOR_LAYOUT,
        DefectCode.PICKLE,
        DefectCode.BYTE_ORDER,
        DefectCode.HEADER,
    }
)
_ODD = frozenset(
    {
        DefectCode.CONTAINER_ODD,
        DefectCode.COMPRESSED_STORAGE,
        DefectCode.PICKLE_TAIL,
        DefectCode.DUPLICATE_KEY,
        DefectCode.STORAGE_ORPHAN,
    }
)
_REMARKABLE = frozenset({DefectCode.TENSOR_EXPANDED})
_CUT = frozenset({DefectCode.TRUNCATED, DefectCode.SAVE_FAILED})


@rule(
    id="TP-CKPT-TRUNCATED",
    title="The checkpoint ends before its end",
    level=Level.FAIL,
    message="{artifact} is cut: {detail}.",
    evidence="Of {tensors:,} {tensors:tensor|tensors} {whole:,} {whole:is|are} whole, {cut:,} cut"
    " ({cut_names}) and {absent:,} absent ({absent_names}); the file has {size:,}"
    " {size:byte|bytes}.",
    needs={"checkpoint": Saved()},
    measures={
        "files": "files that were looked at",
        "tensors": "tensors that the file lists, as far as the list can be read",
        "whole": "tensors whose data are all there",
        "cut": "tensors whose data end too early",
        "absent": "tensors without data",
        "cut_names": "the first of those that are cut",
        "absent_names": "the first of those that are absent",
        "size": "bytes of the file",
        "detail": "where it ends",
        **UNREAD,
    },
    doc=Doc(
        measures="Where the data of each tensor should lie, against where the file ends.",
        means="The process or the disk gave up while it was written, or the download while it was"
        " read. Tensors that are whole can still be rescued.",
        does_not_mean="That the run is lost: an earlier checkpoint may be whole.",
        guards=(
            "A directory at the end of the file that cannot be found is looked for, not assumed.",
            "What torch.save leaves after an exception is told apart from a file that was cut.",
        ),
        references=(
            "stable-diffusion #93, mmagic #876: failed finding central directory",
            "InvokeAI #7009, ComfyUI #6744: incomplete metadata, file not fully covered",
            "h2o-llmstudio #214: disk full while saving",
        ),
    ),
    fires=Example(
        "the file was cut in a tensor",
        saved(
            tensor("a.weight"),
            tensor("b.weight", presence=Presence.CUT, measured=False),
            tensor("c.weight", presence=Presence.ABSENT, measured=False),
            extent=Extent.STRUCTURE_ONLY,
            defects=(Defect(DefectCode.TRUNCATED, "the directory is missing"),),
        ),
    ),
    silent=_WHOLE,
    subject=SubjectKind.CHECKPOINT,
)
def truncated(checkpoint: Checkpoint) -> Outcome:
    found = [
        Evidence(Where(file.facts.artifact), _missing(file, one))
        for file in checkpoint.files
        if (one := next((d for d in file.facts.defects if d.code in _CUT), None)) is not None
    ]
    return settle(checkpoint, found, {"files": len(checkpoint.files)}, unopened(checkpoint))


def _missing(file: SavedFile, one: Defect) -> dict[str, Value]:
    def names(presence: Presence) -> list[str]:
        return [tensor.name for tensor in file.tensors if tensor.presence is presence]

    cut, absent = names(Presence.CUT), names(Presence.ABSENT)
    return {
        "files": 1,
        "tensors": len(file.tensors),
        "whole": len(names(Presence.WHOLE)),
        "cut": len(cut),
        "absent": len(absent),
        "cut_names": named(cut) or "none",
        "absent_names": named(absent) or "none",
        "size": file.facts.size,
        "detail": one.detail,
    }


@rule(
    id="TP-CKPT-CORRUPT",
    title="The checkpoint is damaged",
    level=Level.FAIL,
    message="{artifact} is damaged: {what}.",
    evidence="{defects:,} such {defects:place|places}; the first: {detail}.",
    needs={"checkpoint": Saved()},
    measures={
        "files": "files that were looked at",
        "what": "what is wrong",
        "defects": "places where it is",
        "detail": "the first of them",
        "verified": "files in which every checksum was computed and is right",
        **UNREAD,
    },
    variants={
        "odd": Variant(
            Level.WARN,
            "{artifact} is not as its writer leaves it: {what}.",
            "{defects:,} such {defects:place|places}; the first: {detail}. Loading it gives no"
            " error.",
        ),
        "remark": Variant(
            Level.INFO,
            "{artifact}: {what}.",
            "{defects:,} such {defects:place|places}; the first: {detail}.",
        ),
    },
    doc=Doc(
        measures="The checksum of every entry; the two directories of an archive against each"
        " other; what the pickle or header says of each storage against what is there.",
        means="The weights are not those that were saved. torch.load checks no checksum: a flipped"
        " bit and a hole of zeros load without a word.",
        does_not_mean="That every tensor is affected; the evidence names the first.",
        guards=(
            "A checksum of zero was not computed (set_crc32_options(False)): that is no damage,"
            " and the rule stays open.",
            "A format without checksums (safetensors, torch before 1.6) is never clean here: its"
            " values are judged by other rules.",
            "What every loader reads as it was meant is a WARN or INFO.",
        ),
        references=(
            "diffusers #11989: weights rotted on disk and loaded fine",
            "pytorch #73168: two ranks wrote one file",
            "Lightning #4761, pytorch #57805: a storage is missing",
            "torch.serialization.skip_data and set_crc32_options",
        ),
    ),
    fires=Example(
        "one flipped bit",
        defect(DefectCode.CRC, "the file says 1b2c3d4e, the data are something else", "m/data/0"),
    ),
    silent=_WHOLE,
    subject=SubjectKind.CHECKPOINT,
)
def corrupt(checkpoint: Checkpoint) -> Outcome:
    files = [file for file in checkpoint.files if not _stands_in(file.facts)]
    found = list(_evidence(files, _DAMAGE))
    found += _evidence(files, _ODD, "odd")
    if not found:  # a remark must not stand in the way of a verdict that rests on checksums
        found += _evidence(files, _REMARKABLE, "remark")
    verified = sum(file.facts.integrity is Integrity.VERIFIED for file in files)
    measured: dict[str, Value] = {"files": len(checkpoint.files), "verified": verified}
    present = all(file.facts.integrity is not Integrity.ABSENT for file in files)
    unread = _unverified(checkpoint)
    return settle(checkpoint, found, measured, unread, Depth.INTEGRITY, there=present)


def _unverified(checkpoint: Checkpoint) -> Iterator[str]:
    for facts in facts_of(checkpoint):
        closed = facts.extent is Extent.NOT_CHECKED
        if closed or facts.integrity not in (Integrity.VERIFIED, Integrity.ABSENT):
            yield f"{facts.artifact} ({facts.reason or 'no checksum was computed'})"


_EVIL = GlobalUse("posix.system", Safety.UNSAFE, "m/data.pkl")


@rule(
    id="TP-CKPT-UNSAFE",
    title="Loading the checkpoint can run code",
    level=Level.FAIL,
    message="Loading {artifact} can run code: {why}.",
    evidence="{imports:,} {imports:name is|names are} imported, {unsafe:,} of them can run code,"
    " {unknown:,} {unknown:is|are} not known; torch.load(weights_only=True) would {loads} it.",
    needs={"checkpoint": Saved()},
    measures={
        "files": "files that were looked at",
        "pickles": "files that hold a pickle",
        "why": "the first names that can run code, or what is wrong with the container",
        "imports": "distinct names that the pickles import",
        "unsafe": "of these, names that can run code",
        "unknown": "of these, names that are on no list",
        "unknown_names": "the first of those that are on no list",
        "loads": "whether torch.load with weights_only=True accepts it: load or refuse",
        **UNREAD,
    },
    variants={
        "unknown": Variant(
            Level.WARN,
            "{artifact} imports names that are on no list of harmless ones: {unknown_names}.",
            "{imports:,} {imports:name is|names are} imported, {unknown:,} of them"
            " {unknown:is|are} not known; torch.load(weights_only=True) would {loads} it.",
        )
    },
    doc=Doc(
        measures="Every name that a pickle in the file would import, found by walking its opcodes"
        " without importing or calling anything; and whether programs agree on what the file is.",
        means="torch.load without weights_only=True, pickle.load and joblib.load call what the"
        " file names. A file that two programs read differently was made to deceive one of them.",
        does_not_mean="That somebody meant harm: a whole object of an own class is unknown too.",
        guards=(
            "A list of names that only build data decides: what is not on it is unknown.",
            "An own class, or one of a library that is not listed, is a WARN.",
        ),
        references=(
            "Python documentation: the pickle module is not secure",
            "CVE-2025-32434 and CVE-2026-24747: weights_only was got round",
            "picklescan CVE-2025-1716, CVE-2025-1944, CVE-2025-10155: lists of what is bad have"
            " holes",
        ),
    ),
    fires=Example(
        "the pickle calls posix.system",
        saved(tensor("w"), safety=Safety.UNSAFE, weights_only=False, globals=(_EVIL,)),
    ),
    silent=_WHOLE,
    subject=SubjectKind.CHECKPOINT,
)
def unsafe(checkpoint: Checkpoint) -> Outcome:
    found = [
        Evidence(Where(facts.artifact), _imports(facts), variant)
        for facts in facts_of(checkpoint)
        if (variant := _danger(facts)) is not None
    ]
    pickles = sum(facts.safety is not None for facts in facts_of(checkpoint))
    measured: dict[str, Value] = {"files": len(checkpoint.files), "pickles": pickles}
    return settle(checkpoint, found, measured, _unfollowed(checkpoint))


def _danger(facts: CheckpointFacts) -> str | None:
    if facts.safety is Safety.UNSAFE:
        return ""
    known = all(use.safety is Safety.SAFE for use in facts.globals)
    return None if facts.safety is not Safety.UNKNOWN or known else "unknown"


def _imports(facts: CheckpointFacts) -> dict[str, Value]:
    def names(safety: Safety) -> list[str]:
        return sorted({use.name for use in facts.globals if use.safety is safety})

    bad, unknown = names(Safety.UNSAFE), names(Safety.UNKNOWN)
    return {
        "files": 1,
        "why": f"it calls {named(bad)}" if bad else _contradiction(facts),
        "imports": len({use.name for use in facts.globals}),
        "unsafe": len(bad),
        "unknown": len(unknown),
        "unknown_names": named(unknown) or "none",
        "loads": "load" if facts.weights_only else "refuse",
    }


def _contradiction(facts: CheckpointFacts) -> str:
    lies = (DefectCode.CONTAINER_LIE, DefectCode.PICKLE)
    first = next((one for one in facts.defects if one.code in lies), None)
    return "the pickle changes what it imports" if first is None else _detail(first)


def _unfollowed(checkpoint: Checkpoint) -> Iterator[str]:
    """Files that may hold a pickle which was not followed to its end."""
    for facts in facts_of(checkpoint):
        closed = facts.extent is Extent.NOT_CHECKED and facts.layout not in HOLLOW
        if facts.safety is Safety.UNKNOWN or (facts.safety is None and closed):
            yield f"{facts.artifact} ({facts.reason or 'its pickle could not be followed'})"


_RESUMES = frozenset({DirectoryKind.TRAINER, DirectoryKind.ACCELERATE})
_ABSENT = frozenset(
    {DefectCode.SHARD_MISSING, DefectCode.INDEX_TENSOR_ABSENT, DefectCode.FILE_MISSING}
)
_EXTRA = frozenset(
    {
        DefectCode.SHARD_EXTRA,
        DefectCode.INDEX_TENSOR_UNLISTED,
        DefectCode.TENSOR_TWICE,
        DefectCode.INDEX_SIZE,
        DefectCode.HEADER,
    }
)


@rule(
    id="TP-CKPT-INCOMPLETE",
    title="Files of the checkpoint are missing",
    level=Level.FAIL,
    message="The {kind} checkpoint in {directory} is not complete: {detail}.",
    evidence="{defects:,} such {defects:place|places} among {members:,} {members:file|files}.",
    needs={"checkpoint": Saved()},
    measures={
        "sets": "sets of files that belong together",
        "directory": "directory of the set",
        "kind": "kind of the set",
        "members": "files of the set that are there",
        "defects": "places where something is missing",
        "detail": "the first of them",
        **UNREAD,
    },
    variants={
        "uncommitted": Variant(
            Level.FAIL,
            "The save of the {kind} checkpoint in {directory} was not finished: {detail}.",
            "{members:,} {members:file is|files are} there, and the mark that is written last is"
            " not.",
        ),
        "index": Variant(
            Level.WARN,
            "The files of the {kind} checkpoint in {directory} do not fit together: {detail}.",
            "{defects:,} such {defects:place|places} among {members:,} {members:file|files}.",
        ),
    },
    doc=Doc(
        measures="The files that a set should have, by their numbers, its index and its marks of"
        " completion, against those that are there; index against headers, both ways.",
        means="Some loaders stop, others fill what is missing with random numbers.",
        does_not_mean="That the missing part was never saved: it may be on another machine.",
        guards=(
            "Only sets that say themselves what belongs to them.",
            "Too much, or listed twice, is a WARN: overlays are legal.",
            "Files that are only needed to go on training are another rule's matter.",
        ),
        references=(
            "sglang #32279, #14253; CoSER #3: a shard is missing",
            "huggingface_hub #4725: the index names a tensor that its shard lacks",
            "accelerate #3010, SimDINO #24: .metadata is missing",
            "gpt-neox #750, DeepSpeed #2319: ranks are missing",
        ),
    ),
    fires=Example(
        "the second of two shards is missing",
        directory(
            DirectoryKind.SHARDED,
            Defect(DefectCode.SHARD_MISSING, "1 of 2 shards is there; missing: 2"),
        ),
    ),
    silent=Example("all shards are there", directory(DirectoryKind.SHARDED)),
    subject=SubjectKind.CHECKPOINT,
)
def incomplete(checkpoint: Checkpoint) -> Outcome:
    found = [
        *_lacking(checkpoint.directories, _ABSENT, ""),
        *_lacking(checkpoint.directories, frozenset({DefectCode.UNCOMMITTED}), "uncommitted"),
        *_lacking(checkpoint.directories, _EXTRA, "index"),
        *_chunks(checkpoint),
        *_partitions(checkpoint),
    ]
    return _of_sets(checkpoint, found)


def _of_sets(checkpoint: Checkpoint, found: list[Evidence]) -> Outcome:
    sets = len(checkpoint.directories)
    return settle(checkpoint, found, {"sets": sets}, (), there=sets > 0)


def _lacking(
    directories: Iterable[CheckpointDirectory], codes: frozenset[DefectCode], variant: str
) -> Iterator[Evidence]:
    for one in directories:
        resumes = one.kind in _RESUMES
        defects = [
            d
            for d in one.defects
            if d.code in codes and not (resumes and d.code is DefectCode.FILE_MISSING)
        ]
        if defects:
            yield Evidence(Where(_place(one)), _counted(one, defects), variant)


def _chunks(checkpoint: Checkpoint) -> Iterator[Evidence]:
    """Files that another one names, for it keeps its values there, and that are not there."""
    for facts in facts_of(checkpoint):
        lost = [one for one in facts.defects if one.code is DefectCode.SHARD_MISSING]
        if lost:
            place, _, _ = facts.artifact.rpartition("/")
            measured: dict[str, Value] = {
                "directory": place or ".",
                "kind": _KINDS.get(facts.layout, str(facts.layout)),
                "members": len(checkpoint.files),
                "defects": len(lost),
                "detail": _detail(lost[0]),
            }
            yield Evidence(Where(facts.artifact), measured)


_KINDS = {
    Layout.TORCH_METADATA: str(DirectoryKind.DISTRIBUTED),
    Layout.TF_INDEX: str(DirectoryKind.TENSORFLOW),
    Layout.OCDBT: str(DirectoryKind.ORBAX),
}
_RANK = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_\d+_mp_rank_(?P<part>\d+)_?optim_states\.pt")
_PARTITIONS = re.compile(r"(?:^|/)partition_count(?:/\d+)?$")


def _partitions(checkpoint: Checkpoint) -> Iterator[Evidence]:
    """Ranks of DeepSpeed: each file says over how many of them the optimizer was divided."""
    said: dict[tuple[str, str], int] = {}
    for facts in facts_of(checkpoint):
        key = _part(facts.artifact)
        if key is not None:
            said[key] = max([said.get(key, 0), *_counts(facts)])
    there = {
        *(facts.artifact for facts in facts_of(checkpoint)),
        *(path for one in checkpoint.directories for path in one.files),
        *checkpoint.lost,
    }
    for (place, part), count in said.items():
        ranks = sorted(path for path in there if _part(path) == (place, part))
        if count > len(ranks):
            measured: dict[str, Value] = {
                "directory": place or ".",
                "kind": str(DirectoryKind.DEEPSPEED),
                "members": len(there),
                "defects": min(count, _MAX_STEP) - len(ranks),
                "detail": f"mp_rank_{part} was divided over {count} ranks, files of {len(ranks)}"
                " are there",
            }
            yield Evidence(Where(ranks[0]), measured)


def _part(path: str) -> tuple[str, str] | None:
    """Directory and part of the model of a rank's file, None for any other file."""
    place, _, name = path.rpartition("/")
    match = _RANK.fullmatch(name)
    return (place, match["part"]) if match else None


def _counts(facts: CheckpointFacts) -> Iterator[int]:
    for one in facts.scalars:
        if _PARTITIONS.search(one.name) and type(one.value) is int:
            yield one.value


def _counted(one: CheckpointDirectory, defects: list[Defect]) -> dict[str, Value]:
    return {
        "directory": one.path or ".",
        "kind": str(one.kind),
        "members": len(one.files),
        "defects": len(defects),
        "detail": _detail(defects[0]),
    }


def _place(one: CheckpointDirectory) -> str:
    return one.files[0] if one.files else one.path


@rule(
    id="TP-CKPT-NOT-RESUMABLE",
    title="Training cannot go on from this checkpoint as it was",
    level=Level.WARN,
    message="The {kind} checkpoint in {directory} lacks what a resume needs: {lacking}.",
    evidence="{defects:,} {defects:file is|files are} missing beside the {members:,} that"
    " {members:is|are} there.",
    needs={"checkpoint": Saved()},
    measures={
        "sets": "sets of files that belong together",
        "directory": "directory of the set",
        "kind": "kind of the set",
        "members": "files of the set that are there",
        "defects": "files that are missing",
        "lacking": "the first of those that are missing",
        **UNREAD,
    },
    doc=Doc(
        measures="The files that a trainer writes to resume from, in a directory that holds at"
        " least two of them.",
        means="A resume starts with a fresh optimizer, schedule or random state, and the loss"
        " jumps; or it fails.",
        does_not_mean="That the weights cannot be used.",
        guards=(
            "Only directories that claim to be resumable: weights beside the state of neither"
            " optimizer nor schedule nor random numbers do not (save_only_model, save_model).",
            "DeepSpeed and FSDP directories keep the optimizer in directories of their own.",
        ),
        references=(
            "transformers #33336, #29059, #34053: state that was not saved",
            "OneVision-Encoder #65, Lightning #2613: no optimizer state",
        ),
    ),
    fires=Example(
        "the optimizer is missing",
        directory(
            DirectoryKind.TRAINER,
            Defect(DefectCode.FILE_MISSING, "it is not in the directory", "optimizer.pt"),
        ),
    ),
    silent=Example("all files are there", directory(DirectoryKind.TRAINER)),
    subject=SubjectKind.CHECKPOINT,
)
def not_resumable(checkpoint: Checkpoint) -> Outcome:
    found = []
    for one in checkpoint.directories:
        lost = [d for d in one.defects if d.code is DefectCode.FILE_MISSING]
        if one.kind in _RESUMES and lost:
            counted = _counted(one, lost)
            del counted["detail"]
            lacking = named(d.where for d in lost)
            found.append(Evidence(Where(_place(one)), {**counted, "lacking": lacking}))
    return _of_sets(checkpoint, found)


_NUMBERED = "checkpoint-"


@rule(
    id="TP-CKPT-CLOCK",
    title="The optimizer's clock disagrees with the checkpoint's",
    level=Level.WARN,
    message="The optimizer in {artifact} has taken {clock:,} {clock:step|steps}, and its directory"
    " is that of step {step:,}.",
    evidence="Its states count {least:,} to {clock:,} {clock:step|steps}; {skipped:.0%} of the"
    " steps may be missing, as skipped.",
    needs={"checkpoint": Saved()},
    measures={
        "clocks": "optimizers that count their steps, in directories of a known step",
        "clock": "the largest count among the states of the optimizer",
        "least": "the smallest count",
        "step": "the number in the name of the directory",
        **UNREAD,
    },
    doc=Doc(
        measures="The step count in the states of the optimizer against the number in the name of"
        " the directory of a trainer.",
        means="The optimizer was created anew at a resume, or was saved at another time than the"
        " weights: Adam's averages then start again while the schedule goes on.",
        does_not_mean="That the weights are wrong.",
        guards=(
            "Steps that a loss scaler skipped are missing in the count: one in ten may be, and the"
            " first 16, in which it halves itself down from 65536.",
            "The largest count speaks: a parameter may have joined later.",
            "Only directories called checkpoint-N beside a trainer's files, whose number counts"
            " optimizer steps.",
        ),
        references=(
            "UniRL PR #440; torchtitan PR #4382; speculators PR #900",
            "maxdiffusion #484, transformers #33336: the saved step is not the optimizer's",
        ),
    ),
    fires=Example("the optimizer was created anew", clocked(40, 1000)),
    silent=Example("the counts agree", clocked(1000, 1000)),
    subject=SubjectKind.CHECKPOINT,
)
def clock(
    checkpoint: Checkpoint,
    *,
    skipped: Annotated[
        float, Bound("share", "share of the steps that may be missing", ge=0, le=1)
    ] = 0.1,
) -> Outcome:
    found, clocks = [], 0
    for one in checkpoint.directories:
        if one.kind is not DirectoryKind.TRAINER or not _is_numbered(one):
            continue
        step = min(one.step or 0, _MAX_STEP)
        for facts, steps in _clocks(checkpoint, one):
            clocks += 1
            least = min((1 - skipped) * step, step - _HALVINGS)
            if not least <= max(steps) <= step:
                measured: dict[str, Value] = {
                    "clocks": 1,
                    "clock": max(steps),
                    "least": min(steps),
                    "step": step,
                }
                found.append(Evidence(Where(facts.artifact), measured))
    return settle(checkpoint, found, {"clocks": clocks}, (), there=clocks > 0)


_MAX_STEP = 2**53


_HALVINGS = 16
"""Steps that torch's GradScaler skips at most before its scale, at first 65536, is one."""


def _is_numbered(one: CheckpointDirectory) -> bool:
    return one.step is not None and one.path.rpartition("/")[2].startswith(_NUMBERED)


def _clocks(
    checkpoint: Checkpoint, one: CheckpointDirectory
) -> Iterator[tuple[CheckpointFacts, list[int]]]:
    """The step counts of each optimizer of the directory that has any."""
    for facts in facts_of(checkpoint):
        if facts.artifact in one.files:
            for optimizer in facts.optimizers:
                steps = [int(step) for step in optimizer.steps if 0 <= step <= _MAX_STEP]
                if steps:
                    yield facts, steps
