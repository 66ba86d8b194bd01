"""Datasets before a run: rows that cannot be read, teach nothing, or teach something else."""

from collections.abc import Iterator
from typing import Annotated

from trainproof.model.data import RunView
from trainproof.model.dataset import (
    Dataset,
    FieldFacts,
    Issue,
    Labels,
    Lengths,
    Overlap,
    Repeats,
    Shape,
    Tally,
    Targets,
)
from trainproof.model.outcome import (
    Clean,
    Evidence,
    Fired,
    Level,
    Outcome,
    Skip,
    Undecided,
    Value,
    Where,
)
from trainproof.model.rule import Doc, SubjectKind, Variant
from trainproof.model.tokenizer import Template

from .dataset_examples import dataset, facts, spot, tally, troubled
from .interface import Bound, Example, Inspected, rule
from .prepared import COUNTED, Part, Rows, at, counted, issues, places, rows_of, settle

_ANY = Inspected(Dataset, "a dataset")
_CHAT = frozenset({Shape.CHAT})
_PAIRS = frozenset({Shape.PREFERENCE})
_TOKENS = frozenset({Shape.TOKENS})
_FIELDS_MOST = 10
_SOUND = Example("all rows are text and nothing is odd", dataset(characters=80_000))
_MESSAGE = "{count:,} of {rows:,} rows {what}."
_FIRST = "First at {places}."


@rule(
    id="TP-PRE-MALFORMED-JSONL",
    title="Lines that are no records",
    level=Level.FAIL,
    message="{count:,} of {rows:,} rows {what}.",
    evidence=_FIRST,
    needs={"data": _ANY},
    measures=COUNTED,
    doc=Doc(
        measures="Each row's syntax, whether it is an object (a record with named fields), and"
        " whether its bytes are UTF-8. In tables, whether it has as many fields as the header.",
        means="A loader stops there, or leaves the row out. What is no JSON and what is JSON of"
        " another kind are counted apart.",
        does_not_mean="That the rows around it are wrong.",
        guards=(
            "Blank lines are no rows.",
            "A byte order mark at the beginning is no part of the first row.",
            "NaN and Infinity, which many parsers take, are a warning.",
            "A table row with another number of fields is a warning: some loaders fill it up.",
            "So is one whose quotation marks do not pair: most loaders take it, and with a mark"
            " that is not closed the rows up to the next one.",
        ),
        references=("RFC 8259", "jsonlines.org"),
    ),
    fires=Example("two lines are cut", troubled(Issue.SYNTAX, 2, 17, 40)),
    silent=_SOUND,
    variants={
        "lenient": Variant(Level.WARN, _MESSAGE, _FIRST),
    },
    subject=SubjectKind.DATASET,
)
def malformed(data: Dataset) -> Outcome:
    found = issues(data, data.seen, _MALFORMED, _LENIENT)
    return settle(found, {"rows": data.seen})


_MALFORMED = {
    Issue.SYNTAX: "are not valid JSON, or not a valid record",
    Issue.NOT_OBJECT: "are valid JSON and not an object: they have no fields",
    Issue.ENCODING: "are not valid UTF-8",
    Issue.ARITY: "have another number of fields than the header",
    Issue.QUOTES: "have text after a closing quotation mark, or one that is never closed",
    Issue.TOO_LONG: "are longer or deeper than what is read",
    Issue.NOT_A_NUMBER: "hold NaN or Infinity, which is no JSON: strict parsers refuse it",
}
_LENIENT = dict.fromkeys((Issue.ARITY, Issue.QUOTES, Issue.TOO_LONG, Issue.NOT_A_NUMBER), "lenient")


@rule(
    id="TP-PRE-FILE-FORM",
    title="A file's name says lines, and it holds a document",
    level=Level.WARN,
    message="{count:,} of {files:,} files are named as JSON lines and hold a JSON document: a list,"
    " or records that go over several lines.",
    evidence="They are {paths}.",
    needs={"data": _ANY},
    measures={
        "files": "files that were read",
        "count": "files of which it is so",
        "paths": "the first of them",
    },
    doc=Doc(
        measures="The first line of each file of JSON and the beginning of the second, beside the"
        " end of the file's name.",
        means="Loaders differ. datasets reads both forms under both names. What reads line by line"
        " (pandas with lines=True, json.loads on each line) stops at a document, or takes all of"
        " it for one row; what reads a document (json.load, pandas without lines) stops at lines.",
        does_not_mean="That a row is lost: trainproof reads the file as what it is.",
        guards=(
            "Lines in a file named .json are a note: datasets writes them so.",
            "A first line that is cut is no document, nor is one that is a list by itself.",
        ),
        references=("measured with datasets 5.2.0 and pandas 3.1.1", "jsonlines.org"),
    ),
    fires=Example("a list is named as lines", dataset(documents=tally(1, 1))),
    silent=_SOUND,
    variants={
        "lines": Variant(
            Level.INFO,
            "{count:,} of {files:,} files are named as JSON and hold a record a line.",
            "They are {paths}.",
        ),
    },
    subject=SubjectKind.DATASET,
)
def file_form(data: Dataset) -> Outcome:
    found = [
        Evidence(
            Where(tally.spots[0].artifact),
            {"files": data.files, "count": tally.rows, "paths": _paths(tally)},
            variant,
        )
        for tally, variant in ((data.documents, ""), (data.lined, "lines"))
        if tally.rows
    ]
    return settle(found, {"files": data.files})


def _paths(tally: Tally) -> str:
    shown = ", ".join(spot.artifact for spot in tally.spots)
    more = tally.rows - len(tally.spots)
    return f"{shown} and {more:,} more" if more else shown


