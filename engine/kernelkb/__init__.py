"""Turn kernel measurements into the next fix to try."""

__version__ = "0.1.0"
