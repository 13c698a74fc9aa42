"""What a layer of the sandbox that this kernel lacks leaves open, for ``kb env``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kernelkb.measure.process.candidate_sandbox import LAYERS

_GAPS = {
    "limits": "a candidate may write files of any size",
    "network namespace": "seccomp alone keeps a candidate off the network",
    "capabilities": "a candidate that root runs keeps privileges of root",
    "landlock": "a candidate may read and write what you may, also records and the judge's files",
    "signal scope": "seccomp alone keeps a candidate from signalling others",
    "seccomp": "a candidate may stop, slow and kill other processes, and leave state behind",
}
"""What is open without a layer."""
_HARMLESS = {"signal scope": "seccomp"}
"""A layer that may be absent → the layer that does the same work."""
_SINCE = {
    "network namespace": "unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_"
    "userns=0 on Ubuntu; not within Docker's default profile)",
    "landlock": "Landlock (Linux 5.13, for Python candidates 5.19, with landlock in lsm=)",
    "seccomp": "seccomp, with libseccomp 2.5 or newer installed",
}
"""What brings a layer."""


def describe_active(active: Sequence[str], landlock_abi: int | None) -> str:
    """Name the layers that hold, with the version of Landlock."""
    version = f" (ABI {landlock_abi})" if landlock_abi else ""
    return ", ".join(f"landlock{version}" if layer == "landlock" else layer for layer in active)


def describe_gaps(absent: Collection[str]) -> str:
    """Say what is open without the absent layers; empty if none is absent."""
    return "; ".join(f"no {layer}: {_GAPS[layer]}" for layer in LAYERS if layer in absent)


def list_serious(active: Collection[str], absent: Collection[str]) -> list[str]:
    """Return the absent layers whose work no active one does."""
    return [layer for layer in absent if _HARMLESS.get(layer) not in active]


def describe_cure(absent: Collection[str]) -> str:
    """Say what would bring the absent layers."""
    sources = [_SINCE[layer] for layer in LAYERS if layer in absent and layer in _SINCE]
    enable = f", or enable {' and '.join(sources)}" if sources else ""
    return f"run only code that you trust{enable}"
