"""A kernel's files on another host: what is sent, and what is refused on arrival."""

import os
import stat
import time

import pytest

from kernelkb.cluster import project_copy
from kernelkb.cluster.project_copy import PackedKernel, pack_kernel, unpack_kernel
from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.loading.kernels import load_kernel, load_kernel_folder

KERNEL = """\
id: twice
title: twice its input
axes: [n]
workloads: {tiny: {n: 16}}
default_workload: {cpu: tiny, cuda: tiny}
inputs: [{name: x, shape: [n], dtype: float32}]
outputs: [{name: y, shape: [n], dtype: float32}]
reference: {file: ../common/reference.py, function: twice}
entry: twice
variants:
  - {id: plain, target: cpu, language: c++, source: twice.cpp, summary: a loop, flags: [-Iinclude]}
"""


SOURCE = """
#include "part.h"
#include "../../lib/far.h"
#include <math.h>
"""


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    files = {
        "kernels/twice/kernel.yaml": KERNEL,
        "kernels/twice/twice.cpp": SOURCE,
        "kernels/twice/include/part.h": '#include "../../common/near.h"\n',
        "kernels/twice/.secret": "no",
        "kernels/twice/__pycache__/x.pyc": "no",
        "kernels/common/near.h": "",
        "kernels/common/reference.py": "from numbers_of_ours import TWO\n",
        "kernels/common/numbers_of_ours.py": "TWO = 2\n",
        "kernels/common/other.cu": "not used",
        "kernels/unused/kernel.yaml": "not used",
        "lib/far.h": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def pack(project):
    return pack_kernel(load_kernel("twice", project), project)


def test_a_kernel_takes_along_what_it_uses_and_nothing_else(project):
    packed = pack(project)

    assert packed.folder == "kernels/twice"
    assert sorted(packed.files) == [
        "kernels/common/near.h",
        "kernels/common/numbers_of_ours.py",
        "kernels/common/reference.py",
        "kernels/twice/include/part.h",
        "kernels/twice/kernel.yaml",
        "kernels/twice/twice.cpp",
        "lib/far.h",
    ]


def test_the_copy_is_a_private_project_that_loads(project, tmp_path):
    packed = pack(project)
    copied = unpack_kernel(packed, tmp_path / "base")

    assert load_kernel("twice", copied).folder == copied / packed.folder
    assert stat.S_IMODE((tmp_path / "base").stat().st_mode) == 0o700
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    assert {one: (copied / one).read_bytes() for one in packed.files} == packed.files


@pytest.mark.parametrize("name", ["attention_fp16", "gemm"])
def test_shipped_kernels_travel(tmp_path, name):
    source = load_kernel(name, tmp_path)
    copied = unpack_kernel(pack_kernel(source, tmp_path), tmp_path / "base")

    assert load_kernel(name, copied).kernel == source.kernel


def test_a_folder_elsewhere_becomes_a_kernel_of_the_copy(project, tmp_path):
    (project / "kernels").rename(project / "tasks")
    source = load_kernel_folder(project / "tasks" / "twice")
    (project / "tasks" / "twice" / "twice.cpp").write_text("")
    copied = unpack_kernel(pack_kernel(source, project), tmp_path / "base")

    assert load_kernel("twice", copied).kernel == source.kernel


def test_equal_content_has_one_copy_and_other_content_another(project, tmp_path):
    first = unpack_kernel(pack(project), tmp_path / "base")
    again = unpack_kernel(pack(project), tmp_path / "base")
    (project / "lib" / "far.h").write_text("// changed")
    other = unpack_kernel(pack(project), tmp_path / "base")

    assert first == again != other
    assert len(list((tmp_path / "base").iterdir())) == 2


def test_a_damaged_copy_is_replaced(project, tmp_path):
    packed = pack(project)
    copied = unpack_kernel(packed, tmp_path / "base")
    (copied / "lib" / "far.h").write_text("cut")

    assert unpack_kernel(packed, tmp_path / "base") == copied
    assert (copied / "lib" / "far.h").read_text() == ""


@pytest.mark.parametrize(
    "include", ["../../../outside.h", "../../link.h", "../../folder/outside.h"]
)
def test_a_file_outside_of_the_project_is_not_sent(project, include):
    (project.parent / "outside.h").write_text("secret")
    (project / "link.h").symlink_to(project.parent / "outside.h")
    (project / "folder").symlink_to(project.parent)
    (project / "kernels/twice/twice.cpp").write_text(f'#include "{include}"\n')

    with pytest.raises(BadValueError, match="outside of the project"):
        pack(project)


def test_a_link_in_the_folder_to_a_file_elsewhere_is_not_followed(project):
    (project / "kernels/twice/key").symlink_to("/etc/hostname")

    with pytest.raises(BadValueError, match="outside of the project"):
        pack(project)


def test_a_link_inside_the_project_is_sent_as_a_file(project, tmp_path):
    (project / "kernels/twice/near.h").symlink_to(project / "kernels/common/near.h")
    copied = unpack_kernel(pack(project), tmp_path / "base")

    assert not (copied / "kernels/twice/near.h").is_symlink()
    assert (copied / "kernels/twice/near.h").is_file()


def test_a_pipe_in_the_folder_is_left_out(project):
    os.mkfifo(project / "kernels/twice/pipe")

    assert "kernels/twice/pipe" not in pack(project).files


def test_too_large_a_folder_is_not_sent(project, monkeypatch):
    monkeypatch.setattr(project_copy, "MAX_PACKED_BYTES", 2**20)
    (project / "kernels/twice/weights.bin").write_bytes(bytes(2**20))

    with pytest.raises(BadValueError, match="move what the kernel does not need"):
        pack(project)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "kernels/../../x",
        "/etc/x",
        "kernels//x",
        "kernels/./x",
        "kernels/twice/",
        "x",
        "",
        ".kb/build/x",
        "kernels/.kb/x",
        "kernels\\..\\x",
        "kernels/a\0b",
        "kernels/a\nb",
        "kernels/" + "x" * 256,
    ],
)
def test_a_hostile_path_is_refused_and_nothing_is_written(tmp_path, name):
    base = tmp_path / "base"
    for packed in (
        PackedKernel("twice", "kernels/twice", {"kernels/twice/kernel.yaml": b"", name: b""}),
        PackedKernel("twice", name, {"kernels/twice/kernel.yaml": b""}),
    ):
        with pytest.raises(BadValueError, match="no path inside a project"):
            unpack_kernel(packed, base)

    assert not base.exists()


