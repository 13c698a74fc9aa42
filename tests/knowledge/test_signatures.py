"""A signature may contradict an author only if it finds each change of the zoo with its fix."""

import shutil
from pathlib import Path

import pytest

from kernelkb.actions.history.outcomes import list_signatures
from kernelkb.actions.project.bench_target import prepare_for_architecture
from kernelkb.decide.recognise import ChangeEvidence, recognise_change
from kernelkb.loading.kernels import find_zoo_folders, load_kernel_folder
from kernelkb.measure.build.build import build
from kernelkb.measure.build.folders import find_machine_code
from kernelkb.profiles.machine_code import count_built_code, find_disassembler
from kernelkb.safety.paths import shipped_folder

CODE_COUNTS = {
    "charged_particle_step": ({}, {"shared_stores": 13}),
    "gemm_one_output_per_thread": ({"registers": 28}, {"registers": 63}),
    "implicit_steps_small_systems": ({"local": 128}, {}),
    "kv_pages_int8_scales": ({}, {"shared_stores": 4}),
    "levenshtein_read_pairs": ({"local": 58}, {}),
    "message_digest_64_bytes": ({"local": 19}, {}),
    "nearest_centroid_full_occupancy": ({"local": 134}, {}),
    "swiglu_interleaved": ({}, {"wide_loads": 1}),
    "top_channels_insertion": ({"local": 24}, {}),
}
"""Pairs whose fix is shown by the machine code alone, with what nvcc 13 makes of them for sm_90."""
SIGNATURES = list_signatures()


def load_pairs():
    """Return for each pair its fix, and the texts before and after."""
    found = {}
    for name, folder in find_zoo_folders(Path(shipped_folder("kernels")).parent).items():
        kernel = load_kernel_folder(folder).kernel
        if kernel.pair:
            variants = {one.id: one.source for one in kernel.variants}
            sides = (kernel.pair.before, kernel.pair.after)
            texts = tuple((folder / variants[side]).read_text() for side in sides)
            found[name] = kernel.pair.fix, texts
    return found


def shows(fix, texts, counts):
    """Return whether the sources or the counts show a fix, as where it was advised."""
    evidence = ChangeEvidence([texts], counts, advised=fix)
    return recognise_change({fix: SIGNATURES[fix]}, [fix], evidence).fixes == (fix,)


def test_the_signatures_that_find_all_are_those_that_the_zoo_confirms():
    missed, found = set(), set()
    for name, (fix, texts) in load_pairs().items():
        if fix in SIGNATURES:
            (found if shows(fix, texts, CODE_COUNTS.get(name)) else missed).add(fix)
    derived = {fix for fix in found - missed if SIGNATURES[fix]["code"]}

    assert {fix for fix, row in SIGNATURES.items() if row["finds_all"]} == derived
    assert len(derived) > 10


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("nvcc") and find_disassembler()), reason="needs nvcc")
@pytest.mark.parametrize("name", CODE_COUNTS)
def test_the_machine_code_shows_what_the_source_does_not(name, tmp_path):
    fix, texts = load_pairs()[name]
    counts = []
    for side in ("before", "after"):
        target = prepare_for_architecture(name, side, "cuda", "9.0")
        counts.append(count_built_code(find_machine_code(build(target.subject, tmp_path))))

    assert not shows(fix, texts, None)
    assert shows(fix, texts, tuple(counts))
