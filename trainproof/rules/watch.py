"""Watching: what only someone who looks again and again can see."""

from typing import Annotated

from trainproof.model.data import RunView
from trainproof.model.following import Following
from trainproof.model.outcome import Clean, Evidence, Fired, Level, Outcome, Value, Where
from trainproof.model.rule import Doc, SubjectKind

from .interface import Bound, Example, Inspected, rule


@rule(
    id="TP-STALL",
    title="The log stopped growing",
    level=Level.WARN,
    message="No file of the run has changed for {silent:.0f} s.",
    evidence="The last one to change was {artifact} (limit {seconds:g} s).",
    needs={"following": Inspected(Following, "a watch on the files of the run")},
    measures={
        "silent": "seconds since a file of the run last changed",
        "finished": "whether the run says that it is over",
    },
    doc=Doc(
        measures="The time since any file of a watched run last changed.",
        means="Nothing was logged for that long: the training hangs, has died, or logs less often.",
        does_not_mean="That the process is dead: a long evaluation or a full disk look the same.",
        guards=(
            "Time counts from when the watch saw the last change, by one monotonic clock.",
            "A run that says that it is over cannot stall.",
        ),
        references=("SageMaker Debugger: StalledTraining, 1800 s", "trainproof 0.22: 300 s"),
    ),
    fires=Example(
        "nothing was written for ten minutes",
        RunView("run", inspected=Following(600.0, "log.jsonl")),
    ),
    silent=Example(
        "the log grew two seconds ago", RunView("run", inspected=Following(2.0, "log.jsonl"))
    ),
    subject=SubjectKind.WATCH,
)
def stalled(
    following: Following,
    *,
    seconds: Annotated[
        float, Bound("s", "without a change, from which on the rule fires", ge=0)
    ] = 300.0,
) -> Outcome:
    measured: dict[str, Value] = {"silent": following.silent, "finished": following.finished}
    if following.finished or following.silent < seconds:
        return Clean(measured)
    return Fired((Evidence(Where(following.artifact), measured),))
