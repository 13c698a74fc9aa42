"""Fixtures every test folder may use."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from stand_in_judge import write_interpreter

from kernelkb.profiles import reader_process

ROOT = Path(__file__).parents[1]

# How fast an example is says nothing on a machine that runs four test processes at once.
# Examples are new in each run, save where a run judges a change: it is not to fail by chance.
settings.register_profile(
    "shared",
    deadline=None,
    max_examples=25,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shared")

# Children of tests import torch: without its bytecode each one compiles it again, 2 s of CPU time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(autouse=True, scope="session")
def isolate_cache(tmp_path_factory):
    """Keep tests out of the user's cache; one cache for all, so that peaks are measured once.

    One queue for each process: tests measure side by side, as do people on other machines.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        patch.setenv("KB_DEVICE_QUEUE", str(base / "queue"))
        yield


@pytest.fixture(autouse=True, scope="session")
def shorten_benches():
    """Few tests ask for a narrow interval; those say for how long they time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KB_BUDGET", "0.4")
        yield


@pytest.fixture(autouse=True, scope="session")
def share_report_reader():
    """Keep one process that reads reports: starting it takes longer than most reports."""
    start, shared = reader_process._start, []

    def start_once():
        if not shared or shared[0].poll() is not None:
            shared[:] = start()
        process, connection = shared
        connection.send((os.chdir, Path.cwd()))
        connection.recv()
        return process, connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_process, "_start", start_once)
        patch.setattr(reader_process.ReaderProcess, "__exit__", lambda *_: None)
        yield
    for one in shared[:1]:
        one.kill()
        one.wait()


@pytest.fixture(scope="module")
def stand_in_judge(tmp_path_factory):
    """Let every candidate of a module be correct and twice as fast, without a check or a bench."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KB_PYTHON", str(write_interpreter(tmp_path_factory.mktemp("judge"))))
        yield


@pytest.fixture(autouse=True)
def disable_torch_compile(request, monkeypatch):
    """Let torch.compile do nothing on a GPU: it takes half of a test, and few ask for it."""
    if request.node.get_closest_marker("gpu"):
        monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")


@pytest.fixture
def knowledge_copy(tmp_path):
    """A knowledge folder that a test may break."""
    return Path(shutil.copytree(ROOT / "knowledge", tmp_path / "knowledge"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, entered."""
    (tmp_path / "project" / "sessions").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.delenv("KB_DATABASE", raising=False)
    return tmp_path / "project"


@pytest.fixture(scope="module")
def module_project(tmp_path_factory):
    """An empty project, entered, for all tests of a module: what they look at is made once."""
    folder = tmp_path_factory.mktemp("module") / "project"
    (folder / "sessions").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("KB_DATABASE", raising=False)
        yield folder
