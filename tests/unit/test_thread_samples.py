"""Where the threads of a stopped process are: what Linux and addr2line print, and what is said."""

import struct
from itertools import cycle, islice

import pytest
from shipped_rules import program

from kernelkb.decide.symptoms import find_symptoms
from kernelkb.measure.check.sanitize import (
    OwnLine,
    describe_threads,
    find_virtual_address,
    parse_places,
)
from kernelkb.measure.explain.watch import ThreadState, find_part, parse_maps, parse_thread
from kernelkb.measure.process.system_call_filter import name_system_call

MAPS = """\
7f0a1c000000-7f0a1c001000 r--p 00000000 fe:00 2148167    /home/me/my kernels/.kb/build/k/kernel.so
7f0a1c001000-7f0a1c002000 r-xp 00001000 fe:00 2148167    /home/me/my kernels/.kb/build/k/kernel.so
7f0a1d000000-7f0a1d021000 rw-p 00000000 00:00 0
7f0a1e000000-7f0a1e040000 r-xp 00008000 fe:00 77         /usr/lib/gcc/libgomp.so.1.0.0
7f0a1f000000-7f0a1f200000 r-xp 00026000 fe:00 78         /usr/lib/x86_64-linux-gnu/libc.so.6
"""
IN_CODE, IN_GOMP, IN_LIBC = 0x7F0A1C001137, 0x7F0A1E000100, 0x7F0A1F006503
PARTS = parse_maps(MAPS)
MAIN, SECOND, THIRD = 100, 101, 102
FUTEX = 202
LOOP = [OwnLine("row_softmax", "naive.cpp", line) for line in (12, 14)]


def test_a_thread_that_computes_has_no_system_call():
    assert parse_thread("-1 0x7ffc3310f698 0x55dce0188137\n") == ThreadState(None, 0x55DCE0188137)


def test_a_thread_that_waits_has_the_number_of_its_system_call():
    text = "202 0x7f0a 0x189 0x0 0x0 0x0 0xffffffff 0x7ffce796ad18 0x7fc36df96503\n"

    assert parse_thread(text) == ThreadState(202, 0x7FC36DF96503)


def test_of_a_thread_that_runs_nothing_is_known():
    assert parse_thread("running\n") is None


def test_a_part_of_memory_without_a_file_is_left_out():
    assert [part.file.rpartition("/")[2] for part in PARTS] == [
        "kernel.so",
        "kernel.so",
        "libgomp.so.1.0.0",
        "libc.so.6",
    ]
    assert find_part(PARTS, IN_CODE) == PARTS[1]
    assert find_part(PARTS, 0x7F0A1D000010) is None


def make_image(*segments):
    """An ELF file's headers, with segments of (type, offset, address, bytes)."""
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(54, b"\0") + struct.pack("<2H", 56, len(segments))
    rows = [
        struct.pack("<II6Q", kind, 5, at, to, to, size, size, 1) for kind, at, to, size in segments
    ]
    return head.ljust(64, b"\0") + b"".join(rows)


def test_an_offset_in_the_file_is_not_the_address_in_it():
    image = make_image((4, 0, 0, 0x9000), (1, 0, 0, 0x538), (1, 0x2DF8, 0x3DF8, 0x228))

    assert find_virtual_address(image, 0x137) == 0x137
    assert find_virtual_address(image, 0x2E00) == 0x3E00
    assert find_virtual_address(image, 0x2000) is None


def test_a_file_that_is_no_elf_has_no_addresses():
    assert find_virtual_address(b"#!/bin/sh\n", 0) is None


PRINTED = """\
0x0000000000001137
std::__atomic_base<int>::load(std::memory_order) const
/usr/include/c++/12/bits/atomic_base.h:488 (discriminator 1)
wait(int const*)
{folder}/naive.cpp:12
row_softmax._omp_fn.0
{folder}/naive.cpp:20 (discriminator 2)
0x0000000000001150
std::thread::_State_impl<std::thread::_Invoker<std::tuple<row_softmax::{{lambda()#1}}> > >::_M_run()
{folder}/naive.cpp:31
0x0000000000001160
expf
/build/glibc/math/e_expf.c:30
0x0000000000001170
??
??:0
0x0000000000001180
row_softmax
{folder}/naive.cpp:?
"""


