"""How many blocks fit on an SM, held against NVIDIA's own calculator, and what one more takes."""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import program

from engine.actions.hardware import limits_of
from engine.device_math.limits import Launch
from engine.device_math.next_step import (
    better_block_size,
    one_more_block,
    register_steps,
    spare_registers,
    spare_shared_bytes,
)
from engine.device_math.occupancy import occupancy
from engine.device_math.registers import register_cap, registers_for_blocks
from engine.device_math.waves import waves

DATA = Path(__file__).parents[1] / "data" / "occupancy"
HARDWARE = program()["hardware"]
LIMITS = {cc: limits_of(HARDWARE, cc) for cc in HARDWARE["architectures"]}
H100, L4, A100, T4 = LIMITS["9.0"], LIMITS["8.9"], LIMITS["8.0"], LIMITS["7.5"]
NO_LIMIT = 2147483647
FACTORS = {"warps": 1, "registers": 2, "shared_memory": 4, "blocks": 8, "barriers": 16}


def rows(text):
    return [dict(row) for row in csv.DictReader(text.splitlines())]


def cc_of(arch):
    return arch if "." in arch else f"{arch[3:-1]}.{arch[-1]}"


def launch_of(row, limits):
    percent = int(row.get("carveout_pct", -1))
    return Launch(
        int(row["block"]),
        int(row["regs"]),
        int(row["static_smem"]),
        int(row["dyn_smem"]),
        barriers=int(row.get("barriers", 0)),
        carveout_bytes=None if percent < 0 else limits.shared * percent // 100,
    )


def as_the_header_says_it(limits, found):
    """Return what we found in the columns of the vectors."""
    room = [NO_LIMIT if value is None else value for value in found.limits]
    return {
        "blocks_per_sm": found.blocks,
        "warps_per_sm": found.warps,
        "occ_pct": f"{100 * found.share:.1f}",
        **dict(zip(["lim_warps", "lim_regs", "lim_smem", "lim_blocks", "lim_barriers"], room)),
        "factors": sum(FACTORS[name] for name in found.limiters),
        "alloc_regs_blk": found.registers_block,
        "alloc_smem_blk": found.shared.allocated,
    }


def binding_factors(row):
    """Return the header's factors; where only barriers bind it leaves earlier bits standing."""
    others = (int(row[f"lim_{name}"]) for name in ("warps", "regs", "smem", "blocks"))
    return str(FACTORS["barriers"]) if int(row["lim_barriers"]) < min(others) else row["factors"]


def differing(found_rows):
    """Return the first columns in which we and the header disagree."""
    for row in found_rows:
        if "factors" in row:
            row["factors"] = binding_factors(row)
        limits = LIMITS[cc_of(row["arch"])]
        ours = as_the_header_says_it(limits, occupancy(limits, launch_of(row, limits)))
        wrong = {k: (v, row[k]) for k, v in ours.items() if k in row and str(v) != row[k]}
        if wrong:
            return row, wrong
    return None


@pytest.mark.parametrize(
    ("name", "count"), [("golden", 238), ("golden_random", 700), ("golden_more", 1000)]
)
def test_every_column_of_every_vector_is_what_the_official_calculator_says(name, count):
    found = rows((DATA / f"{name}.csv").read_text())

    assert len(found) == count
    assert differing(found) is None


def test_vectors_cover_every_architecture_and_every_limiter():
    found = rows((DATA / "golden_more.csv").read_text())

    assert {row["arch"] for row in found} == set(LIMITS)
    assert all(any(int(row["factors"]) & bit for row in found) for bit in FACTORS.values())


def test_an_installed_toolkit_agrees_on_launches_never_seen(tmp_path):
    folder = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    if not (folder / "cuda_occupancy.h").is_file() or not shutil.which("g++"):
        pytest.skip("needs cuda_occupancy.h of a CUDA toolkit and g++")
    program = tmp_path / "vectors"
    source = str(DATA / "vectors.cpp")
    subprocess.run(["g++", "-O1", f"-I{folder}", source, "-o", str(program)], check=True)
    seed = str(os.getpid())
    done = subprocess.run([program, seed, "5000"], capture_output=True, text=True, check=True)

    assert differing(rows(done.stdout)) is None, f"seed {seed}"


