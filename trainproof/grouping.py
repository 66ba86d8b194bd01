"""Artifacts to runs. Pure: it sees paths and readers' names, never content.

A run is what one verdict should be about. Its id is a directory relative to the root (``.`` for
the root itself), or ``directory/stem`` for one of several logs that lie side by side. To teach
it another tool's layout, add a row to ``LAYOUTS``, ``WRITERS`` or ``DIRECTORY_LOGS``; to teach it
another way in which directories belong together, add a function to ``MERGES``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from .model.artifact import Artifact, Kind, Run
from .model.compression import bare
from .readers.split_files import companies, stem_of

Runs = Mapping[str, Sequence[Artifact]]
"""Id to artifacts, for the runs that are directories."""

# --- what the tools write -------------------------------------------------------------------------

WANDB = r"(?:.*/)?wandb/(?:offline-|dryrun-)?run-\d{8}_\d{6}-\w+"
_TRACKED = re.compile(rf"(?P<run>{WANDB}|(?:.*/)?mlruns/\w+/[0-9a-f]{{32}})/", re.DOTALL)

LAYOUTS = tuple(
    re.compile(f"(?P<run>{run}){inside}", re.DOTALL)
    for run, inside in (
        # HF Trainer copies its state into each checkpoint: a prefix of the same run
        (r"(?:.*/)?", r"checkpoint-\d+/"),
        (r"(?:.*/)?catboost_info/", r".*"),
        (f"{WANDB}/", r".*"),
        # MLflow: one file for each metric, whose name may hold slashes
        (r"(?:.*/)?[0-9a-f]{32}/", r"(?:metrics|params|tags)/.*"),
        # DVCLive
        (r"(?:.*/)?", r"plots/metrics/.*"),
        # MMEngine
        (r"(?:.*/)?", r"vis_data/"),
        # Hydra
        (r"(?:.*/)?", r"\.hydra/"),
    )
)
"""Directories (with a slash after them) all of whose files belong to one run: ``run``."""

WRITERS = frozenset(
    {
        *("tb", "tb_logs", "tblogs", "tensorboard", "tensorboard_logs", "tensorboard_log"),
        *("tfevents", "tf_logs", "tf_events", "events", "event_files", "summaries"),
        *("csv_logs", "csv_log"),
    }
)
"""Names under which one of a run's loggers keeps its files."""

TRAINER_LOGS = frozenset(
    {
        *("trainer_state.json", "trainer_log.jsonl", "running_log.txt"),
        *("all_results.json", "train_results.json", "eval_results.json", "predict_results.json"),
    }
)
"""Logs of HF Trainer and what is built on it: several of them are one run."""

DIRECTORY_LOGS = TRAINER_LOGS | {
    *("metrics.csv", "results.csv", "results.txt"),  # Lightning; Ultralytics and YOLOv5
    *("metrics.json", "log.txt"),  # Detectron2, DETR
    "metrics.jsonl",  # ClearML
    *("progress.csv", "result.json"),  # RLlib and baselines: the same run twice
    *("cout.txt", "run.json"),  # Sacred, beside its metrics.json
    *("loss.tsv", "training.log"),  # Flair
    *("wandb-history.jsonl", "output.log"),  # W&B before 2021
    *("learn_error.tsv", "test_error.tsv", "time_left.tsv", "catboost_training.json"),
    "summary.csv",  # timm
}
"""Names that tools give to the log of a directory: it stands for the whole directory."""

SPLITS = re.compile(
    r"train(?:ing|_inner)?|val(?:id(?:ation)?)?|test\d{0,3}|eval(?:uation)?(?:_.+)?|dev|learn",
    re.DOTALL,
)
"""Sub-directories for the parts of the data: Keras, TF Estimator, fairseq, CatBoost."""

SPLIT_TABLES = frozenset({"learn_error.tsv", "test_error.tsv"})
"""What CatBoost writes beside such a sub-directory, of which there may be only one."""

MONITOR = re.compile(r"(?:.+\.)?monitor\.csv", re.DOTALL)
"""Returns of the episodes in one environment of a training by reinforcement."""

_SCALARS = re.compile(r".+_\D+", re.DOTALL)
"""``add_scalars`` writes to ``tag_key/``; a name that ends in a number is rather a run."""
_HPARAMS = re.compile(r"\d{9,}\.\d+")
"""``add_hparams`` writes to a directory named by the clock."""
_ORIGIN = re.compile(r"tfevents\.\d+\.(?P<host>.+?)(?:\.(?P<pid>\d+)\.\d+)?(?:\.v2)?", re.DOTALL)
"""``events.out.tfevents.TIME.HOST.PID.NUMBER``, or without the last two."""

