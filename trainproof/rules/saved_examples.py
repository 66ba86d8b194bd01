"""Tiny checkpoints for the examples that rules carry and for tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from trainproof.model.checkpoint import (
    Change,
    Checkpoint,
    Drift,
    RowDrift,
    SavedFile,
    TokenRow,
    TokenRows,
    Twin,
)
from trainproof.model.data import RunView
from trainproof.model.tensors import (
    CheckpointDirectory,
    CheckpointFacts,
    Defect,
    DefectCode,
    Depth,
    DirectoryKind,
    Extent,
    Group,
    Integrity,
    Layout,
    OptimizerState,
    Presence,
    Safety,
    Scalar,
    TensorInfo,
    TensorStats,
)

PATH = "model.pt"


def tensor(
    name: str,
    shape: Sequence[int] = (4, 4),
    *,
    dtype: str = "float32",
    nan: int = 0,
    inf: int = 0,
    zeros: int = 0,
    low: float = -1.0,
    high: float = 1.0,
    group: Group = Group.MODEL,
    presence: Presence = Presence.WHOLE,
    measured: bool = True,
    **ends: Any,
) -> TensorInfo:
    """A tensor whose finite elements lie between ``low`` and ``high``. ``ends``: what is known of
    both ends of the range of its type."""
    elements = math.prod(shape)
    limits = (low, high, max(abs(low), abs(high))) if elements > nan + inf else (None, None, None)
    stats = TensorStats(elements, nan, inf, 0, zeros, *limits, **ends) if measured else None
    nbytes, unread = 4 * elements, "" if measured else "it was not read"
    return TensorInfo(
        name,
        dtype,
        tuple(shape),
        nbytes,
        PATH,
        stats,
        unread,
        group=group,
        presence=presence,
    )


def zero(name: str, shape: Sequence[int] = (4, 4), **fields: Any) -> TensorInfo:
    return tensor(name, shape, zeros=math.prod(shape), low=0.0, high=0.0, **fields)


def saved(
    *tensors: TensorInfo,
    depth: Depth = Depth.TENSORS,
    directories: Sequence[CheckpointDirectory] = (),
    lost: Sequence[str] = (),
    **facts: Any,
) -> RunView:
    """A checkpoint of one torch file that is whole, safe and checked, but for ``facts``."""
    said: dict[str, Any] = {
        "artifact": PATH,
        "layout": Layout.TORCH_ZIP,
        "size": 1000,
        "extent": Extent.READ,
        "tensors": len(tensors),
        "integrity": Integrity.VERIFIED,
        "safety": Safety.SAFE,
        "weights_only": True,
    }
    file = SavedFile(CheckpointFacts(**{**said, **facts}), tensors)
    checkpoint = Checkpoint((file,), depth, tuple(directories), tuple(lost))
    return RunView(PATH, checkpoint=checkpoint)


def directory(kind: DirectoryKind, *defects: Defect, step: int | None = None) -> RunView:
    """A set of files with what is wrong with it."""
    one = CheckpointDirectory("checkpoint-10", kind, (PATH,), step, defects)
    return saved(tensor("fc.weight"), directories=(one,))


def trained(*tensors: TensorInfo, step: int = 1000) -> RunView:
    """A checkpoint in a trainer's directory of that step."""
    one = CheckpointDirectory(f"checkpoint-{step}", DirectoryKind.TRAINER, (PATH,), step)
    return saved(*tensors, directories=(one,))


def clocked(clock: float, step: int) -> RunView:
    """A trainer's directory of the given step, whose optimizer counts ``clock`` steps."""
    path = f"checkpoint-{step}"
    one = CheckpointDirectory(path, DirectoryKind.TRAINER, (PATH,), step)
    optimizer = OptimizerState("", 1, 2, 2, 0, (clock,))
    return saved(tensor("state/0/exp_avg"), directories=(one,), optimizers=(optimizer,))


def defect(code: DefectCode, detail: str, where: str = "") -> RunView:
    return saved(tensor("fc.weight"), defects=(Defect(code, detail, where),))


def twin(
    name: str,
    change: Change = Change.SAME,
    *,
    share: float = 0.0,
    norm: float = 1.0,
    crc: int | None = None,
    before: TensorInfo | None = None,
    **fields: Any,
) -> Twin:
    """A tensor beside that of an earlier checkpoint, whose norm was 1. ``share``: of its elements,
    those that changed; 0 where a tensor that moved was not compared."""
    one = replace(tensor(name, **fields), crc=crc)
    elements = math.prod(one.shape or ())
    made = Twin(one, before or one, change)
    if change is not Change.MOVED or not share:
        return made
    identical = elements - max(1, round(share * elements))
    return replace(
        made,
        compared=elements,
        identical=identical,
        norm=norm,
        norm_before=1.0,
        distance=abs(norm - 1.0),
    )


