"""kb bench for tasks of SOL-ExecBench: computed axes, inputs that the reference makes, flags."""

import json

import pytest

from kernelkb.actions.kernels.foreign_tasks import TASK_OPTIONS, bench_task, make_task_files
from kernelkb.errors import BadValueError
from kernelkb.loading.kernels import load_kernel_folder

DEFINITION = {
    "name": "gather_half",
    "axes": {
        "rows": {"type": "var"},
        "D": {"type": "const", "value": 64},
        "half": {"type": "expr", "expression": "D // 2"},
        "twice": {"type": "expr", "expression": "rows * 2"},
    },
    "inputs": {
        "table": {"shape": ["twice", "D"], "dtype": "float32"},
        "picks": {"shape": ["rows"], "dtype": "int64"},
    },
    "outputs": {"out": {"shape": ["rows", "half"], "dtype": "float32"}},
    "custom_inputs_entrypoint": "make",
    "reference": "import torch\n\n"
    "def make(axes_and_scalars, device):\n"
    "    rows, top = axes_and_scalars['rows'], axes_and_scalars['twice']\n"
    "    return {'picks': torch.randint(top - rows, top, (rows,), device=device)}\n\n"
    "def run(table, picks):\n    return table[picks][:, :32] * 2\n",
}
WORKLOADS = [
    {
        "uuid": f"w{rows}",
        "axes": {"rows": rows},
        "inputs": {"table": {"type": "random"}, "picks": {"type": "custom"}},
    }
    for rows in (16, 5)
]


def make_solution(content, path="kernel.py", **spec):
    return {
        "name": "mine",
        "definition": "gather_half",
        "author": "a",
        "spec": {
            "languages": ["pytorch"],
            "target_hardware": ["LOCAL"],
            "entry_point": f"{path}::run",
            "destination_passing_style": False,
            **spec,
        },
        "sources": [{"path": path, "content": content}],
    }


CORRECT = "def run(table, picks):\n    return 2 * table.index_select(0, picks)[:, :32]\n"
# Right for any index below the number of rows, which is what uniform random inputs would be.
SHORTCUT = "def run(table, picks):\n    return 2 * table[picks % len(picks)][:, :32]\n"


@pytest.fixture
def task(project, tmp_path):
    folder = tmp_path / "gather_half"
    folder.mkdir()
    (folder / "definition.json").write_text(json.dumps(DEFINITION))
    rows = [json.dumps(row) for row in WORKLOADS]
    (folder / "workload.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def write_solution(tmp_path, solution):
    (tmp_path / "solution.json").write_text(json.dumps(solution))
    return tmp_path / "solution.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "verdicts"),
    [
        pytest.param(
            CORRECT, ("faster", "slower", "inconclusive"), id="correct", marks=pytest.mark.slow
        ),
        pytest.param(SHORTCUT, ("incorrect",), id="shortcut"),
    ],
)
def test_a_solution_is_judged_on_the_inputs_that_the_reference_makes(
    task, tmp_path, content, verdicts
):
    path = write_solution(tmp_path, make_solution(content))
    found = bench_task(
        str(task), str(path), target="cpu", options=TASK_OPTIONS._replace(budget_s=0.2)
    )

    assert found.verdict in verdicts, found.detail
    assert found.workload == "w16"


def load_converted(task, tmp_path, solution, target="cpu"):
    files = make_task_files(task, write_solution(tmp_path, solution), None, target)
    return load_kernel_folder(files.write(tmp_path / "made")).kernel, files.warnings


def test_axes_that_are_expressions_have_the_sizes_of_each_workload(task, tmp_path):
    kernel, warnings = load_converted(task / "definition.json", tmp_path, make_solution(CORRECT))

    assert kernel.workloads == {"w16": {"rows": 16, "twice": 32}, "w5": {"rows": 5, "twice": 10}}
    assert kernel.outputs[0].shape == ("rows", 32)
    assert warnings == ()


def test_tolerances_that_are_not_used_are_named(task, tmp_path):
    row = {**WORKLOADS[0], "tolerance": {"max_atol": 1.0}}
    (task / "workload.jsonl").write_text(json.dumps(row))
    _, warnings = load_converted(task, tmp_path, make_solution(CORRECT))

    assert any("own tolerances are not used" in warning for warning in warnings)


def test_a_cuda_solution_is_a_torch_extension_with_its_flags(task, tmp_path):
    options = {"cuda_cflags": ["-O3", "--use_fast_math", "-std=c++17"], "ld_flags": ["-lcublas"]}
    solution = make_solution("", "k.cu", languages=["cuda_cpp"], compile_options=options)
    kernel, _ = load_converted(task, tmp_path, solution, target="cuda")

    assert kernel.variants[0].binding == "torch-extension"
    assert kernel.variants[0].flags == ("--use_fast_math", "-lcublas")


@pytest.mark.parametrize(
    ("solution", "complaint"),
    [
        (make_solution("", languages=["julia"]), "written in julia, which is not supported"),
        (make_solution("", languages=["pytorch", "cuda_cpp"]), "mixes pytorch and cuda_cpp"),
        (make_solution("", languages=["triton"]), "written in triton, which needs a GPU"),
        (make_solution("", languages=[]), "give a language, or languages"),
    ],
)
def test_an_unsuitable_solution_is_refused_in_one_line(task, tmp_path, solution, complaint):
    with pytest.raises(BadValueError, match=complaint):
        load_converted(task, tmp_path, solution)


@pytest.mark.parametrize("name", ["reference.py", "with_inputs.py", "kernel.yaml"])
def test_a_solution_cannot_replace_what_it_is_judged_by(task, tmp_path, name):
    solution = make_solution(CORRECT)
    solution["sources"].append({"path": f"sub/{name}", "content": "def run(*_): return 0"})

    with pytest.raises(BadValueError, match=f"has a file {name}, which kb writes itself"):
        load_converted(task, tmp_path, solution)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"custom_inputs_entrypoint": None}, "names no custom_inputs_entrypoint"),
        ({"axes": {**DEFINITION["axes"], "half": {"type": "expr", "expression": "D +"}}}, "half"),
        ({"axes": {"rows": {"type": "var"}, "D": {"type": "const", "value": 64}}}, "is no axis"),
        (
            {"outputs": {"out": {"shape": ["rows", "half"], "dtype": "float4_e2m1"}}},
            "out is float4_e2m1, which is not supported",
        ),
    ],
)
def test_an_unsuitable_definition_is_refused_in_one_line(task, tmp_path, change, complaint):
    (task / "definition.json").write_text(json.dumps({**DEFINITION, **change}))

    with pytest.raises(BadValueError, match=complaint):
        load_converted(task, tmp_path, make_solution(CORRECT))


def test_a_folder_without_a_task_names_what_is_looked_for(project, tmp_path):
    (tmp_path / "empty").mkdir()

    with pytest.raises(BadValueError, match=r"neither definition\.json .*problem-spec\.yaml"):
        load_converted(tmp_path / "empty", tmp_path, make_solution(CORRECT))