FAMILIES = {"csv": "table", "tsv": "table", "json": "json", "jsonl": "json", "ndjson": "json"}
"""Suffixes of logs that are of one kind; whatever is not named here is text."""
READ_AS = {"csv": "table", "json": "json", "jsonl": "json", "text": "text", "numbers": "numbers"}
"""The same, by the reader: what a log holds goes before what it is called."""


def group(artifacts: Iterable[Artifact]) -> tuple[Run, ...]:
    """Every artifact in exactly one run; runs sorted by root and id, artifacts by path.

    Configurations have no say in which logs are one run. Each joins the run that it lies beside
    or, where it lies above exactly one, that one; otherwise it is a run of its own, in which
    there is nothing to judge.
    """
    roots: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        roots[artifact.root].append(artifact)
    return tuple(
        Run(id, root, tuple(sorted(members, key=lambda a: a.path)))
        for root, found in sorted(roots.items())
        for id, members in sorted(_grouped(root, found).items())
    )


def _grouped(root: str, artifacts: Sequence[Artifact]) -> Runs:
    """Logs by the rules below; then configurations, which none of them sees."""
    logs = [artifact for artifact in artifacts if artifact.kind is not Kind.CONFIG]
    runs = {id: list(members) for id, members in _of_logs(root, logs).items()}
    if len(logs) < len(artifacts):
        homes = _Homes(runs)
        for artifact in artifacts:
            if artifact.kind is Kind.CONFIG:
                runs.setdefault(homes.of(artifact), []).append(artifact)
    return runs


REACH = 3
"""Directories between settings and the log below them: Hydra's ``csv/version_0``."""


class _Homes:
    """Which run each directory belongs to, among those that the logs made."""

    def __init__(self, runs: Runs) -> None:
        self._ids = frozenset(runs)
        self._known: dict[str, str] = {}
        self._below: dict[str, dict[str, int]] = defaultdict(dict)
        for id, members in runs.items():
            for directory in {_split(artifact.path)[0] for artifact in members}:
                self._add(directory, id)

    def _add(self, directory: str, id: str) -> None:
        """Note for the directory, and for those above it, how far below them the run lies."""
        parts = [] if directory == "." else directory.split("/")
        for depth in range(len(parts) + 1):
            below = self._below["/".join(parts[:depth]) or "."]
            below[id] = min(len(parts) - depth, below.get(id, len(parts)))

    def of(self, artifact: Artifact) -> str:
        directory = _split(artifact.path)[0]
        home = _laid_out(directory) or directory
        if home not in self._known:
            self._known[home] = home if home in self._ids else self._near(home)
        return self._known[home]

    def _near(self, home: str) -> str:
        below = self._below.get(home, {})
        beside = [id for id, distance in below.items() if distance == 0]
        if not beside and len(below) == 1:
            beside = [id for id, distance in below.items() if distance <= REACH]
        return beside[0] if len(beside) == 1 else home


def _of_logs(root: str, artifacts: Sequence[Artifact]) -> Runs:
    if len(artifacts) == 1 and _is_file(root, artifacts[0].path):
        return {stem_of(artifacts[0].path): artifacts}
    directories: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        directories[_split(artifact.path)[0]].append(artifact)
    runs: dict[str, list[Artifact]] = defaultdict(list)
    alone: dict[str, list[Artifact]] = defaultdict(list)
    for directory, members in directories.items():
        run = _laid_out(directory)
        lone = {} if run is not None else _lone(members)
        for artifact in members:
            stem = lone.get(artifact.path)
            if stem is not None:
                alone[_join(directory, stem)].append(artifact)
            else:
                runs[directory if run is None else run].append(artifact)
    for merge in MERGES:
        if names := merge(runs):
            runs = _renamed(runs, names)
    for id, members in alone.items():
        runs.setdefault(id, []).extend(members)  # named like a directory beside it: its log
    return runs


MAX_PARTS = 10_000
"""Runs that one file is taken apart into."""


