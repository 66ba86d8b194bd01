"""What belongs together, and what of it is missing."""

from __future__ import annotations

import json

from trainproof.checkpoints import Contents, assemble, parts_among, step_of
from trainproof.model.tensors import (
    CheckpointDirectory,
    DefectCode,
    DirectoryKind,
    Scalar,
    TensorInfo,
)


def info(name: str, path: str, nbytes: int = 4) -> TensorInfo:
    return TensorInfo(name, "float32", (1,), nbytes, path)


def sets(
    files: dict[str, bytes], tensors: dict[str, list[str]] | None = None
) -> list[CheckpointDirectory]:
    read = {path: [info(n, path) for n in names] for path, names in (tensors or {}).items()}
    return assemble(files, files.get, Contents(read))


def codes(one: CheckpointDirectory) -> list[tuple[DefectCode, str]]:
    return [(defect.code, defect.where) for defect in one.defects]


def index(total: int, **places: str) -> bytes:
    return json.dumps({"metadata": {"total_size": total}, "weight_map": places}).encode()


A, B = "m/model-00001-of-00002.safetensors", "m/model-00002-of-00002.safetensors"
INDEX = "m/model.safetensors.index.json"


def test_a_complete_set_of_shards() -> None:
    whole = {INDEX: index(8, a=A[2:], b=B[2:]), A: b"", B: b""}
    (one,) = sets(whole, {A: ["a"], B: ["b"]})
    assert one == CheckpointDirectory("m", DirectoryKind.SHARDED, (INDEX, A, B), None, ())


def test_a_shard_that_is_not_there() -> None:
    (one,) = sets({INDEX: index(8, a=A[2:], b=B[2:]), A: b""})
    assert codes(one) == [(DefectCode.SHARD_MISSING, ""), (DefectCode.SHARD_MISSING, B[2:])]
    (one,) = sets({B: b""})
    assert one.defects[0].detail == "1 of 2 shards is there; missing: 1"


def test_index_and_headers_are_compared_both_ways() -> None:
    (one,) = sets({INDEX: index(8, a=A[2:], x=B[2:]), A: b"", B: b""}, {A: ["a"], B: ["b"]})
    assert codes(one) == [
        (DefectCode.INDEX_TENSOR_ABSENT, B[2:]),
        (DefectCode.INDEX_TENSOR_UNLISTED, B[2:]),
    ]


def test_a_tensor_in_two_shards_and_a_wrong_total() -> None:
    whole = {INDEX: index(9, a=A[2:], b=B[2:]), A: b"", B: b""}
    (one,) = sets(whole, {A: ["a"], B: ["b", "a"]})
    assert {code for code, _ in codes(one)} == {
        DefectCode.INDEX_TENSOR_UNLISTED,
        DefectCode.INDEX_SIZE,
        DefectCode.TENSOR_TWICE,
    }


def test_shards_of_two_sets_side_by_side() -> None:
    (one,) = sets({"model-00001-of-00001.bin": b"", "model-00001-of-00002.bin": b""})
    assert (DefectCode.SHARD_EXTRA, "") in codes(one)


def test_an_index_that_is_no_index() -> None:
    for data in (b"[]", b"{", b'{"weight_map": 3}', b"[" * 100_000):
        (one,) = sets({INDEX: data})
        assert codes(one) == [(DefectCode.HEADER, INDEX[2:])]


TRAINER = (
    "trainer_state.json",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
    "model.safetensors",
)


def test_a_trainer_directory_has_what_a_resume_needs() -> None:
    (one,) = sets({f"out/checkpoint-500/{name}": b"" for name in TRAINER})
    assert (one.kind, one.step, one.defects) == (DirectoryKind.TRAINER, 500, ())
    for lost, where in zip(TRAINER, (*TRAINER[:4], "model"), strict=True):
        (one,) = sets({f"checkpoint-5/{name}": b"" for name in TRAINER if name != lost})
        assert codes(one) == [(DefectCode.FILE_MISSING, where)]


def test_a_trainer_directory_of_weights_alone_promises_no_resume() -> None:
    names = ("trainer_state.json", "training_args.bin", "model.safetensors")
    for directory in ("out", "out/checkpoint-500"):  # save_model at the end; save_only_model
        (one,) = sets({f"{directory}/{name}": b"" for name in names})
        assert (one.kind, one.defects) == (DirectoryKind.TRAINER, ())


def test_a_trainer_directory_whose_optimizer_is_sharded() -> None:
    names = ("trainer_state.json", "scheduler.pt", "rng_state_0.pth")
    files = {f"c/checkpoint-5/{name}": b"" for name in names}
    files["c/checkpoint-5/global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt"] = b""
    assert [one.defects for one in sets(files)] == [(), ()]


