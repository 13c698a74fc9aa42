"""Each check of the knowledge fires on the smallest thing it is for."""

import pytest
from shipped_rules import knowledge, leave_out_slow_checks

from kernelkb import checks
from kernelkb.checks import lint
from kernelkb.model.entries.bottleneck import Case


def change_bottleneck(bottleneck, **update):
    found = tuple(
        b.model_copy(update=update) if b.id == bottleneck else b for b in knowledge().bottlenecks
    )
    return knowledge().model_copy(update={"bottlenecks": found})


def list_complaints(broken):
    with pytest.MonkeyPatch.context() as patch:
        leave_out_slow_checks(patch)
        return [f"{where}: {text}" for where, text in lint(broken)]


def test_shipped_knowledge_is_clean():
    assert lint(knowledge()) == []


def test_a_case_that_does_not_hold_is_named():
    wrong = Case(name="wrong", metrics={"waves": 0.5}, verdict="excluded")
    right = Case(name="right", metrics={"waves": 0.5}, verdict="matches")

    assert list_complaints(change_bottleneck("small-grid", cases=(wrong, right))) == [
        "small-grid: case 'wrong' gives matches, not excluded"
    ]


def replace_tree(tree, instead):
    """All trees, with one of them replaced."""
    return tuple(instead if t is tree else t for t in knowledge().trees)


def test_a_bottleneck_needs_a_case_on_each_side():
    only = Case(name="only", metrics={"waves": 0.5}, verdict="matches")

    assert any(
        "has no case that is excluded" in c
        for c in list_complaints(change_bottleneck("small-grid", cases=(only,)))
    )


def test_an_effect_that_no_fix_has_is_named():
    effect = knowledge().effects.effects[0].model_copy(update={"id": "idle"})
    more = knowledge().effects.model_copy(
        update={"effects": (*knowledge().effects.effects, effect)}
    )
    broken = knowledge().model_copy(update={"effects": more})

    assert list_complaints(broken) == ["idle: no fix has this effect; give it to one, or remove it"]


def test_a_fix_that_cures_nothing_is_named():
    found = list_complaints(change_bottleneck("shared-memory-bank-conflicts", fixes=("pad-smem",)))

    assert "fix:transpose-free-layout: no bottleneck lists this fix; remove it or use it" in found


def test_an_unused_threshold_is_named():
    extra = knowledge().thresholds.thresholds[0].model_copy(update={"id": "idle"})
    more = knowledge().thresholds.model_copy(
        update={"thresholds": (*knowledge().thresholds.thresholds, extra)}
    )
    broken = knowledge().model_copy(update={"thresholds": more})

    assert list_complaints(broken) == [
        "threshold:idle: no condition uses this threshold; remove it or use it"
    ]


def test_a_leaf_that_no_walk_reaches_is_named():
    tree = next(t for t in knowledge().trees if t.id == "performance-gate")
    leaf = tree.leaves[0].model_copy(update={"id": "nowhere"})
    lost = tree.model_copy(update={"leaves": (*tree.leaves, leaf)})
    broken = knowledge().model_copy(update={"trees": replace_tree(tree, lost)})

    assert any(
        c.startswith("gate:performance-gate/nowhere: cannot be reached")
        for c in list_complaints(broken)
    )


def test_metrics_that_follow_from_each_other_are_a_circle():
    metrics = tuple(
        m.model_copy(update={"derive": ("cache_ratio + 1",)}) if m.id == "working_set_bytes" else m
        for m in knowledge().catalogue.metrics
    )
    catalogue = knowledge().catalogue.model_copy(update={"metrics": metrics})
    (found,) = list_complaints(knowledge().model_copy(update={"catalogue": catalogue}))

    assert "depends on itself" in found


def test_a_metric_of_the_other_hardware_is_named():
    (cpu,) = [b for b in knowledge().bottlenecks if b.id == "single-threaded"]
    found = list_complaints(change_bottleneck("single-threaded", target="cuda", cases=cpu.cases))

    assert any("does not exist on cuda" in text for text in found)


def test_a_metric_that_nothing_collects_is_named():
    metrics = tuple(
        m.model_copy(update={"recipe": None}) if m.id == "issue_rate" else m
        for m in knowledge().catalogue.metrics
    )
    catalogue = knowledge().catalogue.model_copy(update={"metrics": metrics})
    found = list_complaints(knowledge().model_copy(update={"catalogue": catalogue}))

    assert "memory-latency-bound: needs issue_rate, which has no recipe and no derivation" in found


