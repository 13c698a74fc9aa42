"""What a terminal shows of a search: a row for each trial, and the result."""

from tuning_results import DEFAULT, VALUES, draw_trials, make_result

from kernelkb.model.kernels.tuning import GainExplanation
from kernelkb.model.records.measurement import Bench
from kernelkb.render.text.tuning import TrialTable, format_result, summarize_result

BENCH = {
    "kernel": "attention_fp16", "variant": "flash-mma", "target": "cuda", "seconds": 1.0,
    "workload": "b2-h8-s512-d64", "verdict": "incorrect", "detail": "wrong on small",
}  # fmt: skip


def find_line(result, start):
    return next(line.strip() for line in format_result(result) if line.strip().startswith(start))


def test_a_row_tells_number_time_speedup_gate_best_and_every_tunable():
    trials = draw_trials(60)
    table = TrialTable(VALUES, DEFAULT)
    best, rows = None, []
    for trial in trials:
        if trial.time_us and (best is None or trial.time_us < best.time_us):
            best = trial
        rows += table.format_trial(trial, best)

    assert rows[0].split() == ["BLOCK", "BLOCK", "BLOCK", "NUM", "WARP", "CP", "VEC", "Q"]
    assert rows[1].split()[:5] == ["trial", "time", "speedup", "gate", "best"]
    assert rows[2].split() == [
        *("0", f"{trials[0].time_us:.3g}", "us", "1.00x", "passed", f"{trials[0].time_us:.3g}"),
        "us*",
        *map(str, DEFAULT.values()),
    ]
    assert max(map(len, rows)) <= 120
    refused = next(row for row in rows if "refused" in row)
    assert refused.split()[1] == "refused"
    assert sum(row.startswith("trial") for row in rows) == 2


def test_the_speedup_is_known_where_an_earlier_run_timed_the_default():
    first, second = [one for one in draw_trials(10) if one.time_us][:2]
    alone = TrialTable(VALUES, DEFAULT).format_trial(second, second)[-1]
    resumed = TrialTable(VALUES, DEFAULT, [first]).format_trial(second, second)[-1]

    assert f"{first.time_us / second.time_us:.2f}x" in resumed
    assert "x" not in alone


def test_rejections_name_their_share_and_where_they_concentrate():
    result = make_result()
    count = sum(one.status == "refused" for one in result.trials)
    line = find_line(result, f"{count} refused")

    assert f"({100 * count / 120:.0f} %): {count} of {count} with BLOCK_N=256" in line
    assert line.endswith("; invalid argument")
    assert find_line(result, "infeasible: 100 of 1,000")


def test_convergence_is_a_line_of_bars_and_when_it_came_near():
    result = make_result()
    bars, marks = format_result(result)[1:3]

    assert bars.startswith("best so far: ")
    assert bars.split()[5].startswith("█")
    assert bars.split()[5].endswith("▁")
    assert f"the best after {result.convergence[-1].trial_count} trials" in marks


def test_a_kept_winner_is_built_by_its_workload():
    result = make_result(measurement="0" * 32)

    assert format_result(result)[-1] == (
        "next: kb build attention_fp16 --variant flash-mma --tuned b2-h8-s512-d64"
    )
    assert "--define BLOCK_M=" in format_result(make_result())[-1]


def test_a_winner_that_the_judge_refuses_is_none():
    result = make_result(bench=Bench(**BENCH))

    assert result.winner is None
    assert format_result(result)[-1].startswith("next: the fastest one is incorrect: ")
    assert "refused by the judge (incorrect)" in summarize_result(result)


def test_a_gain_that_may_be_chance_is_no_winner():
    result = make_result(gains=((1.01, 0.99, 1.03),))

    assert result.winner is None
    assert "not faster beyond doubt" in summarize_result(result)
    assert format_result(result)[-1].startswith("next: nothing")


def test_a_search_that_timed_nothing_says_so():
    result = make_result([one for one in draw_trials(40) if one.status == "refused"], ())

    assert format_result(result)[-1] == "no configuration could be timed"
    assert "no configuration could be timed" in summarize_result(result)


def test_why_it_is_faster_stands_before_what_is_next():
    why = GainExplanation(no_counters="ncu was not found", cure="install Nsight Compute")
    lines = format_result(make_result(why=why))

    assert lines[-3] == "why it is faster than the default:"
    assert lines[-2] == "  no counters: ncu was not found; install Nsight Compute"