@rule(
    id="TP-PRE-EMPTY-TEXT",
    title="Rows without text",
    level=Level.FAIL,
    message=_MESSAGE,
    evidence=_FIRST,
    needs={"data": Rows()},
    measures=COUNTED | {"characters": "characters of all text"},
    doc=Doc(
        measures="The text of each row; of conversations and of rows with an answer, the answer.",
        means="Nothing can be learned from the row; an empty answer teaches to end at once.",
        does_not_mean="That the row is damaged: a filter may have emptied it.",
        guards=(
            "White space alone is empty.",
            "A turn that calls a tool or shows an image is not empty.",
            "One empty turn of several answers is a warning, and so is an empty turn of the user.",
            "So are empty texts among others where no answer is asked for: corpora of lines, as"
            " WikiText, keep the empty ones.",
            "An empty prompt before a completion is none, nor an instruction's empty input.",
            "Held-out rows may lack their answers: test sets hide them.",
        ),
        references=("trainproof 0.22, TP-PRE-EMPTY-TEXT", "trl #6668"),
    ),
    fires=Example("three answers are empty", troubled(Issue.EMPTY_ANSWER, 3, 4, 9, 12)),
    silent=_SOUND,
    grounds=True,
    variants={
        "turn": Variant(Level.WARN, _MESSAGE, _FIRST),
        "text": Variant(Level.WARN, _MESSAGE, _FIRST),
    },
    subject=SubjectKind.DATASET,
)
def empty_text(data: Dataset) -> Outcome:
    rows = data.rows + data.held_out
    milder = {Issue.EMPTY_TURN: "turn", Issue.EMPTY_ASKED: "turn"}
    if data.characters:
        milder[Issue.EMPTY_TEXT] = "text"
    found = issues(data, rows, _EMPTY, milder)
    if not found and not data.characters:
        return Undecided({"rows": rows, "characters": 0}, Skip.NEED_DEGENERATE)
    return settle(found, {"rows": rows, "characters": data.characters})


_EMPTY = {
    Issue.EMPTY_TEXT: "have an empty text",
    Issue.EMPTY_ANSWER: "have an empty answer",
    Issue.NO_TEXT: "lack the field that is the text",
    Issue.EMPTY_TURN: "have an empty turn among the assistant's",
    Issue.EMPTY_ASKED: "have an empty turn among the user's",
}


@rule(
    id="TP-PRE-NOT-TEXT",
    title="Something else stands where text should",
    level=Level.FAIL,
    message=_MESSAGE,
    evidence=_FIRST,
    needs={"data": Rows()},
    measures=COUNTED,
    doc=Doc(
        measures="The type of the field that is the text, the prompt or the answer of a row.",
        means="Code that makes a string of it trains on the word None or on a number; other code"
        " stops.",
        does_not_mean="That the value is wrong in itself.",
        guards=(
            "A list of turns is text, as the libraries take it.",
            "Only null is certain to be none; numbers and lists are a warning.",
            "The answer to a question may be a number, yes or no, or several texts.",
            "The content of a turn may be null: tool calls have none; so may the text beside an"
            " image.",
            "Held-out rows may lack their answers: test sets hide them.",
        ),
        references=("trainproof 0.22 read null as the text None",),
    ),
    fires=Example("one text is null", troubled(Issue.NULL_TEXT, 1, 6)),
    silent=_SOUND,
    variants={"type": Variant(Level.WARN, _MESSAGE, _FIRST)},
    subject=SubjectKind.DATASET,
)
def not_text(data: Dataset) -> Outcome:
    rows = data.rows + data.held_out
    found = issues(data, rows, _NOT_TEXT, {Issue.NOT_TEXT: "type"})
    return settle(found, {"rows": rows})


_NOT_TEXT = {
    Issue.NULL_TEXT: "have null where their text should be",
    Issue.NOT_TEXT: "have neither text nor turns where one of them should be",
}


@rule(
    id="TP-PRE-DUPLICATE-TEXT",
    title="Rows that are there twice",
    level=Level.WARN,
    message="The text of {count:,} of {compared:,} rows stood in an earlier row.",
    evidence="First at {places}; the first one repeats {first}.",
    needs={"repeats": Part("repeats", "the texts of a dataset")},
    measures={
        "compared": "rows that were compared: beyond 16,777,216 none is",
        "count": "rows whose text stood in an earlier row",
        "places": "the first of them",
        "first": "where the first of them stood before",
    },
    doc=Doc(
        measures="A hash of 64 bits of each training row's text: of the prompt and the answer, of"
        " all turns, of both texts of a pair, with the context and files that the row names.",
        means="Repeated rows weigh more, and are learned by heart.",
        does_not_mean="That they are a mistake: oversampling looks the same.",
        guards=(
            "Rows that are equal but for case and white space are counted apart, as a note.",
            "Lines of plain text count from 20 characters on.",
        ),
        references=("Lee et al. 2022, Deduplicating Training Data Makes Language Models Better",),
    ),
    fires=Example(
        "two rows are repeated",
        dataset(repeats=Repeats(1000, tally(2, 80, 91), (spot(3), spot(5)))),
    ),
    silent=Example("a thousand rows are all different", dataset(repeats=Repeats(1000))),
    variants={
        "alike": Variant(
            Level.INFO,
            "The text of {count:,} of {compared:,} rows stood in an earlier row but for case and"
            " white space.",
            "First at {places}.",
        )
    },
    subject=SubjectKind.DATASET,
)
def duplicates(repeats: Repeats) -> Outcome:
    found: list[Evidence] = []
    if repeats.exact.rows:
        found.append(_repeat(repeats, repeats.exact, {"first": str(repeats.firsts[0])}))
    if repeats.normalised.rows:
        found.append(_repeat(repeats, repeats.normalised, {}, "alike"))
    if not found and repeats.compared < 2:
        return Undecided({"compared": repeats.compared}, Skip.NEED_TOO_SHORT)
    return settle(found, {"compared": repeats.compared})


def _repeat(repeats: Repeats, tally: Tally, more: dict[str, Value], variant: str = "") -> Evidence:
    measured: dict[str, Value] = {
        "compared": repeats.compared,
        "count": tally.rows,
        "places": places(tally.spots, tally.rows),
        **more,
    }
    return Evidence(at(tally.spots[0]), measured, variant)


_SHARED_EVIDENCE = "First at {places}; the first one is {trained}, a training row."


