"""Numbers with the unit that reads best."""

from __future__ import annotations


def duration(us: float) -> str:
    """Return microseconds as text in us, ms or s."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:.2f} ms"
    return f"{us:.2f} us"
