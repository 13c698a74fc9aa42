"""Compiles the fixes: how they appear in an answer, where they apply, and what they gave."""

from __future__ import annotations

from kernelkb.decide.change_rows import SignatureRow
from kernelkb.decide.rules import FixRow
from kernelkb.graph.comparisons import ConditionCompiler
from kernelkb.graph.measured import summarize_by_cause, summarize_measured
from kernelkb.model.answers.recommendation import Advice
from kernelkb.model.entries.fix import ChangeSignature, Fix
from kernelkb.model.entries.knowledge import Knowledge


def build_fix_rows(knowledge: Knowledge, conditions: ConditionCompiler) -> dict[str, FixRow]:
    """Return every fix by id."""
    return {
        fix.id: _build_fix_row(fix, conditions, knowledge)
        for family in knowledge.families
        for fix in family.fixes
    }


def _build_fix_row(fix: Fix, conditions: ConditionCompiler, knowledge: Knowledge) -> FixRow:
    advice: Advice = {
        "id": fix.id,
        "do": fix.do,
        "before": fix.before,
        "after": fix.after,
        "on_line": None,
        "tried": None,
        "when_not": fix.when_not,
        "cost_min": fix.cost_min,
        "risk": fix.risk,
        "predicted_speedup": None,
        "measured": summarize_measured(knowledge, fix.id),
    }
    row: FixRow = {
        "advice": advice,
        "measured": summarize_by_cause(knowledge, fix.id),
        "at_call": fix.at_call,
        "effects": list(fix.effects),
        "on_line": fix.on_line,
        "undoes": list(fix.undoes),
        "recognised_by": _build_signature_row(fix.recognised_by),
    }
    if fix.applies is not None:
        row["applies"] = conditions.compile(fix.applies, ", ".join(fix.sources))
    return row


def _build_signature_row(signature: ChangeSignature | None) -> SignatureRow | None:
    if signature is None:
        return None
    return {
        "added": signature.added,
        "removed": signature.removed,
        "code": {name: str(change) for name, change in signature.code.items()},
        "finds_all": signature.finds_all,
    }
