"""kb session review: an expert's corrections in a review file become knowledge, and go again."""

import json
import shutil
import subprocess

import pytest
from shipped_rules import leave_out_slow_checks

from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.actions.sessions.sessions import log_retrospective
from kernelkb.cli import main
from kernelkb.loading.knowledge import load_knowledge

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
    """A project that kb init made, with a session and the template of its review file."""
    root = tmp_path_factory.mktemp("finished")
    (root / "src").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "src" / "add.cu").write_text(KERNEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("XDG_CACHE_HOME", str(root.with_name("cache")))
        main(["init"])
        log_retrospective(SESSION_OPTIONS)
        main(["session", "review", SESSION])
    return root


@pytest.fixture
def review_project(review_template, tmp_path, monkeypatch):
    """A copy of that project, entered."""
    leave_out_slow_checks(monkeypatch)
    root = shutil.copytree(review_template, tmp_path / "mine")
    monkeypatch.chdir(root)
    return root


def review_path(root, session=SESSION):
    return root / "knowledge" / "reviews" / f"{session}.yaml"


def replace_in_review(root, old, new):
    text = review_path(root).read_text()
    assert old in text
    review_path(root).write_text(text.replace(old, new, 1))


def add_corrections(root, *corrections, breaks=(), reviewer="Ada"):
    """Name the reviewer and write corrections, and the cases that they may break."""
    listed = "".join(f"\n- {text}" for text in corrections)
    replace_in_review(root, "YOUR NAME", reviewer)
    replace_in_review(root, "\ncorrections:", f"\ncorrections:{listed}")
    replace_in_review(root, "\nbreaks:", f"\nbreaks: {json.dumps(list(breaks))}")


def check_review():
    return main(["session", "review", SESSION])


def read_problems(capsys):
    """Return the problems that kb session review reports of the file."""
    capsys.readouterr()
    status = main(["session", "review", SESSION, "--json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert status == int(bool(problems))
    return problems


def show_entry(capsys, name):
    capsys.readouterr()
    main(["show", name, "--json"])
    return json.loads(capsys.readouterr().out)


def test_the_template_shows_decisions_predictions_measurements_and_limits(review_project):
    text = review_path(review_project).read_text()

    assert "# 1. uncoalesced-global-access -> remap-threads-coalesced" in text
    assert "applied as rows, predicted 2x [1.2, 3], measured 1.8x" in text
    assert "falsifier held: sector_load_useful_bytes moved to 32" in text
    assert "# Fixes offered, in this order: remap-threads-coalesced" in text.replace("#    ", "# ")
    assert "sectors_per_load > 17 (threshold widest-coalesced-load): measured 20" in text
    assert "over_fetch > 1.5 (threshold wasted-traffic): not measured" in text
    assert "# Pattern candidate: print the strides first" in text


def test_the_template_loads_and_changes_nothing(review_project):
    (review,) = load_project_knowledge().reviews

    assert (review.session, review.verdicts, review.corrections) == (SESSION, (), ())
    assert load_project_knowledge().changed == ()


def test_every_commented_line_of_the_template_becomes_valid_by_removing_its_mark(review_project):
    text = review_path(review_project).read_text()
    for placeholder, name in (("bottleneck: ID", "bottleneck: small-grid"),
                              ("fix: ID", "fix: split-k"), ("metric: ID", "metric: waves"),
                              ("threshold: ID", "threshold: widest-coalesced-load"),
                              ("value: 0.25", "value: 18"), ("fix: split-k, move: up",
                              "fix: split-k, move: first")):  # fmt: skip
        text = text.replace(placeholder, name)
    lines = [line[1:] if line.startswith(("#-", "#  ")) and not line.startswith("#   ") else line
             for line in text.replace("YOUR NAME", "Ada").splitlines()]  # fmt: skip
    review_path(review_project).write_text("\n".join(lines))

    (review,) = load_project_knowledge().reviews
    assert [verdict.applied_as for verdict in review.verdicts] == ["rows", None]
    assert len(load_project_knowledge().changed) == len(review.corrections) == 6


def test_a_session_text_cannot_leave_its_comment(review_project):
    awkward = {**SESSION_OPTIONS, "session": "2026-11-22", "goal": "a\nreviewer: x\u2028\x07y"}
    log_retrospective(awkward)
    main(["session", "review", "2026-11-22"])

    assert "# Goal: a reviewer: x y" in review_path(review_project, "2026-11-22").read_text()
    assert {r.reviewer for r in load_project_knowledge().reviews} == {"YOUR NAME"}


def test_a_started_review_is_checked_and_not_written_over(review_project, capsys):
    replace_in_review(review_project, "#- {bottleneck: dram", "- {bottleneck: dram")
    before = review_path(review_project).read_bytes()

    assert check_review() == 1
    assert review_path(review_project).read_bytes() == before
    assert "reviewer: write the name of the reviewer" in capsys.readouterr().out


def test_a_review_previews_its_changes_applies_them_and_goes_with_its_file(review_project, capsys):
    replace_in_review(review_project, "#- {bottleneck: uncoalesced", "- {bottleneck: uncoalesced")
    replace_in_review(
        review_project,
        "#- {bottleneck: dram-bandwidth-bound, fix: tile-into-smem, verdict: right}",
        "- {bottleneck: dram-bandwidth-bound, fix: tile-into-smem, verdict: wrong,\n"
        "   should_have_been: small-grid/split-k, why: 3 blocks ran}",
    )
    add_corrections(review_project, WIDEN_LIMIT)
    capsys.readouterr()
    code = check_review()
    out = capsys.readouterr().out

    assert code == 0, out
    assert "threshold widest-coalesced-load, value: 17 -> 18" in out
    assert "wrong  dram-bandwidth-bound/tile-into-smem, should have been small-grid/split-k" in out
    assert "kb check passes; commit the file" in out

    assert main(["recommend", "--metric", "sectors_per_load=20", "--json"]) in (0, 1)
    assert "reviewed by Ada in 2026-11-21-add, shipped 17" in capsys.readouterr().out

    review_path(review_project).unlink()
    main(["recommend", "--metric", "sectors_per_load=20", "--json"])
    assert "reviewed by" not in capsys.readouterr().out
    assert show_entry(capsys, "widest-coalesced-load")["value"] == 17


def test_a_changed_threshold_shows_its_old_value_and_reviewer(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    found = show_entry(capsys, "widest-coalesced-load")

    assert (found["value"], found["shipped"]) == (18, 17)
    (change,) = found["reviewed"]
    assert (change["was"], change["now"]) == (17, 18)
    assert (change["reviewer"], change["session"]) == ("Ada", SESSION)
    assert change["why"] == "measured on ours"
    assert show_entry(capsys, f"review-{SESSION}")["title"] == f"Review of session {SESSION} by Ada"


def test_a_threshold_can_be_another_on_one_device(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT.replace("value", "device: l4, value"))
    found = show_entry(capsys, "widest-coalesced-load")
    main(["recommend", "--gpu", "l4", "--metric", "sectors_per_load=20", "--json"])

    assert (found["value"], found["by_device"]) == (17, {"l4": 18})
    assert "on l4 reviewed by Ada in 2026-11-21-add, before 17" in capsys.readouterr().out


@pytest.mark.slow
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
    checked = check_review()
    found = show_entry(capsys, "uncoalesced-global-access")
    sectors = "20" if way == "only_if" else "2"
    main(["recommend", "--metric", f"sectors_per_load={sectors}",
          "--metric", f"l2_utilization={value}", "--json"])  # fmt: skip
    answer = json.loads(capsys.readouterr().out)["kernels"][0]
    named = [d for d in answer["diagnoses"] if d["bottleneck"] == "uncoalesced-global-access"]

    assert checked == 0
    assert found["reviewed"][0]["was"] != found["reviewed"][0]["now"] == found["when"]
    assert [d["verdict"] for d in named].count("matches") == matches
    if matches:
        assert f"review of {SESSION} by Ada" in {r["source"] for r in named[0]["because"]}


FIXES = next(
    list(b.fixes) for b in load_knowledge().bottlenecks if b.id == "uncoalesced-global-access"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("move", "fix", "order"),
    [
        ("up", FIXES[2], [FIXES[0], FIXES[2], FIXES[1]]),
        ("down", FIXES[0], [FIXES[1], FIXES[0]]),
        ("first", FIXES[-1], [FIXES[-1], FIXES[0]]),
        ("first", "tile-into-smem", ["tile-into-smem", FIXES[0]]),
        ("withdraw", FIXES[0], FIXES[1:3]),
        ("up", FIXES[0], FIXES[:2]),
    ],
)
def test_a_fix_moves_in_the_order_of_its_bottleneck(review_project, capsys, move, fix, order):
    add_corrections(
        review_project,
        "{change: fix, bottleneck: uncoalesced-global-access, "
        f"fix: {fix}, move: {move}, why: it took a day}}",
    )
    code = check_review()
    found = show_entry(capsys, "uncoalesced-global-access")

    assert code == 0
    assert found["fixes"][: len(order)] == order
    assert found["reviewed"][0]["was"] == FIXES
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

    assert check_review() == 0
    assert not any(only[1] in b.fixes for b in load_project_knowledge().bottlenecks)


def test_a_fix_gets_one_more_situation_in_which_it_is_wrong(review_project, capsys):
    add_corrections(
        review_project,
        "{change: when-not, fix: unroll-ilp, when_not: the loop has 2 turns, why: seen}",
    )
    found = show_entry(capsys, "unroll-ilp")

    assert found["when_not"].endswith("residency step; the loop has 2 turns")
    assert found["reviewed"][0]["was"].endswith("residency step")


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
    code = check_review()
    found = show_entry(capsys, "print-strides")
    checked = main(["check"])
    main(["search", "strides", "before", "anything"])

    assert (code, found["reviewed"][0]["reviewer"]) == (0, "Ada")
    assert found["sources"] == [f"review-{SESSION}"]
    out = capsys.readouterr().out
    assert "print-strides" in out
    assert checked == 0, out


LOWER_LIMIT = (
    "{change: threshold, threshold: stop-and-profile, value: 0.25, why: a library of years}"
)
BROKEN_CASE = "performance-gate: speedup 0.49"


def test_a_correction_that_breaks_a_case_is_rejected_with_its_name(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT)

    assert check_review() == 1
    assert f"if that is meant, put '{BROKEN_CASE}' under breaks" in capsys.readouterr().out


def test_a_case_may_break_when_the_form_says_so(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT, breaks=[BROKEN_CASE])
    code = check_review()
    capsys.readouterr()
    main(["recommend", "--speedup", "0.3", "--json"])
    gate = json.loads(capsys.readouterr().out)["kernels"][0]["gate"]
    main(["check"])

    assert (code, gate["id"]) == (0, "close-the-gap")
    assert "performance-gate" not in capsys.readouterr().out


def test_the_gate_names_the_review_of_its_limit(review_project, capsys):
    add_corrections(review_project, LOWER_LIMIT, breaks=[BROKEN_CASE])
    capsys.readouterr()
    main(["recommend", "--speedup", "0.2"])

    assert (
        f"speedup 0.2 < 0.25 (reviewed by Ada in {SESSION}, shipped 0.5)" in capsys.readouterr().out
    )


def test_listing_a_case_that_does_not_break_is_an_error(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT, breaks=[BROKEN_CASE.replace("gate", "gaet")])

    assert main(["session", "review", SESSION]) == 1
    assert "is no case that breaks" in capsys.readouterr().out


def list_broken_cases(root, capsys, way, limit):
    """Return the cases that kb session review says would break."""
    template = review_path(root).read_text()
    add_corrections(
        root,
        f"{{change: condition, bottleneck: uncoalesced-global-access, {way}: {limit}, why: x}}",
    )
    problems = read_problems(capsys)
    review_path(root).write_text(template)
    return [p.partition("put ")[2].partition(" under breaks")[0].strip("'\"") for p in problems]


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
            "{change: fix, bottleneck: partial-warp-block, fix: round-block-to-warp,"
            " move: withdraw, why: x}",
            "partial-warp-block would be left without a fix",
        ),
        (
            "{change: condition, bottleneck: small-grid, only_if: {metric: wave, op: <, value: 1},"
            " why: x}",
            "unknown metric 'wave' (did you mean 'waves'?)",
        ),
        (
            "{change: condition, bottleneck: small-grid, why: x}",
            "give exactly one of only_if and also_if",
        ),
        ("{change: treshold, why: x}", "(did you mean 'threshold'?)"),
        ("{threshold: parity, why: x}", "required key 'change' is missing"),
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
    add_corrections(review_project, correction)
    rows = review_path(review_project).read_text().split("\n")
    line = rows.index("corrections:") + 2
    problem = next(text for text in read_problems(capsys) if says in text)
    place = problem.split(":")

    assert place[0] == f"knowledge/reviews/{SESSION}.yaml"
    assert line <= int(place[1]) <= line + correction.count("\n")


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("verdict: rigth", "did you mean 'right'?"),
        ("verdict: wrong", "a verdict of wrong needs its why"),
        ("verdickt: right", "unknown key (did you mean 'verdict'?)"),
        ("verdict: unsure, should_have_been: small-gird/split-k", "(did you mean 'small-grid'?)"),
        ("verdict: right, should_have_been: small-grid/split-k", "needs a verdict of wrong"),
        ("verdict: right, applied_as: other", "the session did not decide"),
    ],
)
def test_a_mistake_in_a_verdict_is_reported_at_its_place(review_project, capsys, verdict, says):
    replace_in_review(review_project, "YOUR NAME", "Ada")
    replace_in_review(
        review_project,
        "#- {bottleneck: dram-bandwidth-bound, fix: tile-into-smem, verdict: right}",
        f"- {{bottleneck: dram-bandwidth-bound, fix: tile-into-smem, {verdict}}}",
    )
    rows = review_path(review_project).read_text().split("\n")
    line = next(n for n, row in enumerate(rows, 1) if row.startswith("- {bottleneck: dram"))
    problem = next(text for text in read_problems(capsys) if says in text)

    assert problem.startswith(f"knowledge/reviews/{SESSION}.yaml:{line}:")


def test_an_empty_review_has_a_problem(review_project, capsys):
    replace_in_review(review_project, "YOUR NAME", "Ada")
    (problem,) = read_problems(capsys)

    assert "nothing is filled in" in problem


def test_a_name_of_two_lines_is_refused(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT, reviewer='"Ada\\nLovelace"')
    (problem,) = read_problems(capsys)

    assert "reviewer" in problem


def test_the_later_of_two_reviews_holds_and_both_are_seen(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    log_retrospective({**SESSION_OPTIONS, "session": "2026-11-20-add"})
    text = review_path(review_project).read_text().replace(SESSION, "2026-11-20-add")
    review_path(review_project, "2026-11-20-add").write_text(
        text.replace("18", "19").replace("Ada", "Bob")
    )
    found = show_entry(capsys, "widest-coalesced-load")

    assert found["value"] == 18
    assert [(c["reviewer"], c["was"], c["now"]) for c in found["reviewed"]] == [
        ("Bob", 17, 19),
        ("Ada", 19, 18),
    ]


def test_a_hand_written_override_comes_back_without_the_review(review_project, capsys):
    by_hand = review_project / "knowledge" / "thresholds.yaml"
    by_hand.write_text(
        "thresholds:\n  # ours\n  - id: widest-coalesced-load\n    metric: sectors_per_load\n"
        "    value: 17.5\n    evidence: judgement\n    why: w\n    sources: [kernelkb-judgement]\n"
    )
    add_corrections(review_project, WIDEN_LIMIT)
    found = show_entry(capsys, "widest-coalesced-load")
    review_path(review_project).unlink()

    assert (found["shipped"], found["reviewed"][0]["was"], found["value"]) == (17, 17.5, 18)
    assert show_entry(capsys, "widest-coalesced-load")["value"] == 17.5


def test_deleting_a_review_whose_pattern_is_used_is_reported_by_kb_check(review_project, capsys):
    add_corrections(review_project, PATTERN)
    (review_project / "knowledge" / "patterns").mkdir()
    (review_project / "knowledge" / "patterns" / "ours.yaml").write_text(
        "id: ours\ntitle: t\nproblem: p\npractice: q\ntriggers: [t]\nsteps: [s]\n"
        "refines: print-strides\nsources: [kernelkb-judgement]\n"
    )
    load_project_knowledge()
    review_path(review_project).unlink()
    capsys.readouterr()

    assert main(["check"]) == 1
    assert "unknown pattern 'print-strides'" in capsys.readouterr().out


def test_an_unknown_session_is_reported(review_project, capsys):
    assert main(["session", "review", "2026-11-21-ad"]) == 2
    assert "unknown session" in capsys.readouterr().err


def test_an_unwritable_folder_is_reported(review_project, capsys):
    shutil.rmtree(review_project / "knowledge")
    (review_project / "knowledge").write_text("a file")

    assert check_review() == 2
    assert "cannot write" in capsys.readouterr().err


def test_a_preview_is_printed_as_json(review_project, capsys):
    add_corrections(review_project, WIDEN_LIMIT)
    capsys.readouterr()
    main(["session", "review", SESSION, "--json"])
    preview = json.loads(capsys.readouterr().out)

    assert preview["changes"][0]["was"] == 17
    assert preview["changes"][0]["reviewer"] == "Ada"
    assert preview["checks"] is True
    assert preview["file"] == f"knowledge/reviews/{SESSION}.yaml"
