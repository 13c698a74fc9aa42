"""What a GPU reaches in practice: the program that measures it, and the answers that use it.

No GPU is here, so a program that prints recorded times stands in for the one that nvcc makes.
"""

import json
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from benchmarks.zoo.recordings import read_recordings

from kernelkb.actions.advice.recommend import recommend_from_metrics
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.cli import main
from kernelkb.errors import EnvironmentGapError, KbError
from kernelkb.measure.machine import practical_peaks
from kernelkb.measure.machine.cached_facts import (
    keep_practical_peaks,
    read_peak_metrics,
    read_practical_peaks,
)
from kernelkb.measure.machine.host import find_nvcc
from kernelkb.measure.machine.practical_peaks import measure_practical_peaks, read_shares
from kernelkb.model.records.measurement import Machine, PracticalPeaks
from kernelkb.profiles.launch import ProfiledLaunch, list_raw_names
from kernelkb.render.text.answers import format_answer_lines
from kernelkb.render.text.measurements import format_peaks_lines
from kernelkb.safety.paths import shipped_folder

TIMES = {
    "copy_gbps": 2800.0,
    "l2_read_gbps": 5500.0,
    "empty_us": 2.1,
    "l2_latency_ns": 150.0,
    "dram_latency_ns": 480.0,
    "dram_loaded_latency_ns": 900.0,
    "atomic_rate_address": 1.7,
    "atomic_rate_sector": 1.8,
    "atomic_rate_random": 100.0,
    "cas_rate_random": 30.0,
}
ZOO = read_recordings(Path(shipped_folder("kernels")) / "zoo" / "measured" / "h100-sxm.jsonl")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    compiled = load_compiled_rules()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return compiled


def make_peaks(**fields):
    return PracticalPeaks(
        **{
            "title": "NVIDIA H100 80GB HBM3",
            "device": "h100-sxm",
            "driver": "580.1",
            "measured_at": datetime(2026, 11, 22, tzinfo=UTC),
            **TIMES,
            **fields,
        }
    )


def make_machine(compiler, **fields):
    return Machine(
        **{
            "target": "cuda",
            "title": "NVIDIA H100 80GB HBM3",
            "device": "h100-sxm",
            "core_count": 2,
            "cache_bytes": 50 * 2**20,
            "cc": "9.0",
            "compiler": str(compiler),
            "compiler_version": "13.0",
            "python": "python3",
            "torch": "2.13.0",
            **fields,
        }
    )


def write_compiler(folder, program):
    """A compiler whose output is a given shell script."""
    compiler = folder / "nvcc"
    compiler.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -o ]; do shift; done\n'
        f"cat > \"$2\" <<'END'\n#!/bin/sh\n{program}\nEND\n"
        'chmod +x "$2"\n'
    )
    compiler.chmod(0o755)
    return compiler


def test_bandwidths_are_told_by_mix_working_set_and_width(tmp_path, monkeypatch, own_cache):
    monkeypatch.setattr(practical_peaks, "find_cuda_tool", lambda _name: None)
    rates = {
        "mix_gbps": [[0.0, 2900.0], [0.5, 2800.0], [1.0, 3100.0]],
        "gather_gbps": [[0.25, 2400.0], [8.0, 700.0]],
        "narrow_gbps": [[1.0, 900.0], [16.0, 2790.0]],
    }
    compiler = write_compiler(tmp_path, f"echo '{json.dumps({**TIMES, **rates})}'")
    peaks = measure_practical_peaks(make_machine(compiler), list_raw_names(own_cache))
    lines = "\n".join(format_peaks_lines(peaks))

    assert peaks.gather_gbps == ((0.25, 2400.0), (8.0, 700.0))
    assert "memory, by share read   0% 2900, 50% 2800, 100% 3100 GB/s" in lines
    assert "gathers, by size to L2  0.25x 2400, 8x 700 GB/s" in lines
    assert "copies, bytes a lane    1 900, 16 2790 GB/s" in lines
    assert "by share read" not in "\n".join(format_peaks_lines(make_peaks()))


def test_what_the_program_prints_is_kept(tmp_path, monkeypatch, own_cache):
    monkeypatch.setattr(practical_peaks, "find_cuda_tool", lambda _name: None)
    compiler = write_compiler(tmp_path, f"echo warm; echo '{json.dumps(TIMES)}'")
    peaks = measure_practical_peaks(make_machine(compiler), list_raw_names(own_cache))

    assert {name: getattr(peaks, name) for name in TIMES} == TIMES
    assert (peaks.dram_share, peaks.problem) == (None, "ncu was not found")
    for gpu in ("h100-sxm", "NVIDIA H100 80GB HBM3"):
        assert PracticalPeaks.model_validate_json(json.dumps(read_practical_peaks(gpu))) == peaks
    assert read_practical_peaks("l4") is None


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("echo no GPU >&2; exit 1", "no GPU"),
        ("echo done", "no JSON object"),
        ("exit 3", "failed"),
        ("sleep 60", "took longer than"),
    ],
)
def test_a_program_that_fails_is_an_error(tmp_path, monkeypatch, own_cache, program, says):
    monkeypatch.setattr(practical_peaks, "_RUN_TIMEOUT_S", 0.5)
    compiler = write_compiler(tmp_path, program)

    with pytest.raises(KbError, match=says):
        measure_practical_peaks(make_machine(compiler), list_raw_names(own_cache))
    assert read_practical_peaks("h100-sxm") is None


