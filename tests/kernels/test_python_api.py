"""``import kernelkb``: what it costs, what it answers, and a real bench of two functions."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernelkb
from kernelkb.errors import BadValueError, KbError
from kernelkb.model.records.measurement import Bench

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
OPS = """\
import torch

def scale(x):
    return torch.mul(x, 2.0)

def doubled(x):
    return x + x

def nearly(x):
    return x * 2.1

def make_inputs():
    return [torch.rand(64, 1024)]
"""


@pytest.fixture
def ops(tmp_path, monkeypatch):
    """A file of functions, in a project of its own that is the working directory."""
    (tmp_path / ".kb").mkdir()
    (tmp_path / "ops.py").write_text(OPS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ops.py"


def bench(candidate, file="ops.py"):
    return kernelkb.bench(
        f"{file}:{candidate}", f"{file}:scale", f"{file}:make_inputs", target="cpu", budget_s=0.2
    )


def test_the_import_costs_nothing():
    program = (
        "import sys; before = set(sys.modules); import kernelkb; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout == "['kernelkb']\n"


def test_every_name_is_offered_typed_and_explained():
    stub = Path(kernelkb.__file__).with_suffix(".pyi").read_text()
    for name in kernelkb.__all__:
        if name != "__version__":
            assert len(getattr(kernelkb, name).__doc__) > 100
            assert f"import {name} as {name}" in stub
            assert f"| `{name}` |" in PAGE.read_text()
    assert set(kernelkb.__all__) <= set(dir(kernelkb))


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="benhc"):
        kernelkb.benhc  # noqa: B018


def test_numbers_give_what_the_command_gives(capsys):
    from kernelkb.cli import main

    main(["recommend", "--speedup", "0.3", "--occupancy", "40%", "--json"])

    printed = json.loads(capsys.readouterr().out)
    assert kernelkb.recommend({"occupancy": "40%"}, speedup=0.3) == printed


def test_a_mistake_is_an_error_with_its_cure():
    with pytest.raises(KbError, match="did you mean 'occupancy'"):
        kernelkb.recommend({"occupency": 0.4})


@pytest.mark.parametrize(
    ("candidate", "cure"),
    [
        (lambda x: x, "write it as a function at the top of a file"),
        (print, "cannot be found by another process"),
        ("ops.py", "write 'path/to/file.py:name'"),
        ("ops.py:missing", "defines no missing at its top"),
        ("nowhere.py:f", "cannot read nowhere.py"),
    ],
)
def test_what_another_process_cannot_find_is_refused(candidate, cure, ops):
    with pytest.raises(BadValueError, match=re.escape(cure)):
        kernelkb.bench(candidate, "ops.py:scale", "ops.py:make_inputs")


def test_a_function_that_was_typed_is_refused(ops):
    names = {}
    exec(compile("def typed(x):\n    return x\n", "<stdin>", "exec"), names)

    with pytest.raises(BadValueError, match=r"defined in <stdin>, which is no file"):
        kernelkb.bench(names["typed"], "ops.py:scale", "ops.py:make_inputs")


def test_a_file_that_starts_a_bench_on_import_is_refused(ops):
    ops.write_text(OPS + "\nbench(doubled, scale, make_inputs)\n")

    with pytest.raises(BadValueError, match=r"ops.py:15 starts a bench .* if __name__"):
        bench("doubled")


def test_inputs_of_another_file_are_refused(ops):
    ops.with_name("more.py").write_text(OPS)

    with pytest.raises(BadValueError, match="write both into one file"):
        kernelkb.bench("ops.py:doubled", "ops.py:scale", "more.py:make_inputs")


def test_a_wrong_function_is_incorrect_and_not_timed(ops):
    result = bench("nearly")

    assert isinstance(result, Bench)
    assert result.verdict == "incorrect"
    assert (result.speedup, result.interval) == (None, None)
    assert "elements are wrong" in result.detail


@pytest.mark.slow
def test_the_examples_of_the_page_hold(ops):
    text = PAGE.read_text()
    (file,) = re.findall(r"`ops.py`:\n\n```python\n(.*?)```", text, re.DOTALL)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    ops.write_text(file)
    names = {}
    for block in blocks:
        if block != file:
            exec(block, names)

    assert len(blocks) == 5
    assert names["result"].speedup > 0
