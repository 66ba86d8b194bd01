"""Logged tag -> what it measures: the one table of all readers.

``classify`` works in four steps, none of which looks at anything but the tag:

1. Words. A tag is cut at everything that is no letter or digit, and at the humps of camelCase
   unless the piece is a word of the tables below (``mAP50``, ``PSNR``).
2. Split and scope. The first word of ``SPLITS`` that is not "train" (else the first "train")
   gives the split, a word of ``SCOPES`` the scope. Both are left out of ``base``, so that
   ``train/loss``, ``train_loss``, ``Loss/Train`` and ``training_loss_step`` agree on it.
3. Quantity. The first entry of ``QUANTITIES`` whose words stand in the tag, in a row, decides role
   and direction. The order of the table is the order of precedence: ``loss_scale`` is settled
   before ``loss``. ``EXACT`` entries must be the whole tag.
4. Qualifiers. A word of ``NOT_ITSELF`` says that the tag is a statistic or a setting of the
   quantity and not the quantity (``reward_std``, ``loss_weight``, ``best_val_acc``): OTHER.
   What words remain name the component (``box`` of ``train/box_loss``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from trainproof.model.data import Axis, Direction, Identity, Role, Scope, Split

MAX_TAG = 1000
"""Characters of a tag that are looked at; tags are hostile input."""


def word_set(*lines: str) -> frozenset[str]:
    """All words of a table that is written as text."""
    return frozenset(word for line in lines for word in line.split())


SPLITS = {
    word: split
    for split, words in {
        Split.TRAIN: "train training trn",
        Split.EVAL: "val valid validation eval evaluation dev cv heldout holdout",
        Split.TEST: "test testing tst",
    }.items()
    for word in words.split()
}

SCOPES = {
    "step": Scope.STEP,
    "iter": Scope.STEP,
    "iteration": Scope.STEP,
    "batch": Scope.STEP,
    "epoch": Scope.EPOCH,
}

CONTAINERS = word_set("stats metrics scalars logs summaries trainer")
"""Words that writers put around tags and that say nothing."""

NEUTRAL = word_set(
    "total avg avr average mean running current smoothed smooth ema raw final overall lm main all"
    " sum reduced per token sample binary categorical sparse loss losses cost score reward rewards"
    " rew return returns ret eprewmean"
)
"""Words that do not make a component: ``total_loss`` is the total."""

NEUTRAL_FOR = {
    Role.LOSS: word_set("l err"),
    Role.REWARD: word_set(
        "rollout ep episode episodic env environment cumulative objective rlhf charts critic"
        " runners sampler results performance global moving"
    ),
    Role.LR: word_set("input info policy"),
}

PARTED = frozenset({Role.LOSS, Role.METRIC, Role.REWARD, Role.LR, Role.GRAD_NORM})
"""Roles of which a run logs parts: losses by term, learning rates by parameter group."""

NOT_ITSELF = word_set(
    "std stddev var variance min max minimum maximum best lowest highest num number count vs diff"
    " delta skipped"
)
NOT_ITSELF_AFTER = word_set(
    "weight weights coef coeff coefficient lambda beta alpha gamma factor ratio scale scaling"
    " decay bound limit range threshold patience temperature"
)
"""``NOT_ITSELF``, but only behind the quantity: ``loss_weight`` is one, ``alpha_loss`` is not, and
no more is Mask R-CNN's ``loss_mask``."""

FUSED = {
    f"{split}{what}": (split, what)
    for split in ("train", "val", "valid", "eval", "test")
    for what in ("loss", "acc", "accuracy", "error")
} | {
    "gradnorm": ("grad", "norm"),
    "learningrate": ("learning", "rate"),
    "steptime": ("step", "time"),
    "globalstep": ("global", "step"),
    "walltime": ("wall", "time"),
    "lossscale": ("loss", "scale"),
}
"""Words written without a separator."""

