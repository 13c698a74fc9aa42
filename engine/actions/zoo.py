"""Records the zoo's pairs on this machine's GPU: build, check, bench and profile each variant."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kernelkb.actions.bench_target import BenchTarget, get_project_path, prepare
from kernelkb.actions.building import build_prepared
from kernelkb.actions.measured_cases import write_measured_cases
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.errors import BadValueError, EnvironmentGapError, KbError, UnknownNameError
from kernelkb.loading.kernels import find_zoo_folders, load_kernel_folder
from kernelkb.loading.zoo import format_recording, read_recordings
from kernelkb.measure.bench import bench
from kernelkb.measure.check import check
from kernelkb.measure.full_reports import record_full_report
from kernelkb.measure.machine.device_lock import lock_device
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.measure.machine.tools import find_cuda_tool
from kernelkb.measure.profile import make_repeat_job, static_metrics
from kernelkb.model.kernel import Kernel, Pair
from kernelkb.model.measurement import Build
from kernelkb.model.zoo import PairRecording, VariantRecording
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.profiles.report import read_report

_CHECKS_AT_ONCE = 12
_CHECK_TIMEOUT_S = 120.0
_REPORT_TIMEOUT_S = 300.0
_BUDGET_S = 0.4

ShowProgress = Callable[[str], None]


class BuiltPair(NamedTuple):
    """Both variants of a pair, compiled."""

    pair: Pair
    workload: str
    before: BenchTarget
    after: BenchTarget
    builds: Mapping[str, Build]
    """By variant."""

    @property
    def kernel(self) -> Kernel:
        """The kernel that both compute."""
        return self.before.subject.kernel_folder.kernel

    @property
    def family(self) -> str:
        """The folder between ``zoo/`` and the kernel: a bottleneck."""
        return self.before.subject.kernel_folder.folder.parent.name


def list_pairs() -> dict[str, Kernel]:
    """Return the kernel of every pair, by name."""
    folders = find_zoo_folders(get_project_path())
    kernels = {name: load_kernel_folder(folder).kernel for name, folder in folders.items()}
    return {name: kernel for name, kernel in kernels.items() if kernel.pair}


def record_pairs(
    names: Sequence[str],
    measured: Path,
    reports: Path,
    *,
    budget_s: float = _BUDGET_S,
    show_progress: ShowProgress = lambda _line: None,
) -> list[PairRecording]:
    """Measure pairs on this machine's GPU, and write what was measured.

    Args:
        names: Pairs; none for all.
        measured: Folder of the numbers: ``<device>.jsonl`` gets one line for each pair, in place
            of an older one.
        reports: Folder of the binary reports, one for each bottleneck, compressed.
        budget_s: Seconds of timing for each pair.
        show_progress: Called with one line for each step.

    Raises:
        UnknownNameError: There is no such pair.
        EnvironmentGapError: There is no GPU, no compiler or no ncu.
    """
    chosen = _prepare_pairs(names)
    with ThreadPoolExecutor() as pool:
        built = [one for one in pool.map(_build_pair, chosen) if _report_errors(one, show_progress)]
    recordings: list[PairRecording] = []
    if not built:
        return recordings
    machine = built[0].before.subject.machine
    with lock_device(machine):
        correct = _check_pairs(built, show_progress)
        timed = [row for one in correct if (row := _time_pair(one, budget_s, show_progress))]
        for family in dict.fromkeys(one.family for one, _ in timed):
            members = [(one, row) for one, row in timed if one.family == family]
            recordings += _profile_pairs(members, reports / str(machine.device), show_progress)
    write_recordings(measured / f"{machine.device}.jsonl", recordings)
    write_measured_cases(measured)
    return recordings


def extract_metrics(measured: Path, reports: Path) -> list[PairRecording]:
    """Read the metrics of every recording from its report again, and write them.

    Raises:
        BadValueError: A folder has no recordings.
    """
    if not (files := sorted(measured.glob("*.jsonl"))):
        raise BadValueError(f"no recordings in {measured}; kb zoo record writes them")
    renewed: list[PairRecording] = []
    for file in files:
        recordings = read_recordings(file)
        launches = {
            name: _read_compressed(reports / file.stem / name)
            for name in {row.report for row in recordings if row.report}
        }
        rows = [
            _add_metrics(row, launches[row.report]) if row.report else row for row in recordings
        ]
        write_recordings(file, rows)
        renewed += rows
    write_measured_cases(measured)
    return renewed


def write_recordings(file: Path, recordings: Iterable[PairRecording]) -> None:
    """Write recordings, by name; one of the same pair replaces that in the file."""
    rows = {row.kernel: row for row in (read_recordings(file) if file.is_file() else [])}
    rows.update((row.kernel, row) for row in recordings)
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(format_recording(rows[name]) for name in sorted(rows))
    file.write_text(text, encoding="utf-8")


def _prepare_pairs(names: Sequence[str]) -> list[BuiltPair]:
    known = list_pairs()
    for name in names:
        if name not in known:
            raise UnknownNameError("pair", name, known, "zoo", id="list")
    if find_cuda_tool("ncu") is None:
        raise EnvironmentGapError("ncu was not found", "install Nsight Compute, or put it on PATH")
    return [_prepare_pair(name, known[name]) for name in names or known]


def _prepare_pair(name: str, kernel: Kernel) -> BuiltPair:
    pair = kernel.pair
    if pair is None:
        raise BadValueError(f"{name} declares no pair; add one to its kernel.yaml")
    before, after = (prepare(name, variant, "cuda") for variant in (pair.before, pair.after))
    return BuiltPair(pair, kernel.default_workload["cuda"], before, after, {})


def _build_pair(pair: BuiltPair) -> BuiltPair:
    targets = (pair.before, pair.after)
    return pair._replace(builds={t.subject.variant.id: build_prepared(t) for t in targets})


def _report_errors(pair: BuiltPair, show_progress: ShowProgress) -> bool:
    """Return whether both variants were compiled."""
    errors = {name: b.error for name, b in pair.builds.items() if b.error is not None}
    for name, error in errors.items():
        show_progress(f"{pair.kernel.id}/{name}: {error}")
    return not errors


def _check_pairs(pairs: Sequence[BuiltPair], show_progress: ShowProgress) -> list[BuiltPair]:
    """Return the pairs whose variants are both correct; several are checked at a time."""

    def check_target(pair: BuiltPair, target: BenchTarget) -> str | None:
        built = pair.builds[target.subject.variant.id]
        names = list(dict.fromkeys((next(iter(pair.kernel.workloads)), pair.workload)))
        try:
            checked = check(target.subject, built, workloads=names, timeout_s=_CHECK_TIMEOUT_S)
        except KbError as error:
            return str(error)
        return None if checked.status == "correct" else f"{checked.status}: {checked.detail}"

    jobs = [(pair, target) for pair in pairs for target in (pair.before, pair.after)]
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        problems = list(pool.map(lambda job: check_target(*job), jobs))
    wrong = set()
    for (pair, target), problem in zip(jobs, problems, strict=True):
        if problem is not None:
            show_progress(f"{pair.kernel.id}/{target.subject.variant.id}: {problem}")
            wrong.add(pair.kernel.id)
    return [pair for pair in pairs if pair.kernel.id not in wrong]


def _time_pair(
    pair: BuiltPair, budget_s: float, show_progress: ShowProgress
) -> tuple[BuiltPair, PairRecording] | None:
    before, after = pair.pair.before, pair.pair.after
    try:
        timed = bench(
            pair.after.subject,
            pair.builds[after],
            workload=pair.workload,
            budget_s=budget_s,
            rival_variant=(pair.before.subject, pair.builds[before]),
            skip_other_rivals=True,
        )
    except KbError as error:
        show_progress(f"{pair.kernel.id}: {error}")
        return None
    if timed.candidate_us is None or timed.baseline_us is None or timed.interval is None:
        show_progress(f"{pair.kernel.id}: {timed.verdict}: {timed.detail}")
        return None
    driver = query_driver()
    show_progress(f"{pair.kernel.id}: {timed.baseline_us:.1f} -> {timed.candidate_us:.1f} us")
    return pair, PairRecording(
        kernel=pair.kernel.id,
        device=str(pair.before.subject.machine.device),
        driver=driver.version if driver else "",
        workload=pair.workload,
        speedup=timed.speedup or timed.baseline_us / timed.candidate_us,
        interval=timed.interval,
        before=_make_recording(pair, before, timed.baseline_us, timed.metrics),
        after=_make_recording(pair, after, timed.candidate_us, timed.metrics),
    )


def _make_recording(
    pair: BuiltPair, variant: str, kernel_us: float, metrics: Mapping[str, float]
) -> VariantRecording:
    """Return a recording without a profile: the compiler's metrics and the algorithm's work."""
    work = ("algorithmic_bytes", "algorithmic_flop_count", "launch_floor_us", "copy_peak_gbps")
    known = {name: metrics[name] for name in work if name in metrics}
    return VariantRecording(
        variant=variant,
        kernel_us=kernel_us,
        metrics={**known, **static_metrics(pair.builds[variant]), "kernel_us": kernel_us},
    )


def _profile_pairs(
    members: Sequence[tuple[BuiltPair, PairRecording]], reports: Path, show_progress: ShowProgress
) -> Iterator[PairRecording]:
    """Profile the pairs of one bottleneck in one run of ncu; keep the report, compressed."""
    targets = [(one, t) for one, _ in members for t in (one.before, one.after)]
    jobs = [
        make_repeat_job(t.subject, one.builds[t.subject.variant.id], one.workload, 1)
        for one, t in targets
    ]
    kernels = [name for _, t in targets for name in t.subject.variant.kernels]
    name = members[0][0].family if len(members) > 1 else members[0][1].kernel
    report = reports / f"{name}.ncu-rep"
    problem = record_full_report(jobs, kernels, report, timeout_s=_REPORT_TIMEOUT_S)
    launches = [] if problem else _read_launches(report)
    if problem is None and len(launches) != len(targets):
        problem = f"{len(launches)} launches of {len(targets)} variants"
        report.unlink()
    if problem is not None:
        show_progress(f"{report.stem}: {problem}")
        yield from (row for _, row in members)
        return
    packed = report.with_name(report.name + ".xz")
    packed.write_bytes(lzma.compress(report.read_bytes()))
    report.unlink()
    for index, (_, row) in enumerate(members):
        named = row.model_copy(update={"report": packed.name, "launch": 2 * index})
        yield _add_metrics(named, launches)


def _add_metrics(row: PairRecording, launches: Sequence[ProfiledLaunch]) -> PairRecording:
    """Return a recording with the metrics of its two launches in its report."""
    sides = {"before": row.before, "after": row.after}
    for offset, (name, side) in enumerate(sides.items()):
        launch = launches[row.launch + offset]
        metrics = {**side.metrics, **launch.metrics}
        update = {"metrics": metrics, "ncu_rules": _list_rule_estimates(launch)}
        sides[name] = side.model_copy(update=update)
    return row.model_copy(update=sides)


def _list_rule_estimates(launch: ProfiledLaunch) -> dict[str, float]:
    """Return the largest share of the kernel's time that each rule says a fix would remove."""
    estimates: dict[str, float] = {}
    for rule in launch.rules:
        if rule.scope == "kernel" and rule.removes:
            estimates[rule.rule] = max(rule.removes, estimates.get(rule.rule, 0.0))
    return estimates


def _read_launches(report: Path) -> list[ProfiledLaunch]:
    return read_report(report, list_raw_names(load_compiled_rules()), find_cuda_tool("ncu"))


def _read_compressed(packed: Path) -> list[ProfiledLaunch]:
    with TemporaryDirectory() as folder:
        report = Path(folder) / packed.stem
        report.write_bytes(lzma.decompress(packed.read_bytes()))
        return _read_launches(report)
