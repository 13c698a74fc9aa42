"""Causes that depend on the data say so, and name the input."""

from shipped_rules import program

from kernelkb.actions.advice.recommend import complete_answer
from kernelkb.actions.project.profile_reports import find_data, keep_data
from kernelkb.decide.recommend import recommend
from kernelkb.model.records.measurement import InputData, Profile, choose_telling
from kernelkb.render.text.answers import format_brief

UNEQUAL = {
    "sm_imbalance_loss": 0.3,
    "sm_balance": 0.7,
    "waves": 12.0,
    "grid_fill": 96.0,
    "unequal_work": 1.0,
    "sm_count": 132.0,
}
ROWS = InputData(
    name="row_start",
    role="offsets",
    says="row_start int64[100,001]: rows of 0 to 4,096, longest 512x the mean",
    metrics={"longest_row_ratio": 512.0, "longest_row_share": 0.02},
)
BATCH = InputData(name="batch", role="lengths", says="", metrics={"longest_row_ratio": 1.2})


def answer(metrics, data=()):
    told = {name: one.metrics[name] for name, one in choose_telling(data).items()}
    found = recommend(program(), {**metrics, **told}, device="h100-sxm")
    return complete_answer(found, data=data)


def get_diagnosis(found, name):
    return next(row for row in found["diagnoses"] if row["bottleneck"] == name)


def test_an_imbalance_names_the_input_with_the_long_row():
    found = answer(UNEQUAL, (BATCH, ROWS))
    because = get_diagnosis(found, "workload-imbalance")["because"]
    told = [one for one in because if one["metric"] == "longest_row_ratio"]

    assert [(one["input"], one["value"]) for one in told] == [("row_start", 512.0)]
    assert "because row_start: longest_row_ratio 512 > 4, " in "\n".join(format_brief(found))


def test_a_row_longer_than_the_share_of_an_sm_is_cut_and_not_sorted():
    without, found = answer(UNEQUAL), answer(UNEQUAL, (ROWS,))

    def list_fixes(one):
        return [fix["id"] for fix in get_diagnosis(one, "workload-imbalance")["fixes"]]

    assert "sort-work-longest-first" in list_fixes(without)
    assert "sort-work-longest-first" not in list_fixes(found)
    assert "split-large-items" in list_fixes(found)
    assert "one-row-outlasts-the-rest" in {row["guard"] for row in found["suppressed"]}


def test_without_data_nothing_is_asked_or_told_of_it():
    found = answer(UNEQUAL)

    assert not any("row" in one["metric"] for one in found["measure_next"])
    assert not any("input" in one for row in found["diagnoses"] for one in row["because"])


def test_of_several_inputs_the_most_extreme_is_told():
    few = InputData(name="few", role="ids", says="", metrics={"warp_update_count": 2.0})
    many = InputData(name="many", role="ids", says="", metrics={"warp_update_count": 32.0})

    assert choose_telling((many, few))["warp_update_count"] is few
    assert choose_telling((BATCH, ROWS))["longest_row_ratio"] is ROWS


def test_the_data_of_a_recorded_profile_is_found_again(tmp_path):
    record = "0123456789abcdef0123456789abcdef"
    known = {"kernel": "spmv", "variant": "plain", "target": "cuda", "workload": "large"}
    profiled = Profile(**known, tool="ncu", metrics={}, seconds=1.0, data=(ROWS,))
    keep_data(tmp_path, profiled)
    keep_data(tmp_path, profiled.model_copy(update={"measurement": record}))
    damaged = tmp_path / ".kb" / "profiles" / "fedcba987654.data.json"
    damaged.write_text('[{"name": 3}]')

    assert find_data(tmp_path, record) == (ROWS,)
    assert find_data(tmp_path, "fedcba9876543210") == ()
    assert find_data(tmp_path, "0" * 32) == ()
