"""effects.yaml: what is refused where it stands, and what an effect becomes in the rules."""

import json

import pytest
from pydantic import ValidationError
from shipped_rules import knowledge, program

from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.cli import main
from kernelkb.errors import KnowledgeError
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.entries.fix import Effect
from kernelkb.model.entries.quantities import parse_formula

MODEL = knowledge().effects.model
FIELDS = {"id": "the-effect", "title": "t", "sources": ("kernelkb-judgement",)}
OWN_EFFECT = """\
effects:
  - id: our-effect
    title: half of the bytes of our table
    work:
      dram: 0.5
    sources: [kernelkb-judgement]
"""
OWN_FIX = """\
family: ours
fixes:
  - id: our-fix
    do: Store our table in half the bytes.
    before: float
    after: half
    when_not: null
    applies: {metric: dram_utilization, op: ">", value: 0.1}
    cost_min: 30
    risk: low
    targets: [cuda]
    effects: [our-effect]
    sources: [kernelkb-judgement]
"""
OWN_BOTTLENECK = """\
id: our-slow-table
title: Our table is read again and again
group: memory-traffic
target: cuda
level: L1
definition: The table of our model does not stay in L2.
when: {metric: dram_utilization, op: ">", value: 0.30}
evidence: coarse
confirm: Keep the table in shared memory and see.
fixes: [our-fix]
cases:
  - {name: often, metrics: {dram_utilization: 0.5}, verdict: matches}
  - {name: seldom, metrics: {dram_utilization: 0.2}, verdict: excluded}
sources: [kernelkb-judgement]
"""


def edit_file(folder, name, old, new):
    """Change one place of a file, and return the line that it is on."""
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return text[: text.index(old)].count("\n") + 1


def load_problems(folder):
    with pytest.raises(KnowledgeError) as caught:
        load_knowledge(folder)
    return caught.value.problems


NO_FORMULA = [
    ("effects.yaml", "l1-requests: 1 / widening", "l1-requests: 1 /", "is not a formula"),
]
UNKNOWN_WORDS = [
    ("effects.yaml", "l1-requests: 1 /", "l1-request: 1 /", "'l1-request'"),
    ("effects.yaml", "long-scoreboard: 0.25", "long-scorebord: 0.25", "'long-scorebord'"),
    ("effects.yaml", "follows: issue", "follows: isue", "'isue'"),
]
UNKNOWN_NAMES = [
    (
        "effects.yaml",
        "use: dram_utilization",
        "use: dram_utilisation",
        "unknown metric 'dram_utilisation' (did you mean 'dram_utilization'?)",
    ),
    (
        "effects.yaml",
        "metric: stall_long_scoreboard",
        "metric: stall_long_scorebord",
        "unknown metric 'stall_long_scorebord' (did you mean 'stall_long_scoreboard'?)",
    ),
    (
        "effects.yaml",
        "l1-requests: 1 / widening",
        "l1-requests: 1 / widenning",
        "unknown metric 'widenning' (did you mean 'widening'?)",
    ),
    (
        "effects.yaml",
        "time: 1 - wave_loss",
        "time: 1 - wave_lost",
        "unknown metric 'wave_lost' (did you mean 'wave_loss'?)",
    ),
    (
        "effects.yaml",
        "parts: [coalesce,",
        "parts: [coalesse,",
        "unknown effect 'coalesse' (did you mean 'coalesce'?)",
    ),
    (
        "fixes/memory-transactions.yaml",
        "effects: [coalesce-and-spread,",
        "effects: [coalesce-and-spred,",
        "unknown effect 'coalesce-and-spred' (did you mean 'coalesce-and-spread'?)",
    ),
]


@pytest.mark.parametrize(
    "mistakes",
    [NO_FORMULA, UNKNOWN_WORDS, UNKNOWN_NAMES],
    ids=["no formula", "unknown words", "unknown names"],
)
def test_mistakes_in_effects_are_refused_with_their_lines(knowledge_copy, mistakes):
    """Words are looked up where every formula is one, and names where every word is known."""
    lines = [edit_file(knowledge_copy, name, old, new) for name, old, new, _ in mistakes]
    problems = load_problems(knowledge_copy)

    for line, (name, _, _, message) in zip(lines, mistakes, strict=True):
        assert any(
            p.path.endswith(name) and p.line == line and message in p.message for p in problems
        ), (message, list(map(str, problems)))


def test_the_shipped_effects_need_the_model(knowledge_copy):
    text = (knowledge_copy / "effects.yaml").read_text()
    (knowledge_copy / "effects.yaml").write_text(text[text.index("effects:\n") :])

    assert any("'model' is missing" in p.message for p in load_problems(knowledge_copy))


@pytest.mark.parametrize(
    "part",
    [
        {"work": {"dram": "0.5"}},
        {"add": {"dram": "0.5"}},
        {"waits": {"barrier": "0"}},
        {"latency": "0.5"},
        {"fill": "1"},
        {"warps": "64"},
    ],
    ids=lambda part: next(iter(part)),
)
def test_the_time_after_excludes_every_part_of_it(part):
    assert Effect(**FIELDS, **part)
    with pytest.raises(ValidationError, match="either the time or what changes"):
        Effect(**FIELDS, time="0.5", **part)


