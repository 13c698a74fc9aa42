"""The table of languages: what building, judging and drafting ask of a variant's language."""

from typing import get_args

import pytest

from kernelkb.actions.init.init_project import init_project
from kernelkb.model.kernels.kernel import Variant
from kernelkb.model.kernels.languages import LANGUAGES, LanguageName, choose_compiled_language
from kernelkb.scaffold.draft import Function, Parameter
from kernelkb.scaffold.python.source import PYTHON_LANGUAGES, PythonLanguage

PALLAS = """\
from jax.experimental import pallas as pl

def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]

def double(x):
    return pl.pallas_call(double_kernel, out_shape=x)(x)
"""


def test_every_name_of_a_language_has_a_row():
    assert set(get_args(LanguageName)) == set(LANGUAGES)
    assert all(row.suffixes and row.targets and row.bindings for row in LANGUAGES.values())
    assert [choose_compiled_language(target) for target in ("cpu", "cuda")] == ["c++", "cuda"]


@pytest.mark.parametrize("name", get_args(LanguageName))
def test_a_variant_may_have_what_the_row_of_its_language_has_and_nothing_else(name):
    row = LANGUAGES[name]
    fields = {"id": "v", "language": name, "source": f"v{row.suffixes[0]}", "summary": "s"}
    made = Variant.model_validate({**fields, "target": row.targets[0]})

    assert (made.binding, made.is_compiled) == (row.bindings[0], row.is_compiled)
    for target in {"cpu", "cuda"} - {*row.targets}:
        with pytest.raises(ValueError, match="cannot have target"):
            Variant.model_validate({**fields, "target": target})
    binding = "python" if row.is_compiled else "c"
    with pytest.raises(ValueError, match="cannot have binding"):
        Variant.model_validate({**fields, "target": row.targets[0], "binding": binding})


def test_one_row_makes_kb_init_draft_for_a_further_language_of_python_files(project, monkeypatch):
    arrays = (
        Parameter("x", "tensor", "input", "float32", shape=("n",)),
        Parameter("out", "return", "output", "float32", shape=("n",)),
    )
    function = Function("double", arrays, style="python", launches=("double_kernel",))

    def find(_tree, text, _said):
        return ((function,), ()) if "pallas_call" in text else None

    row = PythonLanguage("Pallas", find, "python", targets=("cpu", "cuda"))
    monkeypatch.setitem(PYTHON_LANGUAGES, "pallas", row)
    (project / "double.py").write_text(PALLAS)
    result = init_project("double.py", target="cpu", answers=["reference=mine"])
    folder = project / "kernels" / "double"
    text = (folder / "kernel.yaml").read_text()

    assert result.to_fill == ()
    assert "target: cpu\n    language: python\n" in text
    assert "return _MODULE.double(x)" in (folder / "launch.py").read_text()