STEPS_64 = {
    128: "32:16 40:12 48:10 56:9 64:8 72:7 80:6 96:5 128:4 168:3 255:2",
    256: "32:8 40:6 48:5 64:4 80:3 128:2 255:1",
    384: "32:5 40:4 56:3 80:2 168:1",
    512: "32:4 40:3 64:2 128:1",
    1024: "32:2 64:1",
}
STEPS_48 = {
    128: "40:12 48:10 56:9 64:8 72:7 80:6 96:5 128:4 168:3 255:2",
    256: "40:6 48:5 64:4 80:3 128:2 255:1",
    384: "40:4 56:3 80:2 168:1",
    512: "40:3 64:2 128:1",
    1024: "64:1",
}
TABLE = [
    *(("8.0 9.0 10.0 10.3".split(), threads, text) for threads, text in STEPS_64.items()),
    *((["8.6", "8.7", "8.9", "11.0", "12.0", "12.1"], t, text) for t, text in STEPS_48.items()),
    (["7.5"], 256, "64:4 80:3 128:2 255:1"),
]


@pytest.mark.parametrize(("architectures", "threads", "text"), TABLE)
def test_register_steps_by_hand(architectures, threads, text):
    for cc in architectures:
        steps = register_steps(LIMITS[cc], Launch(threads, 32))

        assert " ".join(f"{step.registers}:{step.blocks}" for step in steps) == text


@pytest.mark.parametrize(
    ("limits", "launch", "blocks", "percent"),
    [
        (A100, Launch(256, 32, 0, 49152), 3, 37.5),
        (L4, Launch(256, 32, 0, 49152), 2, 33.3),
        (H100, Launch(256, 32, 0, 49152), 4, 50.0),
        (L4, Launch(256, 32, 0, 101376), 1, 16.7),
        (A100, Launch(256, 32, 0, 163 * 1024), 1, 12.5),
        (H100, Launch(256, 32, 0, 227 * 1024), 1, 12.5),
        (H100, Launch(384, 168, 0, 227 * 1024), 1, 18.8),
        (A100, Launch(128, 255), 2, 12.5),
        (H100, Launch(32, 32), 32, 50.0),
        (L4, Launch(32, 32), 24, 50.0),
        (T4, Launch(32, 32), 16, 50.0),
        (LIMITS["8.6"], Launch(32, 32), 16, 33.3),
        (H100, Launch(64, 32), 32, 100.0),
        (LIMITS["8.6"], Launch(64, 32), 16, 66.7),
    ],
)
def test_launches_by_hand(limits, launch, blocks, percent):
    found = occupancy(limits, launch)

    assert (found.blocks, round(100 * found.share, 1)) == (blocks, percent)


@pytest.mark.parametrize(
    ("limits", "launch", "obstacles"),
    [
        (H100, Launch(1025, 32), ("threads",)),
        (H100, Launch(1024, 65), ("registers_block",)),
        (H100, Launch(384, 169), ("registers_block",)),
        (H100, Launch(32, 256), ("registers_thread",)),
        (L4, Launch(256, 32, 0, 101377), ("shared_bytes",)),
        (L4, Launch(256, 32, 49153), ("static_bytes",)),
        (L4, Launch(256, 32, 60000, 60000), ("static_bytes", "shared_bytes")),
        (H100, Launch(256, 32, barriers=17), ("barriers",)),
        (L4, Launch(256, 32, 49152, 52224), ()),
    ],
)
def test_a_launch_that_fails_says_why(limits, launch, obstacles):
    found = occupancy(limits, launch)

    assert found.obstacles == obstacles
    assert (found.blocks == 0) == bool(obstacles)


@pytest.mark.parametrize(
    ("threads", "cap"),
    [(64, 255), (256, 255), (288, 168), (384, 168), (416, 128), (512, 128), (544, 96)]
    + [(640, 96), (768, 80), (800, 72), (896, 72), (1024, 64)],
)
def test_caps_are_those_that_ptxas_was_seen_to_keep(threads, cap):
    """Compiled with nvcc 13.0 for sm_90a from kernels that would have used more."""
    assert register_cap(H100, threads) == cap


