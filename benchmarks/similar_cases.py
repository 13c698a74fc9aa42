"""Counts how often the nearest measured kernels point at the fix that helped; each is left out.

``python -m benchmarks.similar_cases`` needs no GPU. A case is a change of the zoo that gained; all
recordings of its own kernel are left out when its neighbours are asked.
"""

from __future__ import annotations

from collections import defaultdict

from kernelkb.actions.rules_cache import load_compiled_rules
from kernelkb.actions.score import read_all_recordings
from kernelkb.actions.zoo_pairs import list_pairs
from kernelkb.decide.recommend import recommend
from kernelkb.decide.similar import find_similar_cases, rank_by_neighbours

_FIRST = 2


def main() -> None:
    """Print the shares: of all cases, and of those whose fix helped another kernel, too."""
    rules = load_compiled_rules()
    pairs = {name: kernel.pair for name, kernel in list_pairs().items()}
    kernels = defaultdict(set)
    for case in rules["cases"]:
        kernels[case["fix"]].add(case["kernel"])
    total = right = possible = possible_right = own = nearest = 0
    for row in read_all_recordings(None):
        pair = pairs.get(row.kernel)
        if pair is None or row.speedup < 1.05 or not pair.bottlenecks:
            continue
        answer = recommend(rules, row.before.metrics, device=row.device)
        told = rank_by_neighbours(answer, rules["cases"], without={row.kernel})[:_FIRST]
        cases = find_similar_cases(answer, rules["cases"], 3, without={row.kernel})
        first = next((one for one in answer["diagnoses"] if one["verdict"] == "matches"), None)
        is_right = pair.fix in told
        total += 1
        right += is_right
        nearest += pair.fix in {case["fix"] for case in cases}
        own += pair.fix in [fix["id"] for fix in (first["fixes"] if first else [])[:_FIRST]]
        if kernels[pair.fix] - {row.kernel}:
            possible += 1
            possible_right += is_right
    print(f"cases                                            {total}")
    print(f"fix among the first two of neighbours and answer {right} ({right / total:.0%})")
    print(f"of those whose fix helped another kernel         {possible_right} of {possible} "
          f"({possible_right / possible:.0%})")  # fmt: skip
    print(f"fix of one of the three nearest cases            {nearest} ({nearest / total:.0%})")
    print(f"first two fixes of the first cause alone         {own} ({own / total:.0%})")


if __name__ == "__main__":
    main()
