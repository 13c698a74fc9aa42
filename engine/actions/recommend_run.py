"""A recorded bench or profile → an answer for its kernel."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.actions.bench_target import project
from kernelkb.actions.fix_outcome import disturbed
from kernelkb.actions.recommend import given_metrics
from kernelkb.actions.rules_cache import decision_program
from kernelkb.decide.answer import Recommendation
from kernelkb.decide.parse_metric import device_named, find_device
from kernelkb.decide.recommend import recommend, recommendation
from kernelkb.errors import BadValueError
from kernelkb.model.history import Measurement
from kernelkb.record.measurements.store import open_to_read

_DECIDABLE = ("bench", "profile")
_ID_SHOWN = 12


def recommend_run(
    run: str,
    *,
    metrics: Mapping[str, str | float] | None = None,
    headlines: Mapping[str, str | float] | None = None,
    gpu: str | None = None,
    kernel: str = "",
) -> Recommendation:
    """Answer for the kernel that a recorded bench or profile was of.

    Args:
        run: Id of the record, or the beginning of it.
        metrics: Further values by metric id; they count before those of the record.
        headlines: Further values by headline flag.
        gpu: Any name of the GPU; by default the one that the record is from.
        kernel: Name for the answer; by default the record's.

    Raises:
        UnknownNameError: No such record, metric or GPU.
        BadValueError: Several records, or one that holds nothing to decide on.
        DatabaseError: The database cannot be read.
    """
    with open_to_read(project()) as store:
        found = store.get(run)
    _decidable(found)
    subject, program = found.subject, decision_program()
    device = (
        device_named(program, gpu) if gpu else find_device(program["device_names"], subject.device)
    )
    given = given_metrics(program, metrics or {}, headlines or {}, subject.target)
    known, notes = _sound(found, program["metrics"])
    answer = recommend(
        program,
        {**known, **given},
        target=subject.target,
        device=device,
        kernel=kernel or subject.kernel,
    )
    answer["notes"] = [*notes, *answer["notes"]]
    return recommendation(program, [answer])


def _decidable(found: Measurement) -> None:
    again = f"kb bench {found.subject.kernel} --variant {found.subject.variant}"
    name = found.id[:_ID_SHOWN]
    if found.kind not in _DECIDABLE:
        raise BadValueError(f"record {name} is of a {found.kind}, not a bench or profile; {again}")
    if found.verdict in ("incorrect", "invalid"):
        why = f": {found.detail}" if found.detail else ""
        raise BadValueError(f"bench {name} is {found.verdict}{why}; mend it, then {again}")
    if not found.metrics:
        raise BadValueError(f"{found.kind} {name} holds no metrics; {again}")


def _sound(found: Measurement, known: Mapping[str, object]) -> tuple[dict[str, float], list[str]]:
    """Return the metrics that can be decided on, and say where they are from."""
    subject = found.subject
    where = f"{subject.kernel} {subject.variant}, {subject.workload}, on {subject.device}"
    notes = [f"metrics of {found.kind} {found.id[:_ID_SHOWN]}: {where}, {found.at:%Y-%m-%d %H:%M}"]
    metrics = {name: value for name, value in found.metrics.items() if name in known}
    if strange := sorted(found.metrics.keys() - metrics.keys()):
        notes.append(f"not in the knowledge any more, so left out: {', '.join(strange)}")
    if warning := disturbed(found):
        metrics.pop("speedup", None)
        notes.append(f"its speedup is left out, for it was disturbed: {warning}")
    return metrics, notes
