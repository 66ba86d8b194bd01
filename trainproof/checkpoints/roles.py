"""Which part of a training a tensor belongs to, by its place in the saved object; and whether it
belongs to one at all."""

from __future__ import annotations

import re
from collections.abc import Collection

from trainproof.model.tensors import Group

_OPTIMIZER = re.compile(
    r"optim|opt_state|exp_avg|exp_avg_sq|momentum_buffer|fp32_flat_groups|single_partition",
    re.IGNORECASE,
)
_AVERAGE = re.compile(r"(^|[_.])(ema|swa|averaged?)([_.]|$)|^n_averaged$", re.IGNORECASE)
_STATE = re.compile(
    r"rng|random_state|scheduler|sched$|scaler|loops|callbacks|sampler|hyper_parameters|args$",
    re.IGNORECASE,
)
_STATE_KEYS = ("state", "param_groups")


_FILES = (
    (re.compile(r"optim(izer)?([_.-]|$)|distrib_optim"), Group.OPTIMIZER),
    (re.compile(r"rng_state|random_states|scheduler|scaler|sampler|training_args"), Group.STATE),
)


def group_of(name: str, artifact: str) -> Group:
    """Decided by the name of the file, where trainers write one for each part; otherwise by the
    outermost keys: inside ``model`` a layer may be called anything.
    """
    file = artifact.rpartition("/")[2]
    for pattern, group in _FILES:
        if pattern.search(file):
            return group
    keys = name.split("/")
    outer = keys[:-1][:2]
    for key in outer:
        for pattern, group in _PATTERNS:
            if pattern.search(key):
                return group
    if len(keys) > 2 and keys[0] in _STATE_KEYS:
        return Group.OPTIMIZER
    lone = len(keys) == 1 and "." not in name
    return Group.STATE if lone and _STATE.search(name) else Group.MODEL


_PATTERNS = ((_OPTIMIZER, Group.OPTIMIZER), (_AVERAGE, Group.AVERAGE), (_STATE, Group.STATE))


_PARAMETER = re.compile(
    r"[qg]?(weight|bias)(_\w+)?|(in|[qkv])_proj_(weight|bias)|kernel|embedding|lora_[ab]\w*|flat_param"
    r"|running_(mean|var)|num_batches_tracked",
    re.IGNORECASE,
)
_LAYER = frozenset({"weight", "bias"})


def names_a_model(names: Collection[str]) -> bool:
    """Whether any of the tensors is called as the parameters and buffers of layers are. A name
    without a layer in front of it may be anything, but for those of one layer saved alone."""
    paths = (name.replace("/", ".").rpartition(".") for name in names)
    return _LAYER.issubset(names) or any(
        layer and _PARAMETER.fullmatch(leaf.partition(":")[0]) for layer, _, leaf in paths
    )
