"""Checks a variant: the cases, also hidden ones, and what the judge says of the outputs.

Hidden sizes follow the pattern of those in kernel.yaml: nothing is drawn that its author may
exclude.
"""

from __future__ import annotations

import math
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.loading.kernels import KernelFolder
from kernelkb.measure.check.wrong_cases import (
    choose_told,
    describe_when,
    list_sized_cases,
    tell_failed,
)
from kernelkb.measure.job_specs import (
    count_input_elements,
    describe_reference,
    find_reference_variant,
    format_sizes,
    list_distributions,
    make_case_spec,
    make_input_spec,
    make_judged_code,
    make_output_spec,
    make_tolerances,
)
from kernelkb.measure.machine.host import find_free_bytes
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import (
    JobRun,
    report_where_it_ended,
    start_job,
    threads_env,
)
from kernelkb.measure.subject import DEFAULT_OPTIONS, MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import (
    CaseResult,
    CheckJob,
    CheckReport,
    JudgeResult,
)
from kernelkb.measure.worker.shared.messages.specs import (
    CaseSpec,
    Reference,
    RunnerFailure,
    RunnerStatus,
)
from kernelkb.model.base import Target
from kernelkb.model.kernels.kernel import ExtraCase, Kernel
from kernelkb.model.records.measurement import Build, Check, CheckedCase, InputData

_SIZES_COUNT = 64
_REMAINDER_COUNT = 32
"""Sizes of one axis differ in their remainder by 32, the usual width of a loop's step; smaller ones
in their remainder by 8."""
_SMALL_STEP = 8
_PLAIN_PERIOD = 3
"""Each third one has powers of two where the pattern allows them: kernels have cases for those."""
_MAX_ELEMENTS = 2**16
_MIN_ELEMENTS = 1024
"""Below, a case is too small for a distribution to show anything."""
_ATTEMPTS = 2000
_PER_SIZE = 2
"""Distributions."""
_HUNDREDFOLD_WEIGHT = 4
"""A wrong maximum of a row shows only where the largest element stands out: in a few rows."""

Sizes = Mapping[str, int]
_JUDGE_TIMEOUT_S = 300.0
"""For the judge besides: inputs, references and comparisons."""

_FEW = 0.0005
"""A share of elements below it has no percentage of one digit."""

_CURES: dict[RunnerStatus, str] = {
    "timed-out": "look for an endless loop, or allow more with --timeout",
    "out-of-memory": "try a smaller workload; look for memory that grows with every call",
    "limit-exceeded": "a kernel computes; it starts no programs and writes no files",
    "unloadable": 'the entry point must be extern "C" and named as in kernel.yaml',
    "crashed": "run kb bench --sanitize, or -fsanitize=address on a CPU; check the bounds",
    "kernel-error": "look up what the entry point reports, and on which workload",
}

_JudgeResultT = TypeVar("_JudgeResultT", bound=JudgeResult)


def go_on() -> None:
    """Wait for nothing."""


def check(
    subject: MeasurementSubject,
    build: Build,
    *,
    workloads: Sequence[str],
    timeout_s: float = DEFAULT_OPTIONS.timeout_s,
    before_start: Callable[[], None] = go_on,
    free_bytes: int | None = None,
    kept: Sequence[Sizes] = (),
) -> Check:
    """Check a built variant on fresh inputs, on odd shapes and on named workloads.

    Args:
        subject: What to check.
        build: Its build, which must not have failed.
        workloads: Named workloads besides the kernel's ``check_workloads``.
        kept: Sizes on which an earlier state was wrong.
        timeout_s: For the candidate, all cases together.
        before_start: Called when the judge was started; returns when it may load the candidate.
        free_bytes: What the judge's arrays may take; None: what is free.

    Raises:
        EnvironmentGapError: The machine lacks what judging needs, or the memory for the candidate.
        KbError: The tolerance accepts an output that is wrong on purpose, or the reference
            itself does not run.
    """
    started = time.monotonic()
    job = make_check_job(subject, build, workloads, timeout_s, kept)
    if free_bytes is not None:
        job["free_bytes"] = free_bytes
    report = _run_judge(subject, job, before_start)
    _require_selftest(subject, report)
    fields = _make_check_fields(subject, report, [*job["cases"], *job["hidden_sizes"]])
    named = [*workloads][-1:]
    fields["data"] = tuple(
        InputData(**one) for name in named for one in report.get("data", {}).get(name, ())
    )
    if fields["status"] == "unloadable" and not subject.variant.is_compiled:
        fields["cure"] = f"import {subject.variant.source} by itself, and see that it loads"
    return Check(**subject.identity_fields, **fields, seconds=time.monotonic() - started)


