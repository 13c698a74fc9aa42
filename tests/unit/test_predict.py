"""What fixes would gain: effects written here, applied to a kernel whose time is simple."""

from math import exp, log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_rules import compare_metrics, knowledge, metrics, program

from kernelkb.decide.predict import Predictor, is_told
from kernelkb.graph.compile import compile_rules
from kernelkb.model.entries.fix import Effect

FIX = "pad-smem"
KERNEL = {
    "dram_utilization": 0.0,
    "dram_practical_share": 0.9,
    "lsu_wavefront_utilization": 0.6 * 0.95,
    "stall_long_scoreboard": 0.5,
}
"""0.6 of the time at the roof of L1, so 0.8 of it latency, half of that for loads."""
HALF_L1 = {"work": {"l1-wavefronts": "0.5"}}
HALF_L1_TIME = sqrt(0.3**2 + 0.8**2)
NO_LOADS = {"waits": {"long-scoreboard": "0"}}
NO_LOADS_TIME = sqrt(0.6**2 + 0.4**2)
UNKNOWN = "spill_store_bytes"


def make_effect(name="the-effect", **fields):
    return Effect(id=name, title=name, sources=("kernelkb-judgement",), **fields)


def compile_effects(*effects):
    """The shipped rules with other effects, all of them those of one fix."""
    names = tuple(effect.id for effect in effects)
    families = tuple(
        family.model_copy(update={"fixes": tuple(give_effects(f, names) for f in family.fixes)})
        for family in knowledge().families
    )
    catalogue = knowledge().effects.model_copy(update={"effects": effects})
    return compile_rules(
        knowledge().model_copy(update={"effects": catalogue, "families": families})
    )


def give_effects(fix, names):
    return fix.model_copy(update={"effects": names if fix.id == FIX else ()})


def make_predictor(*effects, known=KERNEL, rules=None, **more):
    rules = rules or compile_effects(*effects)
    return Predictor(rules, compare_metrics({**known, **more}, rules=rules))


def predict(*effects, **known):
    return make_predictor(*effects, **known).predict_fix(FIX)


def test_the_gain_is_the_time_now_over_the_time_after():
    assert predict(make_effect(**HALF_L1)).speedup == pytest.approx(1 / HALF_L1_TIME)
    assert predict(make_effect(**NO_LOADS)).speedup == pytest.approx(1 / NO_LOADS_TIME)


def test_a_formula_takes_the_metrics_before_the_fix():
    halved = make_effect(work={"l1-wavefronts": "1 / widening"})

    assert predict(halved, widening=2.0).speedup == pytest.approx(1 / HALF_L1_TIME)


def test_a_fix_without_an_effect_has_no_gain():
    assert predict() is None


@pytest.mark.parametrize(
    "fields",
    [
        {"work": {"l1-wavefronts": UNKNOWN}},
        {"work": {"l1-wavefronts": "0.5", "dram": UNKNOWN}},
        {"add": {"l1-wavefronts": UNKNOWN}},
        {"waits": {"long-scoreboard": UNKNOWN}},
        {"latency": UNKNOWN, **HALF_L1},
        {"fill": UNKNOWN},
        {"warps": UNKNOWN},
        {"time": UNKNOWN},
        {"time": "1 / dram_utilization"},
    ],
    ids=str,
)
def test_an_unknown_quantity_gives_no_gain(fields):
    assert predict(make_effect(**fields)) is None


def test_an_effect_on_nothing_that_was_measured_gives_no_gain():
    assert predict(make_effect(work={"tensor": "0.5"}, waits={"drain": "0"})) is None


def test_what_was_not_measured_does_not_hide_what_was():
    both = make_effect(work={"l1-wavefronts": "0.5", "tensor": UNKNOWN})

    assert predict(both).speedup == pytest.approx(1 / HALF_L1_TIME)


def test_without_counters_only_effects_on_the_time_itself_are_known():
    nothing = {"known": {"speedup": 0.3}}

    assert predict(make_effect(**HALF_L1), **nothing) is None
    assert predict(make_effect(time="0.25"), **nothing).speedup == 4


@pytest.mark.parametrize(("waves", "speedup"), [(0.5, 2.0), (2.0, 4.0), (None, 4.0)])
def test_the_first_effect_that_is_to_be_expected_counts(waves, speedup):
    small = {"metric": "waves", "op": "<", "value": 1.0}
    effects = make_effect("here", time="0.5", when=small), make_effect("else", time="0.25")
    known = {} if waves is None else {"waves": waves}

    assert predict(*effects, **known).speedup == speedup


def test_an_effect_of_unknown_size_leaves_the_next_one():
    effects = make_effect("exact", time=UNKNOWN), make_effect("rough", time="0.5")

    assert predict(*effects).speedup == 2
    assert predict(*effects, **{UNKNOWN: 0.25}).speedup == 4