def test_no_register_count_fits_a_thousand_blocks():
    assert registers_for_blocks(H100, 256, 1000) is None


def test_wanted_blocks_by_hand():
    assert registers_for_blocks(A100, 256, 4) == 64


def test_a_register_bound_launch_names_the_step_below():
    step = one_more_block(H100, Launch(256, 96))

    assert [(c.field, c.now, c.to) for c in step.changes] == [("registers", 96, 80)]
    assert step.occupancy.blocks == 3


def test_a_full_sm_has_no_next_step():
    assert one_more_block(H100, Launch(256, 32)) is None
    assert better_block_size(H100, Launch(256, 32)) is None


def test_a_block_size_that_wastes_warps_is_replaced():
    step = better_block_size(H100, Launch(1024, 40))

    assert occupancy(H100, Launch(1024, 40)).warps == 32
    assert step.launch.threads == 768
    assert step.occupancy.warps == 48


def test_small_blocks_are_enlarged_because_their_number_is_limited():
    step = better_block_size(L4, Launch(32, 32))

    assert (step.launch.threads, step.occupancy.share) == (64, 1.0)


def test_a_small_carveout_is_enlarged_before_bytes_are_cut():
    step = one_more_block(H100, Launch(256, 32, 0, 20000, carveout_bytes=32 * 1024))

    assert [(c.field, c.to) for c in step.changes] == [("carveout_bytes", 64 * 1024)]


def test_static_bytes_that_are_too_many_move_to_the_dynamic_part():
    step = one_more_block(L4, Launch(256, 32, 60000))

    assert step.launch.static_bytes == 49152
    assert step.launch.shared_bytes == 60000
    assert step.occupancy.shared.opt_in_bytes == 60000 - 49152


def test_barriers_count_from_hopper_on():
    assert occupancy(H100, Launch(64, 32, barriers=16)).limiters == ("barriers",)
    assert "barriers" not in occupancy(A100, Launch(64, 32, barriers=16)).limiters


@pytest.mark.parametrize(
    ("grid", "rounds", "tail", "loss", "idle"),
    [(264, 1, 264, 0.0, 0), (265, 2, 1, 1 - 265 / 528, 0), (66, 1, 66, 0.75, 66)],
)
def test_waves_of_two_blocks_on_each_sm_of_an_h100(grid, rounds, tail, loss, idle):
    found = waves(grid, 2, 132)

    assert (found.rounds, found.tail_blocks, found.idle_sms) == (rounds, tail, idle)
    assert found.loss == pytest.approx(loss)


def test_a_launch_that_fails_has_no_waves():
    assert waves(100, 0, 132) is None


ARCHITECTURES = st.sampled_from(sorted(LIMITS))


@st.composite
def launches(draw):
    whole = st.integers(1, 32).map(lambda warps: 32 * warps)
    return Launch(
        draw(whole | st.integers(1, 1024)),
        draw(st.integers(1, 255)),
        draw(st.just(0) | st.integers(0, 60000)),
        draw(st.just(0) | st.integers(0, 240000)),
        barriers=draw(st.just(0) | st.integers(1, 17)),
        carveout_bytes=draw(st.none() | st.integers(0, 65536)),
    )


@given(ARCHITECTURES, launches())
def test_what_fits_is_within_every_limit(cc, launch):
    limits = LIMITS[cc]
    found = occupancy(limits, launch)

    assert 0 <= found.share <= 1
    assert found.blocks <= limits.blocks
    assert found.blocks * launch.threads <= limits.threads
    assert found.blocks * found.registers_block <= limits.registers
    assert found.blocks * found.shared.allocated <= found.shared.carveout
    assert found.limiters
    assert (found.blocks == 0) == bool(found.obstacles)


@given(ARCHITECTURES, launches(), st.integers(1, 100))
def test_more_registers_never_give_more_blocks(cc, launch, more):
    greedy = launch._replace(registers=launch.registers + more)

    assert occupancy(LIMITS[cc], greedy).blocks <= occupancy(LIMITS[cc], launch).blocks


@given(ARCHITECTURES, launches(), st.integers(1, 100000))
def test_more_shared_memory_never_gives_more_blocks(cc, launch, more):
    greedy = launch._replace(dynamic_bytes=launch.dynamic_bytes + more)

    assert occupancy(LIMITS[cc], greedy).blocks <= occupancy(LIMITS[cc], launch).blocks


