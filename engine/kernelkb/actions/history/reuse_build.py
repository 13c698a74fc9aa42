"""Says of a fresh build what the history knows: equal machine code, and words that nothing shows.

A history that cannot be read costs these lines, and not the build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelkb.actions.history.change_outcomes import (
    collect_evidence,
    find_code,
    is_compiled_ahead,
    list_signatures,
)
from kernelkb.actions.history.reuse_bench import SHOWN_DIGITS, find_alike, find_bench_of_equal_code
from kernelkb.actions.project.bench_target import BenchTarget, resolve_workload
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recognise import find_unconfirmed
from kernelkb.errors import KbError
from kernelkb.measure.build.machine_code import find_machine_code
from kernelkb.model.records.attempt import Attempt
from kernelkb.model.records.measurement import Build
from kernelkb.profiles.disassembler import digest_code
from kernelkb.profiles.static_analysis import count_built_code
from kernelkb.units import format_duration

if TYPE_CHECKING:
    from kernelkb.record.attempts.store import AttemptStore


def add_known_state(bench_target: BenchTarget, built: Build) -> Build:
    """Return a build with ``same_code`` and ``warnings``, as far as its history tells.

    Args:
        bench_target: What was built.
        built: The build, with the id of its attempt.
    """
    if built.attempt is None or built.error is not None:
        return built
    from kernelkb.record.attempts.store import open_attempts  # loads SQLAlchemy

    try:
        with open_attempts(bench_target.project, writes=False) as store:
            attempt = store.get_many([built.attempt])[built.attempt]
            update = {
                "same_code": _describe_same_code(bench_target, store, attempt, built),
                "warnings": _list_doubts(store, attempt, built),
            }
    except (KbError, OSError, KeyError):
        return built
    return built.model_copy(update=update)


def _describe_same_code(
    bench_target: BenchTarget, store: AttemptStore, attempt: Attempt, built: Build
) -> str | None:
    """Return which other state has this machine code: one that answers a bench, or the parent."""
    alike = find_alike(store, built) - {attempt.id} if is_compiled_ahead(attempt) else set()
    if not alike:
        return None
    kernel = bench_target.subject.kernel_folder.kernel
    workload = resolve_workload(kernel, attempt.target, None)
    known = find_bench_of_equal_code(bench_target, built, workload)
    if known is not None:
        name, time_us = known
        return (
            f"machine code as in attempt {name[:SHOWN_DIGITS]}, measured "
            f"{format_duration(time_us)} on {workload}: kb bench answers from the record"
        )
    if attempt.parent in alike:
        return f"machine code as in attempt {str(attempt.parent)[:SHOWN_DIGITS]}, the state before"
    return None


def _list_doubts(store: AttemptStore, attempt: Attempt, built: Build) -> tuple[str, ...]:
    """Return a line for each fix that the author names and that the change does not show."""
    parent = store.get_many([attempt.parent]).get(attempt.parent) if attempt.parent else None
    if parent is None:
        return ()
    before, after = store.list_events([parent.id]), store.list_events([attempt.id])
    evidence = collect_evidence(store, parent, attempt, (before, after))
    if not evidence.said:
        return ()
    paths = find_machine_code(built)
    own_code = digest_code(paths) if is_compiled_ahead(attempt) else None
    evidence = evidence._replace(same_code=own_code is not None and own_code == find_code(before))
    counted = next((dict(event.counts) for event in reversed(before) if event.counts), {})
    fixes = load_compiled_rules()["fixes"].keys()
    if counted and not (evidence.counts or evidence.same_code) and (now := count_built_code(paths)):
        evidence = evidence._replace(counts=(counted, now))
    doubts = find_unconfirmed(list_signatures(), fixes, evidence)
    return tuple(f"the change is called {fix}, but {why}" for fix, why in doubts.items())
