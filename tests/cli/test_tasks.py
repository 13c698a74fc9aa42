"""kb bench for the tasks of other projects."""

import json

import pytest
from slow_examples import mark_slow

from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task
from kernelkb.cli import main
from kernelkb.errors import BadValueError

SOFTMAX_TASK = """\
import torch

class Model(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.scale = torch.nn.Parameter(torch.randn(1))

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=self.dim)

def get_inputs():
    return [torch.rand(64, 4096)]

def get_init_inputs():
    return [1]
"""

CORRECT_SOFTMAX = """\
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.scale = torch.nn.Parameter(torch.randn(1))

    def forward(self, x):
        e = torch.exp(x * self.scale - (x * self.scale).amax(self.dim, keepdim=True))
        return e / e.sum(self.dim, keepdim=True)
"""

CANDIDATES = {
    "right": (CORRECT_SOFTMAX, ("faster", "slower", "inconclusive")),
    # Below the task's own tolerance everywhere: a softmax over 4096 columns is about 2e-4.
    "zeros": (CORRECT_SOFTMAX.replace("return e / e.sum", "return 0 * e / e.sum"), ("incorrect",)),
    "inherits": ("from task import Model\nclass ModelNew(Model):\n    pass\n", ("invalid",)),
    "falls back": (
        CORRECT_SOFTMAX.replace(
            "        e = torch",
            "        try:\n            return kernel(x)\n        except Exception:\n"
            "            return torch.softmax(x * self.scale, self.dim)\n        e = torch",
        ),
        ("invalid",),
    ),
}  # fmt: skip


def write_task_files(tmp_path, task, candidate):
    (tmp_path / "23_Softmax.py").write_text(task)
    (tmp_path / "new.py").write_text(candidate)
    return str(tmp_path / "23_Softmax.py"), str(tmp_path / "new.py")


@pytest.mark.parametrize("how", mark_slow(CANDIDATES, ["falls back", "right", "zeros"]))
def test_a_kernelbench_candidate_gets_its_verdict(project, tmp_path, how):
    text, verdicts = CANDIDATES[how]
    found = bench_task(
        *write_task_files(tmp_path, SOFTMAX_TASK, text),
        target="cpu",
        options=TASK_OPTIONS._replace(budget_s=0.2),
    )

    assert found.verdict in verdicts, found
    assert found.cure or found.verdict not in ("incorrect", "invalid")


@pytest.mark.slow
@pytest.mark.defends(
    "H16",
    attack="a trivial task: the output is constant, or an input has no effect",
    defence="the task is described first, and its trivialities are reported",
)
@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        pytest.param(
            "torch.softmax(x * self.scale, dim=self.dim)",
            "torch.ones_like(x)",
            "1 everywhere",
            marks=pytest.mark.slow,
        ),
        ("torch.softmax(x * self.scale", "torch.softmax(x * 0", "input 0 does not matter"),
        pytest.param(
            "torch.rand(64, 4096)",
            "torch.full((64, 4096), 0.5)",
            "the same for every seed",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_trivial_task_is_reported(project, tmp_path, old, new, warning):
    right = CORRECT_SOFTMAX.replace("return e / e.sum(self.dim, keepdim=True)", "return e")
    paths = write_task_files(tmp_path, SOFTMAX_TASK.replace(old, new), right)
    found = bench_task(*paths, target="cpu", options=TASK_OPTIONS._replace(budget_s=0.2))

    assert any(warning in one for one in found.warnings), found.warnings


DEFINITION = {
    "name": "rmsnorm_h512",
    "op_type": "rmsnorm",
    "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 512}},
    "inputs": {
        "x": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"},
        "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}},
    "reference": "import torch\n\ndef run(x, weight, eps):\n    f = x.float()\n"
    "    r = torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps)\n"
    "    return (f * r * weight.float()).to(x.dtype)\n",
}
WORKLOAD = {
    "definition": "rmsnorm_h512",
    "workload": {
        "uuid": "b7",
        "axes": {"batch_size": 128},
        "inputs": {
            "x": {"type": "random"},
            "weight": {"type": "random"},
            "eps": {"type": "scalar", "value": 1e-5},
        },
    },
}


def make_solution(body, **spec):
    return {
        "name": "mine",
        "definition": "rmsnorm_h512",
        "author": "somebody",
        "spec": {
            "language": "python",
            "target_hardware": ["cpu"],
            "entry_point": "main.py::run",
            "destination_passing_style": False,
            **spec,
        },
        "sources": [
            {"path": "main.py", "content": "import torch\nfrom part import norm\n\n" + body},
            {
                "path": "part.py",
                "content": "import torch\n\ndef norm(x, weight, eps):\n"
                "    return torch.nn.functional.rms_norm(x.float(), (512,), weight.float(), eps)\n",
            },
        ],
    }


@pytest.fixture
def definition_path(project, tmp_path):
    """A folder laid out as the project's own."""
    (tmp_path / "definitions" / "rmsnorm").mkdir(parents=True)
    (tmp_path / "workloads" / "rmsnorm").mkdir(parents=True)
    path = tmp_path / "definitions" / "rmsnorm" / "rmsnorm_h512.json"
    path.write_text(json.dumps(DEFINITION))
    lines = tmp_path / "workloads" / "rmsnorm" / "rmsnorm_h512.jsonl"
    lines.write_text(json.dumps(WORKLOAD) + "\n")
    return path


RETURNING_CANDIDATE = "def run(x, weight, eps):\n    return norm(x, weight, eps).to(x.dtype)\n"
WRITING_CANDIDATE = "def run(x, weight, eps, y):\n    y.copy_(norm(x, weight, eps))\n"
INCORRECT_CANDIDATE = "def run(x, weight, eps):\n    return norm(x, weight, 0.5).to(x.dtype)\n"


@pytest.mark.parametrize(
    ("made", "verdicts"),
    [
        pytest.param(
            make_solution(RETURNING_CANDIDATE),
            ("faster", "slower", "inconclusive"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            make_solution(WRITING_CANDIDATE, destination_passing_style=True),
            ("faster", "slower", "inconclusive"),
            marks=pytest.mark.slow,
        ),
        (make_solution(INCORRECT_CANDIDATE), ("incorrect",)),
    ],
)
def test_a_solution_of_flashinfer_bench_gets_its_verdict(definition_path, tmp_path, made, verdicts):
    (tmp_path / "mine.json").write_text(json.dumps(made))
    found = bench_task(
        str(definition_path),
        str(tmp_path / "mine.json"),
        target="cpu",
        options=TASK_OPTIONS._replace(budget_s=0.2),
    )

    assert found.verdict in verdicts, found
    assert found.workload == "b7"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"definition": "other"}, "solves other, not rmsnorm_h512"),
        ({"spec": {"language": "python"}}, "is not a solution: spec.entry_point"),
    ],
)
def test_an_unsuitable_solution_file_is_rejected(definition_path, tmp_path, change, complaint):
    (tmp_path / "mine.json").write_text(
        json.dumps({**make_solution(RETURNING_CANDIDATE), **change})
    )

    with pytest.raises(BadValueError, match=complaint):
        bench_task(str(definition_path), str(tmp_path / "mine.json"), target="cpu")


