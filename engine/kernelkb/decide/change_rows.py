"""Rows of the compiled rules about changes: how one is recognised, and what measured ones gave."""

from __future__ import annotations

from typing_extensions import TypedDict


class SignatureRow(TypedDict):
    """How a change that applies a fix is recognised; see ``ChangeSignature``."""

    added: str | None
    removed: str | None
    code: dict[str, str]
    finds_all: bool


class MeasuredCaseRow(TypedDict):
    """One measured change; see ``MeasuredCase``."""

    kernel: str
    fix: str
    bottleneck: str
    operation: str
    device: str
    speedup: float
    state: dict[str, float]
