"""The access of a line that a fix points at."""

import pytest

from kernelkb.decide.source_lines import find_access


@pytest.mark.parametrize(
    ("text", "instruction", "access"),
    [
        ("sum += x[row * cols + i];", "LDG.E R5, desc[UR4][R2.64]", "x[row * cols + i]"),
        ("y[image + i] = x[image + channel * pixels + pixel];", "LDG.E R3, desc[UR4][R2.64]",
         "x[image + channel * pixels + pixel]"),
        ("y[image + i] = x[image + channel * pixels + pixel];", "STG.E desc[UR4][R2.64], R3",
         "y[image + i]"),
        ("for (int c = 0; c < n; ++c) largest = fmaxf(largest, from[c]);", "LDG.E R3, [R2]",
         "from[c]"),
        ("tile[lane][r] = value;", "STS [R4], R8", "tile[lane][r]"),
        ("a += table[index[i] * 4];", "LDG.E R4, desc[UR4][R2.64]", "table[index[i] * 4]"),
        ("p = p->next;", "LDG.E R4, desc[UR4][R4.64]", None),
        ("if (x[i] <= 3) count[b[i]] += 1; // y[0] = 2", "@P0 RED.E.ADD [R2], R4", "count[b[i]]"),
        ("atomicAdd(&bins[b], 1);", "RED.E.ADD desc[UR4][R2.64], R4", "bins[b]"),
        ("", "LDG.E R4, [R2]", None),
    ],
)  # fmt: skip
def test_the_access_of_an_instruction_is_found_in_its_line(text, instruction, access):
    place = {"file": "a.cu", "line": 3, "text": text, "instruction": instruction}

    assert find_access(place) == access