def counted(name: str, count: int, *, before: int) -> Twin:
    """What an average counts, now and before."""
    fields: dict[str, Any] = {"dtype": "int64", "group": Group.AVERAGE}
    earlier = tensor(name, (), low=before, high=before, **fields)
    return twin(name, Change.MOVED, before=earlier, shape=(), low=count, high=count, **fields)


def halved(*, before: str = "float32", high: float = 1.0, **now: int) -> Twin:
    """A matrix of fp16, a hundred of whose values were looked at, that was of another type."""
    fields: dict[str, Any] = {"shape": (10, 10), "high": high}
    earlier = tensor("fc.weight", dtype=before, **fields)
    ends: dict[str, Any] = {"sampled": 100, **fields, **now}
    return twin("fc.weight", Change.RETYPED, before=earlier, dtype="float16", **ends)


def drifted(
    *twins: Twin,
    added: Sequence[TensorInfo] = (),
    gone: Sequence[TensorInfo] = (),
    steps: int | None = 500,
    before: RunView | None = None,
    depth: Depth = Depth.TENSORS,
    **fields: Any,
) -> RunView:
    """A checkpoint beside one of ``steps`` steps before. ``fields``: of what is between them."""
    view = saved(*(one.tensor for one in twins), *added, depth=depth)
    earlier = before or saved(*(one.before for one in twins), *gone, depth=depth)
    assert earlier.checkpoint is not None
    found = Drift(
        "checkpoint-500",
        earlier.checkpoint,
        twins,
        tuple(added),
        tuple(gone),
        distance=steps,
        **fields,
    )
    return replace(view, drift=found)


def narrow(name: str, shape: Sequence[int]) -> TensorInfo:
    """A tensor of float32 that holds numbers of bfloat16 only."""
    one = tensor(name, shape)
    assert one.stats is not None
    return replace(one, stats=replace(one.stats, bfloat16=True))


def copied(*, same: bool, storages: bool = False) -> RunView:
    """Two layers of two matrices; ``storages``: they share their memory."""
    return saved(
        *(
            replace(
                tensor(f"model.layers.{layer}.{part}.weight"),
                crc=number if same else 2 * layer + number,
                storage=str(number if storages else 2 * layer + number),
            )
            for layer in range(2)
            for number, part in enumerate(("q_proj", "k_proj"))
        )
    )


def stepped(*, zero_square: bool, step: int = 1000, **fields: Any) -> RunView:
    """An optimizer of two matrices that has taken some steps."""
    second = zero if zero_square else tensor
    return saved(
        tensor("state/0/exp_avg_sq", low=0.0, group=Group.OPTIMIZER),
        second("state/1/exp_avg_sq", group=Group.OPTIMIZER, **fields),
        optimizers=(OptimizerState("", 1, 2, 2, 0, (step,)),),
    )


def described(
    kind: DirectoryKind, document: str, said: Mapping[str, Any], *tensors: TensorInfo
) -> RunView:
    """A directory whose configuration says something of its weights."""
    path = {DirectoryKind.ADAPTER: "adapter_model.safetensors"}.get(kind, "model.safetensors")
    scalars = tuple(Scalar(f"{document}/{key}", value) for key, value in said.items())
    one = CheckpointDirectory("", kind, (document, path), None, (), scalars)
    return saved(*(replace(t, artifact=path) for t in tensors), directories=(one,), artifact=path)


LLAMA: Mapping[str, Any] = {
    "architectures/0": "LlamaForCausalLM",
    "vocab_size": 100,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "tie_word_embeddings": False,
    "dtype": "float32",
}


def pretrained(
    *, rows: int = 100, layers: int = 2, head: bool = True, dtype: str = "float32", **said: Any
) -> RunView:
    """A small language model; ``said``: what its configuration says beside the usual."""
    tensors = [tensor("model.embed_tokens.weight", (rows, 8), dtype=dtype)]
    tensors += [tensor(f"model.layers.{n}.mlp.weight", (4, 8), dtype=dtype) for n in range(layers)]
    tensors += [tensor("lm_head.weight", (rows, 8), dtype=dtype)] if head else []
    return described(DirectoryKind.PRETRAINED, "config.json", {**LLAMA, **said}, *tensors)


