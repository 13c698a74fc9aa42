"""Parameters of a test, some of which only ``make test-slow`` runs."""

from collections.abc import Collection, Iterable

import pytest


def mark_slow(names: Iterable[str], slow: Collection[str]) -> list[object]:
    """Return parameters; those in ``slow`` take long, and repeat what another one shows.

    Raises:
        ValueError: ``slow`` names none of them.
    """
    listed = list(names)
    if unknown := set(slow) - set(listed):
        raise ValueError(f"no parameter is named {sorted(unknown)}")
    return [pytest.param(n, marks=pytest.mark.slow) if n in slow else n for n in listed]