AXES: tuple[tuple[Role, Axis, str], ...] = (
    (Role.STEP, Axis.STEP, "step, steps, current steps, current step, iter num"),
    (Role.STEP, Axis.STEP, "global step, global steps"),
    (
        Role.STEP,
        Axis.STEP,
        "time total timesteps, total timesteps, timesteps total, timesteps so far,"
        " num timesteps, timesteps, total env steps, env steps, env step, environment steps,"
        " total environment steps, progress total environment steps",
    ),
    (
        Role.STEP,
        Axis.STEP,
        "iteration, iterations, iter, iters, it, itr, training iteration, time iterations",
    ),
    (
        Role.STEP,
        Axis.STEP,
        "n updates, num updates, nupdates, updates, update, batch, batch idx, batch index,"
        " episode, episodes, time episodes, episodes so far",
    ),
    (Role.EPOCH, Axis.EPOCH, "epoch, epochs, current epoch, epoch num, epoch number"),
    (Role.STEP, Axis.INDEX, "index, idx, unnamed 0"),
)
"""What places a point, best first. The whole tag must be one of these."""

EXACT: tuple[tuple[Role, Direction, str], ...] = (
    (
        Role.WALL_TIME,
        Direction.NONE,
        "time, elapsed, elapsed time, time elapsed, time time elapsed, wall time, wall clock,"
        " timestamp, time stamp, datetime, date, relative time, passed time, total time",
    ),
    (Role.STEP_TIME, Direction.LOWER, "dt"),
    (Role.LOADER_TIME, Direction.LOWER, "data"),
    (Role.METRIC, Direction.HIGHER, "is"),  # the inception score
    # The average over the whole run that transformers' Trainer writes once, at the end.
    (Role.OTHER, Direction.NONE, "train train loss"),
)
"""Words too common to mean anything as a part of a tag."""

