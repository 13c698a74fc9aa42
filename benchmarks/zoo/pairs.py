"""Finds, builds and checks the zoo's pairs of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import (
    BenchTarget,
    get_project_path,
    prepare,
    resolve_workload,
)
from kernelkb.errors import BadValueError, KbError, did_you_mean
from kernelkb.loading.kernels import find_zoo_folders, load_kernel_folder
from kernelkb.measure.check.check import check
from kernelkb.model.kernels.kernel import Kernel, Pair
from kernelkb.model.records.measurement import Build

_CHECKS_AT_ONCE = 12
_CHECK_TIMEOUT_S = 120.0

ShowProgress: TypeAlias = Callable[[str], None]


class BuiltPair(NamedTuple):
    """Both variants of a pair and those that tempt, compiled."""

    pair: Pair
    workload: str
    before: BenchTarget
    after: BenchTarget
    builds: Mapping[str, Build]
    """By variant."""
    tempting: tuple[BenchTarget, ...] = ()

    @property
    def targets(self) -> tuple[BenchTarget, ...]:
        """All of its variants."""
        return self.before, self.after, *self.tempting

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


def prepare_pairs(names: Sequence[str]) -> list[BuiltPair]:
    """Return pairs, not yet compiled; none for all.

    Raises:
        BadValueError: There is no such pair.
    """
    known = list_pairs()
    for name in names:
        if name not in known:
            raise BadValueError(
                f"unknown pair {name!r}{did_you_mean(name, known)}; "
                "python -m benchmarks.zoo list lists them"
            )
    return [_prepare_pair(name, known[name]) for name in names or known]


def build_pairs(pairs: Sequence[BuiltPair], show_progress: ShowProgress) -> list[BuiltPair]:
    """Return the pairs whose variants all compile; several compile at a time."""
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(_build_pair, pairs))
    return [pair for pair in built if _report_errors(pair, show_progress)]


def check_pairs(pairs: Sequence[BuiltPair], show_progress: ShowProgress) -> list[BuiltPair]:
    """Return the pairs whose variants are all correct; several are checked at a time."""

    def check_target(pair: BuiltPair, target: BenchTarget) -> str | None:
        built = pair.builds[target.subject.variant.id]
        names = list(dict.fromkeys((next(iter(pair.kernel.workloads)), pair.workload)))
        try:
            checked = check(target.subject, built, workloads=names, timeout_s=_CHECK_TIMEOUT_S)
        except KbError as error:
            return str(error)
        return None if checked.status == "correct" else f"{checked.status}: {checked.detail}"

    jobs = [(pair, target) for pair in pairs for target in pair.targets]
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as pool:
        problems = list(pool.map(lambda job: check_target(*job), jobs))
    wrong = set()
    for (pair, target), problem in zip(jobs, problems, strict=True):
        if problem is not None:
            show_progress(f"{pair.kernel.id}/{target.subject.variant.id}: {problem}")
            wrong.add(pair.kernel.id)
    return [pair for pair in pairs if pair.kernel.id not in wrong]


def _prepare_pair(name: str, kernel: Kernel) -> BuiltPair:
    pair = kernel.pair
    if pair is None:
        raise BadValueError(f"{name} declares no pair; add one to its kernel.yaml")
    names = (pair.before, pair.after, *pair.tempting)
    before, after, *tempting = (prepare(name, variant, "cuda") for variant in names)
    workload = resolve_workload(kernel, "cuda", None)
    return BuiltPair(pair, workload, before, after, {}, tuple(tempting))


def _build_pair(pair: BuiltPair) -> BuiltPair:
    return pair._replace(builds={t.subject.variant.id: build_prepared(t) for t in pair.targets})


def _report_errors(pair: BuiltPair, show_progress: ShowProgress) -> bool:
    """Return whether both variants were compiled."""
    errors = {name: b.error for name, b in pair.builds.items() if b.error is not None}
    for name, error in errors.items():
        show_progress(f"{pair.kernel.id}/{name}: {error}")
    return not errors
