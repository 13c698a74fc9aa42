"""A scratch folder is removed with its process, or by the next one; never while it is in use."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kernelkb.measure.process.subprocesses import remove_abandoned_folders, scratch_folder

HOLDER = """
import time
from kernelkb.measure.process.subprocesses import scratch_folder
with scratch_folder() as folder:
    (folder / "job.json").write_text("{}")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    remove_abandoned_folders.cache_clear()
    return tmp_path / "temporary"


@pytest.fixture
def hold():
    """Start processes that hold a scratch folder; kill them afterwards."""
    started = []

    def start():
        words = [sys.executable, "-c", HOLDER]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        return started[-1], started[-1].stdout.readline().strip()

    yield start
    for one in started:
        one.kill()
        one.wait()
        one.stdout.close()


def test_the_folder_of_a_killed_process_goes_and_that_of_a_living_one_stays(temporary, hold):
    killed, left = hold()
    _, used = hold()
    killed.kill()
    killed.wait()
    assert Path(left, "job.json").exists()

    with scratch_folder() as own:
        assert sorted(map(str, temporary.iterdir())) == sorted([used, str(own)])
    assert [str(one) for one in temporary.iterdir()] == [used]


def test_nothing_but_own_folders_is_removed(temporary, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (temporary / "kernelkb-job-link").symlink_to(tmp_path / "elsewhere")
    (temporary / "kernelkb-job-file").touch()
    (temporary / "kernelkb-abcdefgh").mkdir()
    (temporary / "tmpabc").mkdir()
    own = temporary / "kernelkb-job-abcdefgh"
    own.mkdir()
    (own / "link").symlink_to(tmp_path / "elsewhere")
    before = set(temporary.iterdir())
    remove_abandoned_folders()

    assert set(temporary.iterdir()) == before - {own}
    assert (tmp_path / "elsewhere" / "precious").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_the_folder_of_another_user_stays(temporary):
    other = temporary / "kernelkb-job-abcdefgh"
    other.mkdir()
    os.chown(other, 12345, 12345)
    remove_abandoned_folders()

    assert other.exists()