QUANTITIES: tuple[tuple[Role, Direction, str], ...] = (
    (
        Role.OTHER,
        Direction.NONE,
        "hp metric, mixed precision, weight decay, eta, runtime, remaining, remaining time,"
        " epoch time, eval time, cpu mem, cpu memory, system memory, system cpu, system proc,"
        " system disk, system network, gpu temp, gpu power, base lr, initial lr, init lr,"
        " target kl, target entropy, nan iterations, bad epochs, exploration rate, ram, time cost,"
        " cost time",
    ),
    (
        Role.LOSS_SCALE,
        Direction.NONE,
        "loss scale, loss scaler, loss scaling, amp scale, amp scaler, grad scale, grad scaler,"
        " gradient scale, scaler scale, scaler",
    ),
    (
        Role.STEP_TIME,
        Direction.LOWER,
        "step time, batch time, iter time, iteration time, step avg, step duration,"
        " time per step, time per iteration, time per iter, time per batch, sec per step,"
        " seconds per step, sec per iter, seconds per iteration, ms per step, ms per iter, s it,"
        " s iter, sec it, ms step, sec step, batch cost, iter cost, iteration cost, step timing,"
        " timing s step",
    ),
    (
        Role.LOADER_TIME,
        Direction.LOWER,
        "loader time, data time, dataloader time, dataloading time, data loading time,"
        " data load time, batch load time, fetch time, reader cost, data cost",
    ),
    (
        Role.THROUGHPUT,
        Direction.HIGHER,
        "per second, per sec, per s, throughput, fps, ips, tflops, mfu, tps, qps, wps, speed,"
        " tokens s, tokens sec, tok s, tok sec, samples s, samples sec, steps s, steps sec, it s,"
        " it sec, iter s, iter sec, iters s, iterations s, iterations sec, img s, imgs s,"
        " images s, images sec, examples s, examples sec, ex s, items s, items sec",
    ),
    (
        Role.GRAD_NORM,
        Direction.NONE,
        "grad norm, gradient norm, grads norm, gradients norm, grad total norm, gnorm,"
        " grads total norm, norm grad, norm gradient, grad l2 norm, gradient l2 norm",
    ),
    (Role.LR, Direction.NONE, "lr, learning rate, learn rate, learningrate"),
    (
        Role.GPU_UTIL,
        Direction.NONE,
        "gpu util, gpu utilization, gpu utilisation, gpu usage, gpu gpu, gpu load",
    ),
    (
        Role.GPU_MEMORY,
        Direction.NONE,
        "gpu mem, gpu memory, cuda memory, cuda mem, memory allocated, memory reserved, vram,"
        " memory, mem",
    ),
    (
        Role.LOSS,
        Direction.LOWER,
        "cross entropy, crossentropy, entropy minimization loss, xent, logloss, log loss",
    ),
    (Role.KL, Direction.NONE, "kullback leibler, approx kl, approxkl"),
    (
        Role.ENTROPY,
        Direction.NONE,
        # The policy's entropy, of either sign, as Stable-Baselines logs it.
        "entropy loss, loss entropy, loss ent, ent loss",
    ),
    (Role.METRIC, Direction.LOWER, "loss ppl"),  # Megatron: the perplexity of a loss
    (
        Role.LOSS,
        Direction.LOWER,
        "loss, losses, cost, nll, bce, l pix, l percep, l style, l g, l d, d a, d b, g a, g b,"
        " cycle a, cycle b, idt a, idt b, g gan, g l, d real, d fake, err d, err g",
    ),
    (Role.METRIC, Direction.HIGHER, "rewards accuracies, reward accuracy, reward accuracies"),
    (Role.REWARD, Direction.NONE, "rewards chosen, rewards rejected"),
    (
        Role.REWARD,
        Direction.HIGHER,
        "reward, rewards, rew, eprewmean, ep ret, return, returns, episodic return",
    ),
    (
        Role.METRIC,
        Direction.LOWER,
        "err, error, error rate, errors, wer, cer, ter, eer, fid, kid, fvd, fad, mmd, swd,"
        " sliced wasserstein distance, sliced wasserstein,"
        " lpips, perplexity, ppl, bpb, bpc, bits per byte, bits per char, bits per dim, bpd, rmse,"
        " mse, mae, mape, smape, nrmse, rmsle, msle, medae, mean squared error,"
        " mean absolute error, ece, brier, mcd, ade, fde, minade, minfde, chamfer, epe, hausdorff",
    ),
    (
        Role.METRIC,
        Direction.HIGHER,
        "map b, map m, map p, precision b, recall b, map, acc, accuracy, accuracies, acer,"
        " top accuracy, top acc, top1, top5, top10, auc, auroc, auprc, roc auc, pr auc, ap, ar, f1,"
        " f1 score, fscore, f score, fbeta, precision, recall, iou, miou, giou, dice, jaccard,"
        " kappa, mcc, matthews, bleu, sacrebleu, rouge, rougel, rougelsum, meteor, chrf, cider,"
        " spice, exact match, em, psnr, ssim, msssim, vmaf, r2, pearson, pearsonr, spearman,"
        " spearmanr, ndcg, mrr, hits, win rate, winrate, success rate, success, pass rate,"
        " correctness, sensitivity, specificity, inception score, clip score, score, elbo, pck,"
        " oks, pq, nds, nmi, ari, las, uas",
    ),
    (
        Role.KL,
        Direction.NONE,
        "kl, kl div, kl divergence, kld",
    ),
    (Role.ENTROPY, Direction.NONE, "entropy, ent"),
    (
        Role.OTHER,
        Direction.NONE,
        "time, time left, passed, percentage, progress, seed, weight norm, params norm,"
        " param norm, parameter norm, num tokens, input tokens, tokens seen, total flos, flos,"
        " flops, consumed samples, total steps, total epochs, num epochs, batch size,"
        " num batches, n parameters, num parameters, params, seqlen, seq len, sequence length,"
        " completion length, completions, logps, logits, ep len, eplen, episode length,"
        " ep len mean, len mean, clip fraction, clip range, clipfrac, clip ratio,"
        " clipped ratio, explained variance, ev tdlam before, advantage, advantages, momentum,"
        " weight, coef, coefficient, text summary, images, cpu, disk, fraction, ep this iter,"
        " temperature, dropout",
    ),
)

COST = ("cost",)
"""The loss, in older programs, by itself; of a query, a node or a batch it is anything."""

