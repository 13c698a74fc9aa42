"""Variants are timed one change at a time against one base, and a bundle is told from its parts."""

import json
from math import log

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from simple_kernels import BODIES, SOURCE, write_kernel

from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.actions.kernels import bench_changes as module
from kernelkb.actions.kernels.bench_changes import bench_changes, parse_changes, split_bundles
from kernelkb.cli import main
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.loading.kernels import load_kernel, select_variant
from kernelkb.measure.bench.statistics import Speedup, combine_rounds, multiply_speedups
from kernelkb.measure.subject import BenchOptions
from kernelkb.model.answers.triage import TimedChange
from kernelkb.render.text.measurements import format_change_table

SHORT = BenchOptions(budget_s=0.2)
UNROLLED = "y[i] = x[i] + x[i];"
SLOW = "volatile float v = x[i]; for (int k = 0; k < 200; ++k) v = v; y[i] = 2 * v;"
VARIANTS = {
    "slow": ([], SLOW),
    "one": (["unroll-ilp"], UNROLLED),
    "two": (["hoist-invariants"], BODIES["good"]),
    "both": (["unroll-ilp", "hoist-invariants"], UNROLLED),
    "wrong": (["fp64-to-fp32"], BODIES["wrong"]),
    "broken": (["cache-in-registers"], BODIES["broken"]),
}


@pytest.fixture
def kernel(project):
    """A kernel whose plain variant is slow, with five changes of it."""
    folder = write_kernel(project, "twice")
    path = folder / "kernel.yaml"
    content = yaml.safe_load(path.read_text())
    content["variants"] = [
        {"id": name, "target": "cpu", "language": "c++", "source": f"{name}.cpp",
         "applies": applies, "summary": name}
        for name, (applies, _) in VARIANTS.items()
    ]  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    for name, (_, body) in VARIANTS.items():
        (folder / f"{name}.cpp").write_text(SOURCE.replace("BODY", body))
    return load_kernel("twice", project).kernel


def parse(kernel, text, base="slow"):
    named = parse_changes(kernel, select_variant(kernel, "cpu", base), text)
    return [one.id for one in named.variants], named.bundles


def test_a_variant_that_applies_what_others_apply_is_their_bundle(kernel):
    assert parse(kernel, "one, two,both") == (["one", "two", "both"], {"both": ("one", "two")})


def test_a_sum_names_its_parts_and_the_variant_that_holds_them(kernel):
    assert parse(kernel, "one+two") == (["one", "two", "both"], {"both": ("one", "two")})


def test_a_bundle_may_be_named_where_no_fix_says_it(kernel):
    assert parse(kernel, "wrong=one+two")[1]["wrong"] == ("one", "two")


def test_of_equal_changes_none_is_a_bundle(kernel):
    assert parse(kernel, "one,both")[1] == {}


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [(",", BadValueError, "names 0; name 1 to 8"),
     ("slow,one", BadValueError, "slow is the base"),
     ("one+wrong", BadValueError, "write NAME=one"),
     ("oen", UnknownNameError, "did you mean 'one'")],
)  # fmt: skip
def test_what_names_no_change_is_refused_with_the_cure(kernel, text, error, says):
    with pytest.raises(error, match=says):
        parse(kernel, text)


def make_row(name, point, low, high):
    return TimedChange(variant=name, verdict="faster", ratio=point, interval=(low, high))


def test_what_only_a_bundle_gives_is_its_ratio_over_the_product_of_its_parts():
    rows = [make_row("a", 2.0, 1.9, 2.1), make_row("b", 1.5, 1.4, 1.6),
            make_row("ab", 6.0, 5.9, 6.1)]  # fmt: skip
    (found,) = split_bundles(rows, {"ab": ("a", "b")})

    assert found.product[0] == pytest.approx(3.0)
    assert found.only_together[0] == pytest.approx(2.0)
    assert found.only_together[1] > 1.8


def test_a_bundle_without_the_time_of_a_part_is_left_out():
    rows = [make_row("ab", 6.0, 5.9, 6.1), TimedChange(variant="a", verdict="incorrect")]

    assert list(split_bundles(rows, {"ab": ("a", "b")})) == []


