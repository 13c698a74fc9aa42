"""kernel.yaml is checked before anything is built from it."""

import shutil

import pytest

from kernelkb.errors import BadValueError, KnowledgeError, UnknownNameError
from kernelkb.loading.kernels import (
    find_kernel_folders,
    load_kernel,
    select_variant,
)
from kernelkb.model.kernels.kernel import evaluate_axis_expression
from kernelkb.safety.paths import shipped_folder

SHIPPED = {"attention", "attention_bf16", "attention_fp16", "gemm", "row_softmax"}


@pytest.fixture
def kernel_file(project):
    folder = project / "kernels" / "row_softmax"
    shutil.copytree(f"{shipped_folder('kernels')}/row_softmax", folder)
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
    assert find_kernel_folders()["row_softmax"] == kernel_file.parent


@pytest.mark.parametrize(
    "text", ["__import__('os').system('true')", "rows.__class__", "open('x')", "rows +", "1/0"]
)
def test_an_expression_can_only_be_arithmetic(text):
    with pytest.raises(ValueError, match="not an expression of the axes"):
        evaluate_axis_expression(text, {"rows": 2})


def test_an_expression_of_the_axes_is_evaluated():
    assert evaluate_axis_expression("8 * rows * max(cols, 4)", {"rows": 3, "cols": 2}) == 96


def test_unknown_kernel_is_offered_the_near_one(project):
    with pytest.raises(UnknownNameError, match="did you mean 'row_softmax'"):
        load_kernel("row_softmx")


def test_unknown_variant_is_offered_the_near_one(project):
    kernel = load_kernel("row_softmax").kernel

    with pytest.raises(UnknownNameError, match="did you mean 'vectorized'"):
        select_variant(kernel, "cpu", "vectorised")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('bytes: "8 * rows * cols"', 'bytes: "-8 * rows * cols"', "must be positive, is -"),
        ('bytes: "8 * rows * cols"', 'bytes: "8 * rows *"', "not an expression of the axes"),
        (
            'flops: "5 * rows * cols"',
            "flops: \"__import__('os').system('true')\"",
            "not an expression of the axes",
        ),
        ("file: reference.py", "file: referense.py", "no file 'referense.py' here"),
        ("file: reference.py", "file: /etc/passwd", "does not fit"),
        ("id: vectorized\n", "id: naive\n", "two variants share target and id"),
        ("flags: []", "flags: [O3]", "every flag starts with '-'"),
        ("flags: []", 'flags: ["-DA=1\\n  command = true"]', "one line of printable text"),
        ("float32: {atol", "float64: {atol", "tolerance for float64, but no output has that dtype"),
        ("{rows: 1, cols: 1}", "{rows: 0, cols: 1}", "must give a positive size"),
        ("atol: 1.0e-9", "atol: 1e-9", "write 1.0e-9"),
        ("atol: 1.0e-9", "atol: 0.0", "greater than 0"),
        ("entry: row_softmax", "entry: row-softmax", "does not fit"),
        ("fill: normal", "fill: integers, low: 4", "low 4 is not below its scale"),
        ("fill: normal", "fill: normal, low: 5", "low is for fill: integers, not for normal"),
    ],
)
def test_another_mistake_is_named_in_place(kernel_file, old, new, complaint):
    text = kernel_file.read_text()
    assert old in text
    kernel_file.write_text(text.replace(old, new, 1))

    with pytest.raises(KnowledgeError, match=r"kernel\.yaml:\d+:\d+: ") as caught:
        load_kernel("row_softmax")

    assert complaint in str(caught.value)


def test_every_file_that_is_missing_is_named_at_once(kernel_file):
    (kernel_file.parent / "naive.cpp").unlink()
    (kernel_file.parent / "reference.py").unlink()

    with pytest.raises(KnowledgeError) as caught:
        load_kernel("row_softmax")

    assert {p.field for p in caught.value.problems} == {"reference.file", "variants.0.source"}


@pytest.mark.parametrize("text", ["rows; cols", "rows = 3", "'a' * 3", "'7'", "1e308 * 10 * rows"])
def test_an_invalid_axis_expression_is_rejected(text):
    with pytest.raises(ValueError, match="not an expression of the axes"):
        evaluate_axis_expression(text, {"rows": 2, "cols": 3})


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "rows << 70000", "2 ** 100000"])
def test_an_expression_with_huge_powers_is_rejected(text):
    with pytest.raises(ValueError, match="not an expression of the axes"):
        evaluate_axis_expression(text, {"rows": 2})


def test_a_variant_of_the_other_target_is_not_offered(project):
    kernel = load_kernel("row_softmax").kernel

    with pytest.raises(UnknownNameError, match="unknown cpu variant of row_softmax 'warp'"):
        select_variant(kernel, "cpu", "warp")


def test_a_target_without_variants_gets_its_own_error(project):
    kernel = load_kernel("row_softmax").kernel
    ours = tuple(variant for variant in kernel.variants if variant.target == "cuda")
    only = kernel.model_copy(update={"variants": ours})

    with pytest.raises(BadValueError) as caught:
        select_variant(only, "cpu")
    assert str(caught.value) == "row_softmax has no cpu variant; it has cuda: naive, warp"


@pytest.mark.parametrize(("target", "plain"), [("cpu", "naive"), ("cuda", "naive")])
def test_the_plain_variant_stands_first(project, target, plain):
    assert select_variant(load_kernel("row_softmax").kernel, target).id == plain


def test_a_project_kernel_stands_beside_the_shipped_ones(project, kernel_file):
    shutil.move(kernel_file.parent, project / "kernels" / "mine")

    assert set(find_kernel_folders()) == {"mine", *SHIPPED}


def test_a_folder_without_a_kernel_yaml_is_no_kernel(project):
    (project / "kernels" / "notes").mkdir(parents=True)

    assert set(find_kernel_folders()) == SHIPPED
