"""A space lists its feasible configurations, and names the constraint that excludes them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.cli.tune import parse_only
from kernelkb.decide.device_facts import build_limits
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import find_kernel_folders, load_kernel
from kernelkb.model.kernels.tuning import Constraint, TuningSpace
from kernelkb.tune.plan import enumerate_variant
from kernelkb.tune.space import enumerate_space


def make_space(parameters, *requirements, **fields):
    constraints = tuple(Constraint(require=one, because="a reason") for one in requirements)
    return TuningSpace(parameters=parameters, constraints=constraints, **fields)


def list_configurations(space):
    return [space.get_configuration(index) for index in range(len(space.rows))]


def test_constraints_leave_what_meets_all_of_them():
    found = enumerate_space(
        make_space({"M": (16, 32, 64), "N": (8, 16)}, "M % N == 0 and M <= 2 * size", "N < M"),
        axes={"size": 16},
    )

    assert list_configurations(found) == [
        {"M": 16, "N": 8},
        {"M": 32, "N": 8},
        {"M": 32, "N": 16},
    ]
    assert found.combination_count == 6
    assert [rule.excluded_count for rule in found.rules] == [2, 1]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True), min_size=2, max_size=4
    ),
    st.integers(1, 30),
)
def test_the_feasible_ones_are_those_that_a_loop_over_all_finds(values, limit):
    names = "ABCD"[: len(values)]
    parameters = {name: tuple(sorted(one)) for name, one in zip(names, values, strict=True)}
    expected = [
        dict(zip(names, one, strict=True))
        for one in itertools.product(*parameters.values())
        if one[0] * one[1] <= limit and one[-1] % 2
    ]
    space = make_space(parameters, f"A * B <= {limit}", f"{names[-1]} % 2 == 1")
    if not expected:
        with pytest.raises(BadValueError, match="feasible"):
            enumerate_space(space)
        return
    found = enumerate_space(space)

    assert list_configurations(found) == expected
    assert [found.find_index(one) for one in expected] == list(range(len(expected)))


def test_an_empty_space_names_the_constraint_to_relax():
    space = make_space({"M": (64, 128), "N": (64, 128)}, "M * N <= 2048", "M >= N")

    with pytest.raises(BadValueError, match=r"none of 4 .* relax 'M \* N <= 2048'.*3 are"):
        enumerate_space(space)


def test_where_no_single_constraint_helps_the_strictest_one_is_named():
    space = make_space({"M": (64, 128)}, "M < 64", "M > 128")

    with pytest.raises(BadValueError, match="whichever constraint is left out"):
        enumerate_space(space)


def test_limits_of_the_gpu_are_constraints():
    limits = build_limits(load_compiled_rules()["hardware"], "9.0")
    space = make_space(
        {"WARPS": (4, 8, 64), "STAGES": (1, 2, 8)},
        threads="32 * WARPS",
        shared_bytes="STAGES * 40000",
        registers="64 * STAGES",
    )
    found = enumerate_space(space, limits)

    assert list_configurations(found) == [
        {"WARPS": 4, "STAGES": 1},
        {"WARPS": 4, "STAGES": 2},
        {"WARPS": 8, "STAGES": 1},
        {"WARPS": 8, "STAGES": 2},
    ]
    assert any("227" in rule.because or "232,448" in rule.because for rule in found.rules)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("M <= width", "width"),
        ("M <=", "not an expression"),
        ("M / 0 > 1", "cannot be computed"),
        ("__import__('os')", "names __import__"),
        ("M.real > 0 and open", "names open"),
        ("(lambda: M)()", "cannot be computed"),
    ],
)
def test_what_is_no_condition_is_refused(expression, said):
    with pytest.raises(BadValueError, match=said):
        enumerate_space(make_space({"M": (1, 2)}, expression))


@pytest.mark.parametrize(
    "fields",
    [
        {"parameters": {"M": (2, 1)}},
        {"parameters": {"M": ()}},
        {"parameters": {"M": (1, 2)}, "default": {"M": 3}},
        {"parameters": {"M": (1, 2), "N": (1,)}, "default": {"M": 1}},
        {"parameters": {name: tuple(range(100)) for name in "ABCD"}},
    ],
)
def test_a_wrong_space_is_refused(fields):
    with pytest.raises(ValidationError):
        TuningSpace(**fields)


def test_every_shipped_space_has_configurations_and_its_default_is_one():
    count = 0
    for name in find_kernel_folders():
        kernel = load_kernel(name).kernel
        for variant in kernel.variants:
            if variant.tune is None:
                continue
            count += 1
            cc = None if variant.target == "cpu" else "9.0"
            for workload in kernel.default_workload.values():
                found = enumerate_variant(kernel, variant, workload, cc)
                assert len(found.rows)
                if variant.tune.default:
                    assert found.find_index(variant.tune.default) is not None
    assert count


def test_a_macro_may_have_any_name_of_c():
    found = enumerate_space(make_space({"mc": (64, 128), "_K": (1, 2)}, "mc * _K <= 128"))

    assert found.names == ("mc", "_K")
    assert len(found.rows) == 3
    assert parse_only(["mc=64"]) == {"mc": (64,)}


@pytest.mark.parametrize("name", ["min", "ceil", "if", "True", "2x", "a-b"])
def test_a_macro_that_an_expression_cannot_name_is_refused(name):
    with pytest.raises(ValidationError, match=name):
        make_space({name: (1, 2)})


def test_a_tunable_named_as_an_axis_is_refused():
    kernel = load_kernel("gemm").kernel
    variant = next(one for one in kernel.variants if one.tune)
    space = make_space({kernel.axes[0]: (1, 2)})
    fields = kernel.model_dump() | {
        "variants": [variant.model_dump() | {"tune": space.model_dump()}]
    }

    with pytest.raises(ValidationError, match="an axis and a tunable"):
        type(kernel).model_validate(fields)
