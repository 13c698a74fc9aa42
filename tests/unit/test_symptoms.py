"""Logs of real failures, and what must be read from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import knowledge, program

from kernelkb.decide.symptoms import clean_log, find_failure, find_first_error, find_symptoms

SYMPTOMS = [s for family in knowledge().symptoms for s in family.symptoms]


def list_symptoms(log, arch=None):
    return [row["symptom"] for row in find_symptoms(program(), log, arch)]


def find_single_symptom(log, arch=None):
    (row,) = find_symptoms(program(), log, arch)
    return row


def shows_itself(symptom):
    """Whether its example shows a symptom, and what it captures."""
    rows = find_symptoms(program(), symptom.example)
    return any(
        symptom.captures.items() <= row["captured"].items() and row["said"] in symptom.example
        for row in rows
        if row["symptom"] == symptom.id
    )


def test_each_real_log_shows_its_symptom_and_what_it_captures():
    assert [symptom.id for symptom in SYMPTOMS if not shows_itself(symptom)] == []


def test_no_counterexample_shows_its_symptom():
    found = [s.id for s in SYMPTOMS if s.id in list_symptoms(s.counterexample)]

    assert found == []


def test_a_missing_template_instantiation_is_recognised():
    assert list_symptoms("ImportError: ext.so: undefined symbol: _Z6launchIfEvPT_") == [
        "undefined-symbol-template-instantiation"
    ]


def test_a_hanging_loader_without_nvcc_is_a_lock_and_not_a_slow_build():
    row = find_single_symptom("torch's load() hangs, no nvcc process")

    assert row["symptom"] == "jit-lock-hang"
    assert "ninja" not in row["cure"]


def test_96_kilobytes_fit_an_l4_after_opting_in():
    row = find_single_symptom("ptxas 0x18000 bytes, 0xc000 max on sm_89")

    assert row["symptom"] == "ptxas-shared-memory-overflow"
    assert "fit the 101,376 of a block of sm_89 after opting in" in row["note"]
    assert row["fixes"][0] == "smem-optin"


def test_96_kilobytes_do_not_fit_a_turing():
    row = find_single_symptom("ptxas 0x18000 bytes, 0xc000 max", "7.5")

    assert "exceed even the 65,536 of a block of sm_75" in row["note"]


def test_without_a_target_the_parts_that_can_are_named():
    note = find_single_symptom("ptxas 0x18000 bytes, 0xc000 max")["note"]

    assert "sm_89" in note
    assert "sm_75" not in note


def test_more_shared_memory_than_any_gpu_has_is_reported():
    assert "No GPU has that much" in find_single_symptom("ptxas 0xf0000 bytes, 0xc000 max")["note"]


def test_the_first_thing_that_a_log_says_comes_first():
    log = "RuntimeError: misaligned address\nlater: too many resources requested for launch\n"

    assert list_symptoms(log) == ["misaligned-vector-access", "launch-out-of-resources"]


def test_a_warning_stands_behind_a_later_error():
    log = "ptxas info: 8 bytes spill stores, 8 bytes spill loads\nCUDA error: misaligned address\n"

    assert list_symptoms(log) == ["misaligned-vector-access", "register-spills"]
    assert find_failure(program(), log)["symptom"] == "misaligned-vector-access"


def test_what_a_compiler_calls_a_warning_is_none_of_our_errors():
    log = (
        'm.h(4): warning #20013-D: calling a constexpr __host__ function("imag") from a '
        "__host__ __device__ function is not allowed.\n"
    )
    (found,) = find_symptoms(program(), log)
    assert (found["symptom"], found["severity"]) == ("relaxed-constexpr-needed", "warning")
    (found,) = find_symptoms(program(), log.replace("warning #20013-D", "error"))
    assert found["severity"] == "error"


def test_a_warning_alone_explains_no_failure():
    assert find_failure(program(), "ptxas info: 8 bytes spill stores, 8 bytes spill loads") is None


def test_two_unlike_failures_of_one_kind_are_both_reported():
    log = "ld: undefined reference to `cublasCreate_v2'\nld: undefined reference to `mine(int)'\n"

    assert list_symptoms(log) == ["cuda-library-not-linked", "undefined-symbol-missing-source"]


@pytest.mark.parametrize(
    "remark",
    [
        "Warning: fp8 requires CUDA 12.4 or newer, disabled",
        "-- Could NOT find NCCL (missing: NCCL_LIBRARY NCCL_INCLUDE_DIR)",
        "WARNING: the package was not built with CUDA support, using CPU",
        "cudnn status CUDNN_STATUS_SUCCESS",
    ],
)
def test_what_a_program_goes_on_after_hides_no_error(remark):
    log = f'{remark}\nk.cu(3): error: identifier "foo" is undefined\n'

    assert list_symptoms(log)[0] == "identifier-undefined"


@pytest.mark.parametrize("line", ["LLVM ERROR: out of memory", "ERROR: it could not be done"])
def test_an_error_in_capitals_is_one(line):
    assert find_first_error(clean_log(line))["line"] == 1


@pytest.mark.parametrize(
    ("log", "is_general"),
    [
        ("nvcc fatal   : The option is not one of these", True),
        ('k.cu(3): error: identifier "warpSize2" is undefined', True),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", False),
        ("g++: fatal error: /tmp/x.s: No space left on device", False),
        ("tvm.error.InternalError: Check failed: (a == b) is false", True),
        ("InternalError: Check failed: (num_threads % 32 == 0) is false: threads", True),
        ("InternalError: Check failed: (warp_m % 16 == 0) is false", False),
        ("DSLRuntimeError: expects argument #1 (A) to be a Tensor", True),
    ],
)
def test_a_kind_of_error_is_told_apart_from_its_cause(log, is_general):
    note = find_symptoms(program(), log)[0]["note"] or ""

    assert ("The line names the kind only" in note) is is_general


@pytest.mark.parametrize(
    "before",
    [
        "a/conv.py:456: UserWarning: ",
        "[W Conv_v8.cpp:919] Warning: ",
        "W0520 10:11:12.123456  4711 cuda_dnn.cc:400] ",
        "2026-01-02 03:04:05.678901: W external/xla/cuda_dnn.cc:400] ",
        "WARNING 06-13 11:42:20 a.py:11] ",
        "(Worker pid=12) WARNING 06-13 11:42:20 a.py:11] ",
        "[rank3]:[W1128 10:11:12.1 a.cpp:4] ",
    ],
)
def test_a_line_that_calls_itself_a_warning_leads_with_no_error(before):
    said = "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"

    found = find_symptoms(program(), f"{before}{said}\n")

    assert [row["severity"] for row in found] == ["warning"]
    assert find_failure(program(), f"{before}{said}\n") is None
    assert find_symptoms(program(), f"{before}{said}\nRuntimeError: {said}\n")[0]["line"] == 2


def test_a_cause_in_a_warning_is_told_before_a_family_of_errors():
    log = """a.py:128: UserWarning: CUDA initialization: Found no NVIDIA driver on your system.
    AssertionError: Torch not compiled with CUDA enabled and torch.cuda.is_available() is False
    """

    assert find_symptoms(program(), log)[0]["symptom"] in {"no-cuda-driver", "torch-without-cuda"}


def test_the_exit_status_of_make_is_no_error_of_cuda():
    log = "make[1]: *** [CMakeFiles/Makefile2:18: src/solver-cuda/CMakeFiles/x.dir/all] Error 2\n"

    assert list_symptoms(log) == []


@pytest.mark.parametrize(("requested", "exceeds"), [("47.50 GiB", True), ("512.00 MiB", False)])
def test_a_request_that_no_gpu_of_its_size_can_meet_is_told(requested, exceeds):
    log = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. "
        "GPU 1 has a total capacity of 23.65 GiB of which 0.3 GiB is free."
    )

    found = find_symptoms(program(), log)[0]

    assert found["captured"] == {"requested": requested, "capacity": "23.65 GiB"}
    assert (found["note"] is not None) is exceeds


def test_a_consequence_is_not_reported_beside_its_cause():
    log = "torch.OutOfMemoryError: CUDA out of memory.\nncclRemoteError: A call failed\n"

    assert list_symptoms(log) == ["cuda-out-of-memory"]
    assert list_symptoms(log.splitlines()[1]) == ["nccl-peer-failed"]


def test_a_compilers_error_stands_before_what_it_brought_about():
    log = 'jit(3): error: expected a ";"\nCUDA error: no kernel image is available\n'
    turned = "\n".join(reversed(log.splitlines()))

    assert list_symptoms(log) == ["cpp-syntax-error", "no-kernel-image"]
    assert list_symptoms(turned) == ["no-kernel-image"]
    assert find_failure(program(), log) is None


def test_what_nccl_says_itself_outranks_what_an_error_of_cuda_could_be():
    log = (
        "NCCL error: unhandled cuda error, NCCL version 2.27.5\n"
        "transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed'\n"
    )

    assert list_symptoms(log) == ["nccl-nvls-failed"]
    assert list_symptoms(log.splitlines()[0]) == ["nccl-cuda-error"]


def test_repetitions_are_counted_not_repeated():
    row = find_single_symptom("misaligned address\n" * 40)

    assert (row["line"], row["times"]) == (1, 40)


def test_windows_line_ends_do_not_matter():
    assert list_symptoms("pass S=64\r\nfail S=65\r\n") == ["tile-boundary-indexing"]


def test_a_clean_log_shows_nothing():
    assert (
        list_symptoms("ptxas info    : Used 32 registers, 0 bytes spill stores\nall tests passed\n")
        == []
    )


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text):
    for row in find_symptoms(program(), text):
        assert row["cause"]


@pytest.mark.slow
def test_long_symbols_are_read_in_time():
    """A regular expression that backtracks would never end."""
    assert "undefined-symbol-missing-source" in list_symptoms(f"undefined symbol: _Z{'I' * 20_000}")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("fatal: not a git repository: .git\n    RuntimeError: needs a newer tool", 2),
        ("Exception: no toolkit\nException ignored in: <function A.__del__>\nValueError: x", 1),
        ("CompileError: nvcc compilation of /tmp/k.cu failed\nk.cu(3): error: strange thing", 2),
    ],
)
def test_the_first_error_is_what_failed_first(log, line):
    assert find_first_error(clean_log(log))["line"] == line


def test_a_family_of_errors_behind_an_error_that_none_explains_is_not_named():
    family = 'k.cu(90): error: identifier "compare" is undefined'

    assert list_symptoms(family) == ["identifier-undefined"]
    assert list_symptoms(f"k.cu(3): error: a word that no entry has\n\n{family}") == []
