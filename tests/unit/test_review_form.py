"""Review forms: Markdown that people fill in, read back equal, with each complaint at its line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kernelkb.model.condition import All, Comparison
from kernelkb.model.review import Correction, Form, Judgement, Remarks
from kernelkb.record.review_form import Prose, dump, load, untouched

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
AWKWARD = ["```\n```yaml\nx", "a ``` b\n\n  ```", "no", "1e3", "40%", "2026-13-01", "a: b # c"]
SAID = (TEXT | st.sampled_from(AWKWARD)).filter(lambda text: text == text.strip() != "")
SLUG = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5}){0,2}", fullmatch=True)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
LEAF = st.builds(Comparison, metric=st.just("waves"), op=st.sampled_from(["<", ">="]), value=NUMBER)
CONDITION = LEAF | st.builds(All, all=st.lists(LEAF, min_size=1, max_size=3))
LINES = st.lists(SAID, min_size=1, max_size=2)


def correction(kind, **fields):
    made = st.fixed_dictionaries({"change": st.just(kind), "why": SAID, **fields})
    return made.map(TypeAdapter(Correction).validate_python)


CORRECTIONS = st.one_of(
    correction("threshold", threshold=SLUG, value=NUMBER, device=st.none() | SLUG),
    correction("condition", bottleneck=SLUG, only_if=CONDITION),
    correction("condition", bottleneck=SLUG, also_if=CONDITION),
    correction("fix", bottleneck=SLUG, fix=SLUG, move=st.sampled_from(["up", "withdraw"])),
    correction("when-not", fix=SLUG, when_not=SAID),
    correction(
        "pattern",
        id=SLUG,
        candidate=st.none() | TEXT,
        title=SAID,
        problem=SAID,
        practice=SAID,
        triggers=LINES,
        steps=LINES,
        bottlenecks=st.lists(SLUG, max_size=2),
    ),
)
SEVERAL = st.lists(CORRECTIONS, max_size=3)


@st.composite
def judgements(draw):
    verdict = draw(st.sampled_from([None, "right", "wrong", "unsure"]))
    instead = st.none() | st.builds("/".join, st.tuples(SLUG, SLUG))
    return [
        Judgement(
            decision=number,
            verdict=verdict,
            should_have_been=draw(instead) if verdict in ("wrong", "unsure") else None,
            why=draw(SAID if verdict == "wrong" else st.none() | SAID),
            corrections=draw(SEVERAL),
            comment=draw(st.none() | SAID),
        )
        for number in range(1, draw(st.integers(1, 4)))
    ]


@st.composite
def forms(draw):
    return Form(
        session="2026-11-21-add",
        judgements=draw(judgements()),
        remarks=Remarks(
            corrections=draw(SEVERAL),
            breaks=draw(st.lists(TEXT, max_size=2)),
            comment=draw(st.none() | SAID),
        ),
    )


def text_of(form):
    sections = [[f"## {one.decision}"] for one in form.judgements]
    return dump(form, Prose(["# Review"], sections, ["## The rest"]))


@given(forms())
@settings(max_examples=200)
def test_any_form_is_read_back_as_it_was(form):
    found = load(text_of(form), "form.md")

    assert found.problems == []
    assert found.form == form


@given(forms())
@settings(max_examples=50)
def test_a_form_is_written_the_same_way_again(form):
    text = text_of(form)

    assert text_of(load(text, "form.md").form) == text


BLANK = Form(session="s", judgements=[Judgement(decision=1), Judgement(decision=2)])


def test_a_form_is_untouched_until_somebody_changes_it():
    text = text_of(BLANK)

    assert untouched(text)
    assert not untouched(text.replace("verdict: null", "verdict: right", 1))
    assert not untouched(text + "a remark\n")
    assert not untouched("")


def filled(old, new, count=1):
    """Return the complaints about the blank form with a line of it replaced."""
    return sorted(load(text_of(BLANK).replace(old, new, count), "form.md").problems)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("verdict: null", "verdict: rigth", 11, "did you mean 'right'?"),
        ("verdict: null", "verdickt: right", 11, "unknown key (did you mean 'verdict'?)"),
        ("verdict: null", "verdict: wrong", 10, "a verdict of wrong needs its why"),
        ("corrections: []", "corrections: [", 16, "did not find expected"),
        (
            "corrections: []",
            "corrections:\n- {change: treshold, why: x}",
            15,
            "(did you mean 'threshold'?)",
        ),
        (
            "corrections: []",
            "corrections:\n- {threshold: parity, why: x}",
            15,
            "required key 'change' is missing",
        ),
        (
            "corrections: []",
            "corrections:\n- {change: fix, bottleneck: b,\n   fix: f, move: upp, why: x}",
            16,
            "did you mean 'up'?",
        ),
        (
            "corrections: []",
            "corrections:\n- {change: condition, bottleneck: b, why: x}",
            15,
            "give exactly one of only_if and also_if",
        ),
        (
            "corrections: []",
            "corrections:\n- {change: threshold, threshold: parity, value: 40%, why: x}",
            15,
            "write 0.4, not 40%",
        ),
        ("decision: 2", "decision: 1", 21, "decision 1 is judged twice"),
        ("why: null", "why: yes", 13, "YAML reads a bare yes as a truth value"),
        ("decision: 1\n", "", 10, "unknown key"),
        ("breaks: []", "break: []", 33, "did you mean 'breaks'?"),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, line, says):
    problem = filled(old, new)[0]

    assert says in problem.message
    assert (problem.path, problem.line) == ("form.md", line)


def test_the_column_of_a_mistake_is_that_of_the_file():
    (problem,) = filled("corrections: []", "corrections: [{change: fox, why: x}]")

    assert (problem.line, problem.column) == (14, 16)


def test_an_emptied_list_has_nothing_in_it():
    assert filled("corrections: []", "corrections:") == []


def test_without_its_head_a_text_is_no_form():
    (problem,) = load("# Notes\n", "form.md").problems

    assert "begins without its head" in problem.message


def test_line_breaks_of_another_system_do_not_matter():
    text = text_of(BLANK).replace("\n", "\r\n")

    assert load(text, "form.md").form == BLANK


def test_what_a_person_writes_between_the_blocks_is_let_be():
    text = text_of(BLANK).replace("## 2", "I was there.\n\n```python\ndecision = 1\n```\n\n## 2")

    assert load(text, "form.md").form == BLANK
