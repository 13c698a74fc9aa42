"""However a server ends while its GPU computes, the GPU is free again.

Run with ``pytest -m gpu`` on a machine that has one.
"""

import time
from contextlib import suppress
from dataclasses import replace

import pytest
from broken import make
from server_shutdowns import CODES, Work, run, running

from kernelkb.actions.bench_target import environment

pytestmark = pytest.mark.gpu

SPARE_BYTES = 64 * 2**20
"""The driver's own bookkeeping comes and goes."""


PUT_BEFORE = {
    "#include <algorithm>": "#include <cstdio>\n",
    "  const std::int64_t stride": "  while (*(volatile float*)y != 12345.0f) {}\n",
    "  return static_cast<int>(cuda": '  std::fclose(std::fopen("begun", "w"));\n',
}


def endless(project):
    """A kernel that says that it was launched, and does not end before its process does."""
    source = make(project, "right") / "naive.cu"
    text = source.read_text()
    for place, line in PUT_BEFORE.items():
        assert place in text
        text = text.replace(place, line + place)
    source.write_text(text)


COMPUTING = Work(endless, "bench_kernel", running, target="cuda")


@pytest.fixture
def gpu():
    """What NVML says of the first GPU: its compute processes, and the bytes that are used."""
    import pynvml as nvml

    if environment("cuda").machine is None:
        pytest.skip("no GPU that torch sees, or no nvcc")
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)

    def look():
        users = set()
        with suppress(nvml.NVMLError):  # some do not tell
            users = {one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
        return users, nvml.nvmlDeviceGetMemoryInfo(handle).used

    yield look
    nvml.nvmlShutdown()


def settled(gpu, users, used):
    """What is there once nothing is there that was not there before, or after a while."""
    for _ in range(200):
        now = gpu()
        if now[0] <= users and now[1] <= used + SPARE_BYTES:
            break
        time.sleep(0.05)
    return now


@pytest.mark.parametrize("how", CODES)
def test_the_gpu_is_free_again(project, gpu, how):
    users, used = gpu()
    busy = []

    def computing(folder):
        begun = running(folder)
        if begun:
            busy.append(gpu()[1] > used + SPARE_BYTES)
        return begun

    ending = run(replace(COMPUTING, under_way=computing), how)
    left, kept = settled(gpu, users, used)

    assert busy == [True]
    assert ending.left == []
    assert ending.code == CODES[how]
    assert left <= users
    assert kept <= used + SPARE_BYTES
