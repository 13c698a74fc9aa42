"""Prepares a search: the variant, its feasible configurations, and what is known of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kernelkb.actions.project.bench_target import (
    BenchTarget,
    prepare,
    prepare_for_architecture,
    resolve_workload,
)
from kernelkb.actions.project.hardware import find_architecture_spec
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.device_facts import build_limits
from kernelkb.errors import (
    BadValueError,
    EnvironmentGapError,
    KbError,
    UnknownNameError,
    format_install_command,
)
from kernelkb.measure.build.build import compute_build_digest
from kernelkb.measure.machine.environment import TargetChoice
from kernelkb.measure.machine.nvidia_driver import query_driver
from kernelkb.model.kernels.kernel import Kernel, Variant
from kernelkb.model.kernels.tuning import TuningSpace
from kernelkb.model.records.measurement import Machine
from kernelkb.record.tuning_journal import TuningJournal, name_journal, read_journal
from kernelkb.safety.untrusted_text import parse_json
from kernelkb.tune.space import EnumeratedSpace, enumerate_space
from kernelkb.tune.strategies.table import DEFAULT_STRATEGY, Search, find_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernelkb.tune.strategies.gaussian_process import OtherTrials

DEFAULT_BUDGET_S = 600.0
_SAME = ("kernel", "variant", "target")
_MAX_JOURNALS = 20
"""Journals that are read: the newest."""


class TuningPlan(NamedTuple):
    """What a search is about to do."""

    bench_target: BenchTarget
    workload: str
    space: EnumeratedSpace
    default_index: int | None
    """Of the default configuration among the feasible ones."""
    identity: Mapping[str, str]
    """Everything that makes the times of two trials comparable."""
    journal: Path

    @property
    def default(self) -> dict[str, int]:
        """The default configuration; empty: the variant as it is, without any macro."""
        return (
            {} if self.default_index is None else self.space.get_configuration(self.default_index)
        )

    def format_trial_defines(self, configuration: Mapping[str, int]) -> tuple[str, ...]:
        """Return the macros of a trial's build: the tunables, and the axes that it is made for."""
        subject = self.bench_target.subject
        axes = subject.variant.tune.fixed_axes if subject.variant.tune else ()
        sizes = subject.kernel.workloads[self.workload]
        fixed = tuple(f"{axis.upper()}={sizes[axis]}" for axis in axes)
        return (*format_defines(configuration), *fixed)

    def is_comparable(self, machine: Machine, driver: str, build_digest: str) -> bool:
        """Return whether times of a device may be compared with those of this search."""
        found = {
            "device": machine.title,
            "driver": driver,
            "compiler": machine.compiler_version,
            "build": build_digest,
        }
        return found.items() <= self.identity.items()

    @property
    def title(self) -> str:
        """What is searched, where."""
        subject = self.bench_target.subject
        name = f"{subject.kernel.id}/{subject.variant.id}"
        return f"{name} on {self.workload}, {subject.machine.title}"


def require_packages(strategy: str | None = None) -> None:
    """Raise EnvironmentGapError if a package of the extra ``tune`` is missing.

    Args:
        strategy: A name in ``STRATEGIES``, whose packages are needed too; None: only a plan is
            made.

    Raises:
        BadValueError: There is no such strategy.
    """
    further = find_strategy(strategy).packages if strategy is not None else ()
    missing = [name for name in ("numpy", "scipy", *further) if find_spec(name) is None]
    if missing:
        raise EnvironmentGapError(
            f"not installed: {', '.join(missing)}", format_install_command("tune")
        )


def format_defines(configuration: Mapping[str, int]) -> tuple[str, ...]:
    """Return the macros of a configuration, as ``NAME=VALUE``."""
    return tuple(f"{name}={value}" for name, value in configuration.items())


def plan_tuning(
    kernel: str,
    variant: str | None = None,
    target: TargetChoice = "auto",
    workload: str | None = None,
    *,
    arch: str | None = None,
    only: Mapping[str, Sequence[int]] | None = None,
) -> TuningPlan:
    """Find a tunable variant and list its feasible configurations on this machine.

    Args:
        kernel: The kernel's name.
        variant: The variant's id; by default the first of the target that has tunables.
        target: ``auto`` selects CUDA if there is a GPU, a compiler and a CUDA variant.
        workload: One of the kernel's; the target's default.
        arch: An architecture that this machine lacks, such as ``9.0``; such a plan can only be
            shown. None: that of this machine.
        only: The values that some tunables may have; None: all of the kernel's.

    Raises:
        UnknownNameError: No such kernel, variant, workload, architecture or tunable.
        BadValueError: The variant has no tunables, or no configuration is feasible.
        EnvironmentGapError: The machine lacks something.
    """
    require_packages()
    bench_target = prepare_for(kernel, variant, target, arch)
    found = bench_target.subject.kernel
    chosen = choose_variant(found, bench_target.subject.variant, variant)
    bench_target = bench_target.with_variant(narrow_variant(chosen, only or {}))
    driver = query_driver() if chosen.target == "cuda" else None
    return plan_for_device(
        bench_target,
        resolve_workload(found, chosen.target, workload),
        driver.version if driver else "",
        compute_build_digest(bench_target.subject),
    )