@rule(
    id="TP-PRE-SPLIT-OVERLAP",
    title="Held-out rows are among the training rows",
    level=Level.FAIL,
    message="{count:,} of {compared:,} held-out rows ({share:.2%}) are training rows as well.",
    evidence=_SHARED_EVIDENCE,
    needs={"overlap": Part("overlap", "held-out rows, of --eval or beside the training rows")},
    measures={
        "compared": "held-out rows of 20 characters or more besides white space",
        "short": "shorter ones, which are not compared",
        "count": "held-out rows whose text is a training row's",
        "share": "their share",
        "places": "the first of them",
        "trained": "the training row of the first",
    },
    doc=Doc(
        measures="Hashes of the texts of both sides, without case and white space: the prompt"
        " together with its answer, all turns of a conversation.",
        means="What is measured on these rows is memory. From 1 % on, the score of the whole set"
        " says little about new data.",
        does_not_mean="That other rows are clean: a paraphrase is not seen.",
        guards=(
            "Rows of fewer than 20 characters besides white space are not compared.",
            "A shared prompt with another answer is no overlap.",
            "In a directory, names with train beside test, valid, val, dev or eval make the split.",
        ),
        references=("parameter-golf #2127: 80 % overlap", "datasets #4261", "OpenTextShield #194"),
    ),
    fires=Example(
        "one held-out row in ten is a training row",
        dataset(
            held_out=100, overlap=Overlap(100, 0, Tally(10, (spot(2, "test.jsonl"),)), (spot(7),))
        ),
    ),
    silent=Example(
        "no row is on both sides", dataset(held_out=100, overlap=Overlap(100, 0, Tally()))
    ),
    variants={
        "few": Variant(
            Level.WARN,
            "{count:,} of {compared:,} held-out rows ({share:.2%}) are training rows as well.",
            _SHARED_EVIDENCE,
        )
    },
    subject=SubjectKind.DATASET,
)
def overlap(
    overlap: Overlap,
    *,
    share: Annotated[float, Bound("share", "held-out rows from which it is a FAIL", 0.0, 1.0)] = (
        0.01
    ),
) -> Outcome:
    measured: dict[str, Value] = {"compared": overlap.compared, "short": overlap.short}
    if not overlap.compared:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    shared = overlap.shared
    if not shared.rows:
        return Clean(measured)
    part = shared.rows / overlap.compared
    measured |= {
        "count": shared.rows,
        "share": part,
        "places": places(shared.spots, shared.rows),
        "trained": f"{overlap.trained[0]} of {overlap.trained[0].artifact}",
    }
    variant = "" if part >= share else "few"
    return Fired((Evidence(at(shared.spots[0]), measured, variant),))


@rule(
    id="TP-PRE-SCHEMA-DRIFT",
    title="Rows differ in their fields",
    level=Level.WARN,
    message="The field {field} holds {types}.",
    evidence="It is in {count:,} of {rows:,} rows; the first of a rarer type is {places}.",
    needs={"data": Rows()},
    measures=COUNTED
    | {"field": "the field", "types": "its types, with the rows of each", "fields": "fields"},
    doc=Doc(
        measures="The names and types of the fields of each row, and what a row with these names"
        " is to a trainer.",
        means="Loaders that infer one type for a field from the first rows stop at another type,"
        " or change all values. Rows of several shapes need code for each.",
        does_not_mean="That the values are wrong.",
        guards=(
            "null goes with every type, and integers with numbers.",
            "A field that only some rows have is a note.",
            "What is inside lists and objects is not compared.",
        ),
        references=("datasets: ArrowInvalid, column changed from string to number",),
    ),
    fires=Example(
        "an answer is a number in 12 rows",
        dataset(
            fields=(
                FieldFacts(
                    "answer",
                    1000,
                    0,
                    {"string": 988, "integer": 12},
                    {"string": spot(1), "integer": spot(30)},
                ),
            )
        ),
    ),
    silent=Example(
        "each row has one text",
        dataset(fields=(FieldFacts("text", 1000, 0, {"string": 1000}, {"string": spot(1)}),)),
    ),
    variants={
        "shapes": Variant(Level.WARN, "Rows have several shapes: {what}.", _FIRST),
        "missing": Variant(
            Level.INFO,
            "The field {field} is in {count:,} of {rows:,} rows.",
            "The first row without it is {places}.",
        ),
    },
    subject=SubjectKind.DATASET,
)
def schema_drift(data: Dataset) -> Outcome:
    found = [*_shapes(data), *_mixed(data), *_partial(data)]
    return settle(found, {"rows": data.rows + data.held_out, "fields": len(data.fields)})


def _shapes(data: Dataset) -> Iterator[Evidence]:
    if len(data.shapes) < 2:
        return
    ranked = sorted(data.shapes.items(), key=lambda item: (-item[1], item[0]))
    rarer = Tally(ranked[1][1], (data.shape_at[ranked[1][0]],))
    what = ", ".join(f"{shape} ({rows:,})" for shape, rows in ranked)
    yield from counted(rarer, data.rows + data.held_out, what, "shapes")


def _mixed(data: Dataset) -> Iterator[Evidence]:
    for field in data.fields[: 10 * _FIELDS_MOST]:
        kinds = {"number" if name == "integer" else name for name in field.types}
        if len(kinds) < 2:
            continue
        ranked = sorted(field.types.items(), key=lambda item: (-item[1], item[0]))
        place = field.first[ranked[1][0]]
        yield Evidence(
            at(place),
            {
                "field": field.name,
                "types": ", ".join(f"{name} ({rows:,})" for name, rows in ranked),
                "count": field.rows,
                "rows": data.rows + data.held_out,
                "places": str(place),
            },
        )


def _partial(data: Dataset) -> Iterator[Evidence]:
    if len(data.shapes) > 1:
        return  # said already
    for field in data.fields[:_FIELDS_MOST]:
        if field.first_without is not None:
            measured: dict[str, Value] = {
                "field": field.name,
                "count": field.rows,
                "rows": data.rows + data.held_out,
                "places": str(field.first_without),
            }
            yield Evidence(at(field.first_without), measured, "missing")


