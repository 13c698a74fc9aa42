"""``kb occupancy`` and ``kb roofline`` as a shell calls them."""

import json
from pathlib import Path

import pytest

from kernelkb.cli import main
from kernelkb.decide.parse_metric import OUT_OF_SCOPE

OCCUPANCY = ["occupancy", "--gpu", "h100-sxm", "--threads", "256", "--registers", "96"]
ROOFLINE = ["roofline", "--gpu", "h100-sxm", "--bytes", "1GiB", "--us", "400"]


def run_kb_json(capsys, *words):
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_verdict_comes_first_and_names_the_limiter(capsys):
    assert main(OCCUPANCY) == 0

    out = capsys.readouterr().out
    assert out.startswith(
        "2 blocks per SM: 16 of 64 warps, occupancy 0.25, limited by registers, on H100 SXM"
    )
    assert "3 blocks, occupancy 0.375: at most 80 registers per thread (now 96)" in out


def test_json_keys_are_stable(capsys):
    _, found = run_kb_json(capsys, *OCCUPANCY, "--grid", "1000", "--blocks", "4")

    assert set(found) == {
        *("gpu", "title", "architecture", "launch", "possible", "obstacles", "blocks_per_sm"),
        *("warps_per_sm", "warps_max", "occupancy", "limits", "limited_by", "registers"),
        *("shared_memory", "next_step", "better_block_size", "wanted", "register_cap"),
        *("register_steps", "waves"),
    }
    assert set(found["launch"]) == {
        *("threads", "registers", "static_bytes", "dynamic_bytes", "barriers", "carveout_bytes"),
        "grid_blocks",
    }
    assert set(found["limits"]) == {"warps", "registers", "shared_memory", "blocks", "barriers"}
    assert set(found["registers"]) == {"block", "sm", "spare_per_thread"}
    assert set(found["shared_memory"]) == {
        *("asked", "allocated", "carveout", "blocks", "static_fits", "fits", "opt_in_bytes"),
        *("left_without_opt_in", "left", "reserved", "static_limit", "opt_in_limit"),
        "spare_per_block",
    }
    assert set(found["next_step"]) == {"changes", "blocks_per_sm", "warps_per_sm", "occupancy"}
    assert set(found["next_step"]["changes"][0]) == {"field", "now", "to"}
    assert set(found["register_steps"][0]) == {"registers", "blocks", "warps", "share"}
    assert set(found["wanted"]) == {"blocks_per_sm", "registers", "shared_bytes"}
    assert set(found["waves"]) == {
        *("sm_count", "slots", "waves", "rounds", "tail_blocks", "loss", "idle_sms"),
    }


@pytest.mark.parametrize("name", ["h100-sxm", "H100", "NVIDIA H100 80GB HBM3", "h100  sxm"])
def test_any_name_of_a_gpu_will_do(capsys, name):
    _, found = run_kb_json(
        capsys, "occupancy", "--gpu", name, "--threads", "64", "--registers", "32"
    )

    assert (found["gpu"], found["architecture"]) == ("h100-sxm", "9.0")


@pytest.mark.parametrize("name", ["8.9", "89", "sm_89", "sm89", "SM_89", "compute_89", "sm_89a"])
def test_any_spelling_of_an_architecture_will_do(capsys, name):
    _, found = run_kb_json(
        capsys, "occupancy", "--arch", name, "--threads", "64", "--registers", "32"
    )

    assert (found["gpu"], found["architecture"]) == (None, "8.9")


@pytest.mark.parametrize("name", ["sm_120", "12.0", "sm_100f", "10.3"])
def test_architectures_of_three_digits_will_do(capsys, name):
    code, _ = run_kb_json(
        capsys, "occupancy", "--arch", name, "--threads", "64", "--registers", "32"
    )

    assert code == 0


def test_a_launch_that_would_fail_is_exit_1_with_the_cure(capsys):
    code = main(["occupancy", "--arch", "9.0", "--threads", "1024", "--registers", "65"])

    out = capsys.readouterr().out
    assert code == 1
    assert out.startswith("This launch fails")
    assert "may use 64 per thread" in out


def test_the_shared_memory_opt_in_prints_the_cuda_call(capsys):
    main([*OCCUPANCY, "--static-smem", "16KiB", "--dynamic-smem", "128x64x2x3"])

    assert (
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 49152)"
        in capsys.readouterr().out
    )