def test_only_lines_of_the_candidates_own_files_are_read(tmp_path):
    found = parse_places(PRINTED.format(folder=tmp_path), tmp_path)

    assert found == {
        0x1137: (
            OwnLine("row_softmax", "naive.cpp", 20),
            OwnLine("wait(int const*)", "naive.cpp", 12),
        ),
        0x1150: (OwnLine("", "naive.cpp", 31),),
        0x1160: (),
        0x1170: (),
        0x1180: (),
    }


def test_nothing_printed_is_no_place(tmp_path):
    assert parse_places("", tmp_path) == {}
    assert parse_places("addr2line: kernel.so: no such file\n", tmp_path) == {}


def describe(chains, *threads):
    """Describe 20 samples, of threads whose states repeat."""
    rows = [islice(cycle(states), 20) for states in threads]
    samples = [
        dict(zip((MAIN, SECOND, THIRD), states, strict=False)) for states in zip(*rows, strict=True)
    ]
    return describe_threads(samples, MAIN, PARTS, chains)


def at(address, call=None):
    return ThreadState(call, address)


def test_the_lines_are_a_range_and_the_samples_are_counted():
    chains = {IN_CODE: (LOOP[0],), IN_CODE + 8: (LOOP[1],)}
    told = describe(chains, [at(IN_CODE), at(IN_CODE + 8), at(IN_CODE), at(IN_LIBC)])

    assert told == (
        "endless loop: the thread stays in row_softmax at naive.cpp:12 to 14 (15 of 20 samples)"
    )
    assert [row["symptom"] for row in find_symptoms(program(), told)] == ["endless-loop"]


def test_a_loop_that_is_inlined_at_one_line_is_told_with_that_line():
    inner = [OwnLine("wait", "naive.cpp", line) for line in (7, 8)]
    chains = {IN_CODE: (LOOP[0], inner[0]), IN_CODE + 8: (LOOP[0], inner[1])}
    told = describe(chains, [at(IN_CODE), at(IN_CODE + 8)])

    assert "stays in wait at naive.cpp:7 to 8, called at naive.cpp:12 (20 of" in told


def test_a_loop_that_calls_inlined_functions_is_told_by_its_own_lines():
    step = OwnLine("step", "naive.cpp", 3)
    told = describe(
        {IN_CODE: (LOOP[0], step), IN_CODE + 8: (LOOP[1],)}, [at(IN_CODE), at(IN_CODE + 8)]
    )

    assert "in row_softmax at naive.cpp:12 to 14 (20 of" in told


def test_several_threads_are_counted_together_and_a_caller_that_waits_is_told():
    told = describe(
        {IN_CODE: (LOOP[0],)}, [at(IN_LIBC, FUTEX)], [at(IN_CODE)], [at(IN_CODE), at(IN_LIBC)]
    )

    assert told == (
        "endless loop: 2 threads stay in row_softmax at naive.cpp:12 (30 of 40 samples); "
        f"the thread that called it waits in {name_system_call(FUTEX)}"
    )
    assert [row["symptom"] for row in find_symptoms(program(), told)] == ["endless-loop"]


def test_a_caller_that_waits_in_openmp_without_a_system_call_waits():
    told = describe({IN_CODE: (LOOP[0],)}, [at(IN_GOMP)], [at(IN_CODE)])

    assert told.endswith("; the thread that called it waits in libgomp.so.1.0.0")


def test_where_no_thread_computes_it_is_no_loop():
    told = describe({IN_CODE: (LOOP[0],)}, [at(IN_LIBC, FUTEX)], [at(IN_LIBC, FUTEX)])

    assert told.startswith("the thread that called it waits in ")
    assert told.endswith(", and no thread computes")
    assert find_symptoms(program(), told) == []


@pytest.mark.parametrize(
    "states",
    [
        [at(IN_LIBC)],  # where it was called from is not known
        [at(IN_LIBC, FUTEX), at(IN_LIBC)],
        [at(IN_CODE), *[at(IN_LIBC)] * 9],  # mostly elsewhere
    ],
)
def test_what_is_not_known_is_not_told(states):
    assert describe({IN_CODE: (LOOP[0],)}, states) is None


def test_without_samples_nothing_is_told():
    assert describe_threads([{}] * 20, MAIN, PARTS, {}) is None


def test_a_system_call_that_is_not_known_has_a_number():
    assert name_system_call(99_999) == "system call 99999"
