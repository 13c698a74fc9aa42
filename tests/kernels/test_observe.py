"""kb init --from: a real program runs, and what it calls becomes a kernel."""

import ctypes
import math
import re
import shlex
import subprocess
import sys

import pytest
import torch

from kernelkb.actions.init import init_observed as init_module
from kernelkb.actions.init.init_observed import init_observed
from kernelkb.actions.init.init_project import init_project
from kernelkb.actions.kernels.measure_variant import check_variant
from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel
from kernelkb.measure.profile.observe import _split_command
from kernelkb.measure.worker.observe.call_record import CallDescription, describe_values
from kernelkb.measure.worker.observe.names import parse_operation
from kernelkb.measure.worker.shared.array_values import read_tensors, write_tensors
from kernelkb.scaffold.observed.recipes import write_values

LAYERS = """
import ctypes
from pathlib import Path
import torch

library = ctypes.CDLL(str(Path(__file__).with_name("libtwice.so")))

def twice(x, bias):
    y = torch.empty_like(x)
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (x, bias, y)]
    library.twice(*pointers, ctypes.c_int64(x.numel()))
    return y
"""
TWICE = """
extern "C" void twice(const float* x, const float* bias, float* y, long n) {
  for (long i = 0; i < n; ++i) y[i] = 2 * x[i] + bias[i];
}
"""
PROGRAM = """
import sys
import torch
import torch.nn.functional as F

EPS = 1e-5

def rms_norm(x, weight, scale=1.0, *, center=False):
    return scale * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight

def accumulate(total, x):
    total.add_(x)

for rows in (8, 8, 12):
    x = torch.randn(rows, 64)
    y = rms_norm(x, torch.rand(64) + 0.5)
    accumulate(y, x)
    F.dropout(y)
    if "--layers" in sys.argv:
        import layers
        layers.twice(x, y)
if "--fail" in sys.argv:
    raise RuntimeError("no data")
"""


@pytest.fixture
def program(project):
    (project / "train.py").write_text(PROGRAM)
    return shlex.join([sys.executable, "train.py"])


def test_shapes_values_and_code_of_a_function_are_recorded_from_the_program(project, program):
    result = init_observed(program, "train:rms_norm")
    kernel = load_kernel("rms_norm").kernel
    inputs = {each.name: each for each in kernel.inputs}
    reference = (project / "kernels" / "rms_norm" / "reference.py").read_text()

    assert result.to_fill == ()
    assert result.warnings == ()
    assert list(kernel.workloads.values()) == [{"d0": 8, "d1": 64}, {"d0": 12, "d1": 64}]
    assert inputs["weight"].shape == ("d1",)
    assert inputs["scale"].value == 1.0
    assert kernel.reference.inputs == "make_inputs"
    assert "center=False" in reference
    assert "for rows in" not in reference


@pytest.mark.slow
def test_what_is_imported_from_another_folder_is_found_there(project):
    (project / "lib" / "parts").mkdir(parents=True)
    (project / "lib" / "halves.py").write_text("def get_half():\n    return 0.5\n")
    (project / "lib" / "parts" / "one.py").write_text("def halve(x, by):\n    return x * by\n")
    (project / "app.py").write_text(
        "import sys\n\nsys.path.append('lib')\n\nimport torch\n\nfrom halves import *\n"
        "from parts.one import halve\n\nHALF = get_half()\n\n\ndef halved(x):\n"
        "    return halve(x, get_half()) + HALF\n\n\nhalved(torch.randn(6, 32))\n"
    )
    init_observed(shlex.join([sys.executable, "app.py"]), "app:halved")
    reference = (project / "kernels" / "halved" / "reference.py").read_text()

    assert "from halves import *" in reference
    assert reference.count("sys.path.append(") == 1
    assert "HALF = get_half()" in reference


