"""How the zoo's pairs are measured: which races are run, and which launches belong to a variant."""

import pytest
from benchmarks.zoo.pairs import BuiltPair
from benchmarks.zoo.races import Race, run_races
from benchmarks.zoo.record import list_races
from benchmarks.zoo.recordings import PairRecording, VariantRecording
from benchmarks.zoo.reports import VariantRun, split_launches

from kernelkb.actions.kernels.measure_variant import build_prepared
from kernelkb.actions.project.bench_target import prepare
from kernelkb.errors import KbError
from kernelkb.model.kernels.kernel import Pair
from kernelkb.profiles.launch import ProfiledLaunch


@pytest.fixture
def softmax_pair(project):
    """Two forms of the CPU's softmax as a pair, compiled; the faster one also tempts."""
    before, after = (prepare("row_softmax", name, "cpu") for name in ("naive", "vectorized"))
    pair = Pair(
        before="naive",
        after="vectorized",
        kind="flaw",
        operation="softmax",
        bottlenecks=("scalar-loop",),
        fix="vectorize-128b",
        tempting=("vectorized",),
        change="vector instructions",
    )
    builds = {t.subject.variant.id: build_prepared(t) for t in (before, after)}
    return BuiltPair(pair, "tiny", before, after, builds, (after._replace(),))


def make_row(timed_by, tempting):
    side = {"kernel_us": 1.0, "metrics": {}}
    return PairRecording(
        kernel="row_softmax",
        device="l4",
        driver="",
        workload="tiny",
        speedup=1.0,
        timed_by=timed_by,
        before=VariantRecording(variant="naive", **side),
        after=VariantRecording(variant="vectorized", **side),
        tempting=tempting,
    )


def describe_races(pair, rows, *, missing):
    return [
        "change" if race.rival is pair.after else "tempting"
        for race in list_races([pair], rows, missing=missing)
    ]


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (None, ["change", "tempting"]),
        (make_row("profiler", {}), ["change", "tempting"]),
        (make_row("bench", {}), ["tempting"]),
        (make_row("bench", {"vectorized": 1.0}), []),
    ],
    ids=["new", "profiled only", "not the one that tempts", "all"],
)
def test_changes_come_first_and_what_was_timed_is_left_out(softmax_pair, row, wanted):
    rows = {"row_softmax": row} if row else {}

    assert describe_races(softmax_pair, rows, missing=True) == wanted
    assert describe_races(softmax_pair, rows, missing=False) == ["change", "tempting"]


def test_the_next_race_starts_while_one_is_timed_and_each_has_its_times(softmax_pair):
    races = [Race(softmax_pair, softmax_pair.after)] * 2
    found = list(run_races(races, budget_s=0.1))

    assert [race for race, _ in found] == races
    assert all(bench.interval for _, bench in found)
    assert {bench.verdict for _, bench in found} <= {"slower", "inconclusive"}


def test_a_race_that_cannot_be_run_does_not_end_the_others(softmax_pair, monkeypatch):
    monkeypatch.setattr("benchmarks.zoo.races.BenchOptions.timeout_s", 0.0, raising=False)
    races = [Race(softmax_pair, softmax_pair.after)] * 2
    found = [result for _, result in run_races(races, budget_s=0.1)]

    assert len(found) == 2
    assert all(isinstance(result, KbError) or result.interval is None for result in found)


def launch(kernel, us):
    return ProfiledLaunch(kernel, {"profiled_us": us})


def test_a_variant_of_two_kernels_is_its_longest_launch_and_takes_the_time_of_both():
    launches = [
        launch("<unnamed>::sum_rows(const float *, int)", 9.0),
        launch("sum_parts", 3.0),
        launch("add_parts", 1.0),
    ]

    assert split_launches([("sum_rows",), ("sum_parts", "add_parts")], launches) == [
        VariantRun(0, 9.0),
        VariantRun(1, 4.0),
    ]


@pytest.mark.parametrize(
    "kernels",
    [[("sum_rows",)], [("sum_rows",), ("sum",)], [("add_parts",), ("sum_rows",)]],
    ids=["one too many", "part of a name", "another order"],
)
def test_launches_of_other_kernels_are_no_recording(kernels):
    launches = [launch("sum_rows", 9.0), launch("sum_parts", 3.0)]

    assert split_launches(kernels, launches) is None
