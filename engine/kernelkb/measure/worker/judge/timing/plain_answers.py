"""Recognises a candidate that is so much slower than a rival that no more measuring is needed.

Only on the slow side: a gain is what a cheat would claim, so a fast candidate is timed in full.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from kernelkb.measure.worker.shared.messages.judge_jobs import Batch, RivalTimes

_MIN_TRIAL_RATIO = 3.0
"""In trial batches. Rivals are left out for it, and the timed pairs have to confirm it."""
_MIN_PAIR_RATIO = 2.0
_OUTLIERS = 1
"""Pairs that may show less: with the least number of pairs, the 95 % interval of their median ends
well above the second lowest of them."""
_FAR_RATIO = 10.0
FAR_PAIRS = 6
"""Pairs that suffice where all show it: the 95 % interval of their median is all of them."""

_MIN_NET_SHARE = 0.1
"""The round trip and copies are at most nine tenths of a batch."""


def is_slower_in_pairs(candidate: Sequence[Batch], rival: Sequence[Batch]) -> bool:
    """Return whether the candidate took over twice the rival's time in all pairs but one.

    By the judge's clock, less its round trip and the copies of outputs as the rival has them: a
    batch of one has fewer calls than one of the other where the trials were wrong.

    Args:
        candidate: Batches of the candidate.
        rival: As many of the rival; those of one index were timed one after the other.
    """
    ratios = sort_ratios(candidate, rival)
    return len(ratios) > _OUTLIERS and ratios[_OUTLIERS] > _MIN_PAIR_RATIO


def is_far_slower(candidate: Sequence[Batch], rival: Sequence[Batch]) -> bool:
    """Return whether the candidate took over 10 times the rival's time in all of 6 pairs or more.

    Args:
        candidate: As of ``is_slower_in_pairs``.
        rival: The same.
    """
    ratios = sort_ratios(candidate, rival)
    return len(ratios) >= FAR_PAIRS and ratios[0] > _FAR_RATIO


def sort_ratios(candidate: Sequence[Batch], rival: Sequence[Batch]) -> list[float]:
    """Return the time of a candidate's call over that of a rival's, pair by pair, sorted.

    Args:
        candidate: As of ``is_slower_in_pairs``.
        rival: The same.
    """
    if not rival:
        return []
    overhead_ns = statistics.median(b.judge_ns - b.runner_ns - b.copy_ns for b in rival)
    return sorted(
        _net_call_ns(own, other, overhead_ns) / _net_call_ns(other, other, overhead_ns)
        for own, other in zip(candidate, rival, strict=True)
    )


def _net_call_ns(batch: Batch, rival: Batch, overhead_ns: float) -> float:
    net_ns = (batch.judge_ns - overhead_ns) / batch.calls - rival.copy_ns / rival.calls
    return max(net_ns, _MIN_NET_SHARE * batch.judge_ns / batch.calls)


def is_slower_in_trials(candidate: RivalTimes, rivals: Mapping[str, RivalTimes]) -> bool:
    """Return whether the candidate takes at least 3 times as long as one of its rivals.

    However a pair is timed in the end: the candidate as it is fastest, and a rival in a CUDA graph
    only where the candidate can be in one, too.

    Args:
        candidate: Of trial batches.
        rivals: The same of each rival.
    """
    in_graph = candidate["graph_ns"] is not None
    own_ns = candidate["graph_ns"] or candidate["eager_ns"]
    rival_ns = min(
        (in_graph and times["graph_ns"]) or times["eager_ns"] for times in rivals.values()
    )
    return own_ns >= _MIN_TRIAL_RATIO * rival_ns
