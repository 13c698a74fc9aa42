"""Times a candidate on one case, and reports how the candidate or a baseline failed."""

from __future__ import annotations

from pathlib import Path

from kernelkb.measure.worker.judge.bench.paired_bench import PairedBench
from kernelkb.measure.worker.judge.processes.runner_process import RunnerProcess
from kernelkb.measure.worker.judge.rivals.bench_runners import CANDIDATE
from kernelkb.measure.worker.judge.timing.pair_timing import IncorrectCallError
from kernelkb.measure.worker.shared.failures import RunnerDied, RunnerError
from kernelkb.measure.worker.shared.messages.judge_jobs import BenchJob, BenchJobResult


def time_candidate(
    job: BenchJob, folder: Path, runners: dict[str, RunnerProcess]
) -> BenchJobResult:
    """Time the candidate against its fastest rival.

    The name of the runner that is running is in the file ``progress`` of the folder.

    Raises:
        UnsupportedHost: No runner starts here, or the memory cannot be allocated or shared.
        RuntimeError: No rival runs.
    """
    paired_bench = PairedBench(job, runners, folder)
    try:
        return {"times": paired_bench.run()}
    except IncorrectCallError as error:
        return {"incorrect_reason": str(error)}
    except (RunnerDied, RunnerError) as error:
        if error.runner_name != CANDIDATE:
            if isinstance(error, RunnerDied) and error.was_killed:
                return {"baseline_killed": f"{error.runner_name}: {error}"}
            return {"baseline_error": f"{error.runner_name}: {error}"}
        if isinstance(error, RunnerDied):
            return {"runner_died": error.to_message()}
        return {"runner_died": error.to_message("kernel-error")}
