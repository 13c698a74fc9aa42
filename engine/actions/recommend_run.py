"""A recorded bench or profile → an answer for its kernel."""

from __future__ import annotations

from collections.abc import Mapping

from kernelkb.actions.bench_target import get_project_path
from kernelkb.actions.recommend import parse_given_metrics
from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.decide.parse_metric import find_device, resolve_device
from kernelkb.decide.recommend import build_recommendation, recommend
from kernelkb.errors import BadValueError, NextStep
from kernelkb.model.history import Measurement
from kernelkb.model.recommendation import Recommendation
from kernelkb.record.measurements.compare import find_noise_reason
from kernelkb.record.measurements.store import open_read_only

_DECIDABLE_KINDS = ("bench", "profile")
_ID_DIGITS = 12


def recommend_from_run(
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
    with open_read_only(get_project_path()) as store:
        found = store.get(run)
    _require_decidable(found)
    subject, program = found.subject, load_compiled_rules()
    device = (
        resolve_device(program, gpu)
        if gpu
        else find_device(program["device_names"], subject.device)
    )
    given = parse_given_metrics(program, metrics or {}, headlines or {}, subject.target)
    known, notes = _select_known_metrics(found, program["metrics"])
    values, name = {**known, **given}, kernel or subject.kernel
    answer = recommend(program, values, target=subject.target, device=device, kernel=name)
    answer["notes"] = [*notes, *answer["notes"]]
    return build_recommendation(program, [answer])


def _require_decidable(found: Measurement) -> None:
    subject = found.subject
    which = {"kernel": subject.kernel, "variant": subject.variant}
    measure_again = NextStep("bench", which, "measures it again")
    name = found.id[:_ID_DIGITS]
    if found.kind not in _DECIDABLE_KINDS:
        problem = f"record {name} is of a {found.kind}, not a bench or profile"
        raise BadValueError(problem, NextStep("bench", which, "records a bench"))
    if found.verdict in ("incorrect", "invalid"):
        why = f": {found.detail}" if found.detail else ""
        raise BadValueError(f"bench {name} is {found.verdict}{why}; fix it", measure_again)
    if not found.metrics:
        raise BadValueError(f"{found.kind} {name} holds no metrics", measure_again)


def _select_known_metrics(
    found: Measurement, known: Mapping[str, object]
) -> tuple[dict[str, float], list[str]]:
    """Return the metrics that can be decided on, and say where they are from."""
    subject = found.subject
    where = f"{subject.kernel} {subject.variant}, {subject.workload}, on {subject.device}"
    notes = [f"metrics of {found.kind} {found.id[:_ID_DIGITS]}: {where}, {found.at:%Y-%m-%d %H:%M}"]
    metrics = {name: value for name, value in found.metrics.items() if name in known}
    if strange := sorted(found.metrics.keys() - metrics.keys()):
        notes.append(f"not in the knowledge any more, so left out: {', '.join(strange)}")
    if noise := find_noise_reason(found):
        metrics.pop("speedup", None)
        notes.append(f"its speedup is left out, for it was disturbed: {noise}")
    return metrics, notes