def taken_apart(
    run: Run, parts: Mapping[str, Sequence[str]], strangers: Sequence[str]
) -> tuple[Run, ...]:
    """The runs that one turned out to be when it was read; the run itself where it is one.

    ``parts``: paths of files that hold several runs, with their names. ``strangers``: paths of
    files that another training left behind.
    """
    files = {artifact.path: artifact for artifact in run.artifacts}
    found = [
        Run(f"{path}/{name}", run.root, (replace(files[path], part=name),))
        for path, names in sorted(parts.items())
        if path in files and not files[path].part
        for name in names[:MAX_PARTS]
    ]
    for stem, left in _strangers(files[path] for path in sorted(strangers) if path in files):
        found.append(Run(_join(run.id, stem), run.root, left))
    gone = {artifact.path for one in found for artifact in one.artifacts}
    rest = tuple(artifact for artifact in run.artifacts if artifact.path not in gone)
    if not found or not any(artifact.kind is not Kind.CONFIG for artifact in rest):
        return tuple(found) or (run,)
    return (replace(run, artifacts=rest), *found)


def _strangers(files: Iterable[Artifact]) -> Iterator[tuple[str, tuple[Artifact, ...]]]:
    """Those that a tool names for their directory are of one training, with what is of no name of
    its own; any other is of one of its own."""
    named: dict[str, list[Artifact]] = defaultdict(list)
    together = []
    for artifact in files:
        name = bare(_split(artifact.path)[1])
        if name in DIRECTORY_LOGS or _is_events(artifact):
            together.append(artifact)
        else:
            named[stem_of(name)].append(artifact)
    if together:
        named[stem_of(together[0].path)] += together
    yield from ((stem, tuple(left)) for stem, left in named.items())


def _is_file(root: str, path: str) -> bool:
    """Whether the root is that file itself, not the directory that holds it."""
    return "/" not in path and root.rstrip("/").rpartition("/")[2] == path


# --- one directory ----------------------------------------------------------------------------


def _laid_out(directory: str) -> str | None:
    """The run to which a tool's layout assigns everything in the directory."""
    for layout in LAYOUTS:
        match = layout.fullmatch(directory + "/")
        if match is not None:
            return match["run"].rstrip("/") or "."
    return None


def tracked_run(path: str) -> str | None:
    """The directory that a tracker made for the run that the file is of; None where none did."""
    match = _TRACKED.match(path)
    return match["run"] if match else None


def _lone(members: Iterable[Artifact]) -> Mapping[str, str]:
    """Path to stem, for the logs of one directory that are runs of their own.

    One log of each kind is one run that was written twice (a CSV and a text log, say); several
    of one kind are several runs, unless they are the shards of one or its splits. Logs whose name
    stands for the directory stay with it.
    """
    families: dict[str, dict[str, str]] = defaultdict(dict)
    for artifact in members:
        name = bare(_split(artifact.path)[1])
        if artifact.kind is not Kind.LOG or _is_events(artifact) or name in TRAINER_LOGS:
            continue
        if not MONITOR.fullmatch(name):
            families[_family(artifact.reader, name)][artifact.path] = stem_of(name)
    homes = [stems | _of_splits(stems) for stems in families.values()]
    if all(len(set(stems.values())) < 2 for stems in homes):
        return {}
    lone = (item for stems in homes for item in stems.items())
    return {
        path: stem for path, stem in lone if stem and bare(_split(path)[1]) not in DIRECTORY_LOGS
    }


def _of_splits(paths: Iterable[str]) -> dict[str, str]:
    """What names the run of which files are the splits, if their names say so: nothing where it is
    the directory's."""
    return {path: one.home for company in companies(paths) for path, one in company.items()}


def _family(reader: str, name: str) -> str:
    """What kind of log it is: a table may be called ``training.log`` (Keras)."""
    return READ_AS.get(reader) or FAMILIES.get(name.rpartition(".")[2].lower(), "text")


# --- several directories --------------------------------------------------------------------------


def _writer_parts(runs: Runs) -> Mapping[str, str]:
    """Directories that one event writer made below its own: ``add_scalars``, ``add_hparams``.

    Their files come from the process that wrote the file above them.
    """
    merged = {}
    for id, members in runs.items():
        parent, name = _split(id)
        below = _SCALARS.fullmatch(name) or _HPARAMS.fullmatch(name)
        if below and parent in runs and all(map(_is_events, members)):
            above = _origins(runs[parent])
            if above and _origins(members) <= above:
                merged[id] = parent
    return merged


def _scalars_of_splits(runs: Runs) -> Mapping[str, str]:
    """``loss_train`` and ``loss_val`` of one process, which ``add_scalars`` wrote beside a file
    that was left out."""
    parts: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for id, members in runs.items():
        parent, name = _split(id)
        stem, _, split = name.rpartition("_")
        if stem and SPLITS.fullmatch(split.lower()) and all(map(_is_events, members)):
            parts[parent][stem].add(id)
    return {
        id: parent
        for parent, stems in parts.items()
        if parent not in runs and any(len(ids) > 1 for ids in stems.values())
        if _of_one_process([one for ids in stems.values() for id in ids for one in runs[id]])
        for ids in stems.values()
        for id in ids
    }


