"""kb session submit, review, accept: an expert's corrections become knowledge, and go again."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime

import pytest

from kernelkb.actions.knowledge import load_project_knowledge
from kernelkb.actions.sessions import log_retrospective
from kernelkb.cli import main
from kernelkb.model.review import AcceptedReview, Review
from kernelkb.model.session import SessionEntry
from kernelkb.record import reviewed
from kernelkb.record.sessions import append_entry

KERNEL = "__global__ void add(int n, float *x) { int i = blockIdx.x; if (i < n) x[i] += 1; }\n"
SESSION = "2026-11-21-add"
SESSION_OPTIONS = {
    "session": SESSION,
    "goal": "faster add",
    "kernel": "add",
    "metrics": {"speedup": 0.3, "sectors_per_load": 20.0},
    "decisions": [
        {
            "bottleneck": "uncoalesced-global-access",
            "fix": "remap-threads-coalesced",
            "applied_as": "rows",
            "predicted": [1.2, 2.0, 3.0],
            "measured": 1.8,
            "falsifier": "sector_load_useful_bytes moved to 32",
            "falsifier_held": True,
        },
        {"bottleneck": "dram-bandwidth-bound", "fix": "tile-into-smem"},
    ],
    "pattern_candidates": ["print the strides first"],
}
WIDEN_LIMIT = (
    "{change: threshold, threshold: widest-coalesced-load, value: 18, why: measured on ours}"
)


@pytest.fixture(scope="module")
def review_template(tmp_path_factory):
    """A project that kb init made, with a session and its blank form."""
    root = tmp_path_factory.mktemp("finished")
    (root / "src").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "src" / "add.cu").write_text(KERNEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("XDG_CACHE_HOME", str(root.with_name("cache")))
        main(["init"])
        log_retrospective(SESSION_OPTIONS)
        main(["session", "submit", SESSION])
    return root


@pytest.fixture
def review_project(review_template, tmp_path, monkeypatch):
    """A copy of that project, entered."""
    root = shutil.copytree(review_template, tmp_path / "mine")
    monkeypatch.chdir(root)
    return root


def form_path(root):
    return root / "sessions" / "reviews" / f"{SESSION}.md"


def replace_in_form(root, old, new, count=1):
    text = form_path(root).read_text()
    assert old in text
    form_path(root).write_text(text.replace(old, new, count))


def add_corrections(root, *corrections, breaks=()):
    """Put corrections under the last block, and the cases that they may break."""
    listed = "".join(f"\n- {one}" for one in corrections)
    head, _, last = form_path(root).read_text().rpartition("corrections: []")
    last = last.replace("breaks: []", f"breaks: {json.dumps(list(breaks))}")
    form_path(root).write_text(f"{head}corrections:{listed}{last}")


def read_tree(root):
    """Return the bytes of every file of a project, save what git and kb keep for themselves."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not {".git", ".kb"} & set(path.relative_to(root).parts)
    }


def accept_review(reviewer="Ada"):
    return main(["session", "accept", SESSION, "--reviewer", reviewer])


def undo_review():
    return main(["session", "accept", SESSION, "--undo"])


def show_entry(capsys, name):
    capsys.readouterr()
    main(["show", name, "--json"])
    return json.loads(capsys.readouterr().out)


def read_review_entries(root):
    return reviewed.read_session_entries(SESSION, root / "sessions")[1]


def test_a_form_shows_predictions_measurements_and_questions(review_project):
    text = form_path(review_project).read_text()

    assert "## 1. uncoalesced-global-access -> remap-threads-coalesced" in text
    assert "Applied as rows; predicted 2x [1.2, 3]; measured 1.8x" in text
    assert "falsifier held: sector_load_useful_bytes moved to 32" in text
    assert "| sectors_per_load > 17, threshold widest-coalesced-load | 20 |" in text
    assert "| over_fetch > 1.5, threshold wasted-traffic | not measured |" in text
    assert "Pattern candidate: print the strides first" in text