def test_a_machine_without_a_gpu_is_told(own_cache):
    with pytest.raises(EnvironmentGapError, match="no GPU"):
        measure_practical_peaks(make_machine("nvcc", cc=None), list_raw_names(own_cache))


def test_a_share_is_that_of_the_busiest_counter():
    launches = [
        ProfiledLaunch("peaks_empty()", {"profiled_us": 1.4}),
        ProfiledLaunch("peaks_copy(const float4 *)", {"dram_utilization": 0.91, "profiled_us": 40}),
        ProfiledLaunch("peaks_read_l2", {"l2_data_utilization": 0.7, "l2_tag_utilization": 0.8}),
    ]

    assert read_shares(launches) == {
        "dram_share": 0.91,
        "l2_share": 0.8,
        "profiled_empty_us": 1.4,
    }
    assert read_shares(launches[:1]) == {"profiled_empty_us": 1.4}
    assert read_shares([]) == {}


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_nvcc_compiles_the_program_without_a_warning(tmp_path, arch):
    source = practical_peaks._SOURCE
    command = [find_nvcc(), "-O3", "-std=c++17", f"-arch={arch}", "-Werror", "all-warnings"]
    done = subprocess.run([*command, "-c", "-o", str(tmp_path / "peaks.o"), str(source)])

    assert done.returncode == 0


def test_every_counter_of_the_program_is_one_that_a_profile_can_hold(own_cache):
    names = {raw.metric for raw in list_raw_names(own_cache)}
    wanted = {*practical_peaks.DRAM_METRICS, *practical_peaks.L2_METRICS}

    assert wanted | set(practical_peaks.EMPTY_METRICS) <= names


def test_an_answer_uses_the_measured_peaks_and_says_so():
    metrics = next(row for row in ZOO if row.kernel == "histogram_few_bins").before.metrics
    (before,) = recommend_from_metrics(metrics, gpu="h100-sxm")["kernels"]
    keep_practical_peaks(make_peaks(dram_share=0.8, l2_share=0.7).model_dump(mode="json"))
    (after,) = recommend_from_metrics(metrics, gpu="h100-sxm")["kernels"]
    (other,) = recommend_from_metrics(metrics, gpu="h200")["kernels"]

    assert (before["peaks"]["source"], other["peaks"]["source"]) == ("catalogue", "catalogue")
    assert after["peaks"] == {"source": "measured", "dram": 0.8, "l2": 0.7}
    assert after["evidence_level"] == before["evidence_level"]
    text = "\n".join(format_answer_lines(after, everything=True))
    assert "Where the time goes (practical peaks of this GPU: memory 80 %, L2 70 % of" in text


def test_what_the_user_gives_stands_above_what_was_measured():
    metrics = next(row for row in ZOO if row.kernel == "histogram_few_bins").before.metrics
    keep_practical_peaks(make_peaks(dram_share=0.8).model_dump(mode="json"))
    given = {**metrics, "dram_practical_share": 0.75}
    (answer,) = recommend_from_metrics(given, gpu="h100-sxm")["kernels"]

    assert answer["peaks"]["dram"] == 0.75


def test_without_a_profile_no_peaks_are_named():
    keep_practical_peaks(make_peaks(dram_share=0.8).model_dump(mode="json"))
    (answer,) = recommend_from_metrics({"speedup": 0.3, "occupancy": 0.4}, gpu="h100-sxm")[
        "kernels"
    ]

    assert answer["peaks"] is None
    assert answer["evidence_level"] != "L2"


@pytest.mark.parametrize("kept", [None, [], {}, {"dram_share": "much"}])
def test_a_damaged_file_is_ignored(tmp_path, kept):
    keep_practical_peaks(make_peaks(dram_share=0.8).model_dump(mode="json"))
    (file,) = (tmp_path / "cache").rglob("practical-peaks*.json")
    file.write_text(json.dumps({"h100-sxm": kept}))

    assert read_peak_metrics("h100-sxm") == {}


def test_the_text_shows_every_number():
    text = "\n".join(format_peaks_lines(make_peaks(dram_share=0.914, profiled_empty_us=1.41)))

    for number in ("2800 GB/s, 91.4 %", "5500 GB/s", "2.1 us; 1.41 us", "480 ns; 900 ns", "30 per"):
        assert number in text
    assert "catalogue" not in text
    assert "stay the catalogue's: ncu was not found" in "\n".join(
        format_peaks_lines(make_peaks(problem="ncu was not found"))
    )


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU")
def test_kb_env_measure_names_the_first_gap(project, capsys):
    assert main(["env", "--measure"]) == 2
    assert "torch" in capsys.readouterr().err


@pytest.mark.gpu
def test_this_gpu_reaches_plausible_peaks(project, capsys):
    assert main(["env", "--measure", "--json"]) == 0
    peaks = PracticalPeaks.model_validate_json(capsys.readouterr().out)

    assert 0.6 < (peaks.dram_share or 0.8) < 1
    assert 0.4 < (peaks.l2_share or 0.8) <= 1
    assert peaks.l2_latency_ns < peaks.dram_latency_ns < peaks.dram_loaded_latency_ns
    assert peaks.copy_gbps < peaks.l2_read_gbps
    assert peaks.atomic_rate_address < peaks.atomic_rate_random