@pytest.mark.slow
def test_copied_code_whose_calls_are_too_large_to_record_is_run_once(project, capsys):
    (project / "app.py").write_text(
        "import torch\n\n\ndef later(x):\n    return part(x)\n\n\ndef fine(x):\n"
        "    return torch.relu(x)\n\n\nglobals()['part'] = torch.relu\n"
        "x = torch.randn(2500, 2000)\nlater(x), fine(x)\n"
    )
    command = shlex.join([sys.executable, "app.py"])

    assert main(["init", "--from", command, "--op", "app:fine"]) == 0
    assert "the draft ran once" in capsys.readouterr().out
    assert main(["init", "--from", command, "--op", "app:later"]) == 1
    told = capsys.readouterr().out
    assert "the draft is not usable yet" in told
    assert "'part' is not defined" in told


@pytest.mark.slow
def test_what_a_call_changes_in_place_is_an_output(project, program):
    init_observed(program, "train:accumulate")
    kernel = load_kernel("accumulate").kernel

    assert [each.name for each in kernel.outputs] == ["total_after"]


def test_a_change_behind_torchs_back_is_seen_in_a_tensor_that_is_too_large_to_keep():
    kept, changed, flags = torch.zeros(5_000_000), torch.zeros(9_000_000), torch.zeros(3).bool()
    call = CallDescription([("kept", kept), ("changed", changed), ("flags", flags)], {})
    call.sum_up()
    ctypes.memset(changed.data_ptr() + 4 * 8_500_000, 1, 4)

    assert call.find_changed(None) == [1]


def test_a_name_means_the_programs_own_function_before_one_of_torch(project):
    (project / "train.py").write_text(
        "import torch\n\ndef relu(x):\n    return x.clamp_min(0)\n\n"
        "x = torch.randn(8, 4)\nrelu(x), torch.relu(x)\n"
    )
    init_observed(shlex.join([sys.executable, "train.py"]), "relu")

    assert load_kernel("relu").kernel.title.startswith("train:relu as ")


def test_a_command_of_a_shell_is_run_by_one(project, program):
    (project / "sub").mkdir()
    (project / "train.py").rename(project / "sub/train.py")
    init_observed(f"cd sub && KIND=a {program}", "train:accumulate")

    assert (project / "kernels/accumulate/kernel.yaml").is_file()


@pytest.mark.parametrize(
    ("command", "is_for_a_shell"),
    [("true a 2>&1", True), ("A=1 true", True), ("true 'a; b' x=1", False), ("true a", False)],
)
def test_a_shell_runs_only_what_needs_one(command, is_for_a_shell):
    assert (_split_command(command)[0] == "/bin/sh") is is_for_a_shell


@pytest.mark.slow
def test_compiled_code_is_judged_by_its_recorded_outputs(project, program):
    (project / "layers.py").write_text(LAYERS)
    (project / "twice.cpp").write_text(TWICE)
    library = project / "libtwice.so"
    subprocess.run(["g++", "-shared", "-fPIC", project / "twice.cpp", "-o", library], check=True)
    result = init_observed(f"{program} --layers", "layers:twice")
    checked = check_variant("twice", "observed", target="cpu")

    assert "kernels/twice/recorded.safetensors" in result.written
    assert any("only the recorded inputs can be checked" in text for text in result.warnings)
    assert checked.status == "correct"


SIZES = """
import torch
import layers

for rows in {rows}:
    layers.twice(torch.rand(rows, 64), torch.rand(rows, 64))
"""


def observe_sizes(project, monkeypatch, rows):
    """Observe a compiled function called with these rows of 64, of which 16 fit in the record."""
    monkeypatch.setattr("kernelkb.measure.profile.observe.MAX_VALUE_BYTES", 3 * 16 * 64 * 4)
    (project / "layers.py").write_text(LAYERS)
    (project / "twice.cpp").write_text(TWICE)
    library = project / "libtwice.so"
    subprocess.run(["g++", "-shared", "-fPIC", project / "twice.cpp", "-o", library], check=True)
    (project / "sizes.py").write_text(SIZES.format(rows=rows))
    return init_observed(shlex.join([sys.executable, "sizes.py"]), "layers:twice")


def test_the_most_frequent_size_stays_though_its_values_are_too_large_to_record(
    project, monkeypatch
):
    result = observe_sizes(project, monkeypatch, (8, 900, 900, 900))
    kernel = load_kernel("twice").kernel

    assert [*kernel.workloads.values()] == [{"d0": 900, "d1": 64}, {"d0": 8, "d1": 64}]
    assert kernel.reference.variant == "observed"
    assert [each.fill for each in kernel.inputs] == ["uniform", "uniform"]
    assert any("3 of 4 calls, the most frequent ones among them" in t for t in result.warnings)


