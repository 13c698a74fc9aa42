"""How many blocks fit on an SM, held against NVIDIA's own calculator."""

import csv
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import A100, ARCHITECTURES, H100, L4, LIMITS, T4, launches

from kernelkb.device_math.occupancy import Launch, occupancy

DATA = Path(__file__).parents[1] / "data" / "occupancy"
NO_LIMIT = 2147483647
LIMIT_COLUMNS = ["lim_warps", "lim_regs", "lim_smem", "lim_blocks", "lim_barriers"]
FACTORS = {"warps": 1, "registers": 2, "shared_memory": 4, "blocks": 8, "barriers": 16}


def read_vectors(text):
    return [dict(row) for row in csv.DictReader(text.splitlines())]


def parse_cc(arch):
    return arch if "." in arch else f"{arch[3:-1]}.{arch[-1]}"


def make_launch(row, limits):
    percent = int(row.get("carveout_pct", -1))
    return Launch(
        int(row["block"]),
        int(row["regs"]),
        int(row["static_smem"]),
        int(row["dyn_smem"]),
        barriers=int(row.get("barriers", 0)),
        carveout_bytes=None if percent < 0 else limits.shared * percent // 100,
    )


def format_like_vectors(limits, found):
    """Return what we found in the columns of the vectors."""
    room = [NO_LIMIT if value is None else value for value in found.limits]
    return {
        "blocks_per_sm": found.blocks,
        "warps_per_sm": found.warps,
        "occ_pct": f"{100 * found.share:.1f}",
        **dict(zip(LIMIT_COLUMNS, room, strict=True)),
        "factors": sum(FACTORS[name] for name in found.limiters),
        "alloc_regs_blk": found.registers_block,
        "alloc_smem_blk": found.shared.allocated,
    }


def binding_factors(row):
    """Return the header's factors; where only barriers bind it leaves earlier bits standing."""
    others = (int(row[f"lim_{name}"]) for name in ("warps", "regs", "smem", "blocks"))
    return str(FACTORS["barriers"]) if int(row["lim_barriers"]) < min(others) else row["factors"]


def find_difference(found_rows):
    """Return the first columns in which we and the header disagree."""
    for row in found_rows:
        if "factors" in row:
            row["factors"] = binding_factors(row)
        limits = LIMITS[parse_cc(row["arch"])]
        ours = format_like_vectors(limits, occupancy(limits, make_launch(row, limits)))
        wrong = {k: (v, row[k]) for k, v in ours.items() if k in row and str(v) != row[k]}
        if wrong:
            return row, wrong
    return None


@pytest.mark.parametrize(
    ("name", "count"), [("golden", 238), ("golden_random", 700), ("golden_more", 1000)]
)
def test_every_vector_matches_the_official_calculator(name, count):
    found = read_vectors((DATA / f"{name}.csv").read_text())

    assert len(found) == count
    assert find_difference(found) is None


def test_vectors_cover_every_architecture_and_every_limiter():
    found = read_vectors((DATA / "golden_more.csv").read_text())

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

    assert find_difference(read_vectors(done.stdout)) is None, f"seed {seed}"


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
def test_occupancy_matches_hand_computed_values(limits, launch, blocks, percent):
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


def test_barriers_count_from_hopper_on():
    assert occupancy(H100, Launch(64, 32, barriers=16)).limiters == ("barriers",)
    assert "barriers" not in occupancy(A100, Launch(64, 32, barriers=16)).limiters


@given(ARCHITECTURES, launches())
def test_resident_blocks_are_within_every_limit(cc, launch):
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
