"""A real search on the CPU: builds, trials, verdict, kills, bad configurations."""

import json
import random
import subprocess
import sys
import time

import pytest
from benchmarks.tuner import read_recorded_space
from tunable_kernels import make_tunable_kernel

from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.measure.bench import trials
from kernelkb.tune import plan as tune_plan
from kernelkb.tune.best_table import find_best, load_table
from kernelkb.tune.plan import TuningOptions, plan_tuning
from kernelkb.tune.result_files import export_trials
from kernelkb.tune.strategies.table import STRATEGIES
from kernelkb.tune.tune import tune

KB = [sys.executable, "-c", "import kernelkb.cli, sys; sys.exit(kernelkb.cli.main())"]


@pytest.fixture
def twice(project):
    make_tunable_kernel(project, range(6), workload="large", constraints=["MODE < 6"])
    return project


def search(**options):
    plan = plan_tuning("twice", "plain", target="cpu")
    return plan, tune(plan, TuningOptions(budget_s=240, **options))


def test_the_whole_space_is_searched_and_the_fastest_is_judged(project, stand_in_judge):
    make_tunable_kernel(project, range(6), (1, 64), "large", ["MODE == 0 or WORK == 1"])
    _, result = search()
    outcomes = {
        mode: {one.status for one in result.trials if one.configuration["MODE"] == mode}
        for mode in range(6)
    }

    assert len(result.trials) == result.feasible_count == 7
    assert outcomes == {
        0: {"timed"},
        1: {"timed"},
        2: {"build-failed"},
        3: {"crashed"},
        4: {"incorrect"},
        5: {"refused"},
    }
    best = result.confirmed[0]
    assert best.configuration["WORK"] == 1
    assert best.low > 2
    assert result.bench.verdict == "faster"
    export_trials(result, project / "t4.json")
    recorded = read_recorded_space(project / "t4.json")
    assert len(recorded.times) == 7
    _, again = search(judge=False)
    assert again.resumed_count == 7
    assert len(again.trials) == 7


@pytest.mark.slow
def test_a_configuration_that_hangs_costs_one_process_and_one_trial(project, monkeypatch):
    monkeypatch.setitem(trials.TRIAL_TIMEOUT_S, "cpu", 3.0)
    make_tunable_kernel(project, (0, 6), (1, 64), "large", ["MODE == 0 or WORK == 1"])
    _, result = search(judge=False)

    assert sorted(one.status for one in result.trials) == ["timed", "timed", "timed-out"]
    assert result.confirmed[0].configuration == {"MODE": 0, "WORK": 1}


@pytest.mark.slow
def test_a_program_loads_the_winner_or_reads_why_there_is_none(twice, capsys):
    command = ["tune", "twice", "--target", "cpu", "--trials", "4", "--no-judge"]
    assert main([*command, "--table", "best.json"]) == 0
    assert main([*command, "--table", "best.json"]) == 0
    capsys.readouterr()
    table = load_table("best.json")
    device = table[0]["device"]

    assert len(table) == 1
    assert find_best(table, "twice", {"n": 20000}, device).configuration["MODE"] in range(6)
    for kernel, sizes, where, said in [
        ("thrice", {"n": 20000}, device, "was not tuned"),
        ("twice", {"n": 1}, device, "tuned for n=20000, not for n=1"),
        ("twice", {"n": 20000}, "another", f"tuned on {device}, not on another"),
    ]:
        found = find_best(table, kernel, sizes, where)
        assert found.configuration is None
        assert said in found.reason


@pytest.mark.slow
def test_a_search_that_is_killed_ten_times_repeats_and_loses_no_trial(twice):
    rng = random.Random(0)
    seen = [0]
    for _ in range(10):
        command = [*KB, "tune", "twice", "--target", "cpu", "--no-judge"]
        process = subprocess.Popen(command, cwd=twice, stdout=subprocess.DEVNULL)
        wanted = seen[-1] + rng.randint(0, 2)
        wait_until(
            lambda process=process, wanted=wanted: (
                count_lines(twice) >= wanted or process.poll() is not None
            )
        )
        time.sleep(rng.random())  # into a build, a trial, the journal
        process.kill()
        process.wait()
        seen.append(count_lines(twice))
    _, result = search(judge=False)
    configurations = [json.dumps(one.configuration) for one in result.trials]

    assert seen == sorted(seen)
    assert len(configurations) == len(set(configurations)) == 18
    assert result.resumed_count >= seen[-1] - 1
    assert result.confirmed[0].configuration["WORK"] == 1


def wait_until(condition, timeout_s=120):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def count_lines(project):
    files = list((project / ".kb" / "tuning").glob("*.jsonl"))
    return sum(max(0, len(one.read_bytes().splitlines()) - 1) for one in files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "base"), [("#define WORK 64", {}), pytest.param("", None, marks=pytest.mark.slow)]
)
def test_without_a_default_the_variant_as_it_is_is_the_base(twice, given, base):
    folder = twice / "kernels" / "twice"
    lines = (folder / "kernel.yaml").read_text().splitlines()
    kept = [line for line in lines if "default: {MODE" not in line]
    (folder / "kernel.yaml").write_text("\n".join(kept))
    source = (folder / "plain.cpp").read_text()
    (folder / "plain.cpp").write_text(source.replace("#define WORK 64", given))
    plan = plan_tuning("twice", "plain", target="cpu", only={"MODE": (0,)})
    found = tune(plan, TuningOptions(budget_s=240, judge=False))
    bases = [one for one in found.confirmed if one.configuration == {}]

    assert (found.default_us is not None) == (base == {})
    assert len(bases) == (base == {})
    assert found.confirmed[0].configuration["WORK"] == 1
    if bases:
        assert bases[0].gain == 1.0
        assert found.confirmed[0].low > 2


def test_a_variant_without_tunables_says_how_to_list_them(project):
    with pytest.raises(BadValueError, match="'tune:' in kernel"):
        plan_tuning("row_softmax", target="cpu")


def test_the_plan_is_printed_without_building(twice, capsys):
    assert main(["tune", "twice", "--target", "cpu", "--plan"]) == 0
    printed = capsys.readouterr().out

    assert "18 of 18 configurations are feasible" in printed
    assert not (twice / ".kb" / "tuning").exists()


def test_without_the_packages_the_extra_is_named(project, monkeypatch, capsys):
    monkeypatch.setattr(tune_plan, "find_spec", lambda _name: None)

    assert main(["tune", "gemm", "--plan", "--target", "cpu"]) == 2
    assert "-m pip install 'optuna>=5' 'scipy>=1.13'" in capsys.readouterr().err


def test_a_recorded_space_is_replayed_by_the_benchmark(tmp_path):
    content = {
        "tune_params_keys": ["A"],
        "cache": {str(one): {"A": one, "time": 1.0 + one} for one in range(30)},
    }
    file = tmp_path / "space.json"
    file.write_text(json.dumps(content))
    command = [sys.executable, "-m", "benchmarks.tuner", str(file), "--seeds", "2"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    rows = [line.split() for line in printed.splitlines()[1:]]
    assert [row[1] for row in rows] == list(STRATEGIES)
    assert all("".join(row[4:-1]) == "2/2" for row in rows)