@given(ARCHITECTURES, launches(), st.integers(0, 65536))
def test_a_larger_carveout_never_gives_fewer_blocks(cc, launch, more):
    base = launch.carveout_bytes or 0
    small, large = (launch._replace(carveout_bytes=size) for size in (base, base + more))

    assert occupancy(LIMITS[cc], small).blocks <= occupancy(LIMITS[cc], large).blocks


def one_back(launch, change):
    """Return the launch with one number a little further than the step allows."""
    match change.field:
        case "shared_bytes":
            return launch._replace(dynamic_bytes=launch.dynamic_bytes + 1)
        case "carveout_bytes":
            return launch._replace(carveout_bytes=launch.carveout_bytes // 2)
        case "static_bytes":
            return launch._replace(static_bytes=launch.static_bytes + 1)
    return launch._replace(**{change.field: getattr(launch, change.field) + 1})


@given(ARCHITECTURES, launches())
def test_the_next_step_gives_more_blocks_and_anything_less_does_not(cc, launch):
    limits = LIMITS[cc]
    now, step = occupancy(limits, launch), one_more_block(limits, launch)

    if step is None:
        assert now.blocks + 1 > min(now.limits.warps, now.limits.blocks)
        return
    assert step.changes
    assert step.occupancy.blocks > now.blocks
    assert step.occupancy == occupancy(limits, step.launch)
    for change in step.changes:
        assert change.now != change.to
        assert occupancy(limits, one_back(step.launch, change)).blocks <= now.blocks


@given(ARCHITECTURES, launches())
def test_no_block_size_beats_the_better_one(cc, launch):
    limits = LIMITS[cc]
    step = better_block_size(limits, launch)
    best = max(occupancy(limits, launch._replace(threads=n)).warps for n in range(32, 1025, 32))

    assert (step.occupancy if step else occupancy(limits, launch)).warps >= best


@given(ARCHITECTURES, launches())
def test_register_steps_fall_and_each_is_the_last_of_its_blocks(cc, launch):
    limits = LIMITS[cc]
    steps = register_steps(limits, launch)

    assert [s.blocks for s in steps] == sorted({s.blocks for s in steps}, reverse=True)
    for step in steps:
        beyond = launch._replace(registers=step.registers + 1)
        assert occupancy(limits, launch._replace(registers=step.registers)).blocks == step.blocks
        assert occupancy(limits, beyond).blocks < step.blocks


@given(ARCHITECTURES, st.integers(1, 1024), st.integers(1, 32))
def test_the_registers_for_some_blocks_are_the_most(cc, threads, blocks):
    limits = LIMITS[cc]
    most = registers_for_blocks(limits, threads, blocks)
    room = [occupancy(limits, Launch(threads, r)).limits.registers for r in range(1, 256)]
    fitting = [r for r, fit in enumerate(room, 1) if fit >= blocks]

    assert most == (max(fitting) if fitting else None)


@given(ARCHITECTURES, launches())
def test_what_is_spare_costs_no_block_and_one_more_does(cc, launch):
    limits = LIMITS[cc]
    now = occupancy(limits, launch)
    registers, size = spare_registers(limits, launch), spare_shared_bytes(limits, launch)
    used = launch._replace(
        registers=launch.registers + registers, dynamic_bytes=launch.dynamic_bytes + size
    )

    assert registers >= 0
    assert size >= 0
    assert occupancy(limits, used).blocks == now.blocks
    if now.blocks:
        for beyond in (
            used._replace(registers=used.registers + 1),
            used._replace(dynamic_bytes=used.dynamic_bytes + 1),
        ):
            assert occupancy(limits, beyond).blocks < now.blocks


@given(st.integers(1, 100000), st.integers(1, 32), st.integers(1, 200))
def test_waves_hold_the_whole_grid(grid, blocks, sms):
    found = waves(grid, blocks, sms)

    assert (found.rounds - 1) * found.slots + found.tail_blocks == grid
    assert 1 <= found.tail_blocks <= found.slots
    assert 0 <= found.loss < 1
