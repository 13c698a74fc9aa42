"""What was captured decides between causes that share a line."""

import pytest
from shipped_rules import program

from kernelkb.decide.symptoms import clean_log, find_first_error, find_symptoms

OLD = (
    "CUDA out of memory. Tried to allocate {} (GPU 0; 47.99 GiB total capacity; 6.00 GiB already"
    " allocated; {} free; 6.10 GiB reserved in total by PyTorch)"
)
NEW = (
    "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of 47.99 GiB of which"
    " {} is free."
)
BUILD = (
    "RuntimeError: \nThe detected CUDA version ({}) mismatches the version that was used to"
    " compile\nPyTorch ({}). Please make sure to use the same CUDA versions."
)
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, NumelIn=8)"
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/app.py", line 4, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app.py", line 9, in step
    |     y = model(x)
    | {}
    +------------------------------------
"""


def list_names(log):
    return [row["symptom"] for row in find_symptoms(program(), log)]


def name_first(log):
    return next(iter(list_names(log)), None)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ('at least "12.0"', "toolkit-older-than-package"),
        ('exact version "11.8"', "toolkit-of-another-release"),
    ],
)
def test_a_toolkit_is_called_older_only_where_it_is(wanted, named):
    found = 'Could NOT find CUDA: Found unsuitable version "11.9", but required is'

    assert list_names(f"{found} {wanted} (found /usr/local/cuda)") == [named]


@pytest.mark.parametrize("form", [OLD, NEW])
@pytest.mark.parametrize(
    ("requested", "free", "is_free"),
    [
        ("96.00 MiB", "37.10 GiB", True),
        ("2.00 GiB", "37.10 GiB", True),
        ("96.00 MiB", "40.00 MiB", False),
        ("900.00 MiB", "1.10 GiB", False),
        ("22.00 GiB", "37.10 GiB", False),
        ("2.00 GiB", "1.10 GiB", False),
    ],
)
def test_a_card_with_room_is_not_called_full(form, requested, free, is_free):
    named = "memory-refused-while-free" if is_free else "cuda-out-of-memory"

    assert name_first(form.format(requested, free)) == named


@pytest.mark.parametrize(
    ("found", "built", "named"),
    [
        ("11.8", "11.7", "torch-cuda-minor-mismatch"),
        ("12.8", "11.7", "torch-cuda-version-mismatch"),
        ("11.8", "12.1", "torch-cuda-version-mismatch"),
        ("12.0", "13.0", "torch-cuda-version-mismatch"),
    ],
)
def test_the_major_version_decides_between_two_mismatches(found, built, named):
    assert list_names(BUILD.format(found, built)) == [named]
    words = f"Installed CUDA version {found} does not match the version torch was compiled with"
    assert list_names(f"{words} {built}, unable to compile cuda/cpp extensions") == [named]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ((7, "BROADCAST"), "nccl-collectives-differ"),
        ((7, "ALLREDUCE"), "nccl-timeout"),
        ((6, "BROADCAST"), "nccl-timeout"),
    ],
)
def test_two_operations_of_one_number_are_no_slow_rank(other, named):
    log = f"{WATCHDOG.format(7, 'ALLREDUCE')}\n{WATCHDOG.format(*other)}\n"

    assert name_first(log) == named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (
            "TypeError: fuse() takes 2 positional arguments but 3 were given",
            "python-call-does-not-fit",
        ),
        (
            "RuntimeError: a::f() takes 1 positional argument(s) but 2 was/were given.",
            "operator-arguments-mismatch",
        ),
        ("libx.so: undefined symbol: aoti_torch_new_name", "undefined-symbol-torch-stable"),
        ("libx.so: undefined symbol: torch_scale_rows", "undefined-symbol-missing-source"),
        ("ImportError: ./x.so: undefined symbol: PyUnicode_New", "undefined-symbol-python-release"),
        (
            "ImportError: ./x.so: undefined symbol: PyTorchThing_F",
            "undefined-symbol-missing-source",
        ),
        ("numba.cuda.cudadrv.driver.CudaAPIError: [34]", "driver-stub-library"),
        ("libcudnn.so.9: cannot open shared object file", "missing-shared-library"),
        ("libcudnn.so.8: cannot open shared object file", "cudnn-8-missing"),
    ],
)
def test_a_name_that_any_library_may_have_tells_no_more_than_its_kind(line, named):
    assert name_first(line) == named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (NEW.format("2.00 GiB", "1.10 GiB"), "cuda-out-of-memory"),
        ("RuntimeError: CUDA error: an illegal memory access", "out-of-bounds-access"),
    ],
)
def test_the_lines_of_a_group_of_exceptions_are_read(line, named):
    line = line if line.startswith("Runtime") else f"torch.OutOfMemoryError: {line}"

    assert name_first(GROUP.format(f"{line} was encountered")) == named


def test_what_a_compiler_quotes_is_still_left_out():
    log = "k.cu:3:1: warning: old\n    | CUDA error: out of memory\n    | ^~~~\n"

    assert name_first(log) is None


@pytest.mark.parametrize(
    "line",
    [
        "    | RuntimeError: own text",
        "09:41:33.493Z FAILED tests/t.py::test_a[1, 2] - AttributeError: module 'x'",
        "TestUtils.cpp:225: Failure",
        "jax._src.util.JaxStackTraceBeforeTransformation: a.b.LoweringException: Body failed",
    ],
)
def test_each_form_is_an_error_line(line):
    assert find_first_error(clean_log(line)) == {"line": 1, "said": line.strip()}
