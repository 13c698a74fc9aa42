"""What a kernel gets when a profiler or a sanitizer runs it with torch."""

import torch

from kernelkb.measure.worker.jobs.repeat import prepare_case


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
