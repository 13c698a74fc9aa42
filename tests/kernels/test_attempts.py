"""Every state that is built is kept; a change is judged, a state comes back, nothing is lost."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attacks import write_attack
from simple_kernels import write_kernel

from kernelkb.actions.comparison.compare_reports import compare_attempts
from kernelkb.actions.history import attempts as restore_module
from kernelkb.actions.history import measured_subject as keep_attempts
from kernelkb.actions.history.attempts import load_attempt_log, restore_attempt
from kernelkb.actions.history.measured_subject import describe_state, read_own_files
from kernelkb.actions.history.reuse_results import find_known_bench
from kernelkb.actions.kernels.measure_variant import bench_variant, build_variant
from kernelkb.actions.project.bench_target import prepare
from kernelkb.actions.sessions.session_brief import MAX_BYTES, brief_session, resume_session
from kernelkb.actions.sessions.sessions import start_session
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.records.measurement import is_decided
from kernelkb.record.attempt_store import create_attempt, digest_content, open_attempts
from kernelkb.record.measurements.compare import find_noise_reason

HONEST = "  honest(x, y, rows, cols);\n"


@pytest.fixture
def source(project):
    """The source file of a kernel in a project."""
    return write_kernel(project, "twice") / "plain.cpp"


def build(source, **fields):
    return build_variant(source.parent.name, target="cpu", **fields)


def edit(source, text):
    source.write_text(source.read_text() + text)


def list_tree(source):
    return load_attempt_log(source.parent.name).tree


def test_each_state_is_kept_with_the_one_before(source):
    first = build(source)
    again = build(source)
    edit(source, "// one\n")
    second = build(source, change="a comment")
    tree = list_tree(source)

    assert first.attempt == again.attempt
    assert tree.roots == (first.attempt,)
    assert tree.nodes[second.attempt].attempt.parent == first.attempt
    assert tree.nodes[second.attempt].attempt.said == "a comment"


@pytest.mark.slow
def test_who_takes_a_change_back_by_hand_starts_a_branch(source):
    whole = source.read_text()
    first = build(source)
    edit(source, "static int one() { return 1; }\n")
    build(source)
    source.write_text(whole + "static int two() { return 2; }\n")
    third = build(source)

    assert list_tree(source).nodes[third.attempt].attempt.parent == first.attempt


def test_a_change_that_does_not_compile_is_a_dead_end_with_the_compilers_words(source):
    build(source)
    edit(source, "this is no C++;\n")
    broken = build(source)
    node = list_tree(source).nodes[broken.attempt]

    assert node.outcome.result == "failed"
    assert "does not compile" in node.failure


def test_a_state_comes_back_byte_for_byte_and_what_was_there_is_kept(source):
    before = source.read_bytes()
    first = build(source)
    edit(source, "// not built, \r\n and without a last line break")
    unsaved = source.read_bytes()
    restored = restore_attempt(first.attempt[:8])

    assert source.read_bytes() == before
    assert restored.kept is not None
    restore_attempt(restored.kept)
    assert source.read_bytes() == unsaved


def test_what_somebody_writes_while_a_state_is_restored_is_kept_too(source, monkeypatch):
    first = build(source)
    edit(source, "// mine\n")
    build(source)
    exchange = restore_module.exchange_file

    def write_meanwhile(path, content):
        path.write_text("// saved by another program\n")
        return exchange(path, content)

    monkeypatch.setattr(restore_module, "exchange_file", write_meanwhile)
    restore_attempt(first.attempt)
    kept = [load_source(source, name) for name in list_tree(source).nodes]

    assert b"// saved by another program\n" in kept


def load_source(source, attempt):

    with open_attempts(Path.cwd()) as store:
        one = store.find(attempt)
        return store.read_file(one.files[source.relative_to(Path.cwd()).as_posix()])


def add_foreign(source, files, *, imported=True):
    """Add an attempt with these files, by their path in the project; return its id."""
    with open_attempts(Path.cwd()) as store:
        made = create_attempt(
            kernel=source.parent.name,
            variant=source.stem,
            target="cpu",
            files={name: digest_content(content) for name, content in files.items()},
            at=datetime.now(UTC),
        )
        store.add([made.model_copy(update={"imported": imported})], (), files.values())
    return made.id


OWN, KERNEL = "kernels/twice/plain.cpp", "kernels/twice"
FOREIGN = {
    "outside": "../outside.cpp",
    "a configuration": ".mcp.json",
    "a makefile": "Makefile",
    "the oracle": f"{KERNEL}/reference.py",
    "its kernel.yaml": f"{KERNEL}/kernel.yaml",
    "a header of others": "common.h",
    "another variant": f"{KERNEL}/rival.cpp",
    "a hook": ".git/hooks/post-checkout",
    "a name that no file can have": "a\0b.h",
}


@pytest.mark.parametrize("name", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("included", [False, True])
def test_an_attempt_of_elsewhere_writes_sources_of_its_variant_only(source, name, included):
    for other in ("Makefile", "common.h", f"{KERNEL}/rival.cpp"):
        Path(other).write_text("mine")
    before = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    own = source.read_bytes()
    if included:
        own += f'#include "../../{name}"\n#include "../../common.h"\n'.encode()
    bad = add_foreign(source, {OWN: own, name: b"stolen"})

    refusal = r"is no source of plain in the kernel.yaml of twice, .* nothing was written$"
    with pytest.raises(BadValueError, match=refusal):
        restore_attempt(bad)
    after = {path: path.read_bytes() for path in Path.cwd().rglob("*") if path.is_file()}
    assert {path: after[path] for path in before if ".kb" not in path.parts} == {
        path: content for path, content in before.items() if ".kb" not in path.parts
    }
    assert not (Path.cwd().parent / "outside.cpp").exists()


def test_an_attempt_of_elsewhere_brings_its_headers(source):
    own = source.read_bytes() + b'#include "parts/new.cuh"\n#include "../../common.h"\n'
    Path("common.h").write_text("old")
    with pytest.raises(BadValueError, match=r"common.h is no source"):
        restore_attempt(add_foreign(source, {OWN: own, "common.h": b"new"}))
    Path("common.h").unlink()
    files = {OWN: own, f"{KERNEL}/parts/new.cuh": b"// new", "common.h": b"new"}

    assert sorted(restore_attempt(add_foreign(source, files)).written) == sorted(files)
    assert Path(KERNEL, "parts", "new.cuh").read_bytes() == b"// new"
    # Now the variant includes it, and so it may be written again.
    assert restore_attempt(add_foreign(source, {**files, "common.h": b"3"})).written == (
        "common.h",
    )


def test_a_header_that_is_not_included_any_more_comes_back(source):
    plain, header = source.read_bytes(), source.parent / "old.h"
    header.write_text("// one\n")
    edit(source, '#include "old.h"\n')
    first = build(source)
    source.write_bytes(plain)
    header.write_text("// two\n")

    restore_attempt(first.attempt)
    assert header.read_text() == "// one\n"


@pytest.mark.parametrize("imported", [False, True])
def test_what_to_do_about_a_source_that_was_renamed_is_said_and_helps(source, imported):
    files = {f"{KERNEL}/a.h": b"// included", OWN: source.read_bytes() + b'#include "a.h"\n'}
    first = add_foreign(source, files, imported=imported)
    source.rename(source.parent / "quick.cpp")
    kernel_yaml = source.parent / "kernel.yaml"
    text = kernel_yaml.read_text()
    kernel_yaml.write_text(text.replace("plain.cpp", "quick.cpp"))

    cure = r"if it was renamed, let kernel.yaml name plain.cpp again, as source or under also, "
    with pytest.raises(BadValueError, match=f"is no source .* {cure}and restore again"):
        restore_attempt(first)
    kernel_yaml.write_text(text)
    restore_attempt(first)
    assert source.read_bytes() == files[OWN]


def test_nothing_is_kept_where_nothing_may_be_written(source, monkeypatch):
    target = prepare(source.parent.name, target="cpu")
    monkeypatch.setattr(keep_attempts, "may_write", lambda: False)

    assert keep_attempts.keep_state(target) == keep_attempts.NOT_KEPT
    assert not list((Path.cwd() / ".kb").glob("measurements.db*"))


def test_a_damaged_history_costs_the_entry_and_is_said_in_one_line(source, capsys):
    build(source)
    before = source.read_bytes()
    database = Path.cwd() / ".kb" / "measurements.db"
    database.write_bytes(b"this is no database at all" * 100)

    assert main(["build", source.parent.name, "--target", "cpu"]) == 0
    said = capsys.readouterr()
    assert "this state was not kept" in said.out + said.err
    assert "Traceback" not in said.out + said.err
    assert source.read_bytes() == before


def test_equal_code_is_not_measured_again_and_a_change_is_judged(source, stand_in_judge, capsys):
    kernel = source.parent.name
    first = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    edit(source, "// only a comment\n")
    second = bench_variant(
        kernel, target="cpu", options=BenchOptions(budget_s=0.3, again=False, change="nothing")
    )
    tree = list_tree(source)
    last = list(tree.nodes.values())[-1]

    assert last.outcome.parent == tree.roots[0]
    assert second.from_record
    assert second.measurement == first.measurement
    assert "not measured again" in second.warnings[0]
    assert last.outcome.result == "no-gain"
    assert main(["log", kernel]) == 0
    out = capsys.readouterr().out
    assert '"nothing"' in out
    assert main(["diff", tree.roots[0][:8], last.attempt.id[:8]]) == 0
    assert "machine code: the same" in capsys.readouterr().out

    # A changed reference is another question: no record answers it.
    reference = source.parent / "reference.py"
    reference.write_text(reference.read_text() + "# changed\n")
    target = prepare(kernel, target="cpu")

    workload = target.subject.kernel_folder.kernel.default_workload["cpu"]
    assert find_known_bench(target, build(source), workload) is None


def test_two_states_side_by_side(source):
    first = build(source)
    edit(source, 'extern "C" int more(int x) { return x * 3; }\n')
    second = build(source)
    found = compare_attempts(first.attempt, second.attempt)

    assert any(line.startswith("+extern") for line in found.source)
    assert found.same_code is False
    assert found.comparison is None


def test_the_log_is_one_json_object(source, capsys):
    build(source)

    assert main(["log", source.parent.name, "--json"]) == 0
    log = json.loads(capsys.readouterr().out)
    assert log["total"] == 1
    assert log["attempts"][0]["files"]


def test_restore_names_what_it_needs(source, capsys):
    assert main(["restore"]) == 2
    assert "kb lab restore ID, or kb lab restore --best KERNEL" in capsys.readouterr().err
    build(source)
    assert main(["restore", "--best", source.parent.name]) == 2
    assert "no valid time" in capsys.readouterr().err


def test_a_brief_fits_and_says_what_is_next(source):
    kernel = source.parent.name
    start_session("mine", "twice as fast", kernel=kernel, budget={"attempts": 30, "minutes": 60.0})
    build(source)
    for number in range(12):
        source.write_text(f"this is no C++ {number};\n" * 5)
        build(source, change=f"unroll-ilp once more, the {number}th time, with more words")
    brief = brief_session()

    assert len(brief.encode()) <= MAX_BYTES
    assert "twice as fast" in brief
    assert "13 of 30 attempts" in brief
    assert "unroll-ilp" in brief
    assert "next: " in brief or brief.endswith("...")


def test_a_session_is_opened_once_and_found_again(source):
    kernel = source.parent.name
    first = resume_session(kernel, "twice as fast", {"attempts": 10})
    build(source)
    again = resume_session(None, None)

    assert first.session == again.session
    assert "was opened" in first.summary
    assert "is open" in again.summary
    assert "1 of 10 attempts" in again.brief


class _CutError(Exception):
    """The client's context ends here."""