def test_a_question_that_no_walk_reaches_is_named():
    tree = next(t for t in knowledge().trees if t.id == "performance-gate")
    lost = tree.model_copy(
        update={"questions": (*tree.questions, tree.questions[1].model_copy(update={"id": "lost"}))}
    )
    found = list_complaints(knowledge().model_copy(update={"trees": replace_tree(tree, lost)}))

    assert any(c.startswith("gate:performance-gate/lost: cannot be reached") for c in found)


def test_a_gate_that_leads_back_to_itself_is_a_circle():
    tree = next(t for t in knowledge().trees if t.id == "performance-gate")
    back = tree.questions[-1].model_copy(update={"then": tree.root})
    broken = tree.model_copy(update={"questions": (*tree.questions[:-1], back)})
    found = list_complaints(knowledge().model_copy(update={"trees": replace_tree(tree, broken)}))

    assert found
    assert all("depends on itself" in c for c in found)


def test_every_check_says_in_one_sentence_what_it_proves():
    found = [f for name, f in vars(checks).items() if name.startswith(("every_", "truth_", "no_"))]

    assert found
    assert all(check.__doc__.count(".") == 1 and check.__doc__.endswith(".") for check in found)


def test_every_complaint_of_a_badly_broken_base_is_made():
    only = Case(name="only", metrics={"waves": 0.5}, verdict="excluded")
    broken = change_bottleneck("small-grid", cases=(only,), fixes=())

    assert len(list_complaints(broken)) >= 3


def change_source(source, **update):
    sources = tuple(
        s.model_copy(update=update) if s.id == source else s
        for s in knowledge().bibliography.sources
    )
    bibliography = knowledge().bibliography.model_copy(update={"sources": sources})
    return knowledge().model_copy(update={"bibliography": bibliography})


def change_fix(fix, **update):
    families = tuple(
        family.model_copy(
            update={
                "fixes": tuple(
                    f.model_copy(update=update) if f.id == fix else f for f in family.fixes
                )
            }
        )
        for family in knowledge().families
    )
    return knowledge().model_copy(update={"families": families})


def test_a_source_without_an_address_has_to_say_why():
    assert list_complaints(change_source("copy-rtx-4090", url=None)) == [
        "copy-rtx-4090: has no address; give its url, or say why it has none in without_url"
    ]


def test_a_source_with_an_address_needs_no_reason():
    found = list_complaints(change_source("copy-rtx-4090", without_url="unpublished"))

    assert found == ["copy-rtx-4090: has a url, so remove without_url"]


def test_a_reported_fix_names_a_public_source():
    broken = change_fix("split-kv", evidence="reported", sources=("kernelkb-judgement",))

    assert list_complaints(broken) == [
        "split-kv: is reported, and none of its sources has an address"
    ]


def test_a_measured_fix_names_a_measurement_unless_the_zoo_has_one():
    broken = change_fix("remove-graph-breaks", evidence="measured")

    assert list_complaints(broken) == [
        "remove-graph-breaks: is measured, and none of its sources is a measurement or a session"
    ]
    assert list_complaints(change_fix("unroll-ilp", evidence="measured")) == []


def test_a_pattern_that_only_a_fix_names_is_reached():
    broken = change_fix("grouped-gemm", patterns=())
    (tmem,) = [p for p in knowledge().patterns if p.id == "tmem-lifetime"]
    lonely = tmem.model_copy(update={"id": "lonely"})
    more = broken.model_copy(update={"patterns": (*broken.patterns, lonely)})

    assert list_complaints(more) == [
        "pattern:lonely: no entry names this pattern; remove it or use it"
    ]


def change_symptom(symptom, **update):
    families = tuple(
        family.model_copy(
            update={
                "symptoms": tuple(
                    s.model_copy(update=update) if s.id == symptom else s for s in family.symptoms
                )
            }
        )
        for family in knowledge().symptoms
    )
    return knowledge().model_copy(update={"symptoms": families})


def test_a_kind_that_is_told_as_one_cause_is_named():
    broken = change_symptom("cudnn-failed", cause="The memory is full.")

    assert list_complaints(broken) == [
        "cudnn-failed: is kind_only, and its cause offers no choice (or, mostly, either)"
    ]


def test_an_entry_with_several_causes_has_to_be_a_kind():
    broken = change_symptom("cudnn-failed", kind_only=False)

    assert list_complaints(broken) == [
        "cudnn-failed: says 'Several causes share' and is not kind_only"
    ]
