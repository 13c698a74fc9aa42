"""Repeats calls long enough for a GPU's energy counter, which changes every 20 to 100 ms.

kb reads the counter meanwhile (``machine/gpu_telemetry.py``) and matches both by the time. The
contents of the slots stay the same and no output is compared, so a candidate could do less here
than elsewhere; no verdict depends on it.
"""

from __future__ import annotations

import math
import time

from kernelkb.measure.worker.judge.timing.runner_timer import RunnerTimer
from kernelkb.measure.worker.shared.messages.judge_jobs import EnergyStretch

_STRETCH_S = 0.8
"""Contains at least 7 changes of the counter."""
_PILOT_S = 0.05
_MAX_BATCH_S = 2.0


def run_energy_stretch(timer: RunnerTimer) -> EnergyStretch | None:
    """Run the planned batch of a runner again and again for about 0.8 s.

    Args:
        timer: Its batches are planned.

    Returns:
        When and how often; None where one batch takes more than 2 s.

    Raises:
        RunnerDied: The runner ended.
        RunnerError: It reported an error.
    """
    batch_s = _time_repeats(timer, 1)
    if batch_s > _MAX_BATCH_S:
        return None
    pilot_count = math.ceil(_PILOT_S / batch_s)  # one batch is mostly the round trip
    batch_s = _time_repeats(timer, pilot_count) / pilot_count
    start_s = time.monotonic()
    calls = timer.repeat_batch(math.ceil(_STRETCH_S / batch_s))
    return {"start_s": start_s, "end_s": time.monotonic(), "calls": calls}


def _time_repeats(timer: RunnerTimer, count: int) -> float:
    start_s = time.monotonic()
    timer.repeat_batch(count)
    return time.monotonic() - start_s