def test_each_model_of_a_pipeline_may_have_a_directory_of_its_own() -> None:
    names = ("optimizer.bin", "random_states_0.pkl", "unet/diffusion_pytorch_model.safetensors")
    (one,) = sets({f"checkpoint-5/{name}": b"" for name in names})
    assert (one.kind, one.defects) == (DirectoryKind.ACCELERATE, ())
    (one,) = sets({f"checkpoint-5/{name}": b"" for name in names[:2]})
    assert codes(one) == [(DefectCode.FILE_MISSING, "model")]


def test_an_adapter_without_its_configuration() -> None:
    (one,) = sets({"a/adapter_model.safetensors": b""})
    assert codes(one) == [(DefectCode.FILE_MISSING, "adapter_config.json")]
    (one,) = sets({"a/adapter_config.json": b""})
    assert codes(one) == [(DefectCode.FILE_MISSING, "adapter_model")]


def test_the_ranks_of_a_zero_checkpoint() -> None:
    def name(rank: int, what: str) -> str:
        return f"z/global_step9/zero_pp_rank_{rank}_mp_rank_00_{what}_states.pt"

    files = {name(rank, what): b"" for rank in range(3) for what in ("optim", "model")}
    files["z/latest"] = b"global_step9\n"
    whole = sets(files)
    assert [one.defects for one in whole] == [(), ()]
    assert {one.step for one in whole} == {9}
    del files[name(1, "optim")]
    broken = next(one for one in sets(files) if one.path == "z/global_step9")
    assert broken.defects[0].detail == "optim states: 2 of 3 ranks are there"


def test_a_pointer_to_a_directory_that_is_gone() -> None:
    (one,) = sets({"z/latest": b"global_step7"})
    assert codes(one) == [(DefectCode.FILE_MISSING, "global_step7")]
    files = {
        "r/latest_checkpointed_iteration.txt": b"1000",
        "r/iter_0001000/mp_rank_00/model_optim_rng.pt": b"",
        "r/iter_0001000/mp_rank_02/model_optim_rng.pt": b"",
    }
    assert [codes(one) for one in sets(files)] == [
        [],
        [(DefectCode.SHARD_MISSING, "mp_rank_01")],
    ]


def test_chunks_without_their_list_were_not_committed() -> None:
    (one,) = sets({"d/__0_0.distcp": b""})
    assert codes(one) == [(DefectCode.UNCOMMITTED, "")]
    (one,) = sets({"d/__0_0.distcp": b"", "d/.metadata": b""})
    assert one.defects == ()


def test_an_orbax_directory_is_committed_or_not() -> None:
    done = b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}'
    files = {"1/_CHECKPOINT_METADATA": done, "1/manifest.ocdbt": b""}
    assert [one.defects for one in sets(files)] == [()]
    files["1/_CHECKPOINT_METADATA"] = b'{"init_timestamp_nsecs": 1}'
    assert [codes(one) for one in sets(files)] == [[(DefectCode.UNCOMMITTED, "")]]


def test_tensorflow_needs_its_index_and_all_data_files() -> None:
    (one,) = sets({"t/x.data-00000-of-00002": b""})
    assert codes(one) == [(DefectCode.FILE_MISSING, "x.index"), (DefectCode.SHARD_MISSING, "x")]


def test_a_pipeline_needs_its_components() -> None:
    parts = {"unet": ["diffusers", "UNet"], "vae": ["diffusers", "VAE"], "_version": "1"}
    files = {"p/model_index.json": json.dumps(parts).encode(), "p/unet/config.json": b"{}"}
    (one,) = sets(files)
    assert codes(one) == [(DefectCode.FILE_MISSING, "vae")]


def test_the_step_in_a_name() -> None:
    names = ("checkpoint-500", "a/global_step12", "iter_0001000", "step_7", "epoch=3", "final")
    assert [step_of(name) for name in names] == [500, 12, 1000, 7, None, None]


def test_a_model_with_its_configuration_and_what_that_says() -> None:
    said = {"architectures": ["GPT2LMHeadModel"], "n_embd": 8, "task": {"a": 1}, "none": None}
    files = {"m/config.json": json.dumps(said).encode(), "m/model.safetensors": b"", "m/x.bin": b""}
    (one,) = sets(files)
    assert (one.kind, one.files) == (
        DirectoryKind.PRETRAINED,
        ("m/config.json", "m/model.safetensors"),
    )
    assert one.said == (
        Scalar("config.json/architectures/0", "GPT2LMHeadModel"),
        Scalar("config.json/n_embd", 8),
        Scalar("config.json/task", 1),
    )


def test_a_configuration_that_is_no_mapping_says_nothing() -> None:
    (one,) = sets({"config.json": b"[1]", "model.safetensors": b""})
    assert one.said == ()


def test_files_that_another_one_lists_are_parts_of_it() -> None:
    listed = {"a/__0_0.distcp", "b/ckpt-1.data-00000-of-00001"}
    there = {*listed, "a/.metadata", "b/ckpt-1.index", "c/__0_0.distcp", "b/x.data-00000-of-00001"}
    assert parts_among(there) == listed
