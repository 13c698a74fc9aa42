"""The text of a session's file: it reads back as it was, and a mistake in it has its line."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelkb.errors import SessionError
from kernelkb.model.records.session import (
    Decision,
    PlannedPhase,
    Session,
    SessionClaim,
    SessionEntry,
    Step,
)
from kernelkb.record.session_text import (
    ENTRY_BEGIN,
    ENTRY_END,
    find_torn_tail,
    format_entry,
    format_session,
    parse_session,
)

PIECES = [
    "", " ", "\n", "\r\n", "\t", "---", "\n---\n", "```", "\n```\n", "````yaml\n", "~~~", "|",
    "\\|", "# x", "\n## y\n", "<!--", "-->", ENTRY_BEGIN, f"\n{ENTRY_BEGIN}\n", ENTRY_END,
    f"\n{ENTRY_END}\n", "\x85",
    "\u2028", "\u2029", "\ufeff", "\x00", "\x07", "\x7f", "é", "漢字", "😀", "'", '"', ": ", " #",
    "no", "40%", "1e-3", "012", "null", "~", "2026-11-21", "2026-13-45", "&a", "*a", "{", "[", "- ",
    "? ", "<<", "x" * 500, "word " * 60, "[" * 120, " " * 120,
]  # fmt: skip
TEXT = st.lists(
    st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    max_size=5,
).map("".join)
TEXTS = st.lists(TEXT, max_size=2).map(tuple)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
SLUG = st.from_regex(r"[a-z][a-z0-9]{0,9}(-[a-z0-9]{1,9}){0,2}", fullmatch=True)
NAME = st.from_regex(r"[a-z][a-z0-9_]{0,19}", fullmatch=True)
ID = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,30}", fullmatch=True)
TIME = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 - the strategy adds the zone
    datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
PAIR = st.tuples(NUMBER, NUMBER)
THREE = st.tuples(NUMBER, NUMBER, NUMBER)
STEP = st.builds(
    Step, name=TEXT, variant=st.none() | SLUG, status=st.sampled_from(["ok", "warning", "failure"]),
    found=TEXT, seconds=NUMBER, cure=st.none() | TEXT, at=st.none() | TIME,
    sources=st.none() | TEXT, verdict=st.sampled_from([None, "faster", "invalid"]),
    speedup=st.none() | NUMBER, interval=st.none() | PAIR, bottleneck=st.none() | SLUG,
)  # fmt: skip
DECISION = st.builds(
    Decision, bottleneck=SLUG, fix=SLUG, applied_as=st.none() | TEXT,
    predicted=st.none() | THREE, calibration=st.none() | NUMBER, measured=st.none() | NUMBER,
    interval=st.none() | PAIR, falsifier=st.none() | TEXT,
    falsifier_held=st.sampled_from([True, False, None]),
    together=st.lists(SLUG, max_size=2).map(tuple),
)  # fmt: skip
CLAIM = st.builds(SessionClaim, said=TEXT, held=st.sampled_from([True, False, None]), why=TEXT)
PHASE = st.builds(
    PlannedPhase, phase=SLUG, gates=st.lists(SLUG, max_size=3).map(tuple), budget_min=NUMBER,
    predicted_min=st.none() | THREE,
)  # fmt: skip


@st.composite
def session_records(draw):
    name = draw(ID)
    entries = st.builds(
        SessionEntry, session=st.just(name), at=TIME, goal=TEXT, by=st.none() | TEXT,
        kernel=st.none() | NAME, variant=st.none() | SLUG, machine=st.none() | TEXT,
        cc=st.none() | TEXT, environment=st.dictionaries(TEXT, TEXT, max_size=2),
        steps=st.lists(STEP, max_size=2).map(tuple),
        metrics=st.dictionaries(NAME, NUMBER, max_size=2),
        decisions=st.lists(DECISION, max_size=2).map(tuple), went_wrong=TEXTS, went_right=TEXTS,
        pattern_candidates=TEXTS, claims=st.lists(CLAIM, max_size=2).map(tuple),
        cost_usd=st.none() | st.floats(0, 1e6), closes=st.booleans(),
    )  # fmt: skip
    return Session(
        session=name,
        opened=draw(TIME),
        goal=draw(TEXT),
        kernel=draw(st.none() | NAME),
        kind=draw(st.sampled_from(["recorded", "reported"])),
        plan=draw(st.sampled_from([None, "baseline", "optimize"])),
        phases=tuple(draw(st.lists(PHASE, max_size=2))),
        source=draw(st.none() | TEXT),
        entries=tuple(draw(st.lists(entries, max_size=3))),
    )


@given(session_records(), st.dictionaries(SLUG, TEXT, max_size=2))
@settings(max_examples=40)
def test_any_session_is_read_back_as_it_was(session, gates):
    assert parse_session(format_session(session, gates), "x.md") == session


@pytest.mark.slow
@given(session_records())
@settings(max_examples=25)
def test_a_whole_file_has_no_torn_tail(session):
    body = format_session(session).encode()

    assert find_torn_tail(body) == len(body)


@pytest.mark.slow
@given(session_records().filter(lambda one: one.entries), st.data())
@settings(max_examples=40)
def test_an_entry_that_is_cut_anywhere_is_there_or_not(session, data):
    *before, last = session.entries
    kept = session.model_copy(update={"entries": tuple(before)})
    head, tail = format_session(kept).encode(), format_entry(last).encode()
    torn = head + tail[: data.draw(st.integers(0, len(tail)))]
    found = parse_session(torn[: find_torn_tail(torn)].decode(), "x.md")
    assert found in (kept, session)
    other = last.model_copy(update={"goal": "after the crash"})
    mended = torn[: find_torn_tail(torn)] + format_entry(other).encode()

    assert parse_session(mended.decode(), "x.md").entries == (*found.entries, other)


AT = datetime(2026, 11, 21, 14, 19, tzinfo=UTC)
PLANNED = Session(
    session="2026-11-21-k",
    opened=AT,
    goal="half of | cuBLAS",
    phases=(PlannedPhase(phase="assess", gates=("claims-verified", "floor"), budget_min=30),),
)
GOOD = """\
---
session: x
opened: 2026-11-21 14:19:03Z
goal: faster
---