def test_a_full_sm_is_reported(capsys):
    main(["occupancy", "--arch", "9.0", "--threads", "256", "--registers", "32"])

    assert "none: the SM is full" in capsys.readouterr().out


def test_idle_lanes_are_mentioned(capsys):
    main(["occupancy", "--arch", "9.0", "--threads", "250", "--registers", "32"])

    assert "6 lanes of each block's last warp never run" in capsys.readouterr().out


def test_a_grid_smaller_than_the_gpu_leaves_sms_idle(capsys):
    main([*OCCUPANCY, "--grid", "100"])

    assert "32 SMs get no block at all" in capsys.readouterr().out


def test_a_carveout_percentage_is_of_the_maximum(capsys):
    _, found = run_kb_json(capsys, *OCCUPANCY, "--carveout", "50%")

    assert found["launch"]["carveout_bytes"] == 233472 // 2
    assert found["shared_memory"]["carveout"] == 132 * 1024


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--gpu", "h1000"], "unknown GPU 'h1000' (did you mean 'h100'?)"),
        (["--arch", "9.1"], "unknown architecture '9.1' (did you mean '9.0'?)"),
        (["--arch", "hopper"], "kb show architectures"),
        ([], "name one of the two"),
        (["--gpu", "l4", "--arch", "8.9"], "name one of the two"),
        (["--gpu", "l4", "--threads", "0"], "threads per block is 0"),
        (["--gpu", "l4", "--threads", "1025"], "threads per block is 1025"),
        (["--gpu", "l4", "--registers", "300"], "registers per thread is 300"),
        (["--gpu", "l4", "--registers", "x"], "is not a whole number"),
        (["--gpu", "l4", "--dynamic-smem", "-1"], "is not a size"),
        (["--gpu", "l4", "--static-smem", "48KB"], "write 48KiB or 48000"),
        (["--gpu", "l4", "--carveout", "1MiB"], "an SM has 102400"),
        (["--gpu", "l4", "--carveout", "101%"], "carve-out in percent is 101"),
        (["--gpu", "l4", "--barriers", "17"], "barriers is 17"),
        (["--gpu", "l4", "--blocks", "7"], "ask for 6 or for smaller blocks"),
        (["--gpu", "l4", "--grid", "0"], "grid is 0"),
        (["--arch", "8.9", "--grid", "10"], "name the GPU with --gpu"),
        (["--arch", "8.9", "--grid", "10"], "give --sm-count"),
        (["--arch", "8.9", "--sm-count", "0"], "sm-count is 0"),
        (["--gpu", "AMD Instinct MI300X"], OUT_OF_SCOPE),
    ],
)
def test_misuse_is_one_line_with_the_cure_and_exit_2(capsys, words, text):
    assert main(["occupancy", "--threads", "256", "--registers", "32", *words]) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.startswith("kb: ")
    assert err.count("\n") == 1


def test_the_roofline_names_the_roof_and_the_headroom(capsys):
    assert main(ROOFLINE) == 0

    out = capsys.readouterr().out
    assert out.startswith("at least 355.92 us on H100 SXM, 80 GB HBM3: memory bandwidth binds")
    assert "measured 400.00 us: 0.89 of the roof, 1.12x its floor" in out


def test_roofline_json_keys_are_stable(capsys):
    _, found = run_kb_json(capsys, *ROOFLINE, "--flop", "2.5e9")

    assert set(found) == {
        *("gpu", "title", "dtype", "pipe", "bytes", "flop", "roofs", "binds", "floor_us"),
        *("intensity_flop_per_byte", "ridge_flop_per_byte", "ridge_data_sheet_flop_per_byte"),
        *("data_sheet_gbps", "l2_bytes", "measured_us", "attainable_speedup"),
    }
    assert [roof["name"] for roof in found["roofs"]] == ["memory", "compute", "launch"]
    assert all(
        set(roof) == {"name", "floor_us", "counts", "rate", "unit", "origin", "sustained_us"}
        for roof in found["roofs"]
    )


def test_a_time_below_the_floor_is_doubted(capsys):
    main(["roofline", "--gpu", "l4", "--flop", "1e12", "--dtype", "fp32", "--us", "20"])

    assert "faster than the floor; the work is overstated" in capsys.readouterr().out