def test_a_kernel_and_a_task_at_once_are_refused(project, capsys):
    code = main(["bench", "row_softmax", "--task", "a.py", "--candidate", "b.py"])

    assert code == 2
    assert "name a kernel, or give --task" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--against", "warp"], ["--sanitize"], ["--variant", "naive"]], ids=lambda w: w[0]
)
def test_kernel_only_options_are_rejected_for_a_task(project, capsys, words):
    code = main(["bench", "--task", "a.py", "--candidate", "b.py", *words])

    assert code == 2
    assert f"{words[0]} is for a kernel, not for --task; leave it out" in capsys.readouterr().err


def test_workloads_of_a_definition_are_refused_for_a_kernel(project, capsys):
    code = main(["bench", "row_softmax", "--workloads", "a.jsonl"])

    assert code == 2
    assert "--workloads is for --task; leave it out" in capsys.readouterr().err


TASK = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {names}):
        {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
RANDOM_INPUT = "torch.randn(32, 48)"
HONEST_TASKS = {
    "a truth value": ("pass", "x, up", "return x if up is True else -x", f"{RANDOM_INPUT}, True"),
    "changes its input": ("pass", "x", "return x.clone()", RANDOM_INPUT),
    "answers with truth values": ("pass", "x", "return x > 0.5", RANDOM_INPUT),
    "constants of its own type": ("pass", "x", "return x @ torch.ones(48, 8)", RANDOM_INPUT),
    "a tensor that is no buffer": (
        "self.h = torch.ones(48)",
        "x",
        "return x @ self.h",
        RANDOM_INPUT,
    ),
    "several outputs": ("pass", "x", "return x.sum(1), x.argmax(1), x.mean()", RANDOM_INPUT),
    "half": ("pass", "x", "return x * 2", f"{RANDOM_INPUT}.half()"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", mark_slow(HONEST_TASKS, HONEST_TASKS.keys() - {"several outputs"}))
def test_honest_candidates_of_ordinary_tasks_are_correct(project, tmp_path, how):
    init, names, body, inputs = HONEST_TASKS[how]
    mine = TASK.format(init=init, names=names, body=body, inputs=inputs)
    task = mine.replace("return x.clone()", "return x.mul_(2).div_(2).clone()")
    found = bench_task(
        *write_task_files(tmp_path, task, mine.replace("Model(", "ModelNew(")),
        target="cpu",
        options=TASK_OPTIONS._replace(budget_s=0.2),
    )

    assert found.verdict in ("faster", "slower", "inconclusive"), found.detail


UNCHECKABLE_TASKS = {
    "random": (
        "self.d = torch.nn.Dropout(0.5)",
        "return self.d(x)",
        RANDOM_INPUT,
        "call self.eval()",
    ),
    "state": ("self.n = 0", "self.n += 1; return x + self.n", RANDOM_INPUT, "keep no state"),
    "complex": ("pass", "return torch.complex(x, x)", RANDOM_INPUT, "view_as_real"),
    "dict": ("pass", "return {'y': x}", RANDOM_INPUT, "returns dict"),
    "constant": ("pass", "return torch.ones(3) * x", "2.0", "its output never changes"),
    "list": ("pass", "return x[0]", f"[{RANDOM_INPUT}]", "an input is a list"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", mark_slow(UNCHECKABLE_TASKS, ["complex", "dict", "constant", "list"])
)
def test_a_task_that_cannot_be_checked_gives_its_reason(project, tmp_path, how):
    init, body, inputs, words = UNCHECKABLE_TASKS[how]
    task = TASK.format(init=init, names="x", body=body, inputs=inputs)
    with pytest.raises(BadValueError, match="cannot be judged") as caught:
        bench_task(
            *write_task_files(tmp_path, task, task.replace("Model(", "ModelNew(")), target="cpu"
        )

    assert words in str(caught.value)