@rule(
    id="TP-PRE-UNICODE",
    title="Text with broken characters",
    level=Level.WARN,
    message=_MESSAGE,
    evidence=_FIRST,
    needs={"data": Rows()},
    measures=COUNTED,
    doc=Doc(
        measures="Half surrogate pairs, the replacement character U+FFFD and NUL in each text, and"
        " letters that UTF-8 becomes when it is decoded as Latin-1 or Windows-1252.",
        means="The text was decoded wrongly somewhere: what was lost is not in the file any more."
        " Half a surrogate pair cannot be written as UTF-8, and tokenizers refuse it.",
        does_not_mean="That the rest of the row is wrong.",
        guards=(
            "Only the text of a row is looked at, and for surrogates all of it.",
            "Up to one row in a hundred, UTF-8 that was decoded as something else is a note: texts"
            " about encodings, and pages of the web, hold some.",
        ),
        references=("Unicode 15, section 5.22: U+FFFD replaces what cannot be decoded",),
    ),
    fires=Example("five rows were decoded wrongly", troubled(Issue.REPLACEMENT, 5, 8)),
    silent=_SOUND,
    variants={"few": Variant(Level.INFO, _MESSAGE, _FIRST)},
    subject=SubjectKind.DATASET,
)
def broken_characters(
    data: Dataset,
    *,
    share: Annotated[
        float, Bound("share", "rows of wrongly decoded UTF-8, up to which it is a note", 0.0, 1.0)
    ] = 0.01,
) -> Outcome:
    rows = data.rows + data.held_out
    few = data.issues.get(Issue.MOJIBAKE, Tally()).rows <= share * rows
    found = issues(data, rows, _UNICODE, {Issue.MOJIBAKE: "few"} if few else {})
    return settle(found, {"rows": rows})


_UNICODE = {
    Issue.SURROGATE: "hold half a surrogate pair, which is no character",
    Issue.REPLACEMENT: "hold the replacement character U+FFFD",
    Issue.NUL: "hold a NUL character",
    Issue.MOJIBAKE: "hold UTF-8 that was decoded as Latin-1 or Windows-1252 (é as Ã©)",
}


@rule(
    id="TP-PRE-ROLE-ORDER",
    title="Conversations whose turns do not follow each other",
    level=Level.WARN,
    message=_MESSAGE,
    evidence=_FIRST,
    needs={"data": Rows(_CHAT)},
    measures=COUNTED,
    doc=Doc(
        measures="The roles of the turns of each conversation, in the spellings of OpenAI and"
        " ShareGPT.",
        means="Chat templates that ask for user and assistant in turn refuse the conversation;"
        " others write a text that the model never sees in use.",
        does_not_mean="That every template refuses it.",
        guards=(
            "Tool turns stand between any others.",
            "Several system turns at the beginning are one.",
            "A conversation that ends with the user is a note: its last turn has no answer.",
        ),
        references=("Llama 2, Mistral and Gemma templates: roles must alternate",),
    ),
    fires=Example(
        "two user turns in a row", troubled(Issue.REPEATED_ROLE, 4, 11, shapes={Shape.CHAT: 1000})
    ),
    silent=Example("all conversations are in order", dataset(Shape.CHAT)),
    variants={"open": Variant(Level.INFO, _MESSAGE, _FIRST)},
    subject=SubjectKind.DATASET,
)
def role_order(data: Dataset) -> Outcome:
    rows = rows_of(data, _CHAT)
    found = issues(data, rows, _ORDER, {Issue.ENDS_UNANSWERED: "open"})
    return settle(found, {"rows": rows})


_ORDER = {
    Issue.BAD_TURN: "hold a turn without a role, or with a content of no known kind",
    Issue.UNKNOWN_ROLE: "hold a turn of an unknown role",
    Issue.LATE_SYSTEM: "have a system turn after the beginning",
    Issue.REPEATED_ROLE: "have two turns of the user or of the assistant in a row",
    Issue.STARTS_ANSWERED: "begin with the assistant",
    Issue.ENDS_UNANSWERED: "end with a turn that is not answered",
}


@rule(
    id="TP-PRE-NOTHING-SUPERVISED",
    title="Rows with no target of training",
    level=Level.FAIL,
    message="{count:,} of {rows:,} rows have no target that counts: all labels are -100.",
    evidence="Of {tokens:,} tokens {supervised:,} are targets. First at {places}.",
    needs={"data": Rows(_CHAT | _TOKENS)},
    measures=COUNTED
    | {"tokens": "tokens of rows with labels", "supervised": "of these, labels other than -100"},
    doc=Doc(
        measures="Of rows that are tokens, labels other than -100, which cross entropy leaves out;"
        " of conversations, turns of the assistant.",
        means="Such a row adds nothing to the gradient; a batch of them prints a loss of 0 or NaN.",
        does_not_mean="That a conversation without an assistant is useless: with a loss on all"
        " turns, or as a prompt, it is not. That is why it is a warning.",
        guards=(
            "FAIL from 1 % of the rows on, or where less than 1 % of all tokens are targets.",
            "An assistant's turn of weight 0 is no target.",
            "Labels that mostly are not their tokens (translations, tags) are not looked at.",
        ),
        references=("trl #6668, #1191, #1493, #1920", "unsloth #2095"),
    ),
    fires=Example(
        "one row in ten is masked",
        troubled(
            Issue.ALL_IGNORED,
            100,
            3,
            shapes={Shape.TOKENS: 1000},
            targets=Targets(1000, 1000, 90_000, 30_000, None, 99, spot(1)),
        ),
    ),
    silent=Example("all conversations have answers", dataset(Shape.CHAT)),
    variants={
        "few": Variant(
            Level.WARN,
            "{count:,} of {rows:,} rows have no target that counts: all labels are -100.",
            "Of {tokens:,} tokens {supervised:,} are targets. First at {places}.",
        ),
        "scarce": Variant(
            Level.FAIL,
            "Of {tokens:,} tokens only {supervised:,} are targets.",
            "{rows:,} rows have labels; the first row is {places}.",
        ),
        "unanswered": Variant(Level.WARN, _MESSAGE, _FIRST),
    },
    subject=SubjectKind.DATASET,
)
def nothing_supervised(
    data: Dataset,
    *,
    share: Annotated[float, Bound("share", "rows from which it is a FAIL", 0.0, 1.0)] = 0.01,
) -> Outcome:
    rows = rows_of(data, _CHAT)
    unanswered = issues(data, rows, {Issue.NO_ANSWER: "have no turn of the assistant"}, _UNANSWERED)
    found = [*unanswered, *_masked(data, share)]
    return settle(found, {"rows": rows_of(data, _CHAT | _TOKENS)})