def _of_one_process(artifacts: Iterable[Artifact]) -> bool:
    origins = _origins(artifacts)
    return len(origins) == 1 and not any(one.endswith("/None") for one in origins)


def _is_split_table(artifact: Artifact) -> bool:
    return bare(_split(artifact.path)[1]) in SPLIT_TABLES


def _data_splits(runs: Runs) -> Mapping[str, str]:
    """``train`` and ``validation`` of one parent; one alone, where the parent has events too, or
    tables of the same."""
    parts: dict[str, list[str]] = defaultdict(list)
    for id, members in runs.items():
        parent, name = _split(id)
        if SPLITS.fullmatch(name) and all(map(_is_events, members)):
            parts[parent].append(id)
    return {
        id: parent
        for parent, ids in parts.items()
        if len(ids) > 1 or any(_is_events(a) or _is_split_table(a) for a in runs.get(parent, ()))
        for id in ids
    }


def _writer_directories(runs: Runs) -> Mapping[str, str]:
    """``run/tensorboard`` is ``run``."""
    return {id: _split(id)[0] for id in runs if _split(id)[1] in WRITERS}


def _twins(runs: Runs) -> Mapping[str, str]:
    """``csv_logs/version_0`` and ``tensorboard_logs/version_0`` are ``version_0``."""
    bare = {id: _without_writers(id) for id in runs}
    sharing: dict[str, list[str]] = defaultdict(list)
    for id, name in bare.items():
        sharing[name].append(id)
    return {id: name for id, name in bare.items() if len(sharing[name]) > 1 and id != name}


def _without_writers(id: str) -> str:
    kept = (part for part in id.split("/") if part not in WRITERS and part != "csv")
    return "/".join(kept) or "."


_BELOW_TRAINER = re.compile(r"(?P<run>(?:.*/)?)runs(?:/[^/]+){0,2}", re.DOTALL)


def _trainer_runs(runs: Runs) -> Mapping[str, str]:
    """HF Trainer logs to ``runs/DATE_HOST`` below its output directory, at each start anew."""
    merged = {}
    for id, members in runs.items():
        match = _BELOW_TRAINER.fullmatch(id)
        if match is None or not all(map(_is_events, members)):
            continue
        trainer = match["run"].rstrip("/") or "."
        if any(bare(_split(a.path)[1]) in TRAINER_LOGS for a in runs.get(trainer, ())):
            merged[id] = trainer
    return merged


def _log_directories(runs: Runs) -> Mapping[str, str]:
    """``run/logs`` is ``run`` where that holds a log of its own."""
    merged = {}
    for id in runs:
        parent, name = _split(id)
        if name in ("log", "logs") and any(a.kind is Kind.LOG for a in runs.get(parent, ())):
            merged[id] = parent
    return merged


MERGES: tuple[Callable[[Runs], Mapping[str, str]], ...] = (
    _writer_parts,
    _scalars_of_splits,
    _data_splits,
    _writer_directories,
    _twins,
    _trainer_runs,
    _log_directories,
)
"""In this order. Each maps the id of a directory to that of the one it belongs to: always a
shorter one."""


def _renamed(runs: Runs, names: Mapping[str, str]) -> dict[str, list[Artifact]]:
    renamed: dict[str, list[Artifact]] = defaultdict(list)
    for id, members in runs.items():
        while id in names:
            id = names[id]  # noqa: PLW2901
        renamed[id] += members
    return renamed


# --- paths ----------------------------------------------------------------------------------------


def _split(path: str) -> tuple[str, str]:
    """Directory and name; the directory of a path without a slash is ``.``, that of ``.`` too."""
    directory, slash, name = path.rpartition("/")
    return (directory, name) if slash else (".", "" if path == "." else name)


def _join(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"


def _is_events(artifact: Artifact) -> bool:
    return artifact.reader == "tfevents" or "tfevents" in _split(artifact.path)[1]


def _origins(artifacts: Iterable[Artifact]) -> frozenset[str]:
    """The processes that wrote the event files, as far as the names tell: host and process id.

    A name that does not tell is an origin of its own.
    """
    names = (_split(artifact.path)[1] for artifact in artifacts if _is_events(artifact))
    return frozenset(_origin(name) for name in names)


def _origin(name: str) -> str:
    match = _ORIGIN.fullmatch(bare(name).removeprefix("events.out."))
    return name if match is None else f"{match['host']}/{match['pid']}"
