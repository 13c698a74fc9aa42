"""Writes ``measured.yaml``: what each change of the zoo gave, from the recordings."""

from __future__ import annotations

from pathlib import Path

import yaml
from benchmarks.zoo.recordings import PairRecording, read_recordings

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.past_changes import vectorize_answer
from kernelkb.decide.recommend import recommend
from kernelkb.loading.kernels import find_zoo_folders, load_kernel_folder
from kernelkb.model.entries.learned import MeasuredCase, MeasuredCatalogue
from kernelkb.model.kernels.kernel import Pair
from kernelkb.safety.files import replace_file

_LEAST_GAIN = 1.05
"""Speedup of a change that helped."""
_HEADER = (
    "# Written by benchmarks/zoo from the recordings in kernels/zoo/measured; edit nothing here.\n"
)


def write_measured_cases(recordings: Path) -> Path | None:
    """Write the project's ``knowledge/measured.yaml``; None if it has no knowledge folder.

    Args:
        recordings: Folder of the recordings, one file for each GPU.
    """
    folder = get_project_path() / "knowledge"
    if not folder.is_dir():
        return None
    path = folder / "measured.yaml"
    replace_file(path, format_measured_yaml(collect_measured_cases(recordings)))
    return path


def collect_measured_cases(recordings: Path) -> MeasuredCatalogue:
    """Return a case for each recording of a pair that still exists."""
    folders = find_zoo_folders(get_project_path())
    cases: list[MeasuredCase] = []
    for file in sorted(recordings.glob("*.jsonl")):
        for row in read_recordings(file):
            folder = folders.get(row.kernel)
            pair = load_kernel_folder(folder).kernel.pair if folder else None
            if pair is not None:
                cases.append(_make_case(row, pair))
    return MeasuredCatalogue(cases=tuple(cases))


def format_measured_yaml(catalogue: MeasuredCatalogue) -> str:
    """Return the text of the file; equal cases give equal text."""
    plain = catalogue.model_dump(mode="json")
    return _HEADER + yaml.safe_dump(plain, sort_keys=False, width=200, default_flow_style=None)


def _make_case(row: PairRecording, pair: Pair) -> MeasuredCase:
    state: dict[str, float] = {}
    if row.speedup >= _LEAST_GAIN:
        answer = recommend(load_compiled_rules(), row.before.metrics, device=row.device)
        state = {name: round(value, 2) for name, value in vectorize_answer(answer).items()}
    return MeasuredCase(
        kernel=row.kernel,
        fix=pair.fix,
        bottleneck=pair.bottlenecks[0],
        operation=pair.operation,
        device=row.device,
        speedup=float(f"{row.speedup:.3g}"),
        timed_by=row.timed_by,
        state={name: value for name, value in state.items() if value},
    )