_UNANSWERED = {Issue.NO_ANSWER: "unanswered"}


def _masked(data: Dataset, share: float) -> Iterator[Evidence]:
    targets = data.targets
    if targets is None or not targets.labelled:
        return
    more: dict[str, Value] = {"tokens": targets.tokens, "supervised": targets.supervised}
    ignored = data.issues.get(Issue.ALL_IGNORED, Tally())
    variant = "" if ignored.rows >= share * targets.labelled else "few"
    yield from counted(ignored, targets.labelled, "are masked", variant, **more)
    if variant and targets.supervised < share * targets.tokens:
        place: dict[str, Value] = {"rows": targets.labelled, "places": str(targets.first)}
        yield Evidence(at(targets.first), {**place, **more}, "scarce")


@rule(
    id="TP-PRE-PAIR-IDENTICAL",
    title="Pairs whose two answers are the same",
    level=Level.FAIL,
    message="{count:,} of {rows:,} pairs hold the same answer as chosen and as rejected.",
    evidence=_FIRST,
    needs={"data": Rows(_PAIRS)},
    measures=COUNTED,
    doc=Doc(
        measures="Whether chosen and rejected of a row are equal.",
        means="Nothing can be preferred: the margin is 0 whatever the weights are.",
        does_not_mean="That the other pairs are right.",
        guards=("FAIL from 1 % of the pairs on.",),
        references=("trl #1236: the loss stays at ln 2",),
    ),
    fires=Example(
        "two pairs in a hundred are the same",
        troubled(Issue.SAME_PAIR, 20, 5, 70, shapes={Shape.PREFERENCE: 1000}),
    ),
    silent=Example("all pairs differ", dataset(Shape.PREFERENCE)),
    variants={
        "few": Variant(
            Level.WARN,
            "{count:,} of {rows:,} pairs hold the same answer as chosen and as rejected.",
            _FIRST,
        )
    },
    subject=SubjectKind.DATASET,
)
def pair_identical(
    data: Dataset,
    *,
    share: Annotated[float, Bound("share", "pairs from which it is a FAIL", 0.0, 1.0)] = 0.01,
) -> Outcome:
    rows, same = rows_of(data, _PAIRS), data.issues.get(Issue.SAME_PAIR, Tally())
    variant = "" if same.rows >= share * rows else "few"
    return settle(list(counted(same, rows, "are the same", variant)), {"rows": rows})


_LABELS = Part("labels", "a field of labels with at least five rows a class")


@rule(
    id="TP-PRE-LABEL-ORDER",
    title="Rows stand in the order of their labels",
    level=Level.WARN,
    message="The rows are sorted by {field}: {rows:,} rows of {classes:,} classes make {runs:,}"
    " runs of one class.",
    evidence="A random order would make {expected:,.0f} runs (z = {z:.0f});"
    " the longest run has {longest:,} rows and begins at {places}.",
    needs={"labels": _LABELS},
    measures={
        "field": "the field of the labels",
        "rows": "rows with a label",
        "classes": "different labels",
        "runs": "stretches of rows with one label",
        "expected": "runs of a random order",
        "z": "standard deviations between the two",
        "longest": "rows of the longest run",
        "places": "where it begins",
    },
    doc=Doc(
        measures="The number of runs of equal labels, against the number in a random order"
        " (Barton and David 1957, the runs test for several classes).",
        means="Without shuffling, or with a buffer shorter than a run, batches hold one class:"
        " the loss swings with the data and the running statistics of a network follow it.",
        does_not_mean="That training goes wrong: most loaders shuffle, and the file does not say.",
        guards=(
            "Sorted means at most two runs a class; else 6 standard deviations make a note.",
            "Numbers with fractions are no labels; nor are values that hardly repeat.",
            "Only the training rows are looked at.",
        ),
        references=("insightface #377", "caffe #2343", "Barton and David 1957, Biometrika 44"),
    ),
    fires=Example(
        "two classes stand one after the other",
        dataset(labels=Labels("label", 1000, 2, "0", 500, "1", 500, 2, 501, -31.5, 500, spot(1))),
    ),
    silent=Example(
        "two classes are mixed",
        dataset(labels=Labels("label", 1000, 2, "0", 500, "1", 500, 507, 501, 0.4, 9, spot(40))),
    ),
    variants={
        "clustered": Variant(
            Level.INFO,
            "Rows of one {field} stand together: {rows:,} rows make {runs:,} runs of one class.",
            "A random order would make {expected:,.0f} runs (z = {z:.0f});"
            " the longest run has {longest:,} rows and begins at {places}.",
        )
    },
    subject=SubjectKind.DATASET,
)
def label_order(
    labels: Labels,
    *,
    deviations: Annotated[float, Bound("standard deviations", "distance that counts", 0.0)] = 6.0,
) -> Outcome:
    measured: dict[str, Value] = {
        "field": labels.field,
        "rows": labels.rows,
        "classes": labels.classes,
        "runs": labels.runs,
        "expected": labels.expected,
        "z": labels.z,
        "longest": labels.longest,
        "places": str(labels.longest_at),
    }
    if labels.classes < 2:
        return Undecided(measured, Skip.NEED_DEGENERATE)
    if labels.z > -deviations:
        return Clean(measured)
    variant = "" if labels.runs <= 2 * labels.classes else "clustered"
    return Fired((Evidence(at(labels.longest_at), measured, variant),))