def test_a_roof_that_does_not_count_says_why(capsys):
    main(["roofline", "--gpu", "h100", "--bytes", "64MiB"])

    out = capsys.readouterr().out
    assert out.startswith("no floor")
    assert "the 50 MiB of L2 may hold much of it; --cold counts it" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--gpu", "h1000", "--flop", "1e9"], "did you mean 'h100'?"),
        (["--gpu", "t4"], "there is no work to estimate"),
        (["--gpu", "t4", "--flop", "-1"], "flop is -1"),
        (["--gpu", "t4", "--flop", "nan"], "leave it out when it is not known"),
        (["--gpu", "t4", "--bytes", "1GB"], "write 1GiB or 1000000000"),
        (["--gpu", "t4", "--flop", "1e9", "--dtype", "fp8"], "t4 has no unit for fp8"),
        (["--gpu", "t4", "--flop", "1e9", "--us", "0"], "us is 0"),
    ],
)
def test_misuse_of_the_roofline_is_one_line_too(capsys, words, text):
    assert main(["roofline", *words]) == 2

    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1


def test_architectures_can_be_listed_and_shown(capsys):
    main(["show", "architectures"])
    listed = capsys.readouterr().out
    main(["show", "11.0", "--json"])

    assert "12.1  sm_121" in listed
    assert json.loads(capsys.readouterr().out)["max_threads_sm"] == 1536


UNLISTED = ("--arch", "10.3", "--sm-count", "148", "--clock-mhz", "1920", "--dram-gbps", "8000")


def test_a_gpu_that_is_not_listed_has_waves_by_its_number_of_sms(capsys):
    _, found = run_kb_json(
        capsys, "occupancy", *UNLISTED[:4], "--threads", "256", "--registers", "64", "--grid", "592"
    )

    assert found["waves"]["sm_count"] == 148
    assert found["waves"]["waves"] == 1


def test_peaks_that_are_not_given_follow_from_sms_clock_and_architecture(capsys):
    _, found = run_kb_json(capsys, "roofline", *UNLISTED, "--flop", "1e12", "--dtype", "fp32")
    compute = next(roof for roof in found["roofs"] if roof["name"] == "compute")

    assert compute["rate"] == pytest.approx(148 * 128 * 2 * 1920 / 1e6)


def test_the_memory_of_a_gpu_that_is_not_listed_is_a_roof(capsys):
    assert main(["roofline", *UNLISTED, "--bytes", "1GiB"]) == 0
    assert "of the data sheet's 8,000" in capsys.readouterr().out


def test_a_given_number_replaces_that_of_a_listed_gpu(capsys):
    _, found = run_kb_json(
        capsys, "roofline", "--gpu", "h100-sxm", "--dram-gbps", "2000", "--bytes", "1GiB"
    )

    assert (found["gpu"], found["data_sheet_gbps"]) == ("h100-sxm", 2000)


def test_recommend_knows_the_floor_on_a_gpu_that_is_not_listed(capsys):
    words = ["recommend", "--speedup", "0.9", "--kernel-us", "200", "--metric"]
    _, found = run_kb_json(capsys, *words, "algorithmic_bytes=1e9", *UNLISTED)
    answer = found["kernels"][0]

    assert answer["device"] == "sm_103"
    assert answer["headroom"]["floor_us"] == pytest.approx(1e9 / (8000 * 0.9) / 1e3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["roofline", "--arch", "10.3", "--bytes", "1GiB"], "give --dram-gbps"),
        (["roofline", "--arch", "10.3", "--dram-gbps", "1e3", "--flop", "1e9"], "--fp16-tflops"),
        (["roofline", "--gpu", "dgx-spark", "--flop", "1e9", "--dtype", "fp16"], "--fp16-tflops"),
        (["recommend", "--speedup", "1", "--sm-count", "9"], "name one of the two"),
        (["recommend", "--profile", "a.csv", "--arch", "9.0"], "leave --arch"),
        (["recommend", "--speedup", "1", "--gpu", "mi300x"], OUT_OF_SCOPE),
    ],
)
def test_what_is_missing_of_an_unlisted_gpu_is_named(capsys, words, text):
    assert main(words) == 2
    assert text in capsys.readouterr().err


def test_the_readme_says_what_is_out_of_scope():
    assert OUT_OF_SCOPE in (Path(__file__).parents[2] / "README.md").read_text("utf-8")