def find_wrong_sizes(
    subject: MeasurementSubject, build: Build, sizes: Sequence[Sizes], timeout_s: float
) -> list[Sizes]:
    """Return the sizes on which a built variant is wrong, out of some; none where it ends early.

    Args:
        subject: What to check.
        build: Its build.
        sizes: Of every axis each; nothing is hidden, and each is one call on normal inputs.
        timeout_s: For the candidate, all together.
    """
    job = _make_job(subject, build, timeout_s)
    cases = {format_sizes(own): own for own in sizes}
    job["cases"] = [make_case_spec(subject.kernel_folder, *named) for named in cases.items()]
    report = _run_judge(subject, job, go_on)
    checked = map(_make_checked_case, report["cases"])
    return [cases[own.workload] for own in checked if own.status == "incorrect"]


def _run_judge(
    subject: MeasurementSubject, job: CheckJob, before_start: Callable[[], None]
) -> CheckReport:
    env = threads_env(subject.machine.core_count)
    with scratch_folder() as folder, start_job(job, folder, env=env) as judge:
        before_start()
        with report_where_it_ended(judge):
            run = judge.finish(job["timeout_s"] + _JUDGE_TIMEOUT_S)
    return get_judge_result(subject, run)["report"]


def make_check_job(
    subject: MeasurementSubject,
    build: Build,
    workloads: Sequence[str],
    timeout_s: float,
    kept: Sequence[Sizes] = (),
) -> CheckJob:
    """Return the job of the judge that checks a variant; arguments as of ``check``."""
    job, folder = _make_job(subject, build, timeout_s), subject.kernel_folder
    job["cases"] = [
        *_make_cases(folder, workloads, kept),
        *make_extra_case_specs(folder, job["reference"]),
    ]
    job["hidden_sizes"] = make_hidden_size_cases(folder, subject.variant.target)
    return job


def _make_job(subject: MeasurementSubject, build: Build, timeout_s: float) -> CheckJob:
    code = make_judged_code(subject, build)
    return {
        "mode": "check",
        "target": subject.variant.target,
        "reference": code.reference,
        "tolerances": make_tolerances(subject.kernel_folder),
        "cases": [],
        "hidden_sizes": [],
        "timeout_s": timeout_s,
        "free_bytes": find_free_bytes(subject.variant.target),
        "runners": code.runners,
    }


def _make_cases(
    kernel_folder: KernelFolder, workloads: Sequence[str], kept: Sequence[Sizes]
) -> list[CaseSpec]:
    """Return odd shapes, kept ones, then named workloads, on which the comparison is tested."""
    kernel = kernel_folder.kernel
    odd = {format_sizes(sizes): sizes for sizes in (*kernel.check_workloads, *kept)}
    cases = [make_case_spec(kernel_folder, *named) for named in odd.items()]
    for name in dict.fromkeys(workloads):
        sizes = kernel.workloads[name]
        cases.append(make_case_spec(kernel_folder, name, sizes, selftest=True))
    add_distributions(kernel_folder, cases)
    return cases


_SIZE_FAULT = "OutputSizeError: "
"""What the judge's last line has before an output's shapes, by the reference and kernel.yaml."""