@pytest.mark.parametrize("fields", [{"time": "0.1"}, {"latency": "0.1"}])
@pytest.mark.parametrize(("attainable", "speedup"), [(1.1, 1.1), (1.0, 1.0), (0.9, 1.0)])
def test_no_prediction_passes_the_roofline(fields, attainable, speedup):
    found = predict(make_effect(**fields), attainable_speedup=attainable)

    assert found.speedup == speedup


def test_an_effect_that_lowers_the_floor_passes_the_roofline():
    lower = make_effect(time="0.5", lowers_floor=True)

    assert predict(lower, attainable_speedup=1.0).speedup == 2


@pytest.mark.parametrize(("time", "speedup"), [("2", 1.0), ("0", 1000.0), ("0 - 5", 1000.0)])
def test_a_time_is_neither_longer_than_now_nor_nothing(time, speedup):
    assert predict(make_effect(time=time)).speedup == pytest.approx(speedup)


def interval_width(predictor, found, **more):
    interval = predictor.make_interval(found, **more)
    return log(interval["high"] / interval["low"]) / 2


def test_an_interval_reaches_as_far_on_both_sides_as_the_errors_of_the_model():
    predictor = make_predictor(make_effect(time="0.5"))
    width = program()["time_model"]["widths"]["80"] * (
        1 + program()["time_model"]["slope"] * log(2)
    )

    assert predictor.make_interval(predictor.predict_fix(FIX)) == pytest.approx(
        {"low": 2 / exp(width), "point": 2.0, "high": 2 * exp(width)}, abs=0.001
    )


@given(st.floats(0.02, 1), st.floats(0.02, 1), st.floats(1, 3))
@settings(max_examples=25)
def test_an_interval_contains_the_point_and_widens_with_the_gain(one, other, error):
    rules = RULES_OF_GIVEN_TIME
    spans = []
    for time in sorted((one, other), reverse=True):
        predictor = make_predictor(rules=rules, widening=1 / time)
        found = predictor.predict_fix(FIX)._replace(error=error)
        interval = predictor.make_interval(found)
        spans.append(log(interval["high"] / interval["low"]))
        assert interval["low"] <= interval["point"] <= interval["high"]

    assert spans[0] <= spans[1] + 0.01  # three decimals


RULES_OF_GIVEN_TIME = compile_effects(make_effect(time="1 / widening", lowers_floor=True))


def test_an_interval_ends_near_the_roofline():
    predictor = make_predictor(make_effect(time="0.8"), attainable_speedup=1.3)
    interval = predictor.make_interval(predictor.predict_fix(FIX))

    assert interval["point"] == 1.25
    assert 1.3 <= interval["high"] <= 1.3 * 1.1 + 0.001


def test_an_effect_that_is_known_less_well_has_a_wider_interval():
    plain, rough = (make_predictor(make_effect(time="0.5", error=error)) for error in (1.0, 2.0))
    known = interval_width(plain, plain.predict_fix(FIX))

    assert interval_width(rough, rough.predict_fix(FIX)) == pytest.approx(2 * known, abs=0.002)
    assert interval_width(plain, plain.predict_fix(FIX), widen=1.5) == pytest.approx(
        1.5 * known, abs=0.002
    )


def list_whole_profile():
    """The kernel with all counters of the model; those not given are zero."""
    model = program()["time_model"]
    names = [row["use"] for row in model["resources"]]
    names += [metric for metric, _ in model["waits"].values()]
    peaks = {row["peak"] for row in model["resources"] if isinstance(row["peak"], str)}
    return {**dict.fromkeys(names, 0.0), **dict.fromkeys(peaks, 0.9), **KERNEL}


def test_an_interval_from_few_counters_is_wider():
    few = make_predictor(make_effect(**HALF_L1))
    many = make_predictor(make_effect(**HALF_L1), known=list_whole_profile())
    found = few.predict_fix(FIX)

    assert many.predict_fix(FIX).speedup == pytest.approx(found.speedup)
    assert interval_width(few, found) > 1.3 * interval_width(many, many.predict_fix(FIX))


def test_an_interval_of_the_time_itself_does_not_depend_on_the_counters():
    effect = make_effect(time="0.5")
    spans = [
        interval_width(predictor, predictor.predict_fix(FIX))
        for predictor in (make_predictor(effect), make_predictor(effect, known={"speedup": 0.3}))
    ]

    assert spans[0] == spans[1]


