"""Starts kb as its script does, wherever that is installed."""

from kernelkb.cli import start

if __name__ == "__main__":
    raise SystemExit(start())
