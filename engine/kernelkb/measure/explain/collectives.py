"""Asks the ranks of a program which collectives of NCCL they have called, and says which differ.

torch keeps them in its flight recorder, and writes them to a file when a byte is put into a FIFO
that each rank has made. Read with torch 2.11 on two H200: it takes some 7 s.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kernelkb.progress import sleep_cancellable
from kernelkb.safety.untrusted_text import to_one_line

_ENV = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "{folder}/flight-",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "{folder}/ask-",
}
_WAIT_S, _POLL_S = 12.0, 0.25
_MAX_BYTES = 2**26
_MAX_TEXT = 80
_OWN_CODE = re.compile(r"^(?!.*(?:/lib/python\d|/site-packages/|/dist-packages/|<frozen))")
_CONVERTERS = "torch.jit._pickle"
"""Module of the functions by which torch writes typed lists."""


class Collective(NamedTuple):
    """A call of one rank."""

    group: str
    number: int
    """As all ranks of the group count their calls."""
    name: str
    """Of NCCL's operation: ``all_reduce``."""
    sizes: tuple[tuple[int, ...], ...]
    is_done: bool
    line: str
    """Of the user's code, as ``train.py:31 (step)``; empty: not known."""

    def __str__(self) -> str:
        shapes = " and ".join("x".join(map(str, size)) or "1" for size in self.sizes)
        return f"{self.name} of {shapes}" if shapes else self.name


def make_flight_env(folder: Path) -> dict[str, str]:
    """Return variables under which torch records collectives; none that the user has set."""
    own = {name: text.format(folder=folder) for name, text in _ENV.items()}
    return {name: text for name, text in own.items() if name not in os.environ}


def ask_collectives(folder: Path) -> list[str]:
    """Return where the ranks of a program are in their collectives; empty where none answers.

    Args:
        folder: That of ``make_flight_env``.
    """
    asked = [pipe for pipe in sorted(folder.glob("ask-*.pipe")) if _put_byte(pipe)]
    files = {rank: folder / f"flight-{rank}" for rank in (_read_rank(pipe) for pipe in asked)}
    deadline = time.monotonic() + _WAIT_S
    while not all(map(_is_written, files.values())) and time.monotonic() < deadline:
        sleep_cancellable(_POLL_S)
    calls = {rank: read_collectives(file) for rank, file in files.items() if file.exists()}
    return describe_collectives({rank: own for rank, own in calls.items() if own})


def _put_byte(pipe: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                return os.write(descriptor, b"1\n") > 0
        finally:
            os.close(descriptor)
    return False


def _read_rank(pipe: Path) -> int:
    return int("".join(char for char in pipe.stem if char.isdigit()) or 0)


def _is_written(file: Path) -> bool:
    """Return whether a file ends as a pickle does."""
    return _read_dump(file)[-1:] == pickle.STOP


def _read_dump(file: Path) -> bytes:
    """Return what a regular file of bounded size holds; empty of anything else."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as opened:
            found = os.fstat(descriptor)
            if stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_BYTES:
                return opened.read()
    return b""


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, texts, lists and tables; nothing that is named there is imported or called."""

    def find_class(self, module: str, name: str) -> Any:
        """Return how a typed list is read: as it is.

        Raises:
            UnpicklingError: It is no such list.
        """
        if module == _CONVERTERS:
            return lambda value, *_: value
        raise pickle.UnpicklingError(f"{module}.{name} is not read")


def read_collectives(file: Path) -> list[Collective]:
    """Return the calls that a rank's dump holds, the oldest first; empty where it cannot be read.

    Args:
        file: As torch's flight recorder writes it.
    """
    with suppress(Exception):  # a pickle of any kind
        entries = _PlainUnpickler(io.BytesIO(_read_dump(file))).load()["entries"]
        return [_read_entry(entry) for entry in entries if not entry.get("is_p2p")]
    return []


def _read_entry(entry: Mapping[str, Any]) -> Collective:
    frames = [own for own in entry.get("frames", ()) if _OWN_CODE.match(own["filename"])]
    line = ""
    if frames:
        own = frames[0]
        place = f"{own['filename'].rpartition('/')[2]}:{int(own['line'])} ({own['name']})"
        line = to_one_line(place, _MAX_TEXT)
    group = entry.get("process_group") or ["", str(entry.get("pg_id", 0))]
    return Collective(
        group=to_one_line(str(group[-1]), _MAX_TEXT),
        number=int(entry["collective_seq_id"]),
        name=to_one_line(str(entry["profiling_name"]).rpartition(":")[2], _MAX_TEXT),
        sizes=tuple(tuple(map(int, size)) for size in entry.get("input_sizes", ())),
        is_done=entry.get("state") == "completed",
        line=line,
    )


def describe_collectives(calls: Mapping[int, Sequence[Collective]]) -> list[str]:
    """Return in which collective each rank waits, and where two ranks have called others.

    Args:
        calls: Of each rank.
    """
    lines: list[str] = []
    for group in sorted({own.group for one in calls.values() for own in one}):
        by_rank = {
            rank: {own.number: own for own in one if own.group == group}
            for rank, one in calls.items()
        }
        waits = {
            rank: min((own for own in one.values() if not own.is_done), key=_get_number)
            for rank, one in by_rank.items()
            if any(not own.is_done for own in one.values())
        }
        if not waits:
            continue
        number = min(own.number for own in waits.values())
        for rank, own in sorted(waits.items()):
            at = f", called at {own.line}" if own.line else ""
            lines.append(f"rank {rank} waits in collective {own.number}, {own}{at}")
        lines += _compare_ranks(number, by_rank)
    return lines


def _get_number(own: Collective) -> int:
    return own.number


def _compare_ranks(number: int, by_rank: Mapping[int, Mapping[int, Collective]]) -> list[str]:
    """Return how the ranks differ at the first collective that does not end."""
    present = {rank: one[number] for rank, one in by_rank.items() if number in one}
    absent = [rank for rank, one in sorted(by_rank.items()) if one and max(one) < number]
    first = min(present)
    told = []
    for rank, own in sorted(present.items()):
        if str(own) != str(present[first]):
            both = f"{present[first]} on rank {first} and {own} on rank {rank}"
            told.append(f"collective {number} is {both}")
    if absent:
        who = ", ".join(map(str, absent))
        told.append(f"collective {number}, {present[first]}, was not called by rank {who}")
    return told
