"""Machine code is the same after a comment or another name, and not after another constant."""

import shutil
import subprocess

import pytest

from kernelkb.profiles.machine_code import digest_code

KERNEL = """namespace {
__global__ void scale(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2.0f; }
}
extern "C" int run(float* x, int n, cudaStream_t s) {
  volatile double share = 0.37 * n;
  scale<<<1, 256, 0, s>>>(x, (int)share);
  return 0;
}
"""


@pytest.fixture
def digest(tmp_path):
    """Compile a kernel and digest it; every version has the same file name."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")

    def run(text):
        (tmp_path / "k.cu").write_text(text)
        words = ["nvcc", "-O3", "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC", "-o", "k.so"]
        subprocess.run([*words, "k.cu"], cwd=tmp_path, check=True, capture_output=True)
        return digest_code([tmp_path / "k.so"])

    return run


def test_a_comment_and_another_name_change_no_code(digest):
    renamed = "// why\n" + KERNEL.replace("int i =", "int at =").replace("i < n", "at < n")
    renamed = renamed.replace("x[i]", "x[at]")

    assert digest(KERNEL) == digest(renamed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("2.0f", "3.0f", marks=pytest.mark.slow),
        pytest.param("0.37", "0.73", marks=pytest.mark.slow),
        ("1, 256", "1, 128"),
    ],
)
def test_a_constant_of_the_kernel_or_of_its_launch_changes_it(digest, old, new):
    assert digest(KERNEL) != digest(KERNEL.replace(old, new))