def test_an_effect_that_changes_nothing_is_refused():
    with pytest.raises(ValidationError, match="either the time or what changes"):
        Effect(**FIELDS)


def test_both_are_refused_where_the_effect_stands(knowledge_copy):
    line = edit_file(knowledge_copy, "effects.yaml", "    time: 1 - wave_loss\n", "")
    (found,) = load_problems(knowledge_copy)

    assert 0 < line - found.line < 10
    assert "either the time or what changes" in found.message


def test_a_number_is_a_formula():
    assert Effect(**FIELDS, fill=1, work={"dram": 0.5}).work == {"dram": "0.5"}


def compile_effect(**fields):
    """The row of one effect, beside the shipped ones."""
    catalogue = knowledge().effects
    more = (*catalogue.effects, Effect(**FIELDS, **fields))
    effects = catalogue.model_copy(update={"effects": more})
    rules = compile_rules(knowledge().model_copy(update={"effects": effects}))
    return rules["effects"]["the-effect"]


def spread(factor, **where):
    """A factor for each resource of a unit or a group."""
    (field, name) = next(iter(where.items()))
    return {r.id: [factor] for r in MODEL.resources if getattr(r, field) == name}


@pytest.mark.parametrize("part", ["work", "add"])
@pytest.mark.parametrize("unit", sorted({r.unit for r in MODEL.resources}))
def test_work_on_a_unit_is_work_on_each_of_its_resources(unit, part):
    assert compile_effect(**{part: {unit: "0.5"}})[part] == spread(0.5, unit=unit)


@pytest.mark.parametrize("group", ["memory", "compute"])
def test_work_on_a_group_is_work_on_each_of_its_resources(group):
    assert compile_effect(work={group: "0.5"})["work"] == spread(0.5, group=group)


def test_work_on_a_resource_comes_before_that_on_its_unit_and_its_group():
    row = compile_effect(work={"l2-data": "0.1", "l2": "0.5", "memory": "0.9"})

    assert row["work"] == {
        **spread(0.9, group="memory"),
        **spread(0.5, unit="l2"),
        "l2-data": [0.1],
    }


def test_formulas_become_programs():
    row = compile_effect(
        work={"dram": "1 / widening"}, waits={"barrier": "0.5"}, latency="1 - wave_loss"
    )

    assert row["work"] == {"dram": list(parse_formula("1 / widening"))}
    assert row["waits"] == {"barrier": [0.5]}
    assert row["latency"] == [1.0, "wave_loss", "-"]
    assert (row["fill"], row["warps"], row["time"]) == (None, None, None)


def test_an_effect_expected_everywhere_has_no_condition():
    small = {"metric": "waves", "op": "<", "value": 1.0}

    assert "when" not in compile_effect(time="0.5")
    assert "when" in compile_effect(time="0.5", when=small)


def test_every_shipped_effect_is_in_the_rules():
    assert list(program()["effects"]) == [effect.id for effect in knowledge().effects.effects]


def test_every_group_of_the_model_has_a_resource():
    assert {r.group for r in MODEL.resources} == {"memory", "l1", "compute"}


def test_widths_of_intervals_grow_with_what_they_are_to_hold():
    widths = program()["time_model"]["widths"]

    assert 0 < widths["50"] < widths["80"] < widths["95"]


@pytest.fixture
def own_knowledge(project):
    """A project with a bottleneck, a fix and an effect of its own."""
    for name, text in (
        ("effects.yaml", OWN_EFFECT),
        ("fixes/ours.yaml", OWN_FIX),
        ("bottlenecks/memory-traffic/our-slow-table.yaml", OWN_BOTTLENECK),
    ):
        file = project / "knowledge" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return project / "knowledge"


def test_a_fix_of_the_project_is_priced_by_its_own_effect(own_knowledge, capsys):
    counters = ("dram_utilization=0.9", "dram_practical_share=0.9", "issue_use=0.05")
    main(["recommend", *(word for one in counters for word in ("--metric", one)), "--json"])
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    found = next(d for d in kernel["diagnoses"] if d["bottleneck"] == "our-slow-table")

    assert found["predicted_speedup"]["point"] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("dram: 0.5", "dramm: 0.5", "'dramm'"),
        ("work:\n      dram: 0.5", "waits:\n      barier: 0.5", "'barier'"),
        ("dram: 0.5", "dram: dram_bites", "unknown metric 'dram_bites'"),
        ("id: our-effect", "id: widen", "effect 'widen' is shipped"),
    ],
)
def test_a_wrong_effect_of_a_project_is_refused(own_knowledge, old, new, says):
    edit_file(own_knowledge, "effects.yaml", old, new)

    with pytest.raises(KnowledgeError) as caught:
        load_project_knowledge()
    assert says in str(caught.value)
