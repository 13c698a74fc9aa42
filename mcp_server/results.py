"""What the tools return: the engine's records, and what to call next."""

from __future__ import annotations

from engine.model.base import Record
from engine.model.measurement import Bench, Build, Environment, Profile


class EnvironmentResult(Record):
    """What this machine has and lacks, a line each."""

    environment: Environment
    next: tuple[str, ...]


class BuildResult(Record):
    """A compiled variant, or the compiler's first error: ``build.error`` and ``build.cure``."""

    build: Build
    next: tuple[str, ...]


class BenchResult(Record):
    """Times in microseconds; ``bench.verdict`` says whether they mean anything."""

    bench: Bench
    next: tuple[str, ...]


class ProfileResult(Record):
    """Metrics that explain, or the measurement that stopped the profile. One of them is null."""

    profile: Profile | None
    stopped_by: Bench | None
    next: tuple[str, ...]


class LoggedSession(Record):
    """Where a retrospective was appended."""

    session: str
    file: str