def test_a_partly_filled_form_is_not_overwritten(review_project, capsys):
    replace_in_form(review_project, "verdict: null", "verdict: right")
    before = form_path(review_project).read_bytes()

    assert main(["session", "submit", SESSION]) == 2
    assert form_path(review_project).read_bytes() == before
    assert "was filled in" in capsys.readouterr().err


def test_a_blank_form_is_written_anew_when_the_session_has_gone_on(review_project):
    log_retrospective(
        {**SESSION_OPTIONS, "decisions": [{"bottleneck": "small-grid", "fix": "more-blocks"}]}
    )

    assert main(["session", "submit", SESSION]) == 0
    assert "## 3. small-grid -> more-blocks" in form_path(review_project).read_text()


def test_a_review_is_submitted_accepted_and_undone(review_project, capsys):
    replace_in_form(review_project, "verdict: null", "verdict: right")
    replace_in_form(review_project, "verdict: null", "verdict: wrong")
    replace_in_form(review_project,
         "should_have_been: null\nwhy: null\ncorrections: []\ncomment: null\n```\n\n## The",
         "should_have_been: small-grid/split-k\nwhy: 3 blocks ran\ncorrections: []\n"
         "comment: null\n```\n\n## The")  # fmt: skip
    add_corrections(review_project, WIDEN_LIMIT)
    before = read_tree(review_project)
    capsys.readouterr()
    looked = main(["session", "review", SESSION])
    said = capsys.readouterr().out

    assert looked == 0
    assert "threshold widest-coalesced-load, value: 17 -> 18" in said
    assert "wrong  dram-bandwidth-bound/tile-into-smem, should have been small-grid/split-k" in said
    assert "the knowledge would still pass in kb check" in said
    assert read_tree(review_project) == before

    assert accept_review() == 0
    assert main(["recommend", "--metric", "sectors_per_load=20", "--json"]) in (0, 1)
    assert "reviewed by Ada in 2026-11-21-add, shipped 17" in capsys.readouterr().out
    assert load_project_knowledge().thresholds.thresholds  # loads
    last = read_review_entries(review_project)[-1]
    assert (last.by, [r.verdict for r in last.reviews]) == ("review", ["right", "wrong"])
    assert last.reviews[1].should_have_been == "small-grid/split-k"

    assert undo_review() == 0
    assert read_tree(review_project) == before


def test_a_changed_threshold_shows_its_old_value_and_reviewer(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    accept_review()
    found = show_entry(capsys, "widest-coalesced-load")

    assert (found["value"], found["shipped"]) == (18, 17)
    (change,) = found["reviewed"]
    assert (change["was"], change["now"]) == (17, 18)
    assert (change["reviewer"], change["session"]) == ("Ada", SESSION)
    assert change["why"] == "measured on ours"
    assert show_entry(capsys, f"review-{SESSION}")["title"] == f"Review of session {SESSION} by Ada"


def test_a_threshold_can_be_another_on_one_device(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT.replace("value", "device: l4, value"))
    accept_review()
    found = show_entry(capsys, "widest-coalesced-load")
    main(["recommend", "--gpu", "l4", "--metric", "sectors_per_load=20", "--json"])

    assert (found["value"], found["by_device"]) == (17, {"l4": 18})
    assert "on l4 reviewed by Ada in 2026-11-21-add, before 17" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("way", "value", "matches"), [("only_if", 0.3, False), ("also_if", 0.95, True)]
)
def test_a_condition_becomes_narrower_or_wider(review_project, capsys, way, value, matches):
    op = ">" if way == "only_if" else ">="
    limit = "{metric: l2_utilization, op: '" + op + "', value: 0.9}"
    add_corrections(
        review_project,
        "{change: condition, bottleneck: uncoalesced-global-access, "
        f"{way}: {limit}, why: idle elsewhere}}",
        breaks=list_broken_cases(review_project, capsys, way, limit),
    )
    accepted = accept_review()
    found = show_entry(capsys, "uncoalesced-global-access")
    sectors = "20" if way == "only_if" else "2"
    main(["recommend", "--metric", f"sectors_per_load={sectors}",
          "--metric", f"l2_utilization={value}", "--json"])  # fmt: skip
    answer = json.loads(capsys.readouterr().out)["kernels"][0]
    named = [d for d in answer["diagnoses"] if d["bottleneck"] == "uncoalesced-global-access"]

    assert accepted == 0
    assert found["reviewed"][0]["was"] != found["reviewed"][0]["now"] == found["when"]
    assert [d["verdict"] for d in named].count("matches") == matches
    if matches:
        assert f"review of {SESSION} by Ada" in {r["source"] for r in named[0]["because"]}


