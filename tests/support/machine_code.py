"""Functions of machine code for tests: written as text, or taken from the zoo's reports."""

import lzma
from pathlib import Path

from kernelkb.sass.counters import SourceCounters
from kernelkb.sass.function import Control, Place, SassFunction, parse_instruction

REPORTS = Path(__file__).parents[1] / "data" / "zoo"


def unpack_report(folder, device, name):
    """Return the path of a report of the zoo, unpacked into a folder."""
    path = folder / f"{name}.ncu-rep"
    path.write_bytes(lzma.decompress((REPORTS / device / f"{path.name}.xz").read_bytes()))
    return path


def make_function(*rows):
    """Return a function of rows ``(line, text, sets, waits)``; sets: ``w0``, ``r1`` or empty.

    A text that begins with a label, as ``.L_x_0: IADD3 ...``, is a branch's target.
    """
    instructions, places, labels = [], [], {}
    for index, (line, text, sets, waits) in enumerate(rows):
        if ": " in text:
            label, text = text.split(": ", 1)
            labels[label] = index
        write, read = (int(sets[1:]) if sets[:1] == kind else None for kind in "wr")
        control = Control(write, read, frozenset(waits))
        instructions.append(parse_instruction(16 * index, text, control))
        chain = line if isinstance(line, tuple) else (Place("/k/a.cu", line),) if line else ()
        places.append(chain)
    return SassFunction("kernel", tuple(instructions), tuple(places), labels)


def make_counters(function, source="", outside=0.0, **raw):
    """Return counters: by name, the values by index; ``stall_x`` stands for ``stall:x``."""
    named = {
        name.replace("stall_", "stall:", 1): {at: float(v) for at, v in values.items()}
        for name, values in raw.items()
    }
    return SourceCounters(function, named, {"/k/a.cu": source}, outside)