def get_judge_result(subject: MeasurementSubject, run: JobRun[_JudgeResultT]) -> _JudgeResultT:
    """Return the judge's result.

    Raises:
        EnvironmentGapError: The machine cannot hold or share what the judge needs.
        KbError: The judge itself did not finish: it was killed, or the reference does not run.
    """
    if run.result is not None:
        result: JudgeResult = run.result
        if "unsupported_host" in result:
            gap = result["unsupported_host"]
            raise EnvironmentGapError(gap["gap"], gap["cure"])
        return run.result
    kernel_folder = subject.kernel_folder
    last_line = (run.process.output.strip().splitlines() or ["no output"])[-1]
    if run.process.timed_out:
        last_line = f"it took longer than {run.process.seconds:.0f} s"
    where = f" on {run.last_step}{run.known}" if run.last_step else ""
    if "out of memory" in last_line:  # torch's text
        raise EnvironmentGapError(
            f"judging {kernel_folder.kernel.id}{where} takes more GPU memory than there is: "
            f"{last_line}",
            "name a smaller --workload",
        )
    if run.process.returncode == -signal.SIGKILL and not run.process.timed_out:
        raise KbError(
            f"the judge of {kernel_folder.kernel.id} was killed{where} (SIGKILL), for want of "
            "memory or by another process; free memory, see what dmesg says, and measure again"
        )
    _, is_size, sizes = last_line.partition(_SIZE_FAULT)
    if is_size:
        raise KbError(
            f"the reference and kernel.yaml of {kernel_folder.kernel.id} disagree{where}: {sizes}; "
            "say the right shape with kb init --set 'NAME=[...]' or write it into kernel.yaml, or "
            f"fix {_name_reference(subject)}"
        )
    raise KbError(
        f"the reference of {kernel_folder.kernel.id} does not run{where}: {last_line}; "
        f"fix {_name_reference(subject)}"
    )


def _name_reference(subject: MeasurementSubject) -> str:
    """Return the file that the reference is in."""
    folder, kernel = subject.kernel_folder.folder, subject.kernel
    own = find_reference_variant(kernel, subject.variant.target)
    return str(folder / (own.source if own is not None else kernel.reference.files[0]))


def _require_selftest(subject: MeasurementSubject, report: CheckReport) -> None:
    """Raise KbError if an output that is wrong on purpose passed the comparison."""
    if not report["selftest_accepted"]:
        return
    kernel = subject.kernel
    cure = "tighten atol in its kernel.yaml"
    if kernel.reference.module is not None:
        cure = "give it inputs on which its output is more than rounding noise"
    raise KbError(
        f"the tolerances of {kernel.id} accept {report['selftest_accepted'][0]} "
        f"as an answer, so they decide nothing; {cure}"
    )


def require_gpu_memory(failure: RunnerFailure) -> None:
    """Accuse no candidate of what the GPU lacks: others, and the judge, take of its memory too.

    Raises:
        EnvironmentGapError: The candidate could not allocate memory of the GPU.
    """
    if failure["status"] == "out-of-gpu-memory":
        raise EnvironmentGapError(
            f"the candidate takes more GPU memory than there is: {failure['detail']}",
            "name a smaller --workload, end other processes on the GPU, and look for memory that "
            "grows with every call",
        )


def find_cure(failure: RunnerFailure) -> str:
    """Return what to do about a candidate that failed without an answer."""
    if failure["status"] == "crashed" and failure["exit_status"] is not None:
        return "a kernel must return to its caller; look for exit and abort"
    return _CURES[failure["status"]]