@pytest.mark.parametrize(
    ("share", "speedup"), [(1.0, 4.0), (0.5, 2.0), (0.0, 1.0), (2.0, 16.0), (None, 4.0)]
)
def test_a_learned_share_is_the_part_of_the_gain_that_is_predicted(share, speedup):
    predictor = make_predictor(make_effect(time="0.25"))

    assert predictor.predict_fix(FIX, share).speedup == pytest.approx(speedup)


def test_a_learned_share_of_one_fix_leaves_another():
    predictor = make_predictor(make_effect(time="0.25"))
    predictor.predict_fix(FIX, 0.1)

    assert predictor.predict_fix(FIX).speedup == 4


def predict_both(*effects, **known):
    """The predictions of two effects alone, and of both."""
    predictor = make_predictor(*effects, **known)
    parts = [predictor.predict_effect(effect.id) for effect in effects]
    return [*(part.speedup for part in parts), predictor.predict_together(parts).speedup]


def test_fixes_together_are_applied_to_the_same_time():
    both = predict_both(make_effect("a", **HALF_L1), make_effect("b", **NO_LOADS))

    assert both == pytest.approx([1 / HALF_L1_TIME, 1 / NO_LOADS_TIME, 1 / 0.5])


def test_flaws_that_hide_each_other_gain_more_together_than_the_product_of_both():
    hidden = {"dram_utilization": 0.84 * 0.9, "lsu_wavefront_utilization": 0.84 * 0.95}
    first = make_effect("a", work={"dram": "0.1"})
    second = make_effect("b", work={"l1-wavefronts": "0.1"})
    one, other, both = predict_both(first, second, **hidden)

    assert both > 2 * one * other


def test_a_fix_that_is_priced_twice_does_not_pass_the_roofline():
    both = predict_both(
        make_effect("a", time="0.5"), make_effect("b", time="0.5"), attainable_speedup=3.0
    )

    assert both == [2, 2, 3]


def test_a_part_that_lowers_the_floor_lowers_that_of_all():
    both = predict_both(
        make_effect("a", time="0.5"),
        make_effect("b", time="0.5", lowers_floor=True),
        attainable_speedup=1.5,
    )

    assert both == pytest.approx([1.5, 2, 4])


def test_several_fixes_are_known_as_badly_as_the_worst():
    effects = make_effect("a", time="0.5", error=1.5), make_effect("b", time="0.5", error=3)
    predictor = make_predictor(*effects)

    assert predictor.predict_together(map(predictor.predict_effect, "ab")).error == 3


def test_one_fix_together_is_that_fix():
    predictor = make_predictor(make_effect(**HALF_L1))
    found = predictor.predict_fix(FIX)

    assert predictor.predict_together([found]).speedup == pytest.approx(found.speedup)


@given(metrics(), st.sampled_from([None, "h100-sxm", "l4"]))
@settings(max_examples=25)
def test_every_gain_of_a_shipped_fix_is_a_number_in_its_interval(measured, device):
    predictor = Predictor(program(), compare_metrics(measured, device))

    for fix in program()["fixes"]:
        found = predictor.predict_fix(fix)
        if found is not None:
            interval = predictor.make_interval(found)
            assert 0 < found.speedup <= 1000
            assert 0 <= interval["low"] <= interval["point"] <= interval["high"]


def test_what_sessions_found_counts_in_fixes_together():
    predictor = make_predictor(make_effect("a", **HALF_L1))
    half = predictor.predict_fix(FIX, 0.5)

    assert half.speedup == pytest.approx(HALF_L1_TIME**-0.5)
    assert predictor.predict_together([half]).speedup == pytest.approx(half.speedup)


def test_a_share_above_1_does_not_pass_the_roofline():
    predictor = make_predictor(make_effect(time="0.5"), attainable_speedup=3.0)

    assert predictor.predict_fix(FIX, 2.0).speedup == 3


@pytest.mark.parametrize(
    ("low", "point", "high", "told"),
    [
        (0.7, 1.24, 2.1, True),
        (0.41, 1.2, 3.5, False),  # any outcome of a change
        (0.6, 2.0, 6.6, True),  # a loss as large as the gain lies outside
        (0.4, 1.9, 8.6, False),
        (7.5, 38.0, 190.0, True),
    ],
)
def test_a_gain_is_told_where_its_interval_is_of_use(low, point, high, told):
    assert is_told({"low": low, "point": point, "high": high}) is told


def test_an_interval_that_says_nothing_is_no_prediction():
    """A kernel of 1.9 us was told 50x [1.7, 1100]."""
    predictor = make_predictor(make_effect(**HALF_L1))
    told = predictor.predict_fix(FIX)
    vague = log(50) / (2 * log(predictor.make_interval(told)["high"] / told.speedup))

    assert told is not None
    assert predictor.predict_fix(FIX, widen=0.9 * vague) is not None
    assert predictor.predict_fix(FIX, widen=1.1 * vague) is None