@rule(
    id="TP-PRE-CLASS-BALANCE",
    title="Classes differ much in size",
    level=Level.WARN,
    message="The largest class of {field} has {ratio:,.0f} times the rows of the smallest.",
    evidence="{most} has {most_rows:,} and {least} {least_rows:,} of {rows:,} rows;"
    " there are {classes:,} classes.",
    needs={"labels": _LABELS},
    measures={
        "field": "the field of the labels",
        "rows": "rows with a label",
        "classes": "different labels",
        "most": "the label of most rows",
        "most_rows": "its rows",
        "least": "the label of fewest rows",
        "least_rows": "its rows",
        "ratio": "the one over the other",
    },
    doc=Doc(
        measures="The rows of each label.",
        means="The average loss hardly sees the small class; accuracy is high for a model that"
        " never names it.",
        does_not_mean="That it must be balanced: the world may be so.",
        guards=("From 10 times on a note, from 100 times a warning.",),
        references=("SageMaker Debugger, ClassImbalance: 10 times",),
    ),
    fires=Example(
        "one class has 4 of 1,000 rows",
        dataset(labels=Labels("label", 1000, 2, "0", 996, "1", 4, 9, 9, 0.0, 300, spot(1))),
    ),
    silent=Example(
        "two classes have one size",
        dataset(labels=Labels("label", 1000, 2, "0", 500, "1", 500, 507, 501, 0.4, 9, spot(40))),
    ),
    variants={
        "uneven": Variant(
            Level.INFO,
            "The largest class of {field} has {ratio:,.0f} times the rows of the smallest.",
            "{most} has {most_rows:,} and {least} {least_rows:,} of {rows:,} rows;"
            " there are {classes:,} classes.",
        ),
        "single": Variant(
            Level.WARN,
            "All {rows:,} rows have the {field} {most}.",
            "There is {classes:,} class: nothing can be told apart.",
        ),
    },
    subject=SubjectKind.DATASET,
)
def class_balance(
    labels: Labels,
    *,
    note: Annotated[float, Bound("times", "ratio of sizes that is a note", 1.0)] = 10.0,
    warn: Annotated[float, Bound("times", "ratio of sizes that is a warning", 1.0)] = 100.0,
) -> Outcome:
    ratio = labels.most_rows / labels.least_rows
    measured: dict[str, Value] = {
        "field": labels.field,
        "rows": labels.rows,
        "classes": labels.classes,
        "most": labels.most,
        "most_rows": labels.most_rows,
        "least": labels.least,
        "least_rows": labels.least_rows,
        "ratio": ratio,
    }
    if labels.classes > 1 and ratio < min(note, warn):
        return Clean(measured)
    variant = "single" if labels.classes < 2 else "" if ratio >= warn else "uneven"
    return Fired((Evidence(at(labels.longest_at), measured, variant),))


_LENGTHS = Part("lengths", "rows of text and a tokenizer")
_SAMPLED = "rows that were tokenized: all of the first 8,192, then fewer and fewer"
_WITHIN = Lengths(1000, 1000, 180, spot(9), 70.0, max_len=512, source="--max-len")


def _bounded(lengths: Lengths) -> Undecided | None:
    """Without a greatest length nothing is too long."""
    if lengths.max_len is None:
        return Undecided({"sampled": lengths.sampled}, Skip.NEED_ABSENT)
    return None


@rule(
    id="TP-PRE-CONTEXT-OVERFLOW",
    title="Rows are longer than what the model takes",
    level=Level.WARN,
    message="{count:,} of {sampled:,} tokenized rows have more than {limit:,} tokens.",
    evidence="The longest has {longest:,} ({limit_source}). First at {places}.",
    needs={"data": _ANY, "lengths": _LENGTHS},
    measures={
        "sampled": _SAMPLED,
        "count": "rows that are longer",
        "limit": "the greatest length, in tokens",
        "limit_source": "who says so",
        "longest": "tokens of the longest row",
        "places": "the first of them",
    },
    doc=Doc(
        measures="The tokens of rows, with those that the tokenizer adds; of conversations, what"
        " the chat template writes.",
        means="What is beyond is cut off, or the row left out, as the trainer is set.",
        does_not_mean="That something is lost where rows are packed.",
        guards=(
            "The length is --max-len, else the model_max_length of the tokenizer.",
            "Without a template a conversation is taken as its turns one after the other.",
        ),
        references=("trl #6025", "unsloth PR #11333"),
    ),
    fires=Example(
        "twelve rows are too long",
        troubled(
            Issue.OVERFLOW,
            12,
            4,
            lengths=Lengths(1000, 0, 900, spot(9), 70.0, max_len=512, source="--max-len"),
        ),
    ),
    silent=Example("all rows are short", dataset(lengths=_WITHIN)),
    subject=SubjectKind.DATASET,
)
def context_overflow(data: Dataset, lengths: Lengths) -> Outcome:
    if undecided := _bounded(lengths):
        return undecided
    measured = _length(lengths)
    over = data.issues.get(Issue.OVERFLOW, Tally())
    if not over.rows:
        return Clean(measured)
    measured |= {"count": over.rows, "places": places(over.spots, over.rows)}
    return Fired((Evidence(at(over.spots[0]), measured),))


def _length(lengths: Lengths) -> dict[str, Value]:
    return {
        "sampled": lengths.sampled,
        "limit": lengths.max_len or 0,
        "limit_source": lengths.source,
        "longest": lengths.longest,
    }


@rule(
    id="TP-PRE-ANSWER-CUT",
    title="Truncation takes the whole answer",
    level=Level.FAIL,
    message="In {count:,} of {answered:,} rows the answer begins after {limit:,} tokens.",
    evidence="That is {share:.1%} of the tokenized rows with an answer ({limit_source}). First at"
    " {places}.",
    needs={"data": _ANY, "lengths": _LENGTHS},
    measures={
        "sampled": _SAMPLED,
        "answered": "of these, rows with an answer",
        "count": "rows whose answer begins too late",
        "share": "their share",
        "limit": "the greatest length, in tokens",
        "limit_source": "who says so",
        "longest": "tokens of the longest row",
        "places": "the first of them",
    },
    doc=Doc(
        measures="The tokens before the last answer of each tokenized row.",
        means="Cut at that length, the row keeps its prompt and loses all that was to be learned.",
        does_not_mean="That rows are cut: a trainer may leave them out, pack them, or cut at the"
        " other end.",
        guards=(
            "FAIL beyond 20 % of the rows, where the caller names the length.",
            "Up to 1 % nothing is said.",
        ),
        references=("trl #6025, #6320, #613", "unsloth PR #11333"),
    ),
    fires=Example(
        "every third answer begins too late",
        troubled(
            Issue.ANSWER_CUT,
            330,
            2,
            lengths=Lengths(1000, 1000, 900, spot(9), 400.0, max_len=512, source="--max-len"),
        ),
    ),
    silent=Example("all answers are within", dataset(lengths=_WITHIN)),
    variants={
        "some": Variant(
            Level.WARN,
            "In {count:,} of {answered:,} rows the answer begins after {limit:,} tokens.",
            "That is {share:.1%} of the tokenized rows with an answer ({limit_source}). First at"
            " {places}.",
        )
    },
    subject=SubjectKind.DATASET,
)
def answer_cut(
    data: Dataset,
    lengths: Lengths,
    *,
    many: Annotated[float, Bound("share", "rows beyond which it is a FAIL", 0.0, 1.0)] = 0.2,
    few: Annotated[float, Bound("share", "rows up to which nothing is said", 0.0, 1.0)] = 0.01,
) -> Outcome:
    if undecided := _bounded(lengths):
        return undecided
    measured = _length(lengths) | {"answered": lengths.answered}
    if not lengths.answered:
        return Undecided(measured, Skip.NEED_ABSENT)
    cut = data.issues.get(Issue.ANSWER_CUT, Tally())
    share = cut.rows / lengths.answered
    if not cut.rows or share <= few:
        return Clean(measured | {"count": cut.rows})
    measured |= {"count": cut.rows, "share": share, "places": places(cut.spots, cut.rows)}
    certain = share > many and lengths.source == "--max-len"
    return Fired((Evidence(at(cut.spots[0]), measured, "" if certain else "some"),))


