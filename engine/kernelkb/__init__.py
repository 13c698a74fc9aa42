"""Turn kernel measurements into the next fix to try; docs/python-api.md shows each function.

The functions of ``kernelkb.api`` are loaded when they are asked for: to import this package costs
nothing, which ``kb`` and every worker process rely on. ``__init__.pyi`` gives their types.
"""

__version__ = "0.1.0"

__all__ = ["__version__", "bench", "diagnose", "occupancy", "read_report", "recommend", "roofline"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("kernelkb.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
