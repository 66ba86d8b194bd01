"""Corpora for speech recognition and synthesis: audio files, and what is said in them."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from trainproof.model.data import Floats, RunView
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
from trainproof.model.speech import FULL, SAMPLED_SECONDS, SILENT, Corpus, Spot, Spots, Spread

from .interface import Bound, Example, Inspected, rule
from .saved import NAMED, named

CORPUS = Inspected(Corpus, "a corpus of speech")
_0_22 = "trainproof 0.22: {}"

_FILES = {
    "files": "audio files that were read",
    "count": "those of them in question",
    "names": "the first few of these",
}
_ROWS = {
    "rows": "rows with a transcript that is not empty",
    "count": "those of them in question",
    "names": "the first few of these",
}


def _values(*numbers: float) -> Spread:
    """For examples: the same row for each number, in the order of the numbers."""
    spots = [Spot("manifest.jsonl", n, f"{n}.wav", v) for n, v in enumerate(numbers, 1)]
    rising = sorted(spots, key=lambda spot: spot.value)
    return Spread(np.array(numbers), tuple(rising), tuple(rising[::-1]))


def _spots(*names: str) -> Spots:
    spots = tuple(Spot("manifest.jsonl", n, name) for n, name in enumerate(names, 1))
    return Spots(len(names), spots)


def _view(**fields: object) -> RunView:
    said: dict[str, object] = {
        "rows": 20,
        "audio": 20,
        "texts": 20,
        "rates": {22050: 20},
        "channels": {1: 20},
        "compared": 20,
        "durations": _values(*[3.0] * 20),
        "misdeclared": _values(*[0.0] * 20),
        "speed": _values(*[14.0] * 20),
        "flats": _values(*[1] * 20),
        "silences": _values(*[0.4] * 20),
        "sampled": 20,
        **fields,
    }
    return RunView("corpus", inspected=Corpus(**said))  # type: ignore[arg-type]


_GOOD = Example("twenty sentences of three seconds", _view())


def _judged(
    spots: Spots | tuple[Spot, ...], measured: Mapping[str, Value], variant: str = ""
) -> Outcome:
    """Fired at the first of the spots, naming the first few; clean without any."""
    first = spots.first if isinstance(spots, Spots) else spots
    if not first:
        return Clean({**measured, "count": 0})
    where = Where(first[0].artifact, line=first[0].line)
    count = spots.count if isinstance(spots, Spots) else measured["count"]
    told = {**measured, "count": count, "names": _names(first, int(count))}
    return Fired((Evidence(where, told, variant),))


def _names(first: tuple[Spot, ...], count: int) -> str:
    shown = ", ".join(spot.name for spot in first[:NAMED])
    more = count - min(NAMED, len(first))
    return f"{shown} and {more:,} more" if more > 0 else shown


def _absent(measured: Mapping[str, Value]) -> Undecided:
    return Undecided(measured, Skip.NEED_ABSENT)


# --- files --------------------------------------------------------------------------------------


@rule(
    id="TP-DATA-MISSING-AUDIO",
    title="Audio files do not exist",
    level=Level.FAIL,
    message="{count:,} of the audio files that rows name do not exist: {names}.",
    evidence="{files:,} others could be read, in {rows:,} rows.",
    needs={"corpus": CORPUS},
    measures={**_FILES, "rows": "rows of the corpus"},
    doc=Doc(
        measures="Whether the file that each row names is there: relative to the manifest, in the"
        " directory that corpora of its kind have (wavs, clips, audio), or relative to where"
        " trainproof was started.",
        means="A loader that meets the row ends the training, or passes it over in silence.",
        does_not_mean="That the audio is lost: it may be under another path on another machine.",
        guards=(
            "A file that is there and cannot be opened is TP-DATA-UNREADABLE-AUDIO.",
            "Commands of Kaldi are not run, and their rows not judged; nor are addresses, and"
            " members of the archives of NeMo (rows with a shard_id).",
        ),
        references=(_0_22.format("TP-DATA-MISSING-AUDIO"),),
    ),
    fires=Example("one of them is not there", _view(audio=19, missing=_spots("a.wav"))),
    silent=_GOOD,
    grounds=True,
    subject=SubjectKind.SPEECH,
)
def missing_audio(corpus: Corpus) -> Outcome:
    measured: dict[str, Value] = {"files": corpus.audio, "rows": corpus.rows}
    if not corpus.missing.count and not corpus.audio:
        return Undecided(measured, Skip.NEED_UNREADABLE)
    return _judged(corpus.missing, measured)


@rule(
    id="TP-DATA-UNREADABLE-AUDIO",
    title="Audio files cannot be read",
    level=Level.WARN,
    message="{count:,} of {files:,} audio files cannot be read: {names}.",
    evidence="The first: {why}.",
    needs={"corpus": CORPUS},
    measures={
        **_FILES,
        "files": "audio files that exist and are of a known format",
        "why": "what is wrong with the first",
    },
    doc=Doc(
        measures="Whether libsndfile, or the wave module for WAV, can read the file's header.",
        means="The files are empty, cut in their header, or something else under the name of"
        " audio.",
        does_not_mean="That other decoders could not read them.",
        guards=(
            "Only formats that the decoder knows are judged; of others it is said that they were"
            " not read.",
        ),
        references=(_0_22.format("TP-DATA-UNREADABLE-AUDIO"), "libsndfile: supported formats"),
    ),
    fires=Example(
        "one has no bytes",
        _view(unreadable=Spots(1, (Spot("m.jsonl", 1, "a.wav", 0.0, "it has no bytes"),))),
    ),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def unreadable_audio(corpus: Corpus) -> Outcome:
    measured: dict[str, Value] = {"files": corpus.audio + corpus.unreadable.count}
    if corpus.unreadable.count:
        measured["why"] = corpus.unreadable.first[0].detail.rstrip(".") or "no reason told"
    elif not corpus.audio:
        return _absent(measured)
    return _judged(corpus.unreadable, measured)


@rule(
    id="TP-DATA-TRUNCATED-AUDIO",
    title="Audio files end before their end",
    level=Level.WARN,
    message="{count:,} of {files:,} audio files are shorter than their headers say: {names}.",
    evidence="A WAV file tells its size in its first bytes.",
    needs={"corpus": CORPUS},
    measures=_FILES,
    doc=Doc(
        measures="The size that the header of a WAV file tells, against the size of the file.",
        means="The end of the recording is missing, and the transcript says more than is heard.",
        does_not_mean="Anything about formats other than WAV.",
        guards=("Sizes that stand for not knowing, as streams write them, are left out.",),
        references=("Microsoft: Multimedia Programming Interface and Data Specifications, RIFF",),
    ),
    fires=Example("one is cut", _view(cut=_spots("a.wav"))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def truncated_audio(corpus: Corpus) -> Outcome:
    measured: dict[str, Value] = {"files": corpus.audio}
    return _judged(corpus.cut, measured) if corpus.audio else _absent(measured)


def _mix(corpus: Corpus, counts: Mapping[int, int], odd: Spots) -> Outcome:
    measured: dict[str, Value] = {"files": corpus.audio, "values": len(counts)}
    if not counts:
        return _absent(measured)
    usual = max(counts, key=lambda value: (counts[value], -value))
    others = (f"{value:,} ({count:,} files)" for value, count in counts.items() if value != usual)
    told = {**measured, "usual": usual, "others": named(others) or "none"}
    return _judged(odd, told)


_MIX = {
    **_FILES,
    "values": "different values",
    "usual": "the value of most files",
    "others": "the other values",
}


@rule(
    id="TP-DATA-INCONSISTENT-SR",
    title="Sample rates differ",
    level=Level.WARN,
    message="{count:,} of {files:,} audio files have another sample rate than most: {names}.",
    evidence="Most have {usual:,} Hz; others have {others}.",
    needs={"corpus": CORPUS},
    measures=_MIX,
    doc=Doc(
        measures="The sample rate in the header of every file.",
        means="A loader that does not resample makes voices too deep or too high, and too slow or"
        " too fast.",
        does_not_mean="Anything where the loader resamples, as many do.",
        guards=(
            "A warning, and no FAIL as in 0.22: the corpus does not say what the loader does.",
        ),
        references=(_0_22.format("TP-DATA-INCONSISTENT-SR"),),
    ),
    fires=Example(
        "one of 16 kHz among 22.05 kHz",
        _view(rates={16000: 1, 22050: 19}, odd_rates=_spots("a.wav")),
    ),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def inconsistent_rates(corpus: Corpus) -> Outcome:
    return _mix(corpus, corpus.rates, corpus.odd_rates)


@rule(
    id="TP-DATA-INCONSISTENT-CHANNELS",
    title="Numbers of channels differ",
    level=Level.WARN,
    message="{count:,} of {files:,} audio files have other numbers of channels than most: {names}.",
    evidence="Most have {usual:,}; others have {others}.",
    needs={"corpus": CORPUS},
    measures=_MIX,
    doc=Doc(
        measures="The number of channels in the header of every file.",
        means="A loader that expects one channel takes two as one of twice the length, or ends.",
        does_not_mean="Anything where the loader mixes channels down.",
        guards=(
            "A warning, and no FAIL as in 0.22: the corpus does not say what the loader does.",
        ),
        references=(_0_22.format("TP-DATA-INCONSISTENT-CHANNELS"),),
    ),
    fires=Example("one is stereo", _view(channels={1: 19, 2: 1}, odd_channels=_spots("a.wav"))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def inconsistent_channels(corpus: Corpus) -> Outcome:
    return _mix(corpus, corpus.channels, corpus.odd_channels)


@rule(
    id="TP-DATA-DUPLICATES",
    title="Audio files are the same",
    level=Level.WARN,
    message="{count:,} of {files:,} audio files have the same bytes as one before: {names}.",
    evidence="The first is the same as {same}.",
    needs={"corpus": CORPUS},
    measures={**_FILES, "same": "the file that the first is the same as"},
    variants={
        "listed": Variant(
            Level.WARN,
            "{count:,} rows name an audio file that the same manifest has named before: {names}.",
            "{files:,} different files were read.",
        )
    },
    doc=Doc(
        measures="The bytes of files of one size: both ends of all, and then all bytes of those"
        " that agree. Also whether a manifest names a file twice.",
        means="What is heard twice counts twice; with two transcripts, one is wrong; in two"
        " splits, the evaluation leaks.",
        does_not_mean="That recordings which were coded again are different ones.",
        guards=(
            "Files above 256 MB are not compared.",
            "Parts of one recording (Kaldi's segments) may name the same file.",
        ),
        references=(_0_22.format("TP-DATA-DUPLICATES"),),
    ),
    fires=Example(
        "a copy",
        _view(identical=Spots(1, (Spot("m.jsonl", 2, "b.wav", 0.0, "a.wav"),))),
    ),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def duplicates(corpus: Corpus) -> Outcome:
    measured: dict[str, Value] = {"files": corpus.audio}
    if corpus.identical.count:
        return _judged(corpus.identical, {**measured, "same": corpus.identical.first[0].detail})
    if corpus.listed_twice.count:
        return _judged(corpus.listed_twice, measured, "listed")
    return Clean(measured) if corpus.audio else _absent(measured)


# --- durations ----------------------------------------------------------------------------------

_SECONDS = {
    **_FILES,
    "shortest": "seconds of the shortest",
    "median": "seconds of the one in the middle",
    "longest": "seconds of the longest",
}


def _beyond(spread: Spread, wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(np.count_nonzero(wrong)) if len(spread.values) else 0


def _lasting(seconds: Floats, extremes: tuple[Spot, ...], limit: float, sign: int) -> Outcome:
    """Recordings that last longer than the limit; with the sign turned, not as long."""
    if not len(seconds):
        return _absent({"files": 0})
    beyond = tuple(spot for spot in extremes if sign * spot.value > sign * limit)
    measured = {
        "files": len(seconds),
        "shortest": float(seconds.min()),
        "median": float(np.median(seconds)),
        "longest": float(seconds.max()),
        "count": int(np.count_nonzero(sign * seconds > sign * limit)),
    }
    return _judged(beyond, measured)


@rule(
    id="TP-DATA-DURATION-LONG",
    title="Recordings are very long",
    level=Level.WARN,
    message="{count:,} of {files:,} recordings are longer than {most:g} s: {names}.",
    evidence="The shortest has {shortest:.2f} s, the median is {median:.2f} s, the longest has"
    " {longest:.2f} s.",
    needs={"corpus": CORPUS},
    measures=_SECONDS,
    doc=Doc(
        measures="The duration of every row.",
        means="Long recordings decide how much memory a batch takes, and alignment is lost in"
        " them.",
        does_not_mean="That they harm: some models are made for long ones.",
        guards=("Of segments, what counts is the segment.",),
        references=(_0_22.format("TP-DATA-DURATION-LONG, 25 s"),),
    ),
    fires=Example("one of a minute", _view(durations=_values(*[3.0] * 19, 60.0))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def duration_long(
    corpus: Corpus,
    *,
    most: Annotated[float, Bound("s", "that a recording may last", ge=0)] = 25.0,
) -> Outcome:
    return _lasting(corpus.durations.values, corpus.durations.greatest, most, 1)


@rule(
    id="TP-DATA-DURATION-SHORT",
    title="Recordings are very short",
    level=Level.WARN,
    message="{count:,} of {files:,} recordings are shorter than {least:g} s: {names}.",
    evidence="The shortest has {shortest:.2f} s, the median is {median:.2f} s, the longest has"
    " {longest:.2f} s.",
    needs={"corpus": CORPUS},
    measures=_SECONDS,
    doc=Doc(
        measures="The duration of every row.",
        means="Fewer frames than a transcript has tokens make the loss of CTC infinite; nothing"
        " can be learned from a breath.",
        does_not_mean="That they are wrong: single words can be short.",
        guards=("Of segments, what counts is the segment.",),
        references=(_0_22.format("TP-DATA-DURATION-SHORT, 0.5 s"),),
    ),
    fires=Example("one of a tenth of a second", _view(durations=_values(*[3.0] * 19, 0.1))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def duration_short(
    corpus: Corpus,
    *,
    least: Annotated[float, Bound("s", "that a recording must last", ge=0)] = 0.5,
) -> Outcome:
    return _lasting(corpus.durations.values, corpus.durations.least, least, -1)


@rule(
    id="TP-DATA-DURATION-DECLARED",
    title="Manifest and audio disagree on durations",
    level=Level.WARN,
    message="{count:,} of {files:,} durations in the manifest are off by more than {most:g} s:"
    " {names}.",
    evidence="The first says {declared} and is off by {greatest:.2f} s.",
    needs={"corpus": CORPUS},
    measures={
        **_FILES,
        "declared": "the duration that the manifest tells",
        "greatest": "the greatest difference, in seconds",
    },
    doc=Doc(
        measures="The duration in the manifest (NeMo) against that of the audio file.",
        means="Batches are made by the manifest: they do not fit into memory, or files are left"
        " out that should not be. Often the audio was cut after the manifest was written.",
        does_not_mean="Which of the two is right.",
        guards=("Rows without a duration, and segments, are left out.",),
        references=("NeMo: manifest format (audio_filepath, text, duration)",),
    ),
    fires=Example(
        "one is off by two seconds",
        _view(
            misdeclared=Spread(
                np.array([0.0] * 19 + [2.0]), (), (Spot("m.jsonl", 20, "20.wav", 2.0, "5 s"),)
            )
        ),
    ),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def duration_declared(
    corpus: Corpus,
    *,
    most: Annotated[float, Bound("s", "that a declared duration may be off", ge=0)] = 0.1,
) -> Outcome:
    spread = corpus.misdeclared
    measured: dict[str, Value] = {"files": len(spread.values)}
    if not len(spread.values):
        return _absent(measured)
    measured |= {"greatest": float(spread.values.max())}
    off = tuple(spot for spot in spread.greatest if spot.value > most)
    if off:
        measured |= {"declared": off[0].detail, "count": _beyond(spread, spread.values > most)}
    return _judged(off, measured)


@rule(
    id="TP-DATA-CHAR-RATE-OUTLIER",
    title="Transcripts do not fit the length of the audio",
    level=Level.WARN,
    message="{count:,} of {rows:,} transcripts are more than {ratio:g} times as fast, or as slow,"
    " as the median: {names}.",
    evidence="The median is {median:.1f} characters a second, the fastest {fastest:.1f}, the"
    " slowest {slowest:.1f}.",
    needs={"corpus": CORPUS},
    measures={
        **_ROWS,
        "median": "characters a second of the row in the middle",
        "fastest": "those of the fastest",
        "slowest": "those of the slowest",
    },
    doc=Doc(
        measures="Characters of the transcript over seconds of the audio, for every row.",
        means="Transcript and audio may belong to different sentences, or one of them is cut.",
        does_not_mean="That they do: long pauses and numbers written as digits are slow as well.",
        guards=(
            "At least ten rows are needed.",
            "Scripts that write a word in one character are compared within the same corpus only.",
        ),
        references=(_0_22.format("TP-DATA-CHAR-RATE-OUTLIER, 3 times"),),
    ),
    fires=Example("one of 130 characters a second", _view(speed=_values(*[14.0] * 19, 130.0))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def char_rate(
    corpus: Corpus,
    *,
    ratio: Annotated[float, Bound("ratio", "to the median, in both directions", ge=1)] = 3.0,
    least: Annotated[int, Bound("rows", "that are needed for a median", ge=1)] = 10,
) -> Outcome:
    speeds = corpus.speed.values
    measured: dict[str, Value] = {"rows": len(speeds)}
    if not len(speeds):
        return _absent(measured)
    median = float(np.median(speeds))
    measured |= {
        "median": median,
        "fastest": float(speeds.max()),
        "slowest": float(speeds.min()),
    }
    if len(speeds) < least:
        return Undecided(measured, Skip.NEED_TOO_SHORT)
    high, low = ratio * median, median / ratio
    fast = tuple(spot for spot in corpus.speed.greatest if spot.value > high)
    slow = tuple(spot for spot in corpus.speed.least if spot.value < low)
    count = _beyond(corpus.speed, (speeds > high) | (speeds < low))
    return _judged((*fast, *slow), {**measured, "count": count})


# --- samples ------------------------------------------------------------------------------------

_SAMPLED = {
    "files": "files whose samples were read",
    "count": "those of them in question",
    "names": "the most extreme of these",
}


@rule(
    id="TP-DATA-CLIPPING",
    title="Recordings are clipped",
    level=Level.WARN,
    message="{count:,} of {files:,} recordings are clipped: {names}.",
    evidence="The worst has {longest:,} equal samples in a row at full scale (limit {least:,}).",
    needs={"corpus": CORPUS},
    measures={**_SAMPLED, "longest": "the most equal samples in a row at full scale"},
    doc=Doc(
        measures=f"The most samples in a row that are equal and at least {FULL:.0%} of full scale,"
        f" in the first {SAMPLED_SECONDS:g} s of at most 10,000 files.",
        means="The recording was too loud for its converter or its coding, and is distorted.",
        does_not_mean="That it can be heard.",
        guards=(
            "A loud sample alone, or a recording that was normalised to full scale, does not"
            " count: a wave that is not clipped has no flat top.",
            "Lossy coding (MP3, Ogg) rounds flat tops off: clipping before it is not seen.",
        ),
        references=(_0_22.format("TP-DATA-CLIPPING, by the peak alone"),),
    ),
    fires=Example("one has a flat top", _view(flats=_values(*[1] * 19, 40))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def clipping(
    corpus: Corpus,
    *,
    least: Annotated[int, Bound("samples", "in a row, equal at full scale", ge=2)] = 4,
) -> Outcome:
    spread = corpus.flats
    measured: dict[str, Value] = {"files": len(spread.values)}
    if not len(spread.values):
        return _absent(measured)
    measured |= {"longest": int(spread.values.max())}
    flat = tuple(spot for spot in spread.greatest if spot.value >= least)
    return _judged(flat, {**measured, "count": _beyond(spread, spread.values >= least)})


@rule(
    id="TP-DATA-SILENCE",
    title="Recordings hold long silence",
    level=Level.WARN,
    message="{count:,} of {files:,} recordings hold more than {most:g} s of silence: {names}.",
    evidence="The longest silence lasts {longest:.2f} s.",
    needs={"corpus": CORPUS},
    measures={**_SAMPLED, "longest": "seconds of the longest silence"},
    doc=Doc(
        measures=f"The longest stretch in which every sample is below {SILENT:.1%} of full scale,"
        f" in the first {SAMPLED_SECONDS:g} s of at most 10,000 files.",
        means="Models for synthesis learn to be silent; alignment is lost in long pauses.",
        does_not_mean="That nobody speaks: a quiet recording can be below the limit.",
        guards=("Where noise is louder than the limit, silence is not seen.",),
        references=(_0_22.format("TP-DATA-SILENCE, 2 s below 0.5 % of full scale"),),
    ),
    fires=Example("one is silent for three seconds", _view(silences=_values(*[0.4] * 19, 3.0))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def silence(
    corpus: Corpus,
    *,
    most: Annotated[float, Bound("s", "that a silence may last", ge=0)] = 2.0,
) -> Outcome:
    spread = corpus.silences
    measured: dict[str, Value] = {"files": len(spread.values)}
    if not len(spread.values):
        return _absent(measured)
    measured |= {"longest": float(spread.values.max())}
    long = tuple(spot for spot in spread.greatest if spot.value > most)
    return _judged(long, {**measured, "count": _beyond(spread, spread.values > most)})


# --- transcripts --------------------------------------------------------------------------------


@rule(
    id="TP-DATA-EMPTY-TRANSCRIPT",
    title="Transcripts are empty",
    level=Level.WARN,
    message="{count:,} of {rows:,} transcripts are empty: {names}.",
    evidence="They hold nothing but white space.",
    needs={"corpus": CORPUS},
    measures={**_ROWS, "rows": "rows with a transcript, empty or not"},
    doc=Doc(
        measures="Whether a transcript holds anything but white space.",
        means="The model learns that nothing is said, or the loader ends.",
        does_not_mean="That something is said in the audio.",
        guards=("Rows of a corpus that has no transcripts at all are not judged.",),
        references=(_0_22.format("TP-DATA-EMPTY-TRANSCRIPT"),),
    ),
    fires=Example("one is empty", _view(empty=_spots("a.wav"))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def empty_transcript(corpus: Corpus) -> Outcome:
    measured: dict[str, Value] = {"rows": corpus.texts}
    return _judged(corpus.empty, measured) if corpus.texts else _absent(measured)


def _written(corpus: Corpus) -> dict[str, Value]:
    return {"rows": corpus.texts - corpus.empty.count}


@rule(
    id="TP-DATA-UNNORMALIZED",
    title="Transcripts are not written as they are spoken",
    level=Level.WARN,
    message="{count:,} of {rows:,} transcripts hold digits, currencies or signs: {names}.",
    evidence="{share:.1%} of them.",
    needs={"corpus": CORPUS},
    measures={**_ROWS, "share": "of the transcripts"},
    variants={
        "few": Variant(
            Level.INFO,
            "{count:,} of {rows:,} transcripts hold digits, currencies or signs: {names}.",
            "{share:.2%} of them.",
        )
    },
    doc=Doc(
        measures="Whether a transcript holds a digit, a sign of a currency, or one of"
        " % & @ # + = < > | ~ ^ / _ *.",
        means='"25" has no one way to be spoken: the model for synthesis has to guess, and the'
        " rate of errors of recognition counts it as wrong.",
        does_not_mean="That the training does not normalise text itself.",
        guards=(
            "Below the limit it is information.",
            "Where LJSpeech has a third, normalised column, that one is judged.",
        ),
        references=(_0_22.format("TP-DATA-UNNORMALIZED"), "LJSpeech: metadata.csv"),
    ),
    fires=Example("one of twenty holds a number", _view(unnormalised=_spots("a.wav"))),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def unnormalised(
    corpus: Corpus,
    *,
    most: Annotated[float, Bound("share", "of the transcripts; up to it is told", ge=0)] = 0.01,
) -> Outcome:
    measured = _written(corpus)
    total = corpus.texts - corpus.empty.count
    if not total:
        return _absent(measured)
    share = corpus.unnormalised.count / total
    few = "few" if share <= most else ""
    return _judged(corpus.unnormalised, {**measured, "share": share}, few)


@rule(
    id="TP-DATA-MIXED-SCRIPTS",
    title="Transcripts mix alphabets",
    level=Level.WARN,
    message="{count:,} of {rows:,} transcripts hold a word with letters of two alphabets: {names}.",
    evidence="The first such word is {word!s}.",
    needs={"corpus": CORPUS},
    measures={**_ROWS, "word": "the first word that mixes alphabets"},
    variants={
        "between": Variant(
            Level.INFO,
            "{count:,} of {rows:,} transcripts hold words of different alphabets: {names}.",
            "Latin, Cyrillic or Greek; no single word mixes them.",
        )
    },
    doc=Doc(
        measures="The scripts of the letters of each word: Latin, Cyrillic, Greek.",
        means="Letters that look alike (а and a) are different tokens; one of them is most often a"
        " mistake of typing or of recognition.",
        does_not_mean="That foreign words are wrong: where no single word mixes, it is"
        " information.",
        guards=(
            "Chinese, Japanese and Korean text holds Latin words as a matter of course, and is not"
            " told.",
        ),
        references=(
            _0_22.format("TP-DATA-MIXED-SCRIPTS"),
            "Unicode Technical Standard 39: mixed-script confusables",
        ),
    ),
    fires=Example(
        "a Cyrillic letter in a Latin word",
        _view(mixed_words=Spots(1, (Spot("m.jsonl", 3, "c.wav", 0.0, "hеllo"),))),
    ),
    silent=_GOOD,
    subject=SubjectKind.SPEECH,
)
def mixed_scripts(corpus: Corpus) -> Outcome:
    measured = _written(corpus)
    if not measured["rows"]:
        return _absent(measured)
    if corpus.mixed_words.count:
        return _judged(corpus.mixed_words, {**measured, "word": corpus.mixed_words.first[0].detail})
    return _judged(corpus.mixed_texts, measured, "between")
