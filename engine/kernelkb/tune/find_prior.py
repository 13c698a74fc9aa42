"""Finds what earlier searches of a variant elsewhere tell about a search that begins."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernelkb.errors import KbError
from kernelkb.record.tuning_journal import read_journal
from kernelkb.tune.plan import TuningPlan
from kernelkb.tune.strategies.prior import OtherTrials, build_prior

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME = ("kernel", "variant", "target")
_MAX_JOURNALS = 20
"""Journals that are read: the newest."""


def find_prior(plan: TuningPlan) -> NDArray[np.float64] | None:
    """Return what other journals of the variant predict for each feasible configuration.

    They are those of another workload, device, driver, compiler or version of the source, in the
    folder of the plan's journal. A journal that cannot be read is left out.

    Args:
        plan: What is searched.

    Returns:
        (configurations, other spaces) as ``build_prior`` returns, for ``ModelSearch``; None: no
        other search tells enough.
    """
    return build_prior(plan.space, list(_list_other_trials(plan)))


def _list_other_trials(plan: TuningPlan) -> Iterator[OtherTrials]:
    found = [path for path in plan.journal.parent.glob("*.jsonl") if path != plan.journal]
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[:_MAX_JOURNALS]:
        identity = _read_identity(path)
        if all(identity.get(name) == plan.identity[name] for name in _SAME):
            try:
                trials = read_journal(path)
            except KbError:
                continue
            yield [(trial.configuration, trial.time_us) for trial in trials]


def _read_identity(path: Path) -> Mapping[str, str]:
    """Return the first line of a journal; empty if it is damaged."""
    try:
        with path.open(encoding="utf-8") as file:
            identity = json.loads(file.readline())["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return identity if isinstance(identity, dict) else {}