def list_broken_cases(root, capsys, way, limit):
    """Return the cases that kb session review says would break."""
    blank = form_path(root).read_text()
    add_corrections(
        root,
        f"{{change: condition, bottleneck: uncoalesced-global-access, {way}: {limit}, why: x}}",
    )
    capsys.readouterr()
    main(["session", "review", SESSION, "--json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    form_path(root).write_text(blank)
    return [p.partition("put ")[2].partition(" under breaks")[0].strip("'\"") for p in problems]


@pytest.mark.parametrize(
    ("move", "fix", "order"),
    [
        ("up", "smem-transpose", ["remap-threads-coalesced", "smem-transpose", "aos-to-soa"]),
        ("down", "remap-threads-coalesced", ["aos-to-soa", "remap-threads-coalesced"]),
        ("first", "align-base", ["align-base", "remap-threads-coalesced"]),
        ("first", "tile-into-smem", ["tile-into-smem", "remap-threads-coalesced"]),
        ("withdraw", "remap-threads-coalesced", ["aos-to-soa", "smem-transpose"]),
        ("up", "remap-threads-coalesced", ["remap-threads-coalesced", "aos-to-soa"]),
    ],
)
def test_a_fix_moves_in_the_order_of_its_bottleneck(review_project, capsys, move, fix, order):
    add_corrections(
        review_project,
        "{change: fix, bottleneck: uncoalesced-global-access, "
        f"fix: {fix}, move: {move}, why: it took a day}}",
    )
    code = accept_review()
    found = show_entry(capsys, "uncoalesced-global-access")

    assert code == 0
    assert found["fixes"][: len(order)] == order
    assert found["reviewed"][0]["was"][0] == "remap-threads-coalesced"
    assert found["reviewed"][0]["reviewer"] == "Ada"


def test_a_fix_that_is_withdrawn_from_its_only_bottleneck_does_not_fail_the_check(review_project):
    only = next(
        (b.id, b.fixes[0])
        for b in load_project_knowledge().bottlenecks
        if len(b.fixes) > 1
        and sum(b.fixes[0] in other.fixes for other in load_project_knowledge().bottlenecks) == 1
    )
    add_corrections(
        review_project,
        "{{change: fix, bottleneck: {}, fix: {}, move: withdraw, why: never}}".format(*only),
    )

    assert accept_review() == 0
    assert not any(only[1] in b.fixes for b in load_project_knowledge().bottlenecks)


def test_a_fix_gets_one_more_situation_in_which_it_is_wrong(review_project, capsys):
    add_corrections(
        review_project,
        "{change: when-not, fix: unroll-ilp, when_not: the loop has 2 turns, why: seen}",
    )
    accept_review()
    found = show_entry(capsys, "unroll-ilp")

    assert found["when_not"].endswith("already saturated; the loop has 2 turns")
    assert found["reviewed"][0]["was"].endswith("already saturated")


PATTERN = """\
change: pattern
  candidate: print the strides first
  id: print-strides
  title: Print the strides before anything else
  problem: Layouts are assumed.
  practice: Print shape and stride of each argument.
  triggers: [a new caller]
  steps: [print them, compare them]
  why: it cost us a day"""


def test_a_candidate_becomes_a_pattern(review_project, capsys):
    add_corrections(review_project, PATTERN)
    code = accept_review()
    found = show_entry(capsys, "print-strides")
    checked = main(["check"])
    main(["search", "strides", "before", "anything"])

    assert (code, found["reviewed"][0]["reviewer"]) == (0, "Ada")
    assert found["sources"] == [f"review-{SESSION}"]
    out = capsys.readouterr().out
    assert "print-strides" in out
    assert checked == 1, out  # the kernel that kb init drafted; nothing of the knowledge
    assert "knowledge" not in out.split("print-strides")[0]


@pytest.mark.parametrize(
    ("correction", "says"),
    [
        (
            WIDEN_LIMIT.replace("load,", "loads,"),
            "unknown threshold 'widest-coalesced-loads' (did you",
        ),
        (
            WIDEN_LIMIT.replace("value", "device: h100-smx, value"),
            "unknown device 'h100-smx' (did you",
        ),
        (
            "{change: threshold, threshold: dram-binding, value: 80, why: x}",
            "dram_utilization is 0 to 1.5, never 80",
        ),
        (
            "{change: fix, bottleneck: small-grid, fix: align-base, move: up, why: x}",
            "small-grid does not offer align-base; move it first or last to add it",
        ),
        (
            "{change: fix, bottleneck: partial-warp-block, fix: FIRST, move: withdraw, why: x}",
            "partial-warp-block would be left without a fix",
        ),
        (
            "{change: condition, bottleneck: small-grid, only_if: {metric: wave, op: <, value: 1},"
            " why: x}",
            "unknown metric 'wave' (did you mean 'waves'?)",
        ),
        (
            PATTERN.replace("print the strides first", "print the stride first"),
            "the session proposes no pattern 'print the stride first' (did you mean",
        ),
        (PATTERN.replace("id: print-strides", "id: baseline-first"), "pattern 'baseline-first' is"),
    ],
)
def test_a_correction_that_cannot_be_is_refused_at_its_place(
    review_project, capsys, correction, says
):
    first = next(
        b for b in load_project_knowledge().bottlenecks if b.id == "partial-warp-block"
    ).fixes[0]
    add_corrections(review_project, correction.replace("FIRST", first))
    before = read_tree(review_project)
    first_line = f"- {correction.splitlines()[0]}".replace("FIRST", first)
    (line,) = [n for n, row in enumerate(form_path(review_project).read_text().split("\n"), 1)
               if row == first_line][-1:]  # fmt: skip
    capsys.readouterr()
    looked = main(["session", "review", SESSION])
    out = capsys.readouterr().out
    taken = accept_review()
    err = capsys.readouterr().err

    assert (looked, taken) == (1, 2)
    assert says in out
    assert says in err
    place = next(row for row in out.split("\n") if says in row).split(":")
    assert place[0] == f"sessions/reviews/{SESSION}.md"
    assert line <= int(place[1]) <= line + correction.count("\n")
    assert read_tree(review_project) == before


def test_a_choice_that_there_is_not_and_a_decision_too_many_are_refused(review_project, capsys):
    replace_in_form(review_project, "verdict: null\nshould_have_been: null",
         "verdict: unsure\nshould_have_been: small-gird/split-k")  # fmt: skip
    replace_in_form(review_project, "decision: 2", "decision: 7")
    capsys.readouterr()

    assert main(["session", "review", SESSION]) == 1
    out = capsys.readouterr().out
    assert "unknown bottleneck 'small-gird' (did you mean 'small-grid'?)" in out
    assert "the session has 2 decisions" in out


def test_a_blank_form_is_not_accepted(review_project, capsys):
    before = read_tree(review_project)

    assert accept_review() == 2
    assert "nothing is filled in" in capsys.readouterr().err
    assert read_tree(review_project) == before


def test_without_a_form_the_next_step_is_named(review_project, capsys):
    form_path(review_project).unlink()

    assert main(["session", "review", SESSION]) == 2
    assert f"kb session submit {SESSION} writes it" in capsys.readouterr().err


LOWER_LIMIT = (
    "{change: threshold, threshold: stop-and-profile, value: 0.25, why: a library of years}"
)
BROKEN_CASE = "performance-gate: speedup 0.49"


def test_a_correction_that_breaks_a_case_is_rejected_with_its_name(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT)
    before = read_tree(review_project)

    assert accept_review() == 2
    assert f"if that is meant, put '{BROKEN_CASE}' under breaks" in capsys.readouterr().err
    assert read_tree(review_project) == before


def test_a_case_may_break_when_the_form_says_so(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT, breaks=[BROKEN_CASE])
    code = accept_review()
    capsys.readouterr()
    main(["recommend", "--speedup", "0.3", "--json"])
    gate = json.loads(capsys.readouterr().out)["kernels"][0]["gate"]
    main(["check"])

    assert (code, gate["id"]) == (0, "close-the-gap")
    assert "performance-gate" not in capsys.readouterr().out


def test_the_gate_names_the_review_of_its_limit(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT, breaks=[BROKEN_CASE])
    accept_review()
    capsys.readouterr()
    main(["recommend", "--speedup", "0.2"])

    assert (
        f"speedup 0.2 < 0.25 (reviewed by Ada in {SESSION}, shipped 0.5)" in capsys.readouterr().out
    )


def test_listing_a_case_that_does_not_break_is_an_error(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT, breaks=[BROKEN_CASE.replace("gate", "gaet")])

    assert main(["session", "review", SESSION]) == 1
    assert "is no case that would break" in capsys.readouterr().out


def test_accepting_again_changes_nothing(review_project):
    add_corrections(review_project, WIDEN_LIMIT)
    accept_review()
    once = read_tree(review_project)

    assert accept_review() == 0
    assert read_tree(review_project) == once


def test_an_edited_form_replaces_what_was_accepted_before(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    replace_in_form(review_project, "verdict: null", "verdict: right")
    before = read_tree(review_project)
    accept_review()
    replace_in_form(review_project, "value: 18", "value: 19")
    replace_in_form(review_project, "verdict: right", "verdict: unsure")
    code = accept_review()

    assert code == 0
    assert show_entry(capsys, "widest-coalesced-load")["value"] == 19
    assert [r.verdict for e in read_review_entries(review_project) for r in e.reviews] == ["unsure"]
    undo_review()
    replace_in_form(review_project, "value: 19", "value: 18")
    replace_in_form(review_project, "verdict: unsure", "verdict: right")
    assert read_tree(review_project) == before


def test_there_is_nothing_to_take_back_before_it_was_accepted(review_project, capsys):
    assert undo_review() == 2
    assert "nothing to take back" in capsys.readouterr().err


def test_a_review_is_taken_back_even_when_its_session_is_gone(review_project):
    add_corrections(review_project, WIDEN_LIMIT)
    accept_review()
    for path in (review_project / "sessions").glob(f"{SESSION}.*"):
        path.unlink()

    assert undo_review() == 0
    assert not (review_project / "knowledge" / "reviews").exists()


@pytest.mark.parametrize("name", ["../x", "2026-11-21-ad"])
def test_an_unknown_session_is_reported(review_project, capsys, name):
    assert main(["session", "accept", name, "--undo"]) == 2
    assert "unknown session" in capsys.readouterr().err


def test_every_verb_speaks_json(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    answers = []
    for words in (["review"], ["accept", "--reviewer", "Ada"], ["accept", "--undo"]):
        capsys.readouterr()
        main(["session", *words, "--json"])
        answers.append(json.loads(capsys.readouterr().out))

    assert answers[0]["changes"][0]["was"] == 17
    assert answers[0]["checks"] is True
    assert answers[1]["changes"][0]["reviewer"] == "Ada"
    assert answers[2]["removed"].endswith(f"{SESSION}.yaml")


def test_the_later_of_two_reviews_holds_and_both_are_seen(review_project, capsys):
    log_retrospective({**SESSION_OPTIONS, "session": "2026-11-20-add"})
    main(["session", "submit", "2026-11-20-add"])
    add_corrections(review_project, WIDEN_LIMIT)
    other = form_path(review_project).with_name("2026-11-20-add.md")
    blank = other.read_text()
    other.write_text(
        form_path(review_project).read_text().replace(SESSION, "2026-11-20-add").replace("18", "19")
    )
    accept_review()
    main(["session", "accept", "2026-11-20-add", "--reviewer", "Bob"])
    found = show_entry(capsys, "widest-coalesced-load")

    assert "2026-11-20-add" in blank
    assert found["value"] == 18
    assert [(c["reviewer"], c["was"], c["now"]) for c in found["reviewed"]] == [
        ("Bob", 17, 19),
        ("Ada", 19, 18),
    ]


def test_undo_refuses_to_remove_knowledge_that_is_referenced(review_project, capsys):
    add_corrections(review_project, PATTERN)
    accept_review()
    (review_project / "knowledge" / "patterns").mkdir()
    (review_project / "knowledge" / "patterns" / "ours.yaml").write_text(
        "id: ours\ntitle: t\nproblem: p\npractice: q\ntriggers: [t]\nsteps: [s]\n"
        "refines: print-strides\nsources: [kernelkb-judgement]\n"
    )
    before = read_tree(review_project)

    assert undo_review() == 2
    assert "unknown pattern 'print-strides'" in capsys.readouterr().err
    assert read_tree(review_project) == before


def test_a_hand_written_override_stays_as_it_is_and_comes_back(review_project, capsys):
    by_hand = review_project / "knowledge" / "thresholds.yaml"
    by_hand.write_text(
        "thresholds:\n  # ours\n  - id: widest-coalesced-load\n    metric: sectors_per_load\n"
        "    value: 17.5\n    evidence: judgement\n    why: w\n    sources: [kernelkb-judgement]\n"
    )
    add_corrections(review_project, WIDEN_LIMIT)
    before = by_hand.read_bytes()
    accept_review()
    found = show_entry(capsys, "widest-coalesced-load")
    undo_review()

    assert (found["shipped"], found["reviewed"][0]["was"], found["value"]) == (17, 17.5, 18)
    assert by_hand.read_bytes() == before
    assert show_entry(capsys, "widest-coalesced-load")["value"] == 17.5


def test_undo_keeps_entries_logged_after_the_review(review_project):
    add_corrections(review_project, WIDEN_LIMIT)
    accept_review()
    log_retrospective({**SESSION_OPTIONS, "goal": "later"})
    undo_review()

    assert [entry.goal for entry in read_review_entries(review_project)] == ["faster add", "later"]


def test_a_name_of_two_lines_is_refused(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)

    assert accept_review("Ada\nLovelace") == 2
    assert "is no name" in capsys.readouterr().err


def test_an_unwritable_folder_is_reported_and_nothing_changes(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    (review_project / "knowledge" / "reviews").write_text("a file")
    before = read_tree(review_project)

    assert accept_review() == 2
    assert "cannot write" in capsys.readouterr().err
    assert read_tree(review_project) == before


REVIEW_ENTRY = SessionEntry(
    session=SESSION,
    at=datetime(2026, 11, 22, tzinfo=UTC),
    goal="review by Ada",
    by="review",
    reviews=[Review(bottleneck="small-grid", fix="split-k", verdict="right", reviewer="Ada")],
)
ACCEPTED_REVIEW = AcceptedReview(
    session=SESSION, reviewer="Ada", date=date(2026, 11, 22), verdicts=REVIEW_ENTRY.reviews
)


def write_and_remove_forever(root):
    """Write a review and take it back until killed."""
    while True:
        write_and_remove_review(root)


def test_killed_writers_leave_a_review_whole_or_absent(review_project):
    add_corrections(review_project, WIDEN_LIMIT)
    before = read_tree(review_project)
    name = f"knowledge/reviews/{SESSION}.yaml"
    reviewed.write_review(ACCEPTED_REVIEW, review_project / "knowledge")
    whole = (review_project / name).read_bytes()
    chosen = random.Random(7)
    for _ in range(6):
        child = multiprocessing.get_context("fork").Process(
            target=write_and_remove_forever, args=(review_project,)
        )
        child.start()
        time.sleep(chosen.uniform(0.02, 0.2))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with reviewed.lock_reviews(review_project / "knowledge"):
            found = read_tree(review_project)

        assert found.get(name, whole) == whole
        assert found.keys() - {name} == before.keys()
        assert len(load_project_knowledge().reviews) == (name in found)
        assert [e.goal for e in read_review_entries(review_project)][:1] == ["faster add"]
        assert len(read_review_entries(review_project)) <= 2

    assert accept_review() == 0
    assert [e.by for e in read_review_entries(review_project)] == [None, "review"]
    assert undo_review() == 0
    assert read_tree(review_project) == before


def write_and_remove_review(root):
    with reviewed.lock_reviews(root / "knowledge"):
        reviewed.write_review(ACCEPTED_REVIEW, root / "knowledge")
        reviewed.append_review_entry(REVIEW_ENTRY, root / "sessions")
    with reviewed.lock_reviews(root / "knowledge"):
        reviewed.remove_review_entry(SESSION, root / "sessions")
        reviewed.remove_review(SESSION, root / "knowledge")


def kill_at_line(root, line):
    """Accept and take back, and end by SIGKILL before that many lines of our own ran."""
    left = line

    def trace_line(frame, event, _):
        nonlocal left
        file = frame.f_code.co_filename
        if not file.endswith(("/record/reviewed.py", "/record/atomic_append.py")):
            return None
        left -= event == "line"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace_line

    sys.settrace(trace_line)
    write_and_remove_review(root)
    os._exit(0)


@pytest.mark.slow
def test_a_kill_at_any_line_leaves_a_review_whole_or_absent(review_project):
    before = read_tree(review_project)
    name = f"knowledge/reviews/{SESSION}.yaml"
    path = reviewed.write_review(ACCEPTED_REVIEW, review_project / "knowledge")
    whole = {**before, name: path.read_bytes()}
    append_entry(REVIEW_ENTRY, review_project / "sessions")
    noted = read_tree(review_project)
    write_and_remove_review(review_project)
    seen = []
    for line in range(1000):
        child = multiprocessing.get_context("fork").Process(
            target=kill_at_line, args=(review_project, line)
        )
        child.start()
        child.join()
        if child.exitcode == 0:
            break
        with reviewed.lock_reviews(review_project / "knowledge"):  # whoever comes next
            seen.append(read_tree(review_project))
            assert seen[-1] in (before, whole, noted)
        write_and_remove_review(review_project)
        assert read_tree(review_project) == before

    assert child.exitcode == 0
    assert [one in seen for one in (before, whole, noted)] == [True] * 3


def test_a_killed_accept_leaves_the_knowledge_as_it_was_or_as_it_should_be(review_project):
    add_corrections(review_project, WIDEN_LIMIT)
    before = read_tree(review_project)
    for delay in (0.2, 0.5, 0.8, 1.1, 1.4):
        child = multiprocessing.get_context("fork").Process(target=accept_review)
        child.start()
        child.join(delay)
        child.kill()
        child.join()
        value = {t.id: t.value for t in load_project_knowledge().thresholds.thresholds}[
            "widest-coalesced-load"
        ]

        assert value == (18 if load_project_knowledge().reviews else 17)
    accept_review()
    undo_review()
    assert read_tree(review_project) == before


def append_entries(root, count):
    for number in range(count):
        append_entry(
            REVIEW_ENTRY.model_copy(update={"by": None, "goal": f"{number}"}), root / "sessions"
        )


def test_nothing_that_others_log_is_lost_while_a_review_comes_and_goes(review_project):
    child = multiprocessing.get_context("fork").Process(
        target=append_entries, args=(review_project, 60)
    )
    child.start()
    while child.is_alive():
        reviewed.append_review_entry(REVIEW_ENTRY, review_project / "sessions")
        reviewed.remove_review_entry(SESSION, review_project / "sessions")
    child.join()

    assert [e.goal for e in read_review_entries(review_project)] == [
        "faster add",
        *map(str, range(60)),
    ]