CHANGES = {
    "one": "static const int one = 1;\n",
    "broken": "this is no C++;\n",
    "two": "static const int two = 2;\n",
    "three": "static const int three = 3;\n",
}
"""Changes by their words; a client tries them in this order, each on the last good state."""


def play(source, step):
    """Try each change that the history does not know; ``step`` may cut the client at any point."""
    kernel = source.parent.name
    while True:
        resume_session(kernel, "play")
        nodes = list(list_tree(source).nodes.values())
        tried = {node.attempt.said for node in nodes}
        good = [node for node in nodes if node.failure is None]
        step()
        if not nodes:
            build(source)
            continue
        words = next((words for words in CHANGES if words not in tried), None)
        if good[-1].attempt.id != _find_state(source):
            restore_attempt(good[-1].attempt.id)
        step()
        if words is None:
            return
        edit(source, CHANGES[words])
        step()
        build(source, change=words)
        step()


def _find_state(source):

    target = prepare(source.parent.name, target="cpu")
    return describe_state(target, read_own_files(target)).id


@pytest.mark.slow
def test_a_client_that_is_cut_at_random_points_ends_where_an_uncut_one_does(project):
    ends = []
    for name, cuts in (("whole", 0), ("cut", 10)):
        folder = project / name
        folder.mkdir()
        kernel = write_attack(folder, HONEST)
        (source,) = (folder / "kernels" / kernel).glob("*.cpp")
        (folder / "sessions").mkdir(exist_ok=True)
        (folder / "pyproject.toml").touch()
        ends.append(_play_with_cuts(source, folder, cuts))

    assert ends[0] == ends[1]
    assert all(text in ends[0] for words, text in CHANGES.items() if words != "broken")


