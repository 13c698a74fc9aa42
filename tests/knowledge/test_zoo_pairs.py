"""Every pair of the zoo: one change between two kernels, named by what the knowledge has."""

import re
from functools import cache
from pathlib import Path

import pytest
from benchmarks.zoo.recordings import format_recording, read_recordings
from shipped_rules import knowledge

from kernelkb.loading.kernels import load_kernel_folder
from kernelkb.safety.paths import shipped_folder

ZOO = Path(shipped_folder("kernels")) / "zoo"
FOLDERS = sorted(file.parent for file in ZOO.glob("*/*/kernel.yaml"))
MEASURED = sorted((ZOO / "measured").glob("*.jsonl"))
REPORTS = Path(__file__).parents[1] / "data" / "zoo"

every_gpu = pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)


@cache
def load_pairs():
    """Return of each pair its folder, its kernel, and its variants: before, after, and others."""
    pairs = []
    for folder in FOLDERS:
        kernel = load_kernel_folder(folder).kernel
        variants = {variant.id: variant for variant in kernel.variants}
        names = (kernel.pair.before, kernel.pair.after, *kernel.pair.tempting)
        pairs.append((folder, kernel, *(variants[name] for name in names)))
    return pairs


def test_what_fixes_gave_is_told_of_every_recording():
    """``benchmarks.zoo extract`` writes ``knowledge/measured.yaml`` again."""
    told = {(one.kernel, one.device, one.speedup) for one in knowledge().measured.cases}
    recorded = {
        (row.kernel, row.device, float(f"{row.speedup:.3g}"))
        for file in MEASURED
        for row in read_recordings(file)
    }
    assert told == recorded


def test_the_zoo_has_more_than_a_hundred_pairs():
    assert len(FOLDERS) > 100


def test_no_two_pairs_share_a_name():
    names = [folder.name for folder in FOLDERS]

    assert len(names) == len(set(names))


def test_a_pair_has_the_variants_before_and_after():
    for folder, kernel, before, after, *tempting in load_pairs():
        assert [variant.id for variant in kernel.variants] == [
            *("before", "after"),
            *kernel.pair.tempting,
        ], folder
        assert {one.target for one in (before, after, *tempting)} == {"cuda"}, folder
        assert before.source != after.source, folder
        assert "cuda" in kernel.default_workload, folder


def test_a_pair_names_a_fix_and_bottlenecks_that_exist():
    bottlenecks = {bottleneck.id for bottleneck in knowledge().bottlenecks}
    fixes = {fix.id for family in knowledge().families for fix in family.fixes}

    for folder, kernel, before, after, *tempting in load_pairs():
        assert {kernel.pair.fix, *kernel.pair.also_right} <= fixes, folder
        assert set(kernel.pair.bottlenecks) <= bottlenecks, folder
        assert after.applies == (kernel.pair.fix,), folder
        assert before.applies == (), folder
        assert all(len(one.applies) == 1 and set(one.applies) <= fixes for one in tempting), folder
        right = {kernel.pair.fix, *kernel.pair.also_right}
        assert not right & {one.applies[0] for one in tempting}, folder


def test_a_pair_stands_below_one_of_its_bottlenecks():
    for folder, kernel, *_ in load_pairs():
        assert folder.parent.name in kernel.pair.bottlenecks, folder


def test_both_sides_of_a_pair_name_their_kernels():
    for folder, _, *variants in load_pairs():
        for variant in variants:
            source = (folder / variant.source).read_text()

            assert variant.kernels, folder
            assert all(re.search(rf"\b{name}\(", source) for name in variant.kernels), folder
            sign = "@triton.jit" if variant.language == "triton" else "__global__"
            assert sign in source, folder


def test_a_source_of_a_pair_opens_with_its_name():
    for folder, kernel, *variants in load_pairs():
        for variant in variants:
            if variant.language == "triton":
                continue  # its docstring says what it does
            first, *_ = (folder / variant.source).read_text().splitlines()

            assert first == f"// kernel: {kernel.id}/{variant.id}/cuda"


@every_gpu
def test_every_recording_is_of_a_pair(file):
    workloads = {folder.name: kernel.workloads for folder, kernel, *_ in load_pairs()}

    for row in read_recordings(file):
        assert row.device == file.stem
        assert row.workload in workloads[row.kernel]


@every_gpu
def test_recordings_are_written_as_kb_zoo_writes_them(file):
    rows = read_recordings(file)

    assert "".join(map(format_recording, rows)) == file.read_text()
    assert [row.kernel for row in rows] == sorted({row.kernel for row in rows})


@every_gpu
def test_every_report_that_a_recording_names_exists(file):
    named = {row.report for row in read_recordings(file) if row.report}
    there = {report.name for report in (REPORTS / file.stem).iterdir()}

    assert named == there


@every_gpu
def test_recorded_metrics_are_metrics_of_the_knowledge(file):
    known = {metric.id for metric in knowledge().catalogue.metrics}
    named = {
        name
        for row in read_recordings(file)
        for one in (row.before, row.after)
        for name in one.metrics
    }

    assert named <= known


@every_gpu
def test_no_two_recordings_read_the_same_launch(file):
    places = [(row.report, row.launch) for row in read_recordings(file) if row.report]

    assert len(places) == len(set(places))