@rule(
    id="TP-PRE-NO-EOS-TARGET",
    title="No row teaches to stop",
    level=Level.FAIL,
    message="None of {rows:,} rows has a token that ends an answer among its targets.",
    evidence="The first row is {places}; {supervised:,} of {tokens:,} tokens are targets.",
    needs={"data": _ANY},
    measures={
        "rows": "rows with labels, or that went through the chat template",
        "ended": "of these, rows that end",
        "tokens": "tokens of rows with labels",
        "supervised": "of these, labels other than -100",
        "places": "the first row",
    },
    doc=Doc(
        measures="Of rows that are tokens, whether the end of text or another special token is"
        " among the labels; of conversations, whether the template writes one after the answer.",
        means="The model never learns when an answer is over, and writes on.",
        does_not_mean="That a trainer does not add it: only rows that are tokens are final.",
        guards=(
            "FAIL only where some tokens are masked: chunks of running text may hold no end.",
            "At least 20 rows.",
            "It needs a tokenizer that declares its special tokens.",
        ),
        references=("trl #1623, #734", "unsloth #416"),
    ),
    fires=Example(
        "no label ends an answer",
        dataset(
            Shape.TOKENS,
            targets=Targets(1000, 1000, 90_000, 30_000, 0, 99, spot(1)),
        ),
    ),
    silent=Example(
        "every row has an end among its labels",
        dataset(
            Shape.TOKENS,
            targets=Targets(1000, 1000, 90_000, 30_000, 1000, 99, spot(1)),
        ),
    ),
    variants={
        "chunks": Variant(
            Level.WARN,
            "None of {rows:,} rows has a token that ends a text.",
            "The first row is {places}; all {tokens:,} tokens are targets.",
        ),
        "template": Variant(
            Level.WARN,
            "The chat template writes no special token after the answers of {rows:,}"
            " conversations.",
            "The longest of them is {places}.",
        ),
    },
    subject=SubjectKind.DATASET,
)
def no_eos_target(
    data: Dataset,
    *,
    least: Annotated[int, Bound("rows", "rows that it takes", 1)] = 20,
) -> Outcome:
    targets, lengths = data.targets, data.lengths
    if targets is not None and targets.labelled and targets.ended is not None:
        measured: dict[str, Value] = {
            "rows": targets.labelled,
            "ended": targets.ended,
            "tokens": targets.tokens,
            "supervised": targets.supervised,
            "places": str(targets.first),
        }
        variant = "" if targets.supervised < targets.tokens else "chunks"
        return _ending(measured, least, Evidence(at(targets.first), measured, variant))
    if lengths is not None and lengths.rendered:
        measured = {
            "rows": lengths.rendered,
            "ended": lengths.closed,
            "places": str(lengths.longest_at),
        }
        return _ending(measured, least, Evidence(at(lengths.longest_at), measured, "template"))
    return Undecided({"rows": 0}, Skip.NEED_ABSENT)


def _ending(measured: dict[str, Value], least: int, evidence: Evidence) -> Outcome:
    if measured["ended"]:
        return Clean(measured)
    if int(measured["rows"]) < least:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    return Fired((evidence,))


@rule(
    id="TP-PRE-DOUBLE-BOS",
    title="The beginning of text stands twice",
    level=Level.WARN,
    message="{count:,} of {rows:,} tokenized rows begin with the token of the beginning, which"
    " encoding adds once more.",
    evidence=_FIRST,
    needs={"data": _ANY, "lengths": _LENGTHS},
    measures=COUNTED,
    doc=Doc(
        measures="Whether the text of a row, or what the chat template writes of it, begins with"
        " the token that encoding puts before every text.",
        means="The model sees the token twice in training and once in use, or the other way round.",
        does_not_mean="That the trainer lets the tokenizer add it.",
        guards=(
            "Only for tokenizers whose encoding adds the token.",
            "What the chat template writes is a note: apply_chat_template of transformers encodes"
            " it without adding the token.",
        ),
        references=("unsloth PR #10312", "DeepSeek-R1 #151", "reward-bench #164"),
    ),
    fires=Example(
        "every row begins with the token",
        troubled(Issue.DOUBLE_BOS, 1000, 1, lengths=_WITHIN, tokenizer=facts()),
    ),
    silent=Example("no row begins with it", dataset(lengths=_WITHIN, tokenizer=facts())),
    variants={
        "template": Variant(
            Level.INFO,
            "The chat template begins {count:,} of {rows:,} tokenized rows with the token of the"
            " beginning, which encoding its text would add once more.",
            _FIRST,
        )
    },
    subject=SubjectKind.DATASET,
)
def double_bos(data: Dataset, lengths: Lengths) -> Outcome:
    found = issues(data, lengths.sampled, _TWICE, {Issue.TEMPLATE_BOS: "template"})
    return settle(found, {"rows": lengths.sampled})


_TWICE = {
    Issue.DOUBLE_BOS: "begin with the token of the beginning",
    Issue.TEMPLATE_BOS: "begin with it where the chat template writes them",
}