def _play_with_cuts(source, folder, cuts):
    draw, left = random.Random(3), [cuts]

    def step():
        if left[0] and draw.random() < 0.5:
            left[0] -= 1
            raise _CutError

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        while True:
            try:
                play(source, step)
                break
            except _CutError:
                continue
        assert left[0] == 0 or cuts == 0
        return source.read_text()


def test_a_gain_on_another_kernel_of_the_project_is_a_case(source):
    from attempts import make_attempt, make_outcome

    from kernelkb.actions.advice.apply_history import list_own_cases
    from kernelkb.model.records.history import AdvisedChange

    first, content = make_attempt("a", 0, kernel="other")
    second, more = make_attempt("b", 1, first.id, kernel="other")
    advised = AdvisedChange(bottleneck="low-ilp", fix="unroll-ilp", state={"cause:low-ilp": 1.0})
    with open_attempts(Path.cwd()) as store:
        store.add(
            [first, second], [make_outcome(second, 1, "faster", advised=advised)], [content, more]
        )
        (case,) = list_own_cases(store, source.parent.name)

        assert list_own_cases(store, "other") == []
    assert (case["kernel"], case["fix"], case["speedup"]) == ("other", "unroll-ilp", 1.5)
    assert case["state"] == {"cause:low-ilp": 1.0}


