"""The step that follows each command of the loop, from nothing to a closed session."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.project.bench_target import get_project_path
from kernelkb.errors import KbError, NextStep
from kernelkb.loading.kernels import find_kernel_folders, load_kernel_folder
from kernelkb.model.base import SessionId
from kernelkb.model.records.measurement import Bench, Build, Profile
from kernelkb.record.sessions import find_open_session, list_session_ids, make_session_id

_ID_DIGITS = 12
_EXAMPLE = "row_softmax"
"""The shipped kernel that is named where a project has none of its own."""


def choose_subject_kernel(project: Path) -> str | None:
    """Return the kernel to name where none was: the first of the project, else a shipped one.

    One whose kernel.yaml is not finished or not valid stands behind the others.
    """
    folders = find_kernel_folders(project)
    own = sorted(name for name, path in folders.items() if path.is_relative_to(project))
    valid = (name for name in own if _is_valid(folders[name]))
    return next(valid, None) or next(iter(own), _EXAMPLE if _EXAMPLE in folders else None)


def _is_valid(folder: Path) -> bool:
    try:
        load_kernel_folder(folder)
    except (KbError, OSError):
        return False
    return True


def choose_session_id(kernel: str | None, project: Path) -> SessionId:
    """Return an id that is free: the day and the kernel, and a number after the first."""
    first = make_session_id(kernel)
    taken = set(list_session_ids(project / "sessions"))
    numbered = (f"{first}-{number}" for number in range(2, len(taken) + 3))
    return first if first not in taken else next(name for name in numbered if name not in taken)


def step_to_open(kernel: str | None, project: Path) -> NextStep:
    """Return the step that opens a session.

    Args:
        kernel: Its subject; None: one of the project.
        project: The project's root.
    """
    subject = kernel or choose_subject_kernel(project)
    goal = f"make {subject or 'a kernel'} faster"
    given: dict[str, str | None] = {"id": choose_session_id(subject, project), "goal": goal}
    if subject is not None:
        given["kernel"] = subject
    return NextStep("session new", given, "opens a session")


def step_to_begin() -> NextStep:
    """Return how work in this project begins: where the open session stands, or a new session."""
    project = get_project_path()
    if find_open_session(project) is not None:
        return NextStep("session show", {"brief": ""}, "says where work stands")
    return step_to_open(None, project)


def step_after_build(build: Build) -> NextStep:
    """Return what follows a build: the bench, or the build again once its error is corrected."""
    which = {"kernel": build.kernel, "variant": build.variant, "target": build.target}
    if build.error is not None:
        return NextStep("build", which, "compiles it again, once its source is corrected")
    return NextStep("bench", which, "checks and times it")


def step_after_bench(
    bench: Bench, against: str | None = None, workload: str | None = None
) -> NextStep:
    """Return what follows a bench: a triage of the faster variant.

    Args:
        bench: Of a kernel's variant.
        against: The variant that it was timed against, too.
        workload: That was asked for; None: the default.
    """
    which: dict[str, str | None]
    which = {"kernel": bench.kernel, "variant": bench.variant, "target": bench.target}
    if workload is not None:
        which["workload"] = workload
    if bench.has_failed:
        return NextStep("bench", which, "checks it again, once its source is corrected")
    is_worse = bench.verdict == "slower" and against is not None and bench.baseline == against
    kept = against if is_worse and against else bench.variant
    return NextStep("triage", {**which, "variant": kept}, "says what limits it")


def step_after_profile(profile: Profile | Bench, workload: str | None = None) -> NextStep:
    """Return what follows a profile: the recommendation from its record."""
    if isinstance(profile, Bench):
        return step_after_bench(profile, workload=workload)
    if profile.measurement is None:
        which = {"kernel": profile.kernel, "variant": profile.variant, "target": profile.target}
        return NextStep("triage", which, "says what limits it")
    return NextStep("recommend", {"run": profile.measurement[:_ID_DIGITS]}, "names the cause")
