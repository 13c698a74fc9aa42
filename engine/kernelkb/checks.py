"""Lints valid knowledge: its graph, its sources, its cases and its example logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelkb.decide.conditions import evaluate_comparisons
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.diagnose import judge_bottleneck, walk_gate_tree
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.symptoms import find_symptoms
from kernelkb.errors import did_you_mean
from kernelkb.graph.build import Graph, build_graph, find_cycles, find_nodes, find_unreachable_nodes
from kernelkb.graph.compile import compile_rules
from kernelkb.graph.search_documents import list_documents
from kernelkb.model.entries.bottleneck import Bottleneck, iter_comparisons
from kernelkb.model.entries.fix import Fix
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import PRIOR_CASES, PRIOR_SHARE, FixChange, LearnedFix
from kernelkb.model.entries.quantities import Source
from kernelkb.model.entries.workflow import Pattern

_MEASURED = frozenset({"own-measurement", "session"})
"""Reasons for having no address that stand for a measurement."""

Complaint = tuple[str, str]
"""The id of an entry, and a sentence about what is wrong with it."""
_CHOICE = re.compile(
    r"\b(?:or|either|else|mostly|often|several|seldom|sometimes|usual|usually)\b|;", re.IGNORECASE
)
"""Words of a cause that is one of several."""
_SHARED = re.compile(
    r"\b(?:[Ss]everal|[Tt]wo|[Tt]hree) (?:causes|things) (?:share|look)|\b[Cc]auses that share"
    r"|^Either\b|\bsays only that\b"
)
"""Words of a cause that name the line as one of several causes."""
_ROUNDING_TOLERANCE = 0.0002
"""learned.yaml holds four decimals."""


def lint(knowledge: Knowledge) -> list[Complaint]:
    """Return every complaint about knowledge that loaded; structure first, then content."""
    graph = build_graph(knowledge)
    cycles = list(no_entry_depends_on_itself(graph))
    if cycles:  # the other checks need an order of evaluation
        return cycles
    rules = compile_rules(knowledge)
    return [
        *every_gate_can_be_reached(graph, knowledge),
        *every_fix_cures_something(graph, knowledge),
        *every_threshold_is_used(graph, knowledge),
        *every_bottleneck_can_be_measured(knowledge),
        *every_effect_is_used(knowledge),
        *every_learned_share_follows(knowledge),
        *every_threshold_limits_its_own_metric(graph),
        *every_case_holds(knowledge, rules),
        *every_case_set_has_both_sides(knowledge),
        *every_leaf_has_a_case(knowledge),
        *every_example_shows_its_symptom(knowledge, rules),
        *no_look_alike_shows_its_symptom(knowledge, rules),
        *every_kind_is_told_as_a_choice(knowledge),
        *every_pattern_is_reached(graph, knowledge),
        *every_other_name_belongs_to_an_entry(graph, knowledge),
        *every_source_has_an_address_or_says_why_not(knowledge),
        *every_evidence_has_its_source(knowledge),
    ]


def no_entry_depends_on_itself(graph: Graph) -> Iterator[Complaint]:
    """No metric, condition or gate depends on itself."""
    for cycle in find_cycles(graph):
        yield cycle[0], f"depends on itself: {' -> '.join(cycle)}"


class BrokenCase(NamedTuple):
    """A case whose evaluation differs from its stated result."""

    name: str
    """``entry: case``, as reviews name it; a tree's case is named by its metrics."""
    entry: str
    problem: str


def find_broken_cases(knowledge: Knowledge, rules: CompiledRules) -> Iterator[BrokenCase]:
    """Yield every case of a bottleneck or tree that fails, also those that a review accepts."""
    rows = {r["id"]: r for group in rules["bottlenecks"].values() for r in group}
    for b in knowledge.bottlenecks:
        for case in b.cases:
            metrics = complete_metrics(rules, case.metrics, None)
            got = judge_bottleneck(
                rows[b.id], evaluate_comparisons(rules["comparisons"], metrics).truth
            )
            if got != case.verdict:
                text = f"case {case.name!r} gives {got}, not {case.verdict}"
                yield BrokenCase(f"{b.id}: {case.name}", b.id, text)
    for tree in knowledge.trees:
        for leading in tree.cases:
            metrics = complete_metrics(rules, leading.metrics, None)
            end = walk_gate_tree(
                rules["trees"][tree.id], evaluate_comparisons(rules["comparisons"], metrics)
            )
            if end.gate["id"] != leading.leaf:
                text = f"case {dict(leading.metrics)} ends at {end.gate['id']}"
                yield BrokenCase(f"{tree.id}: {_format_metrics(leading.metrics)}", tree.id, text)


