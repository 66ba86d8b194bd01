"""During a run: follow its files, or be called by the loop that trains.

    from trainproof.guardian import Guardian

    guardian = Guardian("runs/1", policy="stop_on_fail")
    for step, batch in enumerate(loader):
        guardian.log(step, loss=train_on(batch))
        if guardian.should_stop:
            break
    report = guardian.finish()

Callbacks are in ``trainproof.guardian.hugging_face``, ``.lightning`` and ``.keras``.
"""

from __future__ import annotations

from .core import Guardian as Guardian
from .core import Policy as Policy
from .objective import check_objective as check_objective

__all__ = ["Guardian", "Policy", "check_objective"]
