"""However a server ends while its GPU computes, the GPU is free again.

Run with ``pytest -m gpu`` on a machine that has one.
"""

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from broken_kernels import make_broken_kernel
from server_shutdowns import EXIT_CODES, ServerActivity, is_candidate_running, shut_down_server

from kernelkb.actions.project.bench_target import validate_machine

pytestmark = pytest.mark.gpu

SPARE_BYTES = 64 * 2**20
"""The driver's own bookkeeping comes and goes."""


INSERTED_LINES = {
    "#include <algorithm>": "#include <cstdio>\n",
    "  const std::int64_t stride": "  while (*(volatile float*)y != 12345.0f) {}\n",
    "  return static_cast<int>(cuda": '  std::fclose(std::fopen("begun", "w"));\n',
}


def make_endless_gpu_kernel(project):
    """A kernel that says that it was launched, and does not end before its process does."""
    source = make_broken_kernel(project, "right") / "naive.cu"
    text = source.read_text()
    for place, line in INSERTED_LINES.items():
        assert place in text
        text = text.replace(place, line + place)
    source.write_text(text)


COMPUTING = ServerActivity(
    make_endless_gpu_kernel, "bench_kernel", is_candidate_running, target="cuda"
)


@pytest.fixture
def gpu_usage():
    """What NVML says of the first GPU: its compute processes, and the bytes that are used."""
    import pynvml as nvml

    if validate_machine("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)

    def read_gpu_usage():
        users = set()
        with suppress(nvml.NVMLError):  # some do not tell
            users = {one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        return users, nvml.nvmlDeviceGetMemoryInfo(handle).used

    yield read_gpu_usage
    nvml.nvmlShutdown()


def wait_for_idle_gpu(gpu, users, used):
    """What is there once nothing is there that was not there before, or after a while."""
    for _ in range(2400):
        now = gpu()
        if now[0] <= users and now[1] <= used + SPARE_BYTES:
            break
        time.sleep(0.05)
    return now


@pytest.mark.parametrize("how", EXIT_CODES)
def test_the_gpu_is_free_again(project, gpu_usage, how):
    users, used = gpu_usage()
    busy = []

    def computing(folder):
        begun = is_candidate_running(folder)
        if begun:
            busy.append(gpu_usage()[1] > used + SPARE_BYTES)
        return begun

    ending = shut_down_server(replace(COMPUTING, has_started=computing), how)
    left, kept = wait_for_idle_gpu(gpu_usage, users, used)

    assert busy == [True]
    assert ending.left == []
    assert ending.code == EXIT_CODES[how]
    assert left <= users
    assert kept <= used + SPARE_BYTES