@rule(
    id="TP-PRE-TEMPLATE-REFUSES",
    title="The chat template refuses conversations",
    level=Level.WARN,
    message="{count:,} of {rows:,} conversations are refused by the chat template.",
    evidence=_FIRST,
    needs={"data": Rows(_CHAT), "lengths": _LENGTHS},
    measures=COUNTED,
    doc=Doc(
        measures="Whether the template, rendered in a sandbox, writes a text of each conversation.",
        means="A trainer that renders with it stops there.",
        does_not_mean="That the conversation is wrong.",
        guards=("The template gets the roles and the texts; tools and documents are not given.",),
        references=("transformers: chat templates, raise_exception",),
    ),
    fires=Example(
        "seven are refused",
        troubled(
            Issue.NOT_RENDERED,
            7,
            3,
            shapes={Shape.CHAT: 1000},
            lengths=Lengths(1000, 1000, 180, spot(9), 70.0, rendered=993, closed=993),
        ),
    ),
    silent=Example(
        "all are rendered",
        dataset(
            Shape.CHAT,
            lengths=Lengths(1000, 1000, 180, spot(9), 70.0, rendered=1000, closed=1000),
        ),
    ),
    subject=SubjectKind.DATASET,
)
def template_refuses(data: Dataset, lengths: Lengths) -> Outcome:
    refused = data.issues.get(Issue.NOT_RENDERED, Tally())
    rows = lengths.rendered + refused.rows
    if not rows:
        return Undecided({"rows": 0}, Skip.NEED_ABSENT)
    return settle(list(counted(refused, rows, "are refused")), {"rows": rows})


@rule(
    id="TP-PRE-ID-RANGE",
    title="Tokens that the vocabulary does not have",
    level=Level.FAIL,
    message="The largest token is {largest:,}; the vocabulary ends before {size:,}.",
    evidence="{rows:,} rows are tokens; the first is {places}.",
    needs={"data": Rows(_TOKENS)},
    measures=COUNTED
    | {"largest": "the largest token", "size": "one more than the last of the vocabulary"},
    doc=Doc(
        measures="The least and the largest of the numbers of rows that are tokens, and whether"
        " labels are as many as tokens.",
        means="An embedding has no row for the token: the lookup stops, or reads what is not its"
        " own.",
        does_not_mean="That the other tokens are those of this tokenizer.",
        guards=(
            "Without a tokenizer only negative numbers count, and they are a warning: models of"
            " images and text replace such placeholders before the lookup (-200 in LLaVA).",
            "Labels are compared in number only where they mostly are their tokens: those of"
            " translations, tags and classes have lengths of their own.",
        ),
        references=("transformers #4875", "number-token-loss #19"),
    ),
    fires=Example(
        "token 99 is met and the vocabulary has 50",
        dataset(
            Shape.TOKENS,
            targets=Targets(1000, 0, 0, 0, None, 99, spot(1)),
            tokenizer=facts(size=50, embedding=50),
        ),
    ),
    silent=Example(
        "the tokens go up to 99",
        dataset(Shape.TOKENS, targets=Targets(1000, 0, 0, 0, None, 99, spot(1))),
    ),
    variants={
        "negative": Variant(Level.WARN, _MESSAGE, _FIRST),
        "unequal": Variant(Level.FAIL, _MESSAGE, _FIRST),
    },
    subject=SubjectKind.DATASET,
)
def id_range(data: Dataset) -> Outcome:
    targets = data.targets
    if targets is None:
        return Undecided({"rows": 0}, Skip.NEED_ABSENT)
    words = {Issue.ID_RANGE: "hold negative tokens"}
    if targets.labelled:
        words[Issue.UNEQUAL_LENGTHS] = "have another number of labels than of tokens"
    variants = {Issue.ID_RANGE: "negative", Issue.UNEQUAL_LENGTHS: "unequal"}
    found = issues(data, targets.rows, words, variants)
    if data.tokenizer is not None:
        size = max(data.tokenizer.size, data.tokenizer.embedding or 0)
        if targets.largest >= size:
            measured: dict[str, Value] = {
                "largest": targets.largest,
                "size": size,
                "rows": targets.rows,
                "places": str(targets.first),
            }
            found.append(Evidence(at(targets.first), measured))
    return settle(found, {"rows": targets.rows, "largest": targets.largest})


def _templated(generation: bool) -> RunView:
    """Conversations, and a tokenizer with a template."""
    shown = Template("chat_template.jinja", generation, writes_bos=False, characters=400)
    return dataset(Shape.CHAT, tokenizer=facts(template=shown))


@rule(
    id="TP-PRE-NO-GENERATION-BLOCK",
    title="The template does not mark the answers",
    level=Level.INFO,
    message="The chat template has no generation block: a loss on the assistant's turns alone"
    " cannot be masked with it.",
    evidence="{rows:,} rows are conversations; the template is of {source}.",
    needs={"data": Rows(_CHAT)},
    measures={
        "rows": "conversations",
        "source": "where the template is from",
        "characters": "its length",
    },
    doc=Doc(
        measures="Whether the text of the template holds a generation tag.",
        means="With assistant_only_loss, or return_assistant_tokens_mask, every token is masked,"
        " or training stops.",
        does_not_mean="That another way of masking does not work: with a loss on all turns or on"
        " completions the block is not needed.",
        guards=("It is a note: the dataset does not say which loss is meant.",),
        references=("marin #7237", "transformers #34494", "trl PR #4201"),
    ),
    fires=Example("the template has no such block", _templated(generation=False)),
    silent=Example("the template has one", _templated(generation=True)),
    subject=SubjectKind.DATASET,
)
def no_generation_block(data: Dataset) -> Outcome:
    template = None if data.tokenizer is None else data.tokenizer.template
    rows = rows_of(data, _CHAT)
    if template is None:
        return Undecided({"rows": rows}, Skip.NEED_ABSENT)
    measured: dict[str, Value] = {
        "rows": rows,
        "source": template.source,
        "characters": template.characters,
    }
    if template.generation:
        return Clean(measured)
    place = data.shape_at[Shape.CHAT]
    return Fired((Evidence(at(place), measured),))
