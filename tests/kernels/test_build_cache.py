"""The cache of builds: a damaged build is built anew, and compilers have limits."""

import json
import os
import time

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.kernels.measure_variant import build_variant


def cut(file):
    os.truncate(file, file.stat().st_size // 2)


def empty(file):
    os.truncate(file, 0)


def flip(file):
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)


@pytest.mark.parametrize(
    "damage",
    [flip, *(pytest.param(one, marks=pytest.mark.slow) for one in (cut, empty, os.unlink))],
)
@pytest.mark.parametrize("name", ["kernel.so", "build.log", "sealed.json"])
def test_a_damaged_build_is_built_anew(project, damage, name):
    make_broken_kernel(project, "right")
    first = build_variant("broken", target="cpu")
    folder = project / ".kb/build/broken"
    (final,) = folder.iterdir()
    if name == "build.log" and damage is not os.unlink:
        (final / name).write_text("x" * 100)
    sound = (final / "kernel.so").read_bytes()
    if damage is cut or (final / name).stat().st_size:
        damage(final / name)
    again = build_variant("broken", target="cpu")

    assert (first.status, again.status) == ("built", "built")
    assert len((final / "kernel.so").read_bytes()) == len(sound)
    assert [one.name for one in folder.iterdir()] == [final.name]
    assert build_variant("broken", target="cpu").status == "cached"


def test_a_build_of_an_earlier_release_is_built_anew(project):
    make_broken_kernel(project, "right")
    build_variant("broken", target="cpu")
    (seal,) = project.glob(".kb/build/broken/*/sealed.json")
    assert "kernel.so" in json.loads(seal.read_text())
    seal.unlink()

    assert build_variant("broken", target="cpu").status == "built"


def test_an_array_of_64_gigabytes_ends_in_a_line(project):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    source.write_text('extern "C" { double big[8589934592ull] = {1.0}; }\n' + source.read_text())
    begun = time.monotonic()
    built = build_variant("broken", target="cpu")

    assert built.status == "failed"
    assert "larger than 1 GiB; fill large arrays at run time" in built.error
    assert time.monotonic() - begun < 120  # more than 205 s without a limit
    assert sum(file.stat().st_size for file in project.rglob("*") if file.is_file()) < 2**20


def test_words_of_a_source_are_not_taken_for_a_limit(project):
    folder = make_broken_kernel(project, "right")
    source = folder / "naive.cpp"
    source.write_text('#error "out of memory, file too large"\n' + source.read_text())

    assert build_variant("broken", target="cpu").error.startswith("naive.cpp:1")
