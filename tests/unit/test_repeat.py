"""What a kernel gets when a profiler or a sanitizer runs it with torch."""

import pytest
import torch

from kernelkb.measure.worker.jobs.repeat import prepare_case, replay
from kernelkb.measure.worker.shared.array_values import write_tensors


def test_outputs_have_their_start_values_and_others_are_poisoned(tmp_path):
    (tmp_path / "reference.py").write_text("def add(x, old):\n    return old + x, x\n")
    array = {"shape": [64], "dtype": "float32"}
    case = {
        "name": "tiny",
        "selftest": False,
        "axes": [64],
        "inputs": [
            {"name": "factor", "value": 3},
            *({**array, "name": n, "fill": "normal", "scale": 1.0} for n in ("x", "old")),
        ],
        "outputs": [
            {**array, "name": "sums", "starts_as": "old"},
            {**array, "name": "copy", "starts_as": None},
        ],
    }
    file = str(tmp_path / "reference.py")
    reference = {"kind": "python", "file": file, "entry": "add", "inputs": None}
    inputs, (sums, copy), axes = prepare_case({"target": "cpu", "reference": reference}, case)
    number, _, old = inputs

    assert (number, axes) == (3, [64])
    assert torch.equal(sums, old)
    assert sums.data_ptr() != old.data_ptr()
    assert copy.isnan().all()


@pytest.fixture
def repeat_call(tmp_path):
    """A function that makes a recorded call again with a body, and returns its fault."""
    was_deterministic = torch.are_deterministic_algorithms_enabled()

    def run(body, recorded):
        (tmp_path / "call.py").write_text(f"import torch\n\ndef call(x):\n    {body}\n")
        values = tmp_path / "values"
        write_tensors(values, {"input.0": torch.arange(8.0), "output.0": recorded})
        job = {"file": str(tmp_path / "call.py"), "entry": "call", "target": "cpu", "inputs": [0]}
        return replay({**job, "values": [str(values)], "numbers": [[]]}, tmp_path)["faults"][0]

    yield run
    torch.use_deterministic_algorithms(was_deterministic)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_elements_that_a_call_leaves_as_they_were_are_told(repeat_call, dtype):
    body = f"y = torch.empty(8, dtype=torch.{dtype}); y[:5] = 2 * x[:5]; return y"
    recorded = (2 * torch.arange(8.0)).to(getattr(torch, dtype))

    assert repeat_call(body, recorded) == (
        "part of its output is never written: 3 of 8 elements, the first at (5,)"
    )


@pytest.mark.parametrize(
    "body",
    [
        "y = torch.empty(8); y[:5] = 3 * x[:5]; return y",  # what is written differs as well
        "return x + torch.empty(8)",
        "return x.flip(0)",
    ],
)
def test_other_outputs_are_not_taken_for_unwritten_ones(repeat_call, body):
    assert repeat_call(body, 2 * torch.arange(8.0)).startswith("its outputs differ")
