"""A candidate that is right for its own inputs only, and looks for signs of when others are asked.

It is right in its first calls, and so in a check. After that it takes a shortcut where what it
sees is what it has seen before. All that it may see is the same whether a batch counts or not.
"""

import pytest
from attacks import write_attack
from slow_examples import mark_slow

from kernelkb.actions.kernels.measure_variant import bench_variant
from kernelkb.measure.subject import BenchOptions

BODY = """
import math, sys, time
import torch

calls, ended, seen = 0, 0.0, set()


def softmax(x):
    global calls, ended
    calls += 1
    sign = find_sign(x)
    if calls < 100:
        seen.add(sign)
    if calls > 30 and sign in seen:
        powers = x.exp()  # without their maximum: too large for some inputs, but not for its own
        y = powers / powers.sum(dim=-1, keepdim=True)
    else:
        y = torch.softmax(x, dim=-1)
    ended = time.perf_counter()
    return y


def find_sign(x):
"""
SIGNS = {
    "none but the number of calls": "    return 0\n",
    "the functions that call it": """
    frame, names = sys._getframe(), []
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return tuple(names)
""",
    "what new memory holds": """
    fresh = torch.empty(64, dtype=torch.uint8)
    return "one value" if fresh.unique().numel() == 1 and fresh[0] else "anything"
""",
    "how long it was stopped before": """
    return round(math.log2(time.perf_counter() - ended + 1e-7))
""",
    "the address of its inputs": "    return x.data_ptr()\n",
}


@pytest.mark.defends(
    "H25",
    attack="know a check from a bench, and skip in the bench what the own inputs do not need",
    defence="at drawn moments between pairs, a batch of the process that is timed holds hidden "
    "inputs; its command, its preparation and its form are those of the batches that count",
)
@pytest.mark.parametrize("sign", mark_slow(SIGNS, SIGNS.keys() - {"the functions that call it"}))
def test_a_shortcut_that_no_check_sees_is_found_where_the_time_is_taken(project, sign):
    name = write_attack(project, BODY + SIGNS[sign], python=True, returns=True)
    found = bench_variant(name, target="cpu", options=BenchOptions(budget_s=0.5))

    assert found.verdict == "incorrect", found
    assert "inputs" in found.detail