def adapter(first: Sequence[int], second: Sequence[int], **said: Any) -> RunView:
    """An adapter of one module, with the shapes of A and B."""
    name = "base_model.model.q_proj"
    return described(
        DirectoryKind.ADAPTER,
        "adapter_config.json",
        {"peft_type": "LORA", "r": 8, **said},
        tensor(f"{name}.lora_A.weight", first),
        tensor(f"{name}.lora_B.weight", second),
    )


def emptied(step: int, *, betas: bool = True, states: int = 0, unlisted: int = 0) -> RunView:
    """A trainer's directory whose optimizer lists two parameters."""
    one = CheckpointDirectory(f"checkpoint-{step}", DirectoryKind.TRAINER, (PATH,), step)
    optimizer = OptimizerState("", 1, 2, states, unlisted)
    scalars = (Scalar("param_groups/0/betas/0", 0.9),) if betas else ()
    return saved(directories=(one,), optimizers=(optimizer,), scalars=scalars)


def mismatched(shape: Sequence[int], dtype: str = "float32") -> RunView:
    """A trainer's directory with a mean of this shape, and a matrix of four times four."""
    model = SavedFile(_whole("model.safetensors"), (tensor("fc.weight", dtype=dtype),))
    mean = replace(tensor("state/0/exp_avg", shape, group=Group.OPTIMIZER), artifact="optimizer.pt")
    return _together(model, SavedFile(_whole("optimizer.pt"), (mean,)))


def timed(
    step: int, global_step: int, last_epoch: int | None = None, schedule: Sequence[Scalar] = ()
) -> RunView:
    """A trainer's directory and the steps that its files count. ``schedule``: what else
    scheduler.pt says."""
    last = global_step if last_epoch is None else last_epoch
    scalars = (Scalar("last_epoch", last), *schedule)
    said = (Scalar("trainer_state.json/global_step", global_step),)
    facts = replace(_whole("scheduler.pt"), scalars=scalars)
    return _together(SavedFile(facts), step=step, said=said)


def half_precision(*, scaler: bool, fp16: bool = True, optimizer: bool = True) -> RunView:
    """A trainer's directory whose arguments say in what it trained."""
    arguments = replace(_whole("training_args.bin"), scalars=(Scalar(".fp16", fp16),))
    states = {"optimizer.pt": optimizer, "scaler.pt": scaler}
    saved = (SavedFile(_whole(name)) for name, there in states.items() if there)
    return _together(SavedFile(arguments), *saved)


def _whole(path: str) -> CheckpointFacts:
    return CheckpointFacts(path, Layout.TORCH_ZIP, 1000, Extent.READ)


def _together(*files: SavedFile, step: int = 10, said: tuple[Scalar, ...] = ()) -> RunView:
    paths = tuple(file.facts.artifact for file in files)
    path = f"checkpoint-{step}"
    one = CheckpointDirectory(path, DirectoryKind.TRAINER, paths, step, (), said)
    return RunView(path, checkpoint=Checkpoint(files, Depth.TENSORS, (one,)))


def divided(over: int, ranks: int) -> RunView:
    """Files of so many ranks of DeepSpeed, which say over how many the optimizer was divided."""
    count = (Scalar("optimizer_state_dict/partition_count/0", over),)
    paths = [f"global_step10/zero_pp_rank_{n}_mp_rank_00_optim_states.pt" for n in range(ranks)]
    return _together(*(SavedFile(replace(_whole(path), scalars=count)) for path in paths))


CHAT = ("<|user|>", "<|assistant|>", "<|end|>")


def spoken(
    *, apart: float = 1.0, zero: bool = False, used: bool = True, step: int | None = 1000
) -> RunView:
    """A model with three added tokens, whose rows lie so far from one another; others keep a
    distance of 1."""
    tokens = tuple(
        TokenRow(100 + at, text, used, zero, math.nan if zero else apart)
        for at, text in enumerate(CHAT)
    )
    embedding = tensor("model.embed_tokens.weight", (103, 8))
    view = saved(embedding)
    assert view.checkpoint is not None
    rows = (TokenRows(embedding, tokens, 100, 1.0),)
    return replace(view, checkpoint=replace(view.checkpoint, step=step, rows=rows))


def unspoken(*, moved: int, still: int = 3, used: bool = True) -> RunView:
    """An embedding of which so many of 100 other rows moved, and so many of three added ones did
    not."""
    one = twin("model.embed_tokens.weight", Change.MOVED, share=0.9, shape=(103, 8))
    tokens = (TokenRow(100 + at, text, used, False, 1.0) for at, text in enumerate(CHAT))
    rows = RowDrift(one.tensor, 3, tuple(tokens)[:still], 100, moved)
    return drifted(one, rows=(rows,))
