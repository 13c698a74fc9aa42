"""Time of a decision, in process, against the floor of the comparisons that it needs.

python benchmarks/decision_latency.py            about half a minute
python benchmarks/decision_latency.py --count 1000

The floor of a call is one comparison for each leaf of the compiled rules whose metric is known, in
a plain loop; the floor of loading is reading the cache file and parsing its JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelkb.actions.project.rules_cache import _read_cache, load_compiled_rules
from kernelkb.decide.derive import complete_metrics
from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.decide.rules_file import format_rules
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.entries.bottleneck import Bottleneck
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page

FOUR_METRICS = {"speedup": 0.3, "dram_utilization": 0.4, "occupancy": 0.4, "kernel_us": 900.0}
NCU_PAGE = Path(__file__).parent.parent / "tests/data/ncu/row_softmax_full.csv"


def main() -> None:
    """Print the table of latencies and floors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000, help="bottlenecks of the large base")
    count = parser.parse_args().count
    program = load_compiled_rules()
    full = {**read_recorded_metrics(program), **FOUR_METRICS}
    large = compile_rules(enlarge_knowledge(load_knowledge(), count))
    rows = [
        (
            "four metrics",
            recommend_ms(program, FOUR_METRICS, 400),
            floor_ms(program, FOUR_METRICS),
            0.3,
        ),
        ("a full ncu record", recommend_ms(program, full, 200), floor_ms(program, full), 3.0),
        (
            f"four metrics, {count:,} bottlenecks",
            recommend_ms(large, FOUR_METRICS, 9),
            floor_ms(large, FOUR_METRICS),
            30.0,
        ),
        (
            f"full record, {count:,} bottlenecks",
            recommend_ms(large, full, 9),
            floor_ms(large, full),
            30.0,
        ),
        ("load the program from its cache", *load_ms(program), 1000.0),
        (f"load {count:,} bottlenecks from cache", *load_ms(large), 1000.0),
    ]
    print(f"{'':38}{'ms':>10}{'floor ms':>10}{'ratio':>8}{'wanted ms':>11}")
    for name, took, least, wanted in rows:
        print(f"{name:38}{took:10.3f}{least:10.3f}{took / least:8.1f}{wanted:11.1f}")


def read_recorded_metrics(program: CompiledRules) -> dict[str, float]:
    """Return our metrics from a recorded page of ``ncu --set full`` on an H100."""
    (launch,) = read_raw_page(NCU_PAGE.read_text(encoding="utf-8"), list_raw_names(program))
    return launch.metrics


def enlarge_knowledge(knowledge: Knowledge, count: int) -> Knowledge:
    """Return the knowledge, filled up to ``count`` bottlenecks by copies with their own limits."""
    shipped = [b for b in knowledge.bottlenecks if b.target == "cuda"]
    limits = knowledge.threshold_values
    copies = [
        vary_bottleneck(shipped[at % len(shipped)], at, limits) for at in range(len(shipped), count)
    ]
    return knowledge.model_copy(update={"bottlenecks": (*knowledge.bottlenecks, *copies)})


def vary_bottleneck(bottleneck: Bottleneck, at: int, limits: Mapping[str, float]) -> Bottleneck:
    """Return a copy with another id, and with every limit scaled up by less than 10 %."""
    moved = 1 + (at % 997) / 10_000

    def move_limits(value: Any) -> Any:
        if isinstance(value, dict):
            new = {key: move_limits(item) for key, item in value.items()}
            if new.get("threshold"):
                new["value"] = limits[new.pop("threshold")] * moved
            return {key: item for key, item in new.items() if item is not None}
        return [move_limits(item) for item in value] if isinstance(value, list | tuple) else value

    plain = bottleneck.model_dump(by_alias=True, mode="json")
    changed = {"id": f"{bottleneck.id[:50]}-v{at}", "when": move_limits(plain["when"])}
    return Bottleneck.model_validate({**plain, **changed})


def recommend_ms(program: CompiledRules, metrics: Mapping[str, float], runs: int) -> float:
    """Return the median time of one recommendation, in ms."""
    return median_ms(lambda: recommend(program, metrics, device="h100-sxm"), runs)


def floor_ms(program: CompiledRules, metrics: Mapping[str, float]) -> float:
    """Return the median time to compare every leaf that has a known metric, in ms."""
    known = complete_metrics(program, metrics, "h100-sxm")
    rows, by_metric = program["comparisons"]["rows"], program["comparisons"]["by_metric"]
    limits = {name: [rows[at].limit for at in by_metric.get(name, ())] for name in known}

    def compare() -> int:
        true = 0
        for name, value in known.items():
            for limit in limits[name]:
                true += value < limit if isinstance(limit, float) else 0
        return true

    return median_ms(compare, 50)


def load_ms(program: CompiledRules) -> tuple[float, float]:
    """Return the median time to load a program from its cache, and to parse its JSON, in ms."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.json"
        path.write_text(format_rules(program), encoding="utf-8")
        took = median_ms(lambda: _read_cache(str(path)), 5)
        return took, median_ms(lambda: json.loads(path.read_text(encoding="utf-8")), 5)


def median_ms(work: Callable[[], Any], runs: int) -> float:
    """Return the median time of a call, in ms."""
    samples = []
    for _ in range(runs + 2):
        started = time.perf_counter()
        work()
        samples.append((time.perf_counter() - started) * 1e3)
    return statistics.median(samples[2:])


if __name__ == "__main__":
    main()