ALIASES = {"g": "gen", "generator": "gen", "d": "disc", "discriminator": "disc"}
"""Short and long names of the two sides of adversarial training."""

WORD = re.compile(r"[^\W_]+")
HUMP = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W\d_a-zA-Z]+")
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Quantity(msgspec.Struct, frozen=True):
    """``words`` stand in the tag one after another; digits at the end of a word do not count."""

    words: tuple[str, ...]
    role: Role
    direction: Direction


class Place(msgspec.Struct, frozen=True):
    """``rank`` 0 is the column that places points best."""

    rank: int
    role: Role
    axis: Axis


def _entries(table: Iterable[tuple[Role, Direction, str]]) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(tuple(phrase.split()), role, direction)
        for role, direction, phrases in table
        for phrase in phrases.split(",")
    )


_QUANTITIES = _entries(QUANTITIES)
_BY_FIRST_WORD: dict[str, list[int]] = {}
for _rank, _one in enumerate(_QUANTITIES):
    _BY_FIRST_WORD.setdefault(_one.words[0], []).append(_rank)
_EXACT = {one.words: one for one in _entries(EXACT)}
_PLACES = {
    tuple(phrase.split()): Place(rank, role, axis)
    for rank, (role, axis, phrases) in enumerate(AXES)
    for phrase in phrases.split(",")
}
_KNOWN = frozenset(word for one in _QUANTITIES for word in one.words) | set(SPLITS) | set(FUSED)

_QUALIFIED = frozenset(
    {Role.LOSS, Role.METRIC, Role.REWARD, Role.LR, Role.GRAD_NORM, Role.KL, Role.ENTROPY}
)


@lru_cache(maxsize=16384)
def classify(tag: str) -> Identity:
    """What the tag says it measures; ``Role.UNKNOWN`` where the table does not know it."""
    words = words_of(tag)
    split, rest = _without_split(words)
    exact = _EXACT.get(tuple(words)) or _EXACT.get(rest)
    if exact is not None:
        return Identity(exact.role, "_".join(rest), split, direction=exact.direction)
    if rest in _PLACES:
        return Identity(_PLACES[rest].role, "_".join(rest), split)
    found = _quantity(rest)
    if found is None:
        base, scope = _scoped(rest, frozenset())
        return Identity(Role.UNKNOWN, "_".join(base) or tag[:MAX_TAG], split, scope)
    one, inside = found
    base, scope = _scoped(rest, inside)
    if _qualified(one, rest, inside):
        return Identity(Role.OTHER, "_".join(base), split, scope)
    component = _component(one, rest, inside)
    if one.words == COST and component is not None:
        return Identity(Role.UNKNOWN, "_".join(base), split, scope)
    return Identity(one.role, "_".join(base), split, scope, component, one.direction)


class Told(msgspec.Struct, frozen=True):
    """What a tag says, the words by which it is known (``loss``), and those in it that say
    something else (``wiki`` of ``val_wiki_loss``)."""

    role: Role
    split: Split
    left: tuple[str, ...]
    known: tuple[str, ...] = ()


@lru_cache(maxsize=16384)
def told(tag: str) -> Told:
    """The role and the split of a tag, with the words that make neither."""
    identity = classify(tag)
    rest = _without_split(words_of(tag))[1]
    found = _quantity(rest)
    one, inside = found or (None, frozenset[int]())
    left = (word for i, word in enumerate(rest) if i not in inside)
    words = tuple(word for word in left if word not in NEUTRAL and word not in SCOPES)
    return Told(identity.role, identity.split, words, () if one is None else one.words)


def words_of(tag: str) -> list[str]:
    """The words of a tag, in lower case."""
    words: list[str] = []
    for match in WORD.finditer(tag[:MAX_TAG]):
        piece = match.group()
        lower = piece.lower()
        if lower in FUSED:
            words += FUSED[lower]
        elif lower in _KNOWN or lower.rstrip(DIGITS) in _KNOWN:
            words.append(lower)
        else:
            words += [hump.lower() for hump in HUMP.findall(piece)]
    return words