@pytest.mark.slow
def test_in_a_fresh_checkout_a_state_joins_the_tree_of_the_team(source, monkeypatch):
    first = build(source)
    monkeypatch.setattr(keep_attempts, "identify_checkout", lambda _project: "elsewhere")
    edit(source, "static const int more = 1;\n")
    second = build(source)

    assert list_tree(source).nodes[second.attempt].attempt.parent == first.attempt


def test_two_profiles_with_counters_are_compared_by_line(project, tmp_path, monkeypatch):
    from machine_code import unpack_report

    from kernelkb.actions.comparison import compare_reports

    report = unpack_report(tmp_path, "h100-sxm", "low-ilp")
    monkeypatch.setattr(compare_reports, "find_report", lambda _project, _id: report)
    found = compare_reports._compare_lines(project, ("a", "b"))

    assert found["kernels"]
    assert compare_reports._compare_lines(project, None) is None


def test_what_is_said_later_of_a_state_counts(source):
    first = build(source)
    edit(source, "this is no C++;\n")
    second = build(source)
    build(source, change="unroll-ilp")
    node = list_tree(source).nodes[second.attempt]

    assert list_tree(source).nodes[first.attempt].said is None
    assert node.said == "unroll-ilp"
    assert node.outcome.fixes == ("unroll-ilp",)
    assert node.outcome.recognised_by == "said"


def test_a_real_bench_travels_unchanged_and_is_marked_where_it_is_shown(
    source, tmp_path, monkeypatch, capsys
):
    kernel = source.parent.name
    first = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    edit(source, 'extern "C" int more(int x) { return x * 3; }\n')
    second = bench_variant(kernel, target="cpu", options=BenchOptions(budget_s=0.3))
    main(["regress"])
    main(["export", str(tmp_path / "all.jsonl")])
    best = [json.loads(run(capsys, "best", kernel, "--json"))[0]]
    state = build(source)
    target = prepare(kernel, target="cpu")
    may_reuse = is_decided(second.verdict) and find_noise_reason(second) is None
    assert (find_known_bench(target, state, second.workload) is not None) == may_reuse
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")

    assert main(["import", str(tmp_path / "all.jsonl")]) == 0
    main(["export", str(tmp_path / "again.jsonl")])
    capsys.readouterr()
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "all.jsonl").read_text()
    assert json.loads(run(capsys, "best", kernel, "--json"))[0] == best[0] | {"imported": True}
    for words in (
        ("best", kernel),
        ("history", kernel),
        ("log", kernel),
        ("compare", first.measurement, second.measurement),
        ("diff", *list_tree(source).nodes),
    ):
        assert "imported" in run(capsys, *words), words
    assert "imported" in brief_session(kernel=kernel)
    log = json.loads(run(capsys, "log", kernel, "--json"))
    assert all(one["imported"] for one in log["attempts"])
    assert find_known_bench(target, state, second.workload) is None


def run(capsys, *words):
    """Return what a command prints."""
    capsys.readouterr()
    main(list(words))
    return capsys.readouterr().out