SPEEDUPS = st.floats(0.2, 5.0).flatmap(
    lambda point: st.tuples(st.floats(0.5, 1.0), st.floats(1.0, 2.0)).map(
        lambda ends: Speedup(point, point * ends[0], point * ends[1])
    )
)


@given(st.lists(SPEEDUPS, min_size=1, max_size=4))
def test_the_interval_of_rounds_holds_the_point_of_each(rounds):
    found = combine_rounds(rounds)

    inside = [found.point, *(one.point for one in rounds)]  # but for the last digit
    assert all(found.low <= point * (1 + 1e-9) for point in inside)
    assert all(found.high >= point * (1 - 1e-9) for point in inside)


@given(st.lists(SPEEDUPS, min_size=1, max_size=4))
def test_a_product_is_as_uncertain_as_its_most_uncertain_factor(factors):
    found = multiply_speedups(factors)
    widest = max(log(one.high / one.low) for one in factors)

    assert found.low <= found.point * (1 + 1e-9)
    assert found.high >= found.point * (1 - 1e-9)
    assert log(found.high / found.low) >= widest / 2**0.5 - 1e-9


def test_each_change_is_timed_against_the_base_and_logged_as_one_change(kernel):
    table = bench_changes("twice", "one,wrong,broken", target="cpu", options=SHORT)
    one, wrong, broken = table.changes
    tree = load_attempt_log("twice").tree
    (root,) = tree.roots

    assert (table.base, table.rounds) == ("slow", 2)
    assert one.ratio > 3
    assert one.last_bench.baseline == "variant slow"
    assert (wrong.verdict, wrong.ratio) == ("incorrect", None)
    assert (broken.verdict, broken.ratio) == ("invalid", None)
    assert tree.nodes[root].attempt.variant == "slow"
    assert {tree.nodes[one].attempt.variant for one in tree.nodes[root].children} == {
        "one", "wrong", "broken",
    }  # fmt: skip
    outcome = tree.nodes[one.attempt].outcome
    assert (outcome.parent, outcome.fixes) == (root, ("unroll-ilp",))
    assert outcome.measured == pytest.approx(one.ratio)
    assert tree.nodes[broken.attempt].outcome.result == "failed"
    text = "\n".join(format_change_table(table))
    assert "twice on large: each change alone against slow" in text


@pytest.mark.slow
def test_a_bundle_is_told_beside_its_parts(kernel, capsys):
    words = ["bench", "twice", "--target", "cpu", "--changes", "one+two", "--budget", "0.2"]
    assert main([*words, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)

    assert [one["variant"] for one in table["changes"]] == ["one", "two", "both"]
    (bundle,) = table["bundles"]
    assert bundle["parts"] == ["one", "two"]
    assert bundle["only_together"][0] < 1


def test_a_base_that_is_wrong_is_refused(kernel):
    with pytest.raises(BadValueError, match="nothing can be compared with wrong"):
        bench_changes("twice", "one", "wrong", target="cpu", options=SHORT)


def test_rounds_run_backwards_in_turn_so_that_drift_hits_all_alike(kernel, monkeypatch):
    order = []
    monkeypatch.setattr(module, "_build_base", lambda *_: None)
    monkeypatch.setattr(module, "_finish_change", lambda _base, _built, change: change.row)
    monkeypatch.setattr(module, "_time_change", lambda change, _: order.append(change.row.variant))

    class Change:
        failure = None
        benches = ()

        def __init__(self, name):
            self.row = TimedChange(variant=name, verdict="undecided")

        def list_warnings(self):
            return []

    monkeypatch.setattr(module, "_prepare_change", lambda _a, _b, one, *_: Change(one.id))
    bench_changes("twice", "one,two,both", target="cpu")

    assert order == ["one", "two", "both", "both", "two", "one"]


@pytest.mark.parametrize("option", ["--against", "--change"])
def test_options_of_one_variant_are_refused(kernel, option, capsys):
    assert main(["bench", "twice", "--changes", "one", option, "two"]) == 2
    assert "is for one variant, not for --changes" in capsys.readouterr().err