def _make_check_fields(
    subject: MeasurementSubject, report: CheckReport, specs: Sequence[CaseSpec] = ()
) -> dict[str, Any]:
    """Return the fields of a Check that follow from the judge's report on some cases.

    Raises:
        EnvironmentGapError: The candidate could not allocate memory of the GPU.
    """
    cases = tuple(_make_checked_case(result) for result in report["cases"])
    common = {
        "cases": cases,
        "selftest": tuple(report["selftest_rejected"]),
        "layers": tuple(report["layers"]),
        "hidden_inputs": tuple(report["hidden_inputs"]),
        "notes": _make_notes(subject, report),
    }
    failure = report["runner_died"]
    if failure:
        require_gpu_memory(failure)
        where = f" on {failure['case']}" if failure["case"] else ""
        return {
            **common,
            "status": failure["status"],
            "detail": f"{failure['detail']}{where}{_describe_passed(cases, common)}",
            "cure": find_cure(failure),
        }
    failed = [case for case in cases if case.status == "incorrect"]
    has_kernel_error = any(result["kernel_error"] for result in report["cases"])
    when = describe_when(list_sized_cases(cases, specs)) if failed else None
    told = choose_told(failed, specs)
    return {
        **common,
        "status": "kernel-error" if has_kernel_error else "incorrect" if failed else "correct",
        "when": when,
        "detail": tell_failed(told, when) if told else None,
        "cure": _find_incorrect_cure(subject, report, has_kernel_error) if failed else None,
    }


def _describe_passed(cases: Sequence[CheckedCase], fields: Mapping[str, Any]) -> str:
    """Return on how much a candidate was correct before it failed; empty where on nothing."""
    passed = sum(case.status == "correct" for case in cases)
    hidden = len(fields["hidden_inputs"])
    return f"; correct before on {passed} workloads and {hidden} hidden inputs" if passed else ""


def _find_incorrect_cure(
    subject: MeasurementSubject, report: CheckReport, has_kernel_error: bool
) -> str:
    missing, kernel = report["missing_parameters"], subject.kernel
    if has_kernel_error:
        return _CURES["kernel-error"]
    if missing:
        return (
            f"its model has no counterpart of the parameter {missing[0]} of the task's model: keep "
            f"it, under that name, and read it in each call"
        )
    if any(result["has_tf32_error"] for result in report["cases"]) and kernel.precision is None:
        setting = "precision: open in kernel.yaml" if kernel.axes else "--precision open"
        return (
            f"it is as far off as products in TF32 are: compute them in fp32 (in Triton "
            f"input_precision='ieee'), or state {setting} if TF32 is exact enough"
        )
    return suggest_comparison(subject)


def suggest_comparison(subject: MeasurementSubject) -> str:
    """Return the cure of a wrong answer of which nothing more is known."""
    return f"compare {subject.variant.source} with the reference on this workload"


def _make_notes(subject: MeasurementSubject, report: CheckReport) -> tuple[str, ...]:
    """Return what the reference is, and what was left out, by kernel.yaml and by the judge."""
    options = subject.kernel.hidden_inputs
    skipped = (
        [f"hidden inputs skipped: {', '.join(options.skip)} ({options.reason})"]
        if options.skip
        else []
    )
    told = describe_reference(subject.kernel_folder, subject.variant.target)
    return (*told, *skipped, *report["notes"])


def _make_checked_case(result: CaseResult) -> CheckedCase:
    reason = result["kernel_error"] or result["tampering"]
    if reason is None and result["nan_count"]:
        reason = f"{result['nan_count']} elements are NaN or were never written"
    elif reason is None and not result["correct"]:
        wrong_share, worst = 1 - result["matched_ratio"], result["max_abs_error"]
        by = "" if worst is None else f", by up to {worst:.3g}"
        share = f"{wrong_share:.1%}" if wrong_share > _FEW else "few"
        reason = f"{share} of the elements are wrong{by}"
    if reason and not result["kernel_error"] and not result["tampering"]:
        reason = "; ".join([reason, *result["error_shape"]])
    return CheckedCase(
        workload=result["name"],
        status="incorrect" if reason else "correct",
        max_abs_error=result["max_abs_error"],
        reference_error=result["reference_error"],
        matched_ratio=result["matched_ratio"],
        nan_count=result["nan_count"],
        steady=result["is_deterministic"],
        error_shape=tuple(result["error_shape"]),
        why=reason,
    )


