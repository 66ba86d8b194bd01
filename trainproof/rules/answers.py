"""Answers of a dataset: one for all rows, one that the prompt holds already, and calls of tools."""

from typing import Annotated

from trainproof.model.dataset import Answers, Dataset, Issue, Shape
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
)
from trainproof.model.rule import Doc, SubjectKind

from .dataset_examples import dataset, spot, tally, troubled
from .interface import Bound, Example, rule
from .prepared import COUNTED, Part, Rows, at, issues, places, settle

_ANSWERS = Part("answers", "training rows with an answer")
_OWN = Example(
    "the most frequent answer is that of 3 rows",
    dataset(Shape.ANSWER, answers=Answers(1000, "Yes.", 3, spot(4), 900)),
)


@rule(
    id="TP-PRE-ONE-ANSWER",
    title="Nearly all rows have one answer",
    level=Level.WARN,
    message="{count:,} of {rows:,} answers ({share:.1%}) are one and the same.",
    evidence="It begins: {answer}",
    needs={"answers": _ANSWERS},
    measures={
        "rows": "training rows with an answer",
        "count": "rows with the most frequent answer",
        "share": "their share",
        "answer": "its first 60 characters",
    },
    doc=Doc(
        measures="The last answer of each row, and how often the most frequent one is given.",
        means="The loss falls fast, and what is learned is to say this whatever is asked: a"
        " refusal, an error of the program that made the data, a column that was filled wrongly.",
        does_not_mean="That it is a mistake: of a class that is nearly always the same it is not,"
        " though little is learned from it all the same.",
        guards=("From 50 rows and a share of 95 % on.", "Held-out rows do not count."),
        references=("trainproof 0.22 told it as TP-PRE-DUPLICATE-TEXT",),
    ),
    fires=Example(
        "every answer is a refusal",
        dataset(Shape.ANSWER, answers=Answers(1000, "I cannot help with that.", 1000, spot(1))),
    ),
    silent=_OWN,
    subject=SubjectKind.DATASET,
)
def one_answer(
    answers: Answers,
    *,
    share: Annotated[float, Bound("share", "rows with one answer, at least", 0.0, 1.0)] = 0.95,
    least: Annotated[int, Bound("rows", "that it takes", 2)] = 50,
) -> Outcome:
    part = answers.most_rows / answers.rows
    measured: dict[str, Value] = {
        "rows": answers.rows,
        "count": answers.most_rows,
        "share": part,
    }
    if answers.rows < least:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    if part < share:
        return Clean(measured)
    return Fired((Evidence(at(answers.most_at), measured | {"answer": answers.most}),))


@rule(
    id="TP-PRE-ANSWER-IN-PROMPT",
    title="Prompts end with their answers",
    level=Level.WARN,
    message="{count:,} of {rows:,} prompts ({share:.1%}) end with the answer to be learned.",
    evidence="First at {places}.",
    needs={"answers": _ANSWERS},
    measures={
        "rows": "training rows with an answer of 20 characters or more",
        "count": "of these, rows whose prompt ends with the answer",
        "share": "their share",
        "places": "the first of them",
    },
    doc=Doc(
        measures="Whether the prompt of a row ends with its answer, character by character.",
        means="The answer can be copied: the loss is near 0 at once, and in use, where the prompt"
        " does not hold the answer, nothing was learned.",
        does_not_mean="That other rows are sound: an answer in the middle of a prompt is what"
        " reading tasks ask for, and is not looked at.",
        guards=(
            "Answers of fewer than 20 characters may end a prompt by chance.",
            "Up to a tenth of the rows nothing is said: some tasks are to repeat.",
            "In conversations the turns are apart, and it is not looked for.",
        ),
        references=("trl: prompt and completion are joined by the trainer",),
    ),
    fires=Example(
        "each prompt is the whole conversation",
        dataset(Shape.ANSWER, answers=Answers(1000, "Yes.", 3, spot(4), 900, tally(900, 1, 2))),
    ),
    silent=_OWN,
    subject=SubjectKind.DATASET,
)
def answer_in_prompt(
    answers: Answers,
    *,
    share: Annotated[float, Bound("share", "rows from which on it is told", 0.0, 1.0)] = 0.1,
    least: Annotated[int, Bound("rows", "with a long answer that it takes", 1)] = 5,
) -> Outcome:
    if answers.long < least:
        return Undecided({"rows": answers.long}, Skip.NEED_TOO_SHORT)
    found = answers.within
    measured: dict[str, Value] = {
        "rows": answers.long,
        "count": found.rows,
        "share": found.rows / answers.long,
    }
    if found.rows <= share * answers.long:
        return Clean(measured)
    shown = places(found.spots, found.rows)
    return Fired((Evidence(at(found.spots[0]), measured | {"places": shown}),))


_FORMED = "{count:,} of {rows:,} conversations with calls of tools {what}."


@rule(
    id="TP-PRE-TOOL-CALL",
    title="Calls of tools that cannot be carried out",
    level=Level.WARN,
    message=_FORMED,
    evidence="First at {places}.",
    needs={
        "data": Rows(frozenset({Shape.CHAT})),
        "calling": Part("calling", "conversations in which tools are called"),
    },
    measures=COUNTED,
    doc=Doc(
        measures="The tool_calls of each conversation: whether the arguments are a JSON object,"
        " or the text of one; whether each result (tool_call_id) is of a call that was made before"
        " it; whether the names are among the tools that the row declares.",
        means="The model learns calls that no program can parse or carry out. Templates that"
        " parse arguments stop at such a row.",
        does_not_mean="That calls written as text are right: they are not looked at.",
        guards=(
            "Arguments that are missing or empty are none, and fine.",
            "Where a call has no id, results may belong to any.",
            "Without tools that have names, no name is compared.",
        ),
        references=("OpenAI: function calling; transformers: chat templates, tools",),
    ),
    fires=Example(
        "the arguments of two calls are no JSON",
        troubled(Issue.CALL_ARGUMENTS, 2, 7, 9, shapes={Shape.CHAT: 1000}, calling=40),
    ),
    silent=Example("all calls are well formed", dataset(Shape.CHAT, calling=40)),
    subject=SubjectKind.DATASET,
)
def tool_call(data: Dataset, calling: int) -> Outcome:
    return settle(issues(data, calling, _CALLS, {}), {"rows": calling})


_CALLS = {
    Issue.CALL_ARGUMENTS: "hold a call whose arguments are no JSON object",
    Issue.CALL_UNKNOWN: "hold a result of a call that was not made before it",
    Issue.CALL_UNDECLARED: "call a tool that their row does not declare",
}