def test_rarer_sizes_without_recorded_values_are_left_out_and_counted(project, monkeypatch):
    result = observe_sizes(project, monkeypatch, (8, 8, 8, 900))

    assert [*load_kernel("twice").kernel.workloads.values()] == [{"d0": 8, "d1": 64}]
    assert any(
        text.startswith("1 of 4 calls are left out") and "[900, 64]" in text
        for text in result.warnings
    )


@pytest.mark.slow
def test_a_call_that_draws_at_random_is_refused(program):
    with pytest.raises(BadValueError, match="it draws at random"):
        init_observed(program, "F.dropout")


def test_an_operation_that_is_never_called_is_answered_with_those_that_were(program):
    with pytest.raises(BadValueError) as caught:
        init_observed(program, "train:rms_nrom")

    assert "(did you mean 'train:rms_norm'?)" in str(caught.value)
    assert "train:accumulate" in str(caught.value)


def test_a_program_that_fails_says_how(program):
    with pytest.raises(BadValueError, match=r"failed \(status 1\): RuntimeError: no data"):
        init_observed(f"{program} --fail", "train:rms_norm")


CLEANS_UP_BADLY = """
class Late:
    def __del__(self):
        raise ImportError("sys.meta_path is None")


late = Late()
raise RuntimeError("no data")
"""


def test_an_error_while_python_ends_does_not_hide_why_it_ended(project, tmp_path):
    (tmp_path / "late.py").write_text(CLEANS_UP_BADLY)
    with pytest.raises(BadValueError, match=r"failed \(status 1\): RuntimeError: no data"):
        init_observed(shlex.join([sys.executable, str(tmp_path / "late.py")]), "f")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('"{python}" -c "while True: pass"', "did not end within 2 s"),
        ('"{python}" -c "pass"', "never imports torch"),
        ('"{python}" -I -c "pass"', "could be observed"),
        ("no_such_program", "there is no program 'no_such_program'"),
        ("'", "is no command"),
    ],
)
def test_a_program_that_cannot_be_observed_is_named(project, command, why):
    with pytest.raises(BadValueError, match=why):
        init_observed(command.format(python=sys.executable), "f", timeout_s=2)


@pytest.mark.parametrize(
    ("operation", "module", "qualname", "is_meant"),
    [
        ("norm", "models.layers", "norm", True),
        ("norm", "models.layers", "Block.norm", True),
        ("layers:norm", "models.layers", "norm", True),
        ("layers:norm", "models.layers", "Block.norm", False),
        ("ayers:norm", "models.layers", "norm", False),
        ("F.softmax", "torch.nn.functional", "softmax", True),
        ("aten::norm", "models.layers", "norm", False),
    ],
)
def test_which_function_a_name_means(operation, module, qualname, is_meant):
    assert parse_operation(operation).matches_function(module, qualname) == is_meant


@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        ("normal", torch.randn(5000, generator=torch.Generator().manual_seed(1)) * 3 + 7),
        ("uniform", torch.rand(5000, generator=torch.Generator().manual_seed(1)) - 2),
        ("positive", torch.randn(5000, generator=torch.Generator().manual_seed(1)).abs()),
        ("sparse", torch.randn(5000, generator=torch.Generator().manual_seed(1)).relu()),
        ("constant", torch.full((7,), 0.25)),
        ("zeros", torch.zeros(3)),
        ("causal", torch.full((9, 9), -math.inf).triu(1)),
        ("probabilities", torch.eye(6).add(0.1).softmax(-1)),
        ("arange", torch.arange(4, 20)),
        ("sorted", torch.tensor([0, 0, 3, 8, 8, 11])),
        ("permutation", torch.tensor([3, 0, 2, 1])),
        ("distinct", torch.arange(0, 600, 3)),
        ("distinct", torch.arange(599, -1, -3).reshape(20, 10)),
        ("integers", torch.tensor([[5, 2], [9, 4]])),
        ("integers", torch.tensor([[5, 2], [9, 2]])),
        ("flags", torch.tensor([True, False, False])),
        ("zeros", torch.empty(0, 4)),
    ],
)
def test_how_values_are_distributed_is_told(kind, tensor):
    assert describe_values(tensor)["kind"] == kind