def make_extra_case_specs(kernel_folder: KernelFolder, reference: Reference) -> list[CaseSpec]:
    """Return a case for each of the kernel's ``extra_cases``; none of them tests the comparison.

    Args:
        kernel_folder: The kernel.
        reference: Of the job, whose parameters the cases share.
    """
    cases = kernel_folder.kernel.extra_cases
    return [_make_spec(kernel_folder, case, reference) for case in cases]


def _make_spec(kernel_folder: KernelFolder, case: ExtraCase, reference: Reference) -> CaseSpec:
    if reference["kind"] != "module":
        raise ValueError("extra cases need a reference that is a module")
    own = reference.copy()
    own["file"] = str(kernel_folder.folder / case.file)
    sizes = next(iter(kernel_folder.kernel.workloads.values()))  # its shapes name no axes
    return {
        "name": case.name,
        "selftest": False,
        "axis_names": list(kernel_folder.kernel.size_axes),
        "axes": [sizes[axis] for axis in kernel_folder.kernel.size_axes],
        "inputs": [make_input_spec(array, sizes) for array in case.inputs],
        "outputs": [make_output_spec(array, sizes) for array in case.outputs],
        "distributions": [],
        "reference": own,
    }


def add_distributions(kernel_folder: KernelFolder, cases: Sequence[CaseSpec]) -> None:
    """Let the smallest fair case and the last one run all distributions that are not skipped."""
    names = list_distributions(kernel_folder.kernel)

    def count_elements(case: CaseSpec) -> int:
        return sum(math.prod(array["shape"]) for array in case["inputs"] if "shape" in array)

    fair = [case for case in cases if count_elements(case) >= _MIN_ELEMENTS]
    smallest = min(fair, key=count_elements, default=max(cases, key=count_elements))
    for case in (smallest, cases[-1]):
        case["distributions"] = list(names)


def may_draw_sizes(kernel: Kernel, target: Target) -> bool:
    """Return whether a kernel may be run on sizes that its author does not name; see below."""
    has_integers = any(
        array.dtype.startswith(("int", "uint")) for array in kernel.inputs if array.value is None
    )
    has_own_inputs = kernel.reference.inputs is not None
    is_code = kernel.reference.variant is not None or kernel.reference.is_compiled
    return not (
        "sizes" in kernel.hidden_inputs.skip
        or kernel.reference.recorded is not None
        or (has_integers and has_own_inputs and target == "cuda")
        or (has_integers and is_code)
    )


def make_hidden_size_cases(kernel_folder: KernelFolder, target: Target) -> list[CaseSpec]:
    """Return cases of drawn sizes, with two distributions each; none where no axis varies.

    On a GPU there are none for integers that the kernel's own function makes, and for a reference
    that is compiled code or a variant none for any: an index outside of its array would end the
    judge. Nothing is known of other sizes than those that were recorded.
    """
    kernel = kernel_folder.kernel
    if not may_draw_sizes(kernel, target):
        return []
    rng = random.SystemRandom()
    names = list_distributions(kernel)
    weights = [_HUNDREDFOLD_WEIGHT if name == "hundredfold" else 1 for name in names]
    cases = []
    for sizes in draw_sizes(kernel_folder, rng):
        case = make_case_spec(kernel_folder, f"{format_sizes(sizes)} (drawn by the judge)", sizes)
        case["distributions"] = list({*rng.choices(names, weights, k=_PER_SIZE)} if names else ())
        cases.append(case)
    return cases


