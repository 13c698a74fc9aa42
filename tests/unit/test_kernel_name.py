"""A kernel is named by its name or by a path of it."""

import pytest

from kernelkb.safety.paths import read_kernel_name


@pytest.mark.parametrize(
    "text",
    [
        "row_softmax",
        "kernels/row_softmax",
        "kernels/row_softmax/",
        "row_softmax/",
        "./row_softmax",
        "row_softmax/kernel.yaml",
        "./kernels/row_softmax/naive.cpp",
        "/home/me/project/kernels/row_softmax/kernel.yaml",
        "kernels/zoo/bank-conflicts/row_softmax/before.cu",
        r"kernels\row_softmax\naive.cpp",
    ],
)
def test_a_path_names_its_kernel(text):
    assert read_kernel_name(text) == "row_softmax"


@pytest.mark.parametrize(
    "text", ["", ".", "kernels", "gemm.*", "void scale<float>(a/b)", "src/gemm.cu", "a/b"]
)
def test_other_text_stays_as_it_is(text):
    assert read_kernel_name(text) == text