def every_case_holds(knowledge: Knowledge, rules: CompiledRules) -> Iterator[tuple[str, str]]:
    """Every case gives its stated result, except those that a review accepts as broken."""
    accepted = {name for review in knowledge.reviews for name in review.breaks}
    for case in find_broken_cases(knowledge, rules):
        if case.name not in accepted:
            yield case.entry, case.problem


def every_leaf_has_a_case(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every leaf of a tree is the result of a case."""
    for tree in knowledge.trees:
        for leaf in {leaf.id for leaf in tree.leaves} - {case.leaf for case in tree.cases}:
            yield tree.id, f"no case ends at {leaf}"


def every_example_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """Every symptom is the one found in its own example log, with its captures."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        rows = find_symptoms(rules, symptom.example)
        own = next((row for row in rows if row["symptom"] == symptom.id), None)
        if own is None:
            others = ", ".join(row["symptom"] for row in rows) or "nothing"
            yield symptom.id, f"its example shows {others}"
        elif not symptom.captures.items() <= own["captured"].items():
            yield symptom.id, f"captures {own['captured']} from its example"


def no_look_alike_shows_its_symptom(
    knowledge: Knowledge, rules: CompiledRules
) -> Iterator[tuple[str, str]]:
    """No symptom is found in its counterexample."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        rows = find_symptoms(rules, symptom.counterexample)
        if any(row["symptom"] == symptom.id for row in rows):
            yield symptom.id, "is found in its counterexample"


def every_kind_is_told_as_a_choice(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """A symptom whose line names the kind only offers several causes, and says that it is one."""
    for symptom in (s for family in knowledge.symptoms for s in family.symptoms):
        if symptom.kind_only and not _CHOICE.search(symptom.cause):
            yield symptom.id, "is kind_only, and its cause offers no choice (or, mostly, either)"
        elif not symptom.kind_only and (said := _SHARED.search(symptom.cause)):
            yield symptom.id, f"says {said[0]!r} and is not kind_only"


def _format_metrics(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in metrics.items())


def every_source_has_an_address_or_says_why_not(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every source has an address or says why it has none, not both."""
    for source in knowledge.bibliography.sources:
        if (source.url is None) == (source.without_url is None):
            yield source.id, _explain_address(source)


def every_evidence_has_its_source(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every fix or pattern that is reported names a public source, every measured one its own."""
    sources = {source.id: source for source in knowledge.bibliography.sources}
    zoo = {case.fix for case in knowledge.measured.cases}
    fixes = (fix for family in knowledge.families for fix in family.fixes)
    entries: tuple[Fix | Pattern, ...] = (*fixes, *knowledge.patterns)
    for entry in entries:
        named = [sources[name] for name in entry.sources]
        if entry.evidence == "reported" and not any(source.url for source in named):
            yield entry.id, "is reported, and none of its sources has an address"
        measured = any(source.without_url in _MEASURED for source in named) or entry.id in zoo
        if entry.evidence == "measured" and not measured:
            yield entry.id, "is measured, and none of its sources is a measurement or a session"


def _explain_address(source: Source) -> str:
    if source.url is None:
        return "has no address; give its url, or say why it has none in without_url"
    return "has a url, so remove without_url"


def every_gate_can_be_reached(graph: Graph, knowledge: Knowledge) -> Iterator[Complaint]:
    """Every question and leaf of a tree can be reached from its root."""
    for tree in knowledge.trees:
        for node in find_unreachable_nodes(graph, tree.id):
            yield (
                node,
                "cannot be reached from the root of its tree; remove it or add a branch to it",
            )


def every_fix_cures_something(graph: Graph, knowledge: Knowledge) -> Iterator[Complaint]:
    """Every fix is listed by a bottleneck, or was withdrawn by a review."""
    changes = (change for review in knowledge.reviews for change in review.corrections)
    withdrawn = {c.fix for c in changes if isinstance(c, FixChange) and c.move == "withdraw"}
    for node in find_nodes(graph, "fix"):
        if not graph.in_degree(node) and node.partition(":")[2] not in withdrawn:
            yield node, "no bottleneck lists this fix; remove it or use it"


def every_pattern_is_reached(graph: Graph, knowledge: Knowledge) -> Iterator[Complaint]:
    """Every pattern is named by a symptom, leaf, gate, fix or pattern, or is from a review."""
    accepted = {change.id for change in knowledge.changed if change.kind == "pattern"}
    for node in find_nodes(graph, "pattern"):
        if not graph.in_degree(node) and node.partition(":")[2] not in accepted:
            yield node, "no entry names this pattern; remove it or use it"


def every_threshold_is_used(graph: Graph, knowledge: Knowledge) -> Iterator[Complaint]:
    """Every threshold is used by a condition, also by one of a fix or an effect."""
    fixes = (fix.applies for family in knowledge.families for fix in family.fixes)
    effects = (effect.when for effect in knowledge.effects.effects)
    conditions = (*fixes, *(when for when in effects if when is not None))
    used = {leaf.threshold for when in conditions for leaf in iter_comparisons(when)}
    for node in find_nodes(graph, "threshold"):
        if not graph.out_degree(node) and node.partition(":")[2] not in used:
            yield node, "no condition uses this threshold; remove it or use it"


def every_bottleneck_can_be_measured(knowledge: Knowledge) -> Iterator[Complaint]:
    """Every metric in a bottleneck's condition has a recipe, a derivation, or is of level L0."""
    metrics = {m.id: m for m in knowledge.catalogue.metrics}
    for b in knowledge.bottlenecks:
        for leaf in iter_comparisons(b.when):
            metric = metrics.get(leaf.metric)
            if metric and b.target not in metric.targets:
                yield b.id, f"needs {metric.id}, which does not exist on {b.target}"
            if metric and not (metric.recipe or metric.derive or metric.level == "L0"):
                yield b.id, f"needs {metric.id}, which has no recipe and no derivation"


def every_effect_is_used(knowledge: Knowledge) -> Iterator[Complaint]:
    """Every effect is that of a fix."""
    used = {name for family in knowledge.families for fix in family.fixes for name in fix.effects}
    for effect in knowledge.effects.effects:
        if effect.id not in used:
            yield effect.id, "no fix has this effect; give it to one, or remove it"


def every_learned_share_follows(knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Every learned share follows from its count and its mean."""
    for row in knowledge.learned.fixes:
        where = f"learned.yaml: {row.fix} for {row.bottleneck} on {row.architecture}"
        if contradiction := _find_contradiction(row):
            yield where, contradiction


def _find_contradiction(row: LearnedFix) -> str | None:
    mean = PRIOR_SHARE if row.observed is None else row.observed
    share = (row.count * mean + PRIOR_CASES * PRIOR_SHARE) / (row.count + PRIOR_CASES)
    if abs(share - row.calibration) > _ROUNDING_TOLERANCE:
        return f"calibration is {row.calibration:g}, should be {share:.4f}; run kb lab learn"
    if not row.interval[0] <= row.calibration <= row.interval[1]:
        return "the calibration lies outside its interval; run kb lab learn"
    if not row.succeeded <= row.measured <= row.tried:
        return "succeeded ≤ measured ≤ tried does not hold; run kb lab learn"
    return None


def every_threshold_limits_its_own_metric(graph: Graph) -> Iterator[Complaint]:
    """A threshold is compared with its own metric only."""
    for node in find_nodes(graph, "comparison"):
        leaf = graph.nodes[node]["record"]
        if leaf.threshold:
            wanted = graph.nodes[f"threshold:{leaf.threshold}"]["record"].metric
            if wanted != leaf.metric:
                where = node.partition(":")[2]
                yield where, f"threshold {leaf.threshold} is for {wanted}, not for {leaf.metric}"


def every_case_set_has_both_sides(knowledge: Knowledge) -> Iterator[Complaint]:
    """Every bottleneck has a case that matches and one that is excluded."""
    for b in knowledge.bottlenecks:
        for side in _list_missing_verdicts(b):
            yield b.id, f"has no case that is {side}; one of each is required"


def _list_missing_verdicts(bottleneck: Bottleneck) -> list[str]:
    verdicts = {case.verdict for case in bottleneck.cases}
    return [side for side in ("matches", "excluded") if side not in verdicts]


def every_other_name_belongs_to_an_entry(graph: Graph, knowledge: Knowledge) -> Iterator[Complaint]:
    """Every entry and list of the search terms exists; what begins with kb is a command."""
    known = {document.id for document in list_documents(graph, knowledge, {})}
    for entry in knowledge.search_terms.entries:
        if entry.id not in known and not entry.id.startswith("kb "):
            yield entry.id, f"has other names, but is no entry{did_you_mean(entry.id, known)}"
    lists = knowledge.search_terms.get_word_lists()
    for one in knowledge.search_terms.usual_causes:
        where = " ".join(one.said)
        for name in {*one.said, *one.unsaid} - lists.keys():
            yield where, f"{name} is no list of words{did_you_mean(name, lists)}"
        for cause in set(one.causes) - known:
            yield where, f"{cause} is no entry{did_you_mean(cause, known)}"