def draw_sizes(kernel_folder: KernelFolder, rng: random.Random) -> list[Sizes]:
    """Return small sizes that kernel.yaml does not name, all different.

    An axis keeps what all sizes in kernel.yaml share: one value, powers of two, a common divisor,
    and that it equals, divides or does not exceed another axis.
    """
    kernel = kernel_folder.kernel
    named = [dict(sizes) for sizes in (*kernel.workloads.values(), *kernel.check_workloads)]
    drawn: list[Sizes] = []
    remainders = {axis: _iter_remainders(rng) for axis in kernel.axes}
    powers = {axis: _list_powers_of_two(axis, named, rng) for axis in kernel.axes}
    for attempt in range(_ATTEMPTS):
        if len(drawn) == _SIZES_COUNT:
            break
        is_plain = attempt % _PLAIN_PERIOD == 0
        sizes = {
            axis: powers[axis][attempt // _PLAIN_PERIOD % len(powers[axis])]
            if is_plain and powers[axis]
            else _draw_size(axis, named, next(remainders[axis]), rng)
            for axis in kernel.axes
        }
        keep_equal_and_divisible(kernel, named, sizes)
        is_fit = sizes not in (*named, *drawn) and follows_pattern(kernel, named, sizes)
        if is_fit and count_input_elements(kernel_folder, sizes) <= _MAX_ELEMENTS:
            drawn.append(sizes)
    return drawn


def _iter_remainders(rng: random.Random) -> Iterator[int]:
    """Yield all remainders in random order, then again in another one, without end."""
    while True:
        yield from rng.sample(range(_REMAINDER_COUNT), _REMAINDER_COUNT)


def _list_powers_of_two(axis: str, named: Sequence[Sizes], rng: random.Random) -> list[int]:
    """Return those between the least and the largest size of an axis, in random order."""
    known = [sizes[axis] for sizes in named]
    exponents = range((min(known) - 1).bit_length(), max(known).bit_length())
    return rng.sample([1 << exponent for exponent in exponents], len(exponents))


def _draw_size(axis: str, named: Sequence[Sizes], remainder: int, rng: random.Random) -> int:
    """Return one size of an axis, between those that are named: if these are few, all in turn."""
    known = sorted({sizes[axis] for sizes in named})
    if len(known) == 1:
        return known[0]
    if known[0] > 0 and all(size & (size - 1) == 0 for size in known):
        exponents = [size.bit_length() - 1 for size in known]
        return 1 << rng.randint(exponents[0], exponents[-1])
    step = math.gcd(*known)
    few = range(known[0], known[-1] + 1, step)
    if len(few) <= _REMAINDER_COUNT:
        return few[remainder % len(few)]
    size = round(math.exp(rng.uniform(math.log(known[0]), math.log(known[-1]))) / step)
    if step == 1 and size >= _SMALL_STEP:
        modulus = _REMAINDER_COUNT if size >= _REMAINDER_COUNT else _SMALL_STEP
        size += (remainder - size) % modulus
    return max(known[0], min(known[-1], size * step))


def follows_pattern(kernel: Kernel, named: Sequence[Sizes], sizes: Sizes) -> bool:
    """Return whether sizes have what all named ones share: divisors, and an order of the axes.

    Each array has to have a whole number of elements with them.
    """
    for axis in kernel.axes:
        if sizes[axis] % math.gcd(*(each[axis] for each in named)):
            return False
        for other in kernel.axes:
            is_ordered = all(each[axis] <= each[other] for each in named)
            if is_ordered and sizes[axis] > sizes[other]:
                return False
    arrays = (*kernel.inputs, *kernel.outputs)
    try:
        return all(min(each.resolve_shape(sizes), default=1) > 0 for each in arrays)
    except ValueError:
        return False


def keep_equal_and_divisible(kernel: Kernel, named: Sequence[Sizes], sizes: dict[str, int]) -> None:
    """Change sizes where one axis equals another, or is its multiple, in all sizes that are named.

    Args:
        kernel: Its axes.
        named: Sizes in its kernel.yaml.
        sizes: Of every axis; changed in place.
    """
    for axis in kernel.axes:
        for other in kernel.axes:
            if axis == other or all(each[axis] in (0, 1) for each in named):
                continue
            if all(each[axis] == each[other] for each in named):
                sizes[other] = sizes[axis]
            elif all(each[axis] and each[other] % each[axis] == 0 for each in named):
                sizes[other] = max(1, round(sizes[other] / sizes[axis])) * sizes[axis]