def split_of(text: str) -> Split | None:
    """The split that a text names (``val`` in a column ``mode``), None where it names none."""
    words = words_of(text)
    return _without_split(words)[0] if any(map(_split_word, words)) else None


@lru_cache(maxsize=16384)
def axis_rank(tag: str) -> tuple[int, Axis] | None:
    """How well a column of this name places points (0 is best) and what it counts."""
    # pandas writes its index under an empty header
    place = _PLACES.get(_without_split(words_of(tag or "index"))[1])
    return None if place is None else (place.rank, place.axis)


def _without_split(words: Sequence[str]) -> tuple[Split, tuple[str, ...]]:
    """The split, and the words without the one that names it and without containers."""
    named = [(i, split) for i, word in enumerate(words) if (split := _split_word(word)) is not None]
    other = [one for one in named if one[1] is not Split.TRAIN]
    at, split = (other or named or [(-1, Split.TRAIN)])[0]
    if words[at : at + 1] == ["eval"] and (at + 1, Split.TRAIN) in named:
        at, split = at + 1, Split.TRAIN  # an evaluation of what is trained on
    rest = [word for i, word in enumerate(words) if i != at and word not in CONTAINERS]
    if at >= 0 and (number := words[at].lstrip(LETTERS)):
        rest.insert(0, number)
    return split, tuple(rest)


def _split_word(word: str) -> Split | None:
    """The split that a word names; fairseq numbers its second held-out set ``valid1``."""
    if word in SPLITS:
        return SPLITS[word]
    split = SPLITS.get(word.rstrip(DIGITS))
    return None if split is Split.TRAIN else split


def _quantity(rest: Sequence[str]) -> tuple[Quantity, frozenset[int]] | None:
    """The first entry in the tag, and its positions in ``rest`` (numbers between do not count)."""
    positions = [i for i, word in enumerate(rest) if not word.isdigit()]
    words = [rest[i] for i in positions]
    found = [
        (rank, at)
        for at, word in enumerate(words)
        for first in {word, word.rstrip(DIGITS)}
        for rank in _BY_FIRST_WORD.get(first, ())
        if _stands(_QUANTITIES[rank].words, words, at)
    ]
    if not found:
        return None
    rank, at = min(found)
    one = _QUANTITIES[rank]
    return one, frozenset(positions[at : at + len(one.words)])


def _stands(phrase: Sequence[str], words: Sequence[str], at: int) -> bool:
    here = words[at : at + len(phrase)]
    return len(here) == len(phrase) and all(map(_is, phrase, here))


def _is(word: str, token: str) -> bool:
    return token == word or (token[-1] in DIGITS and token.rstrip(DIGITS) == word)


def _scoped(rest: Sequence[str], inside: frozenset[int]) -> tuple[Sequence[str], Scope]:
    """The words without the one that names the scope, and the scope."""
    for i, word in enumerate(rest):
        if word in SCOPES and i not in inside and len(rest) > 1:
            return [*rest[:i], *rest[i + 1 :]], SCOPES[word]
    return rest, Scope.STEP


def _qualified(one: Quantity, rest: Sequence[str], inside: frozenset[int]) -> bool:
    if one.role not in _QUALIFIED:
        return "vs" in rest
    end = max(inside)
    return any(
        word in NOT_ITSELF or (i > end and word in NOT_ITSELF_AFTER)
        for i, word in enumerate(rest)
        if i not in inside
    )


def _component(one: Quantity, rest: Sequence[str], inside: frozenset[int]) -> str | None:
    """What is left: the name of the part, None for the whole."""
    if one.role not in PARTED:
        return None
    keeps = one.role in (Role.LOSS, Role.REWARD)  # "nll" names a part, only "loss" does not
    drop = NEUTRAL | NEUTRAL_FOR.get(one.role, frozenset())
    left = [
        word
        for i, word in enumerate(rest)
        if (keeps or i not in inside)
        and word not in drop
        and word not in SCOPES
        and not (one.role is Role.METRIC and word.isdigit())
    ]
    left[:1] = [ALIASES.get(word, word) for word in left[:1]]
    return "_".join(left) or None