# faster

I wrote this.

## 14:20, looked

```yaml
at: 2026-11-21 14:20:00Z
goal: look
steps:
- name: build
  status: ok
  found: it builds
  seconds: 1.5
```

And this, with a block that is no entry:

```text
at: nowhere
```
"""


def test_a_file_that_a_person_wrote_is_read():
    session = parse_session(GOOD, "x.md")

    assert (session.goal, session.entries[0].steps[0].found) == ("faster", "it builds")
    assert session.entries[0].session == "x"


def test_a_plan_is_a_table_with_a_box_for_each_gate():
    page = format_session(PLANNED, {"floor": "What is the floor?"})

    assert "# half of \\| cuBLAS\n" in page
    assert "| assess | 30 min | claims-verified |  | [ ] |\n" in page
    assert "|  |  | floor | What is the floor? | [ ] |\n" in page


def test_an_entry_begins_with_time_author_and_goal():
    entry = SessionEntry(session="x", at=AT, goal="triage\ngemm", by="triage")

    assert "\n## 2026-11-21 14:19 UTC, triage: triage gemm\n" in format_entry(entry)


def test_a_box_that_is_ticked_and_prose_change_nothing():
    page = format_session(PLANNED).replace("[ ]", "[x]", 1) + "\nThe end.\n"

    assert parse_session(page, "x.md") == PLANNED


def test_windows_line_ends_change_nothing():
    assert parse_session(GOOD.replace("\n", "\r\n"), "x.md") == parse_session(GOOD, "x.md")


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (("goal: faster", "gaol: faster"), "x.md:4:1: gaol: unknown key (did you mean 'goal'?)"),
        (("goal: faster\n", ""), "x.md:2:1: file: required key 'goal' is missing"),
        (("session: x", "session: X y"), "x.md:2:1: session: 'X y' does not fit"),
        (("19:03Z", "19:03"), "x.md:3:1: opened: has no time zone; end it with Z"),
        (("goal: faster", "goal: [a"), "x.md:5:"),
        (("goal: faster", "entries: []"), "x.md:4:1: entries: entries is given by the section"),
        (("---\nsession", "session"), "x.md:1:1: file: begins with no front matter"),
        (("goal: faster\n---", "goal: faster"), "x.md:1:1: file: the front matter has no end"),
        (
            ("  status: ok", "  status: fine"),
            "x.md:18:3: steps.0.status: Input should be 'ok'",
        ),
        (("  found: it", "  fuond: it"), "x.md:19:3: steps.0.fuond: unknown key (did you mean"),
        (("seconds: 1.5", "seconds: 1e-3"), "x.md:20:12: steps.0.seconds: YAML reads 1e-3 as text"),
        (("14:20:00Z", "14:20:00"), "x.md:14:1: at: has no time zone"),
        (("goal: look", "session: y\ngoal: look"), "x.md:15:1: session: session is given by"),
        (("goal: look", "goal: look\ngoal: again"), "x.md:16:1: goal: key 'goal' appears twice"),
        (("goal: look", "goal: 'look"), "x.md:2"),
        (("goal: look", "closes: yes\ngoal: look"), "x.md:15:9: closes: YAML reads a bare yes"),
        (("goal: look", "goal: \x07look"), "x.md:15:7: file: not YAML: unacceptable"),
        (("## 14:20, looked\n", ""), "x.md:12:1: entry: stands under no heading"),
        (("```text\nat: nowhere", "```yaml\nat: nowhere"), "x.md:25:1: entry: is the second block"),
        (("1.5\n```\n", "1.5\n"), "x.md:13:1: entry: this block of YAML is not closed above line"),
    ],
)
def test_a_mistake_of_a_person_has_its_line(edit, complaint):
    text = GOOD.replace(*edit, 1)
    assert text != GOOD
    with pytest.raises(SessionError) as caught:
        parse_session(text, "x.md")

    said = [str(problem) for problem in caught.value.problems]
    assert any(one.startswith(complaint) for one in said), said


def test_all_mistakes_are_reported_at_once():
    text = GOOD.replace("goal: faster", "gaol: faster").replace("status: ok", "status: fine")
    with pytest.raises(SessionError) as caught:
        parse_session(text, "x.md")

    assert {problem.line for problem in caught.value.problems} == {2, 4, 18}


def test_a_file_name_that_differs_from_the_session_is_reported():
    with pytest.raises(SessionError, match=r"x\.md:2:1: session: the file is called y\.md"):
        parse_session(GOOD, "x.md", "y")


def test_an_unclosed_block_swallows_no_entry():
    entry = SessionEntry(session="x", at=AT, goal="kept")
    page = f"{GOOD}\n```\nmy own notes\n{format_entry(entry)}"

    assert parse_session(page, "x.md").entries[-1] == entry


@pytest.mark.parametrize(
    "lost", ["```\n" + ENTRY_END, ENTRY_END, "```"], ids=["both", "mark", "fence"]
)
def test_only_an_entry_without_its_whole_end_counts_as_truncated(lost):
    body = (GOOD + format_entry(SessionEntry(session="x", at=AT, goal="kept"))).replace(
        f"{lost}\n", ""
    )

    assert (find_torn_tail(body.encode()) < len(body)) == (lost == "```\n" + ENTRY_END)


WRITTEN = format_entry(SessionEntry(session="x", at=AT, goal="kept"))


def test_prose_below_a_truncated_entry_is_preserved_and_the_entry_reported():
    body = GOOD + WRITTEN.partition("goal: ")[0] + "\nWhat happened here?\n\nI wonder.\n"
    line = GOOD.count("\n") + WRITTEN.partition("```yaml")[0].count("\n") + 1
    assert find_torn_tail(body.encode()) == len(body)

    with pytest.raises(SessionError, match=rf"x\.md:{line}:1: entry: this block .* never closed"):
        parse_session(body, "x.md")


def test_an_entry_without_its_block_header_is_reported():
    body = GOOD + WRITTEN.replace("```yaml\n", "")

    with pytest.raises(
        SessionError, match=rf"x\.md:{GOOD.count(chr(10)) + 2}:1: entry: this entry"
    ):
        parse_session(body, "x.md")


def test_prose_below_the_last_entry_is_no_torn_tail():
    body = (
        format_session(PLANNED) + format_entry(SessionEntry(session="x", at=AT, goal="g"))
    ).encode()
    body += b"\n## my own heading\n\nand no end of line, < <!-- or ```"

    assert find_torn_tail(body) == len(body)
