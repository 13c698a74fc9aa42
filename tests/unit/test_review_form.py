"""Review forms: Markdown that people fill in, read back equal, with each complaint at its line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from kernelkb.model.condition import All, Comparison
from kernelkb.model.review import Correction, Judgement, Remarks, ReviewForm
from kernelkb.record.review_form import Prose, format_review_form, is_unmodified, parse_review_form

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
AWKWARD = ["```\n```yaml\nx", "a ``` b\n\n  ```", "no", "1e3", "40%", "2026-13-01", "a: b # c"]
TRIMMED_TEXT = (TEXT | st.sampled_from(AWKWARD)).filter(lambda text: text == text.strip() != "")
SLUG = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,5}){0,2}", fullmatch=True)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
LEAF = st.builds(Comparison, metric=st.just("waves"), op=st.sampled_from(["<", ">="]), value=NUMBER)
CONDITION = LEAF | st.builds(All, all=st.lists(LEAF, min_size=1, max_size=3))
LINES = st.lists(TRIMMED_TEXT, min_size=1, max_size=2)


def correction_values(kind, **fields):
    made = st.fixed_dictionaries({"change": st.just(kind), "why": TRIMMED_TEXT, **fields})
    return made.map(TypeAdapter(Correction).validate_python)


CORRECTIONS = st.one_of(
    correction_values("threshold", threshold=SLUG, value=NUMBER, device=st.none() | SLUG),
    correction_values("condition", bottleneck=SLUG, only_if=CONDITION),
    correction_values("condition", bottleneck=SLUG, also_if=CONDITION),
    correction_values("fix", bottleneck=SLUG, fix=SLUG, move=st.sampled_from(["up", "withdraw"])),
    correction_values("when-not", fix=SLUG, when_not=TRIMMED_TEXT),
    correction_values(
        "pattern",
        id=SLUG,
        candidate=st.none() | TEXT,
        title=TRIMMED_TEXT,
        problem=TRIMMED_TEXT,
        practice=TRIMMED_TEXT,
        triggers=LINES,
        steps=LINES,
        bottlenecks=st.lists(SLUG, max_size=2),
    ),
)
CORRECTION_LISTS = st.lists(CORRECTIONS, max_size=3)


@st.composite
def judgements(draw):
    verdict = draw(st.sampled_from([None, "right", "wrong", "unsure"]))
    instead = st.none() | st.builds("/".join, st.tuples(SLUG, SLUG))
    return [
        Judgement(
            decision=number,
            verdict=verdict,
            should_have_been=draw(instead) if verdict in ("wrong", "unsure") else None,
            why=draw(TRIMMED_TEXT if verdict == "wrong" else st.none() | TRIMMED_TEXT),
            corrections=draw(CORRECTION_LISTS),
            comment=draw(st.none() | TRIMMED_TEXT),
        )
        for number in range(1, draw(st.integers(1, 4)))
    ]


@st.composite
def forms(draw):
    return ReviewForm(
        session="2026-11-21-add",
        judgements=draw(judgements()),
        remarks=Remarks(
            corrections=draw(CORRECTION_LISTS),
            breaks=draw(st.lists(TEXT, max_size=2)),
            comment=draw(st.none() | TRIMMED_TEXT),
        ),
    )


def format_form(form):
    sections = [[f"## {one.decision}"] for one in form.judgements]
    return format_review_form(form, Prose(["# Review"], sections, ["## The rest"]))


@given(forms())
@settings(max_examples=200)
def test_any_form_is_read_back_as_it_was(form):
    found = parse_review_form(format_form(form), "form.md")

    assert found.problems == []
    assert found.form == form


@given(forms())
@settings(max_examples=50)
def test_a_form_is_written_the_same_way_again(form):
    text = format_form(form)

    assert format_form(parse_review_form(text, "form.md").form) == text


BLANK = ReviewForm(session="s", judgements=[Judgement(decision=1), Judgement(decision=2)])


def test_a_form_counts_as_blank_until_edited():
    text = format_form(BLANK)

    assert is_unmodified(text)
    assert not is_unmodified(text.replace("verdict: null", "verdict: right", 1))
    assert not is_unmodified(text + "a remark\n")
    assert not is_unmodified("")


def list_form_problems(old, new, count=1):
    """Return the complaints about the blank form with a line of it replaced."""
    return sorted(
        parse_review_form(format_form(BLANK).replace(old, new, count), "form.md").problems
    )


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
        ("why: null", "why: yes", 13, "YAML reads a bare yes as a boolean"),
        ("decision: 1\n", "", 10, "unknown key"),
        ("breaks: []", "break: []", 33, "did you mean 'breaks'?"),
    ],
)
def test_a_mistake_is_named_with_its_line(old, new, line, says):
    problem = list_form_problems(old, new)[0]

    assert says in problem.message
    assert (problem.path, problem.line) == ("form.md", line)


def test_the_column_of_a_mistake_is_that_of_the_file():
    (problem,) = list_form_problems("corrections: []", "corrections: [{change: fox, why: x}]")

    assert (problem.line, problem.column) == (14, 16)


def test_an_emptied_list_has_nothing_in_it():
    assert list_form_problems("corrections: []", "corrections:") == []


def test_a_text_without_the_front_matter_is_no_form():
    (problem,) = parse_review_form("# Notes\n", "form.md").problems

    assert "begins without its head" in problem.message


def test_line_breaks_of_another_system_do_not_matter():
    text = format_form(BLANK).replace("\n", "\r\n")

    assert parse_review_form(text, "form.md").form == BLANK


def test_prose_between_the_blocks_is_ignored():
    text = format_form(BLANK).replace(
        "## 2", "I was there.\n\n```python\ndecision = 1\n```\n\n## 2"
    )

    assert parse_review_form(text, "form.md").form == BLANK
