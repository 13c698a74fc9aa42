"""kb init --from on the ways in which programs name and call what is asked for."""

import functools
import os
import shlex
import subprocess
import sys
import types

import pytest
import torch

from kernelkb.actions.init.init_observed import init_observed
from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.profile.observe import write_observer
from kernelkb.measure.worker.observe.aliases import find_alias
from kernelkb.measure.worker.observe.call_record import (
    CallDescription,
    UnsupportedCall,
    describe_tensor,
    describe_values,
)
from kernelkb.measure.worker.observe.names import parse_operation
from kernelkb.measure.worker.observe.surroundings import read_autocast, write_plain
from kernelkb.scaffold.observed.recipes import make_fill

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
COMMAND = shlex.join([sys.executable, "train.py"])


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2


class Layer(torch.nn.Module):
    def forward(self, x):
        return x * 3


def scale_by(x, by):
    return x * by


def wrap(function):
    def call(x):
        return function(x)

    return call


def make_scale(by):
    def scaled(x):
        return x * by

    return scaled


@wrap
def wrapped(x):
    return x * 5


@functools.wraps(scale_by)
def kept_name(*arguments):
    return scale_by(*arguments)


made = make_scale(2)


@pytest.fixture
def module(monkeypatch, tmp_path):
    one = types.ModuleType("forms.part")
    one.__file__ = str(tmp_path / "part.py")
    monkeypatch.setitem(sys.modules, "forms.part", one)
    return one


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (Scale.apply, Scale.forward.__code__),
        (Layer(), Layer.forward.__code__),
        (Layer().forward, Layer.forward.__code__),
        (functools.partial(scale_by, by=3), scale_by.__code__),
        (functools.partial(Scale.apply), Scale.forward.__code__),
        (kept_name, scale_by.__code__),
        (scale_by, scale_by.__code__),
        (made, made.__code__),
    ],
)
@pytest.mark.parametrize("operation", ["my_op", "part:my_op", "forms.part.my_op"])
def test_a_variable_means_the_code_that_its_call_runs(module, value, code, operation):
    module.my_op = value

    assert find_alias(parse_operation(operation), code) == "forms.part:my_op"
    assert find_alias(parse_operation(operation), Scale.backward.__code__) == ""


def test_a_decorated_function_is_seen_by_its_own_name(module):
    module.wrapped = wrapped

    assert find_alias(parse_operation("wrapped"), wrapped.__code__) == ""


@pytest.mark.parametrize("dtype", FLOAT8)
def test_values_of_float8_are_described_compared_and_drawn(dtype):
    drawn = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).to(dtype)
    call = CallDescription([("x", drawn)], {})
    copy = drawn.clone()
    unchanged = call.find_changed([copy])
    drawn.view(torch.uint8)[0, 0] ^= 1
    recipe = describe_values(drawn)

    assert recipe["kind"] == "normal"
    assert make_fill(recipe, str(dtype).removeprefix("torch."))["fill"] == "normal"
    assert unchanged == []
    assert call.find_changed([copy]) == [0]
    assert describe_values(torch.zeros(3, 3).to(dtype)) == {"kind": "zeros"}
    assert describe_values(torch.zeros(3, 3).to(dtype).fill_diagonal_(1))["kind"] == "probabilities"


@pytest.mark.parametrize("dtype", [torch.complex64, torch.uint16, torch.uint32])
def test_a_dtype_that_no_kernel_yaml_names_is_named(dtype):
    with pytest.raises(UnsupportedCall, match=rf"x is of dtype {str(dtype)[6:]}, which no"):
        describe_tensor("x", torch.ones(3).to(dtype))


def test_autocast_is_part_of_a_call():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        state, call = read_autocast(), CallDescription([("x", torch.ones(2))], {})

    assert state == call.autocast == {"cpu": "bfloat16"}
    assert call.signature != CallDescription([("x", torch.ones(2))], {}).signature


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (torch.bfloat16, "torch.bfloat16"),
        ((1, "a", None), "(1, 'a', None)"),
        ((2,), "(2,)"),
        ({"a": [1.5]}, "{'a': [1.5]}"),
        (float("inf"), "float('inf')"),
        (types.SimpleNamespace(n=3, model=print), "types.SimpleNamespace(n=3)"),
        ([print], ""),
        (print, ""),
    ],
)
def test_plain_values_are_written_as_code(value, code):
    assert write_plain(value) == code


ENDS_LATE = """
import atexit
import os
import threading
import time
import torch

def scale(x):
    return x * 2

class Late:
    def __del__(self, scale=scale, write=os.write):
        scale(self.x)
        write(1, b"cleaned up")

def work():
    while True:
        scale(torch.ones(3))
        time.sleep(0.01)

late = Late()
late.x = torch.ones(3)
atexit.register(lambda: scale(torch.ones(4)))
threading.Thread(target=work, daemon=True).start()
scale(torch.ones(2))
"""


def test_nothing_of_the_observer_is_left_when_python_ends(tmp_path):
    (tmp_path / "train.py").write_text(ENDS_LATE)
    (tmp_path / "seen").mkdir()
    job = {"operation": "scale", "max_signatures": 8, "max_bytes": 1000}
    env = os.environ | write_observer(tmp_path / "seen", job)
    run = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    calls = [*(tmp_path / "seen").glob("calls-*.json")]

    assert (run.returncode, run.stderr) == (0, "")
    assert calls[0].read_text().count('"count"') == 3  # of one that atexit made, too


USES = """
import sys
import torch

class Rescale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        return x * by

SCALE = float(sys.argv[1])
rescale = Rescale.apply

def scaled(x):
    return x * SCALE

def linear(x, weight):
    return torch.nn.functional.linear(x, weight)

def dequantize(q, scale):
    return q.float() * scale

def quantize(x):
    return (x / x.abs().max() * 448).to(torch.float8_e4m3fn)

for _ in range(2):
    x = torch.randn(8, 16)
    rescale(x, 0.5)
    scaled(x)
    dequantize(quantize(x), torch.rand(1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        linear(x, torch.randn(16, 16))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "copied"),
    [
        ("rescale", "result = Rescale.apply(x, by)"),
        ("scaled", "SCALE = 2.5  # as in the run"),
        ("linear", "with torch.autocast('cpu', dtype=torch.bfloat16):"),
        ("dequantize", "return q.float() * scale"),
        ("quantize", "torch.float8_e4m3fn"),
    ],
)
def test_a_call_is_repeated_as_the_program_made_it(project, operation, copied):
    (project / "train.py").write_text(USES)
    result = init_observed(f"{COMMAND} 2.5", f"train:{operation}")
    checked = check_variant(result.kernel, "observed", target="cpu")

    assert copied in (project / "kernels" / result.kernel / "observed.py").read_text()
    assert load_kernel(result.kernel).kernel.reference.is_torch
    assert checked.status == "correct", checked.detail


FAILS = """
def test_one():
    import torch
    class Late:
        def __del__(self):
            raise ImportError("sys.meta_path is None")
    import sys
    sys.late = Late()
    assert torch.ones(1) == 2, "not one"
"""


@pytest.mark.slow
def test_of_a_test_run_that_fails_the_test_is_named(project):
    (project / "test_late.py").write_text(FAILS)
    command = shlex.join([sys.executable, "-m", "pytest", "-q", "test_late.py"])
    with pytest.raises(BadValueError, match=r"FAILED test_late.py::test_one - Assert"):
        init_observed(command, "f")
