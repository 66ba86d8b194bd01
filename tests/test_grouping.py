"""Which files are one run: layouts as the tools write them, and what must stay apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainproof.grouping import MAX_PARTS, group, taken_apart
from trainproof.model.artifact import Artifact, Kind, Run

TB = "events.out.tfevents"


def artifact(path: str, root: str = "root") -> Artifact:
    reader = "tfevents" if TB in path else "other"
    return Artifact(root, path, 1, Kind.LOG, reader)


def grouped(*paths: str) -> dict[str, list[str]]:
    return {run.id: [a.path for a in run.artifacts] for run in group(map(artifact, paths))}


def apart(*paths: str) -> bool:
    """Whether no two of the files are one run."""
    return len(grouped(*paths)) == len(paths)


# --- one directory ------------------------------------------------------------------------------


def test_a_run_is_named_by_its_directory() -> None:
    assert grouped("a.csv") == {".": ["a.csv"]}
    assert grouped("exp/run/a.csv") == {"exp/run": ["exp/run/a.csv"]}


@pytest.mark.parametrize(
    ("root", "path", "id"),
    [
        ("logs/train.log", "train.log", "train"),
        ("train.log", "train.log", "train"),
        ("file:///x/f66d43d7.txt", "f66d43d7.txt", "f66d43d7"),
        ("logs", "train.log", "."),
        (".hidden", ".hidden", ".hidden"),
        (f"{TB}.17.host.1.0", f"{TB}.17.host.1.0", f"{TB}.17.host.1.0"),
    ],
)
def test_a_root_that_is_one_file_is_named_by_its_stem(root: str, path: str, id: str) -> None:
    (run,) = group([artifact(path, root)])
    assert (run.id, run.root) == (id, root)


def test_event_files_of_one_directory_are_shards() -> None:
    shards = [f"version_0/{TB}.1729486915.host.70985.{n}" for n in range(2)]
    assert grouped(*shards) == {"version_0": shards}


def test_one_log_of_each_kind_is_one_run_written_twice() -> None:
    assert len(grouped("flair/loss.tsv", "flair/training.log")) == 1
    assert len(grouped("ppo/progress.csv", "ppo/result.json", f"ppo/{TB}.1.h")) == 1
    assert len(grouped("runs/1/metrics.json", "runs/1/cout.txt")) == 1
    assert len(grouped("yolo/results.csv", f"yolo/{TB}.1.h.2.0")) == 1
    assert len(grouped("xtts/trainer_0_log.txt", f"xtts/{TB}.1.h.2.0")) == 1
    assert len(grouped("a.csv", "b.log")) == 1


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ("train.csv val.csv", "exp"),
        ("train_log.txt valid_log.txt test_log.txt", "exp"),
        ("train_loss.csv val_loss.csv train_acc.csv val_acc.csv", "exp"),
        ("loss.csv val_loss.csv", "exp"),
        ("a_train.csv a_val.csv b_train.csv b_val.csv", "exp/a exp/b"),
        ("train.csv val.csv other.csv", "exp exp/other"),
    ],
)
def test_names_that_differ_by_the_split_are_one_run(names: str, ids: str) -> None:
    runs = group(artifact(f"exp/{name}") for name in names.split())
    assert [run.id for run in runs] == ids.split()


@pytest.mark.parametrize(
    "names",
    [
        ("a.log", "b.log"),
        ("seed1.csv", "seed2.csv"),
        ("forward_training_log.csv", "backward_training_log.csv"),
        ("progress.csv", "progress(100k, 0.4epsilon).csv"),
        ("log_2023-04-21 11:33:49.061499.csv", "log_2023-04-14 01:30:11.553034.csv"),
        ("f66d43d7-e449.txt", "d4bfb25f-688d.txt"),
        ("train.log", "train_2.log"),
        ("exp1_train.csv", "exp2_val.csv"),
        ("val.csv", "test.csv"),
        ("run.csv", "test_seed1.csv"),
        ("에폭", "에폭 버전3"),
        ("run.1", "run.2"),
        ("history_a.json", "history_b.jsonl"),
    ],
)
def test_several_logs_of_one_kind_are_several_runs(names: tuple[str, str]) -> None:
    assert apart(*(f"exp/{name}" for name in names))
    assert apart(*names)


def test_such_runs_are_named_by_directory_and_stem() -> None:
    assert grouped("logs/a.log", "logs/b.log") == {
        "logs/a": ["logs/a.log"],
        "logs/b": ["logs/b.log"],
    }
    assert list(grouped("last..txt", "x.csv", "y.log")) == ["last", "x", "y"]


def test_logs_with_one_stem_are_one_of_several_runs() -> None:
    assert grouped("w/1.log", "w/1.log.json", "w/2.log", "w/slurm-7.out", "w/slurm-7.err") == {
        "w/1": ["w/1.log", "w/1.log.json"],
        "w/2": ["w/2.log"],
        "w/slurm-7": ["w/slurm-7.err", "w/slurm-7.out"],
    }


def test_logs_of_the_processes_of_one_job_are_shards() -> None:
    assert len(grouped("job/node0.log", "job/node1.log", "job/node10.log")) == 1
    assert len(grouped("job/log_rank0.txt", "job/log_rank1.txt")) == 1
    assert list(grouped("j/a.rank0.log", "j/a.rank1.log", "j/b.rank0.log")) == [
        "j/a.rank",
        "j/b.rank",
    ]


def test_rotated_logs_are_shards() -> None:
    assert len(grouped("train.log", "train.log.1", "train.log.2")) == 1


def test_a_log_that_stands_for_its_directory_stays_with_it() -> None:
    assert grouped(f"d/{TB}.1.h", "d/metrics.csv", "d/other.csv", "d/x.log", "d/y.log") == {
        "d": [f"d/{TB}.1.h", "d/metrics.csv"],
        "d/other": ["d/other.csv"],
        "d/x": ["d/x.log"],
        "d/y": ["d/y.log"],
    }


def test_a_log_named_like_a_directory_beside_it_is_of_that_run() -> None:
    assert grouped("logs/a.log", "logs/b.log", f"logs/a/{TB}.1.h") == {
        "logs/a": ["logs/a.log", f"logs/a/{TB}.1.h"],
        "logs/b": ["logs/b.log"],
    }


def test_a_compressed_log_is_grouped_as_what_it_stands_for() -> None:
    assert grouped("d/a.csv.gz", "d/a.log.xz") == {"d": ["d/a.csv.gz", "d/a.log.xz"]}
    assert grouped("a.csv.gz", "b.csv.gz") == {"a": ["a.csv.gz"], "b": ["b.csv.gz"]}
    assert grouped("train.log", "train.log.1.gz") == {".": ["train.log", "train.log.1.gz"]}
    trainer = ["out/trainer_log.jsonl.gz", f"out/runs/Jan1_host/{TB}.1.h"]
    assert grouped(*trainer) == {"out": sorted(trainer)}


def test_a_configuration_is_no_second_log() -> None:
    config = Artifact("root", "d/args.json", 1, Kind.CONFIG, "config")
    log = artifact("d/history.json")
    (run,) = group([log, config])
    assert run.artifacts == (config, log)


@pytest.mark.parametrize(
    ("logs", "settings", "id"),
    [
        (["a.csv"], "config.yaml", "."),
        (["a.csv"], "args.json", "."),
        (["d/a.csv", "d/b.csv"], "d/config.yaml", None),
        (["d/metrics.csv", "d/b.csv"], "d/config.yaml", "d"),
        (["d/0/train.log"], "d/0/.hydra/config.yaml", "d/0"),
        (["d/0/csv/version_0/metrics.csv"], "d/0/.hydra/config.yaml", "d/0/csv/version_0"),
        (["d/1/2/3/a.csv"], "d/config.yaml", "d/1/2/3"),
        (["d/1/2/3/4/a.csv"], "d/config.yaml", None),
        (["d/1/a.csv", "d/2/3/4/5/a.csv"], "d/config.yaml", None),
        (["d/a.csv"], "d/e/config.yaml", None),
        (["d/a.csv"], "e/config.yaml", None),
        (["out/trainer_state.json"], "out/checkpoint-10/config.json", "out"),
        ([f"d/train/{TB}.1.h", f"d/validation/{TB}.2.h"], "d/train/hparams.yaml", "d"),
        (
            ["wandb/run-20240411_102909-zu3sexb2/run-zu3sexb2.wandb"],
            "wandb/run-20240411_102909-zu3sexb2/files/config.yaml",
            "wandb/run-20240411_102909-zu3sexb2",
        ),
    ],
)
def test_settings_join_the_run_beside_or_the_only_one_below(
    logs: list[str], settings: str, id: str | None
) -> None:
    config = Artifact("root", settings, 1, Kind.CONFIG, "yaml-settings")
    runs = group([*map(artifact, logs), config])
    (home,) = [run for run in runs if config in run.artifacts]
    assert (home.id if len(home.artifacts) > 1 else None) == id


@given(
    st.lists(
        st.sampled_from(["a.csv", "b.csv", "train", "x", "logs", "tb", f"{TB}.1.h"]), min_size=1
    )
    .map("/".join)
    .flatmap(
        lambda path: st.sets(st.sampled_from([path, f"x/{path}", f"train/{path}", "x/y.log"]))
    ),
    st.sets(st.sampled_from(["c.yaml", "x/c.yaml", "train/c.json", "x/logs/c.yaml", "tb/c.yaml"])),
)
def test_settings_change_nothing_about_which_logs_are_one_run(
    logs: set[str], settings: set[str]
) -> None:
    configs = [Artifact("root", path, 1, Kind.CONFIG, "yaml-settings") for path in settings]
    with_settings = {
        run.id: [a.path for a in run.artifacts if a.kind is Kind.LOG]
        for run in group([*map(artifact, logs), *configs])
    }
    assert {id: paths for id, paths in with_settings.items() if paths} == grouped(*logs)


# --- HF Trainer ---------------------------------------------------------------------------------


def test_the_logs_of_a_trainer_are_one_run_with_their_copies_in_checkpoints() -> None:
    files = [
        "out/all_results.json",
        "out/checkpoint-1000/trainer_state.json",
        "out/checkpoint-500/trainer_state.json",
        f"out/runs/Jan01_10-00-00_node/1704103200.123/{TB}.1704103200.node.7.1",
        f"out/runs/Jan01_10-00-00_node/{TB}.1704103200.node.7.0",
        f"out/runs/Jan02_10-00-00_node/{TB}.1704189600.node.9.0",
        "out/running_log.txt",
        "out/trainer_log.jsonl",
        "out/trainer_state.json",
    ]
    assert grouped(*files) == {"out": sorted(files)}


def test_checkpoints_belong_to_a_parent_that_has_no_log_of_its_own() -> None:
    files = ["out/checkpoint-250/trainer_state.json", "out/checkpoint-500/trainer_state.json"]
    assert grouped(*files) == {"out": files}
    assert list(grouped("checkpoint-250/trainer_state.json")) == ["."]


def test_a_training_below_a_checkpoint_is_another_run() -> None:
    assert apart("out/trainer_state.json", "out/checkpoint-9/sft/trainer_state.json")


def test_seeds_below_a_run_are_runs() -> None:
    names = ("healthy", "healthy/seed43", "healthy/seed44")
    files = [f"{name}/trainer_state.json" for name in names]
    assert grouped(*files) == {name: [file] for name, file in zip(names, files, strict=True)}


def test_runs_without_a_trainer_above_them_stay_apart() -> None:
    assert apart(f"runs/exp1/{TB}.1.h", f"runs/exp2/{TB}.1.h")
    assert apart("results.csv", f"runs/exp1/{TB}.1.h")
    assert apart("trainer_state.json", "runs/exp1/trainer_state.json")


# --- directories of one run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "writer", ["tb", "tensorboard", "tensorboard_logs", "events", "tb_logs", "logs", "logs/tb"]
)
def test_a_writers_directory_belongs_to_the_run_above_it(writer: str) -> None:
    files = ["exp/run/metrics.csv", f"exp/run/{writer}/{TB}.1.h.2.0"]
    assert set(grouped(*files)) == {"exp/run"}


def test_a_writers_directory_alone_names_the_run_above_it() -> None:
    assert list(grouped(f"runs/11.01_euc/tensorboard_logs/{TB}.1.h.2.0")) == ["runs/11.01_euc"]
    assert list(grouped(f"tb/{TB}.1.h.2.0")) == ["."]


def test_a_directory_called_logs_is_a_run_where_nothing_lies_above() -> None:
    assert list(grouped("logs/progress.csv")) == ["logs"]
    assert list(grouped("logs/a.log", "logs/b.log", "top.csv")) == [".", "logs/a", "logs/b"]


def test_loggers_that_number_alike_write_twins() -> None:
    files = [
        f"0/logs/{logger}/version_{n}/{name}"
        for n in (0, 1)
        for logger, name in (("csv_logs", "metrics.csv"), ("tensorboard_logs", f"{TB}.1.h.7.0"))
    ]
    assert grouped(*files) == {
        "0/logs/version_0": [files[0], files[1]],
        "0/logs/version_1": [files[2], files[3]],
    }
    assert list(grouped("l/csv/version_0/metrics.csv", f"l/tb/version_0/{TB}.1.h")) == [
        "l/version_0"
    ]
    assert list(grouped("tensorboard/exp1/x.csv", "exp1/trainer_state.json")) == ["exp1"]


def test_what_has_no_twin_keeps_its_name() -> None:
    assert list(grouped(f"tb/run1/{TB}.1.h", f"tb/run2/{TB}.1.h")) == ["tb/run1", "tb/run2"]


@pytest.mark.parametrize(
    "names",
    [
        ("version_0", "version_1"),
        ("seed43", "seed44"),
        ("exp1", "exp2"),
        ("run1", "run2"),
        ("tb_1", "tb_3"),
        ("train", "train2"),
        ("2024-10-21_00-01-42/0", "2024-10-21_00-01-42/5"),
        ("logs191017", "logs191017/logs191017(5)"),
    ],
)
def test_siblings_are_runs_of_their_own(names: tuple[str, str]) -> None:
    assert apart(*(f"lightning_logs/{name}/metrics.csv" for name in names))
    assert apart(*(f"logs/{name}/{TB}.1508495794.host" for name in names))
    assert apart(*(f"{name}/{TB}.1508495794.host.7.0" for name in names))


# --- parts of one writer ------------------------------------------------------------------------


def test_train_and_validation_of_keras_are_one_run() -> None:
    files = [
        f"logs/fit/20240101-120000/train/{TB}.1704103200.node.7.0.v2",
        f"logs/fit/20240101-120000/validation/{TB}.1704103201.node.7.1.v2",
    ]
    assert grouped(*files) == {"logs/fit/20240101-120000": files}


def test_the_evaluation_of_an_estimator_belongs_to_its_model() -> None:
    files = [f"model/eval_holdout/{TB}.2.host", f"model/{TB}.1.host"]
    assert grouped(*files) == {"model": files}


def test_a_split_alone_is_a_run() -> None:
    assert list(grouped(f"logs/train/{TB}.1.h.7.0")) == ["logs/train"]


def test_a_directory_called_train_with_a_log_of_its_own_is_a_run() -> None:
    assert apart("runs/detect/train/results.csv", f"runs/detect/val/{TB}.1.h.7.0")


def test_parts_of_one_writer_belong_to_it() -> None:
    files = [
        f"run/1704103200.5/{TB}.1704103200.my.host.7.3",
        f"run/{TB}.1704103200.my.host.7.0",
        f"run/loss_train/{TB}.1704103201.my.host.7.1",
        f"run/loss_val/{TB}.1704103201.my.host.7.2",
    ]
    assert grouped(*files) == {"run": files}


@pytest.mark.parametrize(
    "below",
    [
        f"run/loss_train/{TB}.1704103201.host.8.1",  # another process
        f"run/loss_train/{TB}.1704103201.other.7.1",  # another machine
        f"run/exp_2/{TB}.1704103201.host.7.1",  # numbered
        f"run/adam/{TB}.1704103201.host.7.1",  # no tag and key
        f"run/loss_train/deeper/{TB}.1704103201.host.7.1",
    ],
)
def test_what_another_process_wrote_below_a_run_is_a_run(below: str) -> None:
    assert apart(f"run/{TB}.1704103200.host.7.0", below)


def test_what_one_process_wrote_for_two_splits_is_a_run_without_its_main_file_too() -> None:
    files = [
        f"run/loss_train/{TB}.1704103201.host.7.1",
        f"run/loss_val/{TB}.1704103201.host.7.2",
    ]
    assert grouped(*files) == {"run": files}
    assert apart(files[0], f"run/loss_val/{TB}.1704103201.host.8.2")
    assert apart(files[0], f"run/acc_val/{TB}.1704103201.host.7.2")
    assert apart(f"run/loss_train/{TB}.1704103201.host", f"run/loss_val/{TB}.1704103201.host")


# --- tools with a layout of their own -----------------------------------------------------------


def test_a_catboost_directory_is_one_run() -> None:
    names = ["catboost_training.json", f"learn/{TB}", "learn_error.tsv", f"test/{TB}"]
    names += ["test_error.tsv", "time_left.tsv"]
    assert grouped(*(f"x/catboost_info/{name}" for name in names)) == {
        "x/catboost_info": [f"x/catboost_info/{name}" for name in names]
    }
    assert set(grouped(*(f"custom/{name}" for name in names))) == {"custom"}
    without_evaluation = ["learn_error.tsv", f"learn/{TB}"]
    assert set(grouped(*(f"custom/{name}" for name in without_evaluation))) == {"custom"}
    several_sets = [*names, f"test1/{TB}"]
    assert set(grouped(*(f"custom/{name}" for name in several_sets))) == {"custom"}


def test_an_mlflow_run_holds_all_its_metrics() -> None:
    run, other = "mlruns/0/" + "a" * 32, "mlruns/0/" + "b" * 32
    metrics = ["metrics/epoch", "metrics/train/loss", "metrics/val/loss"]
    assert grouped(*(f"{r}/{m}" for r in (run, other) for m in metrics)) == {
        r: [f"{r}/{m}" for m in metrics] for r in (run, other)
    }


def test_a_wandb_run_holds_its_console() -> None:
    run = "wandb/run-20240411_102909-zu3sexb2"
    files = [f"{run}/files/output.log", f"{run}/run-zu3sexb2.wandb"]
    assert grouped(*files) == {run: files}
    other = "wandb/offline-run-20240411_103431-657cbhcr/files/output.log"
    assert len(grouped(*files, other)) == 2


def test_a_dvclive_directory_is_one_run() -> None:
    files = [f"dvclive/plots/metrics/{name}.tsv" for name in ("epoch", "loss", "train/loss")]
    assert grouped(*files) == {"dvclive": files}


def test_an_mmengine_start_is_one_run() -> None:
    files = ["work/20240101/20240101.log", "work/20240101/vis_data/scalars.json"]
    assert grouped(*files) == {"work/20240101": files}


# --- always -------------------------------------------------------------------------------------

_PARTS = st.sampled_from(
    [
        *("a", "run1", "tb", "logs", "train", "val", "csv_logs", "version_0", "checkpoint-5"),
        *("runs", "loss_val", "catboost_info", "1704103200.5", "events", ".."),
        *(" ", "\udcff", "x\ny"),
    ]
)
_NAMES = st.sampled_from(
    [
        *("a.log", "b.log", "a.csv", "metrics.csv", "trainer_state.json", "x", ".csv", "rank0"),
        *(f"{TB}.1.h.7.0", f"{TB}.1.h.8.0", TB),
    ]
)
_PATHS = st.builds(
    lambda parts, name: "/".join([*parts, name]), st.lists(_PARTS, max_size=4), _NAMES
)


@given(st.sets(st.tuples(st.sampled_from(["r1", "r2", "a.log"]), _PATHS)))
def test_every_artifact_is_in_exactly_one_run_of_its_root(found: set[tuple[str, str]]) -> None:
    artifacts = [artifact(path, root) for root, path in found]
    runs = group(artifacts)
    held = [a for run in runs for a in run.artifacts]
    assert sorted(held, key=repr) == sorted(artifacts, key=repr)
    assert all(a.root == run.root for run in runs for a in run.artifacts)
    assert all(run.artifacts for run in runs)
    assert len({(run.root, run.id) for run in runs}) == len(runs)


@given(st.sets(_PATHS), st.randoms())
def test_the_order_in_which_files_are_met_does_not_matter(
    paths: set[str], chance: random.Random
) -> None:
    artifacts = sorted(map(artifact, paths), key=lambda a: a.path)
    shuffled = list(artifacts)
    chance.shuffle(shuffled)
    runs = group(artifacts)
    assert group(shuffled) == runs
    assert [run.id for run in runs] == sorted(run.id for run in runs)


def test_no_artifacts_are_no_runs() -> None:
    assert group([]) == ()


# --- what only the reader of a file sees ----------------------------------------------------------


def test_a_file_of_several_runs_is_taken_apart() -> None:
    database = artifact("x/mlflow.db")
    run = Run("x", "root", (database,))
    found = taken_apart(run, {"x/mlflow.db": ("a", "b")}, ())
    assert [(one.id, one.artifacts[0].path, one.artifacts[0].part) for one in found] == [
        ("x/mlflow.db/a", "x/mlflow.db", "a"),
        ("x/mlflow.db/b", "x/mlflow.db", "b"),
    ]
    assert taken_apart(found[0], {"x/mlflow.db": ("a", "b")}, ()) == (found[0],)


def test_other_logs_beside_it_stay_a_run() -> None:
    settings = Artifact("root", "x/config.yaml", 1, Kind.CONFIG, "yaml-settings")
    database, log = artifact("x/mlflow.db"), artifact("x/train.csv")
    parts = {"x/mlflow.db": ("a",)}
    rest, part = taken_apart(Run("x", "root", (settings, database, log)), parts, ())
    assert (rest.id, rest.artifacts) == ("x", (settings, log))
    assert part.id == "x/mlflow.db/a"
    (only,) = taken_apart(Run("x", "root", (settings, database)), parts, ())
    assert only.id == "x/mlflow.db/a"


def test_what_another_training_left_behind_is_a_run_of_its_own() -> None:
    learn, test = artifact("x/learn_error.tsv"), artifact("x/test_error.tsv")
    found = taken_apart(Run("x", "root", (learn, test)), {}, ("x/test_error.tsv",))
    assert [(one.id, one.artifacts) for one in found] == [
        ("x", (learn,)),
        ("x/test_error", (test,)),
    ]


def test_files_of_splits_that_are_none_are_a_run_each() -> None:
    run = Run("x", "root", tuple(map(artifact, ("x/test.csv", "x/train.csv", "x/val.csv"))))
    found = taken_apart(run, {}, ("x/test.csv", "x/val.csv"))
    assert [(one.id, [a.path for a in one.artifacts]) for one in found] == [
        ("x", ["x/train.csv"]),
        ("x/test", ["x/test.csv"]),
        ("x/val", ["x/val.csv"]),
    ]


def test_who_reads_a_file_can_name_no_other_and_not_too_much() -> None:
    run = Run("x", "root", (artifact("x/mlflow.db"),))
    assert taken_apart(run, {"../etc": ("a",)}, ("y",)) == (run,)
    names = tuple(map(str, range(2 * MAX_PARTS)))
    assert len(taken_apart(run, {"x/mlflow.db": names}, ())) == MAX_PARTS
