"""kb bench for tasks that bring further cases: KernelBench-Verified and robust-kbench."""

import json

import pytest

from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task
from kernelkb.errors import BadValueError

RELU_TASK = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(32, 48)]

def get_init_inputs():
    return []
"""
HIDDEN = """\
import importlib.util
import os
import torch

_PROB_PATH = os.path.abspath(
    os.path.join(os.path.dirname(__file__), "../../KernelBench/level1/19_ReLU.py")
)

def _draw():
    spec = importlib.util.spec_from_file_location("_prob", _PROB_PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_inputs()

def get_hidden_inputs():
    return [[x * factor for x in _draw()] for factor in (1.0, 3.0, 0.01, -1.0)]
"""
CANDIDATE = """\
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {answer}
"""
IDENTITY, CLAMP = "x.clone()", "x.clamp(min=0)"
FINISHED = ("faster", "slower", "inconclusive")


@pytest.fixture
def verified_task(project, tmp_path):
    """A task and its hidden tests, laid out as KernelBench-Verified."""
    for name, text in (
        ("KernelBench/level1/19_ReLU.py", RELU_TASK),
        ("hidden_tests/level1/19_hidden.py", HIDDEN),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "KernelBench" / "level1" / "19_ReLU.py"


def bench_answer(task, tmp_path, answer):
    (tmp_path / "new.py").write_text(CANDIDATE.format(answer=answer))
    return bench_task(
        str(task),
        str(tmp_path / "new.py"),
        target="cpu",
        options=TASK_OPTIONS._replace(budget_s=0.2),
    )


def test_a_shortcut_for_the_tasks_own_inputs_fails_the_hidden_test_that_negates_them(
    verified_task, tmp_path
):
    found = bench_answer(verified_task, tmp_path, IDENTITY)

    assert found.verdict == "incorrect"
    assert "hidden-test-4" in found.detail


@pytest.mark.slow
def test_a_correct_candidate_passes_hidden_tests_beside_its_task(verified_task, tmp_path):
    moved = tmp_path / "hidden_tests" / "level1" / "19_hidden.py"
    moved.rename(verified_task.with_name("19_ReLU_hidden.py"))
    found = bench_answer(verified_task, tmp_path, CLAMP)

    assert found.verdict in FINISHED, found.detail
    assert not [warning for warning in found.warnings if "hidden" in warning]


@pytest.mark.slow
def test_hidden_inputs_on_which_the_task_is_undefined_are_left_out_and_named(
    verified_task, tmp_path
):
    verified_task.write_text(RELU_TASK.replace("torch.relu(x)", "torch.log(x + 0.5)"))
    found = bench_answer(verified_task, tmp_path, "torch.log(0.5 + x)")

    assert found.verdict in FINISHED, found.detail
    assert any("hidden test 4 is left out: " in warning for warning in found.warnings)


FUNCTION = """\
import torch

def forward_fn(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)

class Model(torch.nn.Module):
    def __init__(self, width=8, eps=1e-6, init_method="ones"):
        super().__init__()
        self.eps = eps
        start = torch.ones(width) if init_method == "ones" else torch.randn(width)
        self.weight = torch.nn.Parameter(start)

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.eps)

def get_inputs(rows=4, width=8):
    return [torch.randn(rows, width)]
"""
SETTINGS = {
    "single_input_configs": [{"rows": 16}],
    "single_init_configs": [{"init_method": "ones"}],
    "single_shared_configs": [{"width": 64}],
    "multi_input_configs": [{"rows": 16}, {"rows": 3}],
    "multi_init_configs": [{"init_method": "ones"}, {"init_method": "random"}],
    "multi_shared_configs": [{"width": 64}],
}
EXTENSION = """\
#include <torch/extension.h>

torch::Tensor norm(torch::Tensor x, torch::Tensor weight, double eps) {
    return x * (x.square().mean(-1, true) + eps).rsqrt()SCALE;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &norm); }
"""


@pytest.fixture
def configured_task(project, tmp_path):
    folder = tmp_path / "rms_norm"
    folder.mkdir()
    (folder / "func_forward.py").write_text(FUNCTION)
    (folder / "config_forward.json").write_text(json.dumps(SETTINGS))
    return folder


def bench_file(task, candidate):
    options = TASK_OPTIONS._replace(budget_s=0.2)
    return bench_task(str(task), str(candidate), target="cpu", options=options)


PYTHON_NORM = """\
def forward_fn(x, weight, eps):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.py", PYTHON_NORM),
        pytest.param("mine.cpp", EXTENSION.replace("SCALE", ""), marks=pytest.mark.slow),
    ],
)
def test_a_candidate_that_counts_on_weights_of_one_fails_where_they_are_drawn(
    configured_task, tmp_path, name, text
):
    (tmp_path / name).write_text(text)
    found = bench_file(configured_task, tmp_path / name)

    assert found.verdict == "incorrect"
    assert "configuration-2" in found.detail


@pytest.mark.slow
def test_an_extension_is_judged_on_every_configuration_and_timed_on_the_single_one(
    configured_task, tmp_path
):
    (tmp_path / "mine.cpp").write_text(EXTENSION.replace("SCALE", " * weight"))
    found = bench_file(configured_task / "func_forward.py", tmp_path / "mine.cpp")

    assert found.verdict in FINISHED, found.detail
    assert (found.kernel, found.workload) == ("rms_norm", "task")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("mine.py", "def run(x):\n    return x\n", "defines no forward_fn"),
        pytest.param(
            "mine.cpp",
            EXTENSION.replace('"forward"', '"run"'),
            "exports no forward",
            marks=pytest.mark.slow,
        ),
        ("mine.cu", EXTENSION, "is CUDA, which needs a GPU"),
        ("mine.txt", "", "is no candidate; give a .cu, .cpp or .py file"),
    ],
)
def test_an_unsuitable_candidate_of_robust_kbench_is_refused_in_one_line(
    configured_task, tmp_path, name, text, complaint
):
    (tmp_path / name).write_text(text)

    with pytest.raises(BadValueError, match=complaint):
        bench_task(str(configured_task), str(tmp_path / name), target="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("config_forward.json", "{", "has no configurations of robust-kbench"),
        ("config_forward.json", "[" * 9999, "robust-kbench: it is nested too deeply"),
        ("config_forward.json", "{}", "has no 'single_init_configs'"),
        ("func_forward.py", FUNCTION.replace("self.eps)", "None)"), "an input is a NoneType"),
    ],
)
def test_an_unusable_task_of_robust_kbench_says_what_is_wrong(
    configured_task, tmp_path, file, text, complaint
):
    (configured_task / file).write_text(text)
    (tmp_path / "mine.py").write_text("def forward_fn(x, weight, eps):\n    return x\n")

    with pytest.raises(BadValueError, match=complaint):
        bench_task(str(configured_task), str(tmp_path / "mine.py"), target="cpu")


def test_a_backward_pass_is_refused_with_the_cure(configured_task, tmp_path):
    (configured_task / "func_backward.py").write_text(FUNCTION)
    (tmp_path / "mine.py").write_text("def forward_fn(x, weight, eps):\n    return x\n")
    task = str(configured_task / "func_backward.py")

    with pytest.raises(BadValueError, match="not supported; name the folder"):
        bench_task(task, str(tmp_path / "mine.py"), target="cpu")
