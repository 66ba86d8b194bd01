"""Finding checkpoints, and the files that are one together."""

from __future__ import annotations

from pathlib import Path

from tests.support.saved import safetensors_bytes, torch_bytes, write
from trainproof.checkpointing import (
    Found,
    counterparts,
    find,
    find_among,
    homes,
    is_promised,
    is_saved,
    predecessors,
)
from trainproof.model.artifact import Artifact, Content, Kind, Run, Unjudged
from trainproof.model.rule import SubjectKind
from trainproof.stores import StoreError, open_store


def found(root: Path) -> list[Found]:
    return list(find(open_store(str(root)), str(root)))


def files(root: Path) -> dict[str, list[str]]:
    """Id of each checkpoint to the paths of its files."""
    runs = [one for one in found(root) if isinstance(one, Run)]
    assert all(run.subject is SubjectKind.CHECKPOINT for run in runs)
    return {run.id: [artifact.path for artifact in run.artifacts] for run in runs}


def test_each_file_is_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.pt", torch_bytes())
    write(tmp_path / "sub" / "b.safetensors", safetensors_bytes())
    assert files(tmp_path) == {"a.pt": ["a.pt"], "sub/b.safetensors": ["sub/b.safetensors"]}


def test_logs_and_sources_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", b'{"loss": 1}\n')
    write(tmp_path / "train.py", b"import torch\n")
    write(tmp_path / "notes", b"nothing in particular\n")
    assert found(tmp_path) == []


def test_a_name_without_a_suffix_is_told_by_its_content(tmp_path: Path) -> None:
    write(tmp_path / "weights_final", torch_bytes())
    write(tmp_path / "blob", safetensors_bytes())
    assert sorted(files(tmp_path)) == ["blob", "weights_final"]


