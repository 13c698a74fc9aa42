"""Every pair of the zoo: one change between two kernels, named by what the knowledge has."""

import re
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
BOTTLENECKS = {bottleneck.id for bottleneck in knowledge().bottlenecks}
FIXES = {fix.id for family in knowledge().families for fix in family.fixes}

every_pair = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
every_gpu = pytest.mark.parametrize("file", MEASURED, ids=lambda file: file.stem)


def load_pair(folder):
    kernel = load_kernel_folder(folder).kernel
    variants = {variant.id: variant for variant in kernel.variants}
    return kernel, variants[kernel.pair.before], variants[kernel.pair.after]


def test_the_zoo_has_more_than_a_hundred_pairs():
    assert len(FOLDERS) > 100


def test_no_two_pairs_share_a_name():
    names = [folder.name for folder in FOLDERS]

    assert len(names) == len(set(names))


@every_pair
def test_a_pair_has_the_variants_before_and_after(folder):
    kernel, before, after = load_pair(folder)

    assert [variant.id for variant in kernel.variants] == ["before", "after"]
    assert {before.target, after.target} == {"cuda"}
    assert before.source != after.source
    assert "cuda" in kernel.default_workload


@every_pair
def test_a_pair_names_a_fix_and_bottlenecks_that_exist(folder):
    kernel, before, after = load_pair(folder)

    assert kernel.pair.fix in FIXES
    assert set(kernel.pair.bottlenecks) <= BOTTLENECKS
    assert after.applies == (kernel.pair.fix,)
    assert before.applies == ()


@every_pair
def test_a_pair_stands_below_one_of_its_bottlenecks(folder):
    kernel, _, _ = load_pair(folder)

    assert folder.parent.name in kernel.pair.bottlenecks


@every_pair
def test_both_sides_of_a_pair_name_their_kernels(folder):
    for variant in load_pair(folder)[1:]:
        source = (folder / variant.source).read_text()

        assert variant.kernels
        assert all(re.search(rf"\b{name}\(", source) for name in variant.kernels)
        assert source.count("__global__") >= 1


@every_pair
def test_a_source_of_a_pair_opens_with_its_name_and_what_it_shows(folder):
    kernel, *variants = load_pair(folder)
    for variant in variants:
        first, second, *_ = (folder / variant.source).read_text().splitlines()

        assert first == f"// kernel: {kernel.id}/{variant.id}/cuda"
        assert re.match(r"// (\w+: )?\S+ ", second)


@every_gpu
def test_every_recording_is_of_a_pair(file):
    workloads = {folder.name: load_kernel_folder(folder).kernel.workloads for folder in FOLDERS}

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