def plan_for_device(
    bench_target: BenchTarget, workload: str, driver: str, build_digest: str
) -> TuningPlan:
    """Return the plan for a variant on a device, which may be another host's.

    Args:
        bench_target: The variant, with the device's machine; trials are kept in its project.
        workload: One of the kernel's.
        driver: Version of the device's driver; empty without a GPU.
        build_digest: Of how the device's host compiles the variant; see ``compute_build_digest``.

    Raises:
        BadValueError: The variant has no tunables, or no configuration is feasible.
    """
    subject = bench_target.subject
    kernel, variant = subject.kernel, subject.variant
    space = enumerate_variant(kernel, variant, workload, subject.machine.cc)
    identity = {
        **{name: str(value) for name, value in subject.identity_fields.items()},
        "workload": workload,
        "sizes": str(kernel.workloads[workload]),
        "device": subject.machine.title,
        "driver": driver,
        "compiler": subject.machine.compiler_version,
        "build": build_digest,
    }
    journal = name_journal(
        bench_target.project / ".kb" / "tuning", f"{kernel.id}-{variant.id}-{workload}", identity
    )
    tunables = _require_space(variant)
    default = space.find_index(tunables.default) if tunables.default else None
    return TuningPlan(bench_target, workload, space, default, identity, journal)


def prepare_for(
    kernel: str, variant: str | None, target: TargetChoice, arch: str | None
) -> BenchTarget:
    """Prepare for the GPU of this machine, or for a named architecture without a GPU.

    Raises:
        UnknownNameError: No such kernel, variant or architecture.
        BadValueError: An architecture for the CPU.
        EnvironmentGapError: The machine lacks something.
    """
    if arch is None:
        return prepare(kernel, variant, target)
    return prepare_for_architecture(kernel, variant, target, find_architecture_spec(arch).cc)


def enumerate_variant(
    kernel: Kernel, variant: Variant, workload: str, cc: str | None
) -> EnumeratedSpace:
    """Return the feasible configurations of a variant.

    Args:
        kernel: The kernel.
        variant: One with tunables.
        workload: Whose sizes the constraints may name.
        cc: Compute capability of the GPU; None: no limits but the constraints.

    Raises:
        BadValueError: It has no tunables, or no configuration is feasible.
    """
    hardware = load_compiled_rules()["hardware"]
    limits = build_limits(hardware, cc) if cc in hardware["architectures"] else None
    return enumerate_space(_require_space(variant), limits, kernel.workloads[workload])


def choose_variant(kernel: Kernel, prepared: Variant, named: str | None) -> Variant:
    """Return the named variant, else the first of the target that has tunables."""
    if named is not None or prepared.tune is not None:
        return prepared
    of_target = (one for one in kernel.variants if one.target == prepared.target)
    return next((one for one in of_target if one.tune is not None), prepared)


def narrow_variant(variant: Variant, only: Mapping[str, Sequence[int]]) -> Variant:
    """Return a variant whose tunables have only some of their values.

    A search of it shares its trials with a search of the whole space. A default that is left out
    is no default any more.

    Args:
        variant: One with tunables.
        only: Values by tunable.

    Raises:
        UnknownNameError: No such tunable.
        BadValueError: A tunable has no such value, or the variant has no tunables.
    """
    if not only:
        return variant
    space = _require_space(variant)
    parameters = dict(space.parameters)
    for name, wanted in only.items():
        if name not in parameters:
            raise UnknownNameError("tunable", name, parameters, "show", id=variant.id)
        unknown = sorted(set(wanted) - set(parameters[name]))
        if unknown or not wanted:
            there = ", ".join(map(str, parameters[name]))
            raise BadValueError(f"{name} has the values {there}, and not {unknown}")
        parameters[name] = tuple(sorted(set(wanted)))
    keeps = all(value in parameters[name] for name, value in space.default.items())
    fields = {"parameters": parameters, "default": space.default if keeps else {}}
    return variant.model_copy(update={"tune": space.model_copy(update=fields)})


def _require_space(variant: Variant) -> TuningSpace:
    if variant.tune is None:
        raise BadValueError(
            f"variant {variant.id} has nothing to tune; list its macros and their values under "
            f"'tune:' in kernel.yaml"
        )
    return variant.tune


class TuningOptions(NamedTuple):
    """How long to search, and how."""

    budget_s: float = DEFAULT_BUDGET_S
    max_trials: int | None = None
    """New trials; None: as many as the budget allows."""
    seed: int = 0
    strategy: str = DEFAULT_STRATEGY
    """A name in ``STRATEGIES``."""
    judge: bool = True
    """Whether the winner is checked on all workloads and timed against the kernel's rivals."""


def start_search(
    plan: TuningPlan, options: TuningOptions, journal: TuningJournal, seeds: Sequence[int]
) -> Search:
    """Return a search that knows the trials of earlier runs, and of searches elsewhere.

    Args:
        plan: What to search.
        options: Strategy and seed.
        journal: With the trials of earlier runs.
        seeds: Indexes of earlier winners, to be tried after the default.

    Raises:
        BadValueError: There is no such strategy.
    """
    strategy = find_strategy(options.strategy)
    known = [
        (index, trial.time_us)
        for trial in journal.trials
        if (index := plan.space.find_index(trial.configuration)) is not None
    ]
    first = [*([] if plan.default_index is None else [plan.default_index]), *seeds]
    prior = find_prior(plan) if strategy.uses_prior else None
    start = strategy.load()
    return start(plan.space, options.seed, known=known, first=first, prior=prior)


def find_prior(plan: TuningPlan) -> NDArray[np.float64] | None:
    """Return what other journals of the variant predict for each feasible configuration.

    They are those of another workload, device, driver, compiler or version of the source, in the
    folder of the plan's journal. A journal that cannot be read is left out.

    Args:
        plan: What is searched.

    Returns:
        (configurations, other spaces) as ``build_prior`` returns, for ``StartSearch``; None: no
        other search tells enough.
    """
    from kernelkb.tune.strategies.gaussian_process import build_prior

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
            identity = parse_json(file.readline())["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return identity if isinstance(identity, dict) else {}