def test_what_the_caller_names_is_always_judged(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.txt", b"nothing in particular\n")
    assert files(path) == {"notes.txt": ["notes.txt"]}


def test_a_generic_name_over_an_unknown_content_is_listed_and_not_judged(tmp_path: Path) -> None:
    write(tmp_path / "data.bin", b"\x07\x01\x02\x03" * 10)
    (one,) = found(tmp_path)
    assert isinstance(one, Unjudged)
    assert one.content is Content.UNSUPPORTED


def test_a_git_lfs_pointer_under_the_name_of_a_checkpoint_is_judged(tmp_path: Path) -> None:
    write(tmp_path / "model.pt", b"version https://git-lfs.github.com/spec/v1\n")
    assert files(tmp_path) == {"model.pt": ["model.pt"]}


def test_shards_are_one_checkpoint_and_a_stray_file_beside_them_another(tmp_path: Path) -> None:
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for name in (*names, "other.pt"):
        write(tmp_path / "m" / name, safetensors_bytes())
    assert files(tmp_path) == {
        "m": [f"m/{name}" for name in names],
        "m/other.pt": ["m/other.pt"],
    }


def test_a_directory_of_a_trainer_knows_what_is_beside_its_checkpoints(tmp_path: Path) -> None:
    home = tmp_path / "checkpoint-10"
    for name in ("model.safetensors", "optimizer.pt", "scheduler.pt"):
        write(home / name, safetensors_bytes())
    write(home / "trainer_state.json", b"{}")
    write(home / "global_step10" / "note.json", b"{}")
    (run,) = (one for one in found(tmp_path) if isinstance(one, Run))
    assert run.id == "checkpoint-10"
    assert len(run.artifacts) == 3
    assert run.beside == (
        "checkpoint-10/global_step10/note.json",
        "checkpoint-10/trainer_state.json",
    )


def made(id: str, root: str = "/r") -> Run:
    artifact = Artifact(root, id, 1, Kind.CHECKPOINT, "checkpoint")
    return Run(id, root, (artifact,), SubjectKind.CHECKPOINT)


def chained(*ids: str) -> dict[str, str]:
    return {one.id: before.id for one, before in predecessors(map(made, ids)).items()}


def test_each_checkpoint_follows_the_one_of_the_next_smaller_step() -> None:
    assert chained("checkpoint-1000", "checkpoint-90", "checkpoint-500") == {
        "checkpoint-500": "checkpoint-90",
        "checkpoint-1000": "checkpoint-500",
    }
    assert chained("epoch=1-step=20.ckpt", "epoch=0-step=10.ckpt") == {
        "epoch=1-step=20.ckpt": "epoch=0-step=10.ckpt"
    }


def test_only_what_is_called_the_same_but_for_the_step_is_a_chain() -> None:
    assert chained("a/checkpoint-1", "b/checkpoint-2") == {}
    assert chained("step_1/model.pt", "step_2/optimizer.pt") == {}
    assert chained("model_1.pt", "model_2.pt", "best.pt", "microstep_3.pt") == {}
    assert chained("iter_1/mp_rank_00.pt", "iter_2/mp_rank_00.pt") == {
        "iter_2/mp_rank_00.pt": "iter_1/mp_rank_00.pt"
    }
    assert predecessors([made("step_1", "/a"), made("step_2", "/b")]) == {}


def test_one_reference_is_compared_with_all_and_several_by_place() -> None:
    new, old = [made("a"), made("b")], [made("a", "/o"), made("c", "/o")]
    assert counterparts(new, old[1:]) == {new[0]: old[1], new[1]: old[1]}
    assert counterparts(new, old) == {new[0]: old[0]}
    assert counterparts(new, new[:1]) == {new[1]: new[0]}


# --- which run keeps it


def log(path: str, id: str) -> Run:
    return Run(id, "/r", (Artifact("/r", path, 1, Kind.LOG, "jsonl"),))


def home_of(checkpoint: str, *runs: Run) -> str | None:
    found = homes([made(checkpoint)], runs)
    return next((run.id for run in found.values()), None)


def test_a_checkpoint_belongs_to_the_run_of_the_nearest_directory_above_it() -> None:
    outer, inner = log("log.jsonl", "."), log("a/log.jsonl", "a")
    assert home_of("a/weights/best.pt", outer, inner) == "a"
    assert home_of("b/best.pt", outer, inner) == "."
    assert home_of("best.pt", outer) == "."


def test_it_may_lie_beside_the_directory_of_the_only_log() -> None:
    run = log("exp/logs/version_0/metrics.csv", "exp/logs/version_0")
    for name in ("checkpoints/last.ckpt", "weights/a.pt", "checkpoint-500/model.bin", "last.ckpt"):
        assert home_of(f"exp/{name}", run) == "exp/logs/version_0"
    assert home_of("exp/pretrained/base.pt", run) is None
    other = log("exp/logs/version_1/metrics.csv", "exp/logs/version_1")
    assert home_of("exp/checkpoints/last.ckpt", run, other) is None


def test_a_set_of_files_belongs_to_the_run_whose_log_lies_in_it() -> None:
    run = log("out/checkpoint-5/trainer_state.json", "out")
    file = Artifact("/r", "out/checkpoint-5/model.safetensors", 1, Kind.CHECKPOINT, "checkpoint")
    together = Run("out/checkpoint-5", "/r", (file,), SubjectKind.CHECKPOINT)
    assert homes([together], [run]) == {together: run}


def test_names_of_data_promise_no_checkpoint() -> None:
    kept = (
        "epoch=3-val_loss=0.32.ckpt",
        "best_train.pt",
        "model.pt",
        "a/step_5.safetensors",
        "last.ckpt",
        "pytorch_model.bin",
        "__0_0.distcp",
        "ckpt/.metadata",
        "ckpt-1.data-00000-of-00001",
        "weights.03.h5",
    )
    assert all(map(is_saved, kept))
    passed = (
        "test.pt",
        "train_data.pt",
        "predictions.pth",
        "x.npz",
        "x.pkl",
        "features.bin",
        "cache-1.pt",
        "img_0.latents.safetensors",
    )
    assert not any(map(is_saved, passed))


def together(id: str, *names: str) -> Run:
    files = tuple(
        Artifact("/r", f"{id}/{name}", 1, Kind.CHECKPOINT, "checkpoint") for name in names
    )
    return Run(id, "/r", files, SubjectKind.CHECKPOINT)


def test_a_name_may_leave_no_doubt_and_so_does_a_set_of_a_trainer() -> None:
    names = (
        "a/model.pt",
        "step_5.pt",
        "net.ckpt",
        "best-0.93.pth",
        "x/pytorch_model.bin",
        "m.onnx",
    )
    assert all(is_promised(made(name)) for name in names)
    assert is_promised(together("checkpoint-5", "rng_state.pth", "training_args.bin"))
    assert is_promised(together("m", "model-00001-of-00002.safetensors"))


def test_a_name_may_leave_it_to_the_content() -> None:
    names = ("net.pt", "shard_7.pt", "a.safetensors", "model.bin", "openvino_model.bin")
    assert not any(is_promised(made(name)) for name in names)
    assert not is_promised(together("ct2", "model.bin"))
    assert not is_promised(made("checkpoint/net.pt"))
    assert not is_promised(together("c4", "c4-00001-of-00002.pt", "c4-00002-of-00002.pt"))


def test_thousands_of_one_name_are_data_and_are_not_opened(tmp_path: Path) -> None:
    paths = [f"graphs/g_{number}.pt" for number in range(1001)]
    paths += [f"step_{number}.pt" for number in range(1001)]
    missing = list(find_among(open_store(str(tmp_path)), str(tmp_path), paths, []))
    counted = [one for one in missing if isinstance(one, Unjudged)]
    assert {one.content for one in counted} == {Content.SAVED_DATA}
    assert [one.path for one in counted] == paths[:1001]
    assert sum(isinstance(one, StoreError) for one in missing) == 1001


def test_formats_that_nobody_here_knows_are_named_where_their_names_promise_much(
    tmp_path: Path,
) -> None:
    write(tmp_path / "model-1_100.ckpt", b"\n\x0a\x05conv1")
    write(tmp_path / "speech.pt", b"\x07\x01\x02")
    paths = ["model-1_100.ckpt", "speech.pt"]
    (named,) = find_among(open_store(str(tmp_path)), str(tmp_path), paths, [])
    assert named == Unjudged(
        str(tmp_path), paths[0], Content.UNSUPPORTED, "no known format of checkpoints"
    )
    assert files(tmp_path) == {name: [name] for name in paths}


def test_files_that_were_left_behind_when_a_repository_was_cloned_are_named(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 977\n"
    write(tmp_path / "m" / "model.safetensors", pointer)
    write(tmp_path / "n" / "model.safetensors", safetensors_bytes())
    paths = ["m/model.safetensors", "n/model.safetensors"]
    left, there = find_among(open_store(str(tmp_path)), str(tmp_path), paths, [])
    detail = "977 bytes were not fetched"
    assert left == Unjudged(str(tmp_path), paths[0], Content.LFS_POINTER, detail)
    assert isinstance(there, Run)
    assert there.id == paths[1]