@pytest.mark.parametrize("is_sorted", [True, False])
def test_distinct_places_are_drawn_as_distinct_ones(is_sorted):
    places = torch.arange(7, 607, 3)
    recipe = describe_values(places if is_sorted else places.flip(0))
    drawn = eval(write_values(recipe, ("rows", 10)), {"torch": torch, "rows": 20})

    assert recipe == {"kind": "distinct", "is_sorted": is_sorted, "low": 7, "high": 604}
    assert drawn.shape == (20, 10)
    assert len(drawn.unique()) == 200
    assert int(drawn.min()) >= 7
    assert int(drawn.max()) <= 604


def test_tensors_of_every_kind_survive_a_file(tmp_path):
    tensors = {
        "half": torch.randn(3, 5).to(torch.bfloat16),
        "view": torch.arange(12, dtype=torch.int32).reshape(3, 4).T,
        "flags": torch.tensor([True, False]),
        "odd": torch.tensor([1, 2, 3], dtype=torch.uint8),
        "none": torch.empty(0, 2),
        "number": torch.tensor(2.5, dtype=torch.float64),
    }
    write_tensors(tmp_path / "a.safetensors", tensors)
    read = read_tensors(tmp_path / "a.safetensors")

    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.ones(64)})
    path.write_bytes(path.read_bytes()[:-8])

    with pytest.raises(ValueError, match="cut off"):
        read_tensors(path)


@pytest.mark.parametrize("kernels", [(), ("half_kernel",)])
def test_an_output_that_is_written_in_part_is_not_usable(project, monkeypatch, capsys, kernels):
    (project / "parts.py").write_text(
        "import torch\n\ndef half(x):\n    y = torch.empty_like(x)\n"
        "    y[:, :3] = 2 * x[:, :3]\n    return y\n\nhalf(torch.randn(4, 6))\n"
    )
    observe = init_module.observe_program

    def observe_compiled(*arguments):  # as if the function launched these
        observation = observe(*arguments)
        observation.function["kernels"] += kernels
        return observation

    monkeypatch.setattr(init_module, "observe_program", observe_compiled)
    command = shlex.join([sys.executable, "parts.py"])
    code = main(["init", "--from", command, "--op", "half"])
    told = capsys.readouterr().out
    follow = re.search(r"(?m)^next: (.*)", told)[1]

    assert code == 1
    assert "part of its output is never written: 12 of 24 elements, the first at (0, 3)" in told
    assert "random" not in told
    cured = f"kb init --from {shlex.quote(command)} --op {(*kernels, 'parts:half')[0]}"
    assert follow.endswith(cured)
    assert ("delete kernels/half" in follow) is not bool(kernels)


JIT = """
import torch

class triton:
    @staticmethod
    def jit(function):
        return function

@triton.jit
def scale_kernel(x):
    return x * 3

def other(x):
    scale_kernel[(1,)](x)

class Model:
    def run(self, x):
        return scale_kernel(x)

if __name__ == "__main__":
    Model().run(torch.randn(5))
"""


def test_a_function_of_a_python_file_is_recorded_by_the_call_that_names_both(project, capsys):
    (project / "jit_file.py").write_text(JIT)
    command = shlex.join([sys.executable, "jit_file.py"])
    main(["init", "jit_file.py", "--kernel", "scale_kernel", "--from", command])

    assert "next: kb bench scale_kernel" in capsys.readouterr().out
    assert load_kernel("scale_kernel").kernel.title.startswith("jit_file:scale_kernel as ")


def test_a_kernel_that_a_method_launches_is_not_called_missing(project):
    text = JIT.replace("scale_kernel[(1,)](x)", "base_kernel[(1,)](x)")
    base = "\n@triton.jit\ndef base_kernel(x_ptr):\n    pass\n"
    (project / "jit_file.py").write_text(text + base)
    with pytest.raises(BadValueError, match="--kernel scale_kernel --from") as error:
        init_project("jit_file.py", kernel="scale_kernel")

    assert "has no kernel" not in str(error.value)
