"""kernel.yaml is checked before anything is built from it."""

import shutil

import pytest

from engine.errors import KnowledgeError, UnknownNameError
from engine.loading.kernels import evaluate, kernel_folders, load_kernel, variant_of
from engine.loading.paths import shipped


@pytest.fixture
def kernel_file(project):
    folder = project / "kernels" / "row_softmax"
    shutil.copytree(f"{shipped('kernels')}/row_softmax", folder)
    return folder / "kernel.yaml"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("tolerances:", "tolerences:", "unknown key (did you mean 'tolerances'?)"),
        ("shape: [rows, cols]", "shape: [rows, colums]", "names 'colums', not one of the axes"),
        ("source: naive.cpp", "source: nave.cpp", "no file 'nave.cpp' here"),
        ("source: naive.cpp", "source: ../naive.cpp", "does not fit"),
        ('flops: "5 * rows * cols"', 'flops: "5 * rows * depth"', "not an expression of the axes"),
        ('flops: "5 * rows * cols"', 'flops: "0 * rows"', "must be positive"),
        ("id: row_softmax", "id: col_softmax", "must equal the folder's name"),
        ("{cpu: large, cuda: xlarge}", "{cpu: huge, cuda: xlarge}", "default workload 'huge'"),
        ("tiny: {rows: 16, cols: 128}", "tiny: {rows: 16}", "must give a positive size"),
        ("target: cpu\n    language: c++", "target: cpu\n    language: cuda", "cannot have target"),
    ],
)
def test_a_mistake_is_named_in_place(kernel_file, old, new, complaint):
    text = kernel_file.read_text()
    assert old in text
    kernel_file.write_text(text.replace(old, new, 1))

    with pytest.raises(KnowledgeError, match=r"kernel\.yaml:") as caught:
        load_kernel("row_softmax")

    assert complaint in str(caught.value)


def test_the_projects_own_kernel_hides_the_shipped_one(kernel_file):
    assert kernel_folders()["row_softmax"] == kernel_file.parent


@pytest.mark.parametrize(
    "text", ["__import__('os').system('true')", "rows.__class__", "open('x')", "rows +", "1/0"]
)
def test_an_expression_can_only_be_arithmetic(text):
    with pytest.raises(ValueError, match="not an expression of the axes"):
        evaluate(text, {"rows": 2})


def test_an_expression_of_the_axes_is_evaluated():
    assert evaluate("8 * rows * max(cols, 4)", {"rows": 3, "cols": 2}) == 96


def test_unknown_kernel_is_offered_the_near_one(project):
    with pytest.raises(UnknownNameError, match="did you mean 'row_softmax'"):
        load_kernel("row_softmx")


def test_unknown_variant_is_offered_the_near_one(project):
    kernel = load_kernel("row_softmax").kernel

    with pytest.raises(UnknownNameError, match="did you mean 'vectorized'"):
        variant_of(kernel, "cpu", "vectorised")