def test_too_much_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(project_copy, "MAX_PACKED_BYTES", 10)

    with pytest.raises(BadValueError, match="too many"):
        unpack_kernel(
            PackedKernel("twice", "kernels/twice", {"kernels/twice/x": bytes(11)}), tmp_path
        )


def test_a_file_where_a_folder_has_to_be_is_an_error(tmp_path):
    packed = PackedKernel("a", "kernels/a", {"kernels/a": b"", "kernels/a/b": b""})

    with pytest.raises(EnvironmentGapError):
        unpack_kernel(packed, tmp_path / "base")


def test_a_link_in_place_of_the_base_is_refused(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "base").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(EnvironmentGapError, match="not a folder of this user"):
        unpack_kernel(pack(project), tmp_path / "base")


def test_others_lose_access_to_an_open_base(project, tmp_path):
    base = tmp_path / "base"
    base.mkdir(mode=0o755)
    unpack_kernel(pack(project), base)

    assert stat.S_IMODE(base.stat().st_mode) == 0o700


def test_a_link_in_place_of_a_project_is_not_written_through(project, tmp_path):
    packed = pack(project)
    (tmp_path / "base").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "base" / packed.digest).symlink_to(tmp_path / "elsewhere")
    unpack_kernel(packed, tmp_path / "base")

    assert not list((tmp_path / "elsewhere").iterdir())


def test_only_what_is_long_unused_is_removed(project, tmp_path):
    old = unpack_kernel(pack(project), tmp_path / "base")
    (project / "lib" / "far.h").write_text("// changed")
    new = unpack_kernel(pack(project), tmp_path / "base")
    os.utime(old, (time.time() - 30 * 86400,) * 2)
    project_copy.remove_unused_projects(tmp_path / "base")

    assert (old.exists(), new.exists()) == (False, True)
