"""Accuracy of learned calibrations, from synthetic sessions whose true shares are known.

python benchmarks/calibration_accuracy.py                 about two minutes
python benchmarks/calibration_accuracy.py --repeats 200   faster, and coarser

First the fixes: the learned share against the true one, how often the 95 % interval holds the next
case, and how wide it is. Then the times of phases. Last the rankings: every vector of metrics
before and after learning, and what changed in the answers.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelkb.decide.recommend import recommend
from kernelkb.decide.rules import CompiledRules
from kernelkb.graph.compile import compile_rules
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.model.entries.learned import PRIOR_SHARE, LearnedCatalogue, LearnedFix
from kernelkb.model.records.session import Decision, Session, SessionEntry
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.ncu_csv import read_raw_page
from kernelkb.record.intervals import clip_share, predict_minutes, wilson_interval
from kernelkb.record.learn import learn_from_sessions

PAIR = BOTTLENECK, FIX = "uncoalesced-global-access", "remap-threads-coalesced"
CASE_COUNTS = (1, 2, 3, 5, 10, 20, 50)
PAGES = Path(__file__).parent.parent / "tests/data/ncu"
DAY = datetime(2026, 11, 1, tzinfo=UTC)
DrawShare = Callable[[random.Random], float]


def draw_half(rng: random.Random) -> float:
    """Draw a share from N(0.5, 0.1): half of what the model predicts."""
    return rng.gauss(0.5, 0.1)


def draw_zero(rng: random.Random) -> float:
    """Draw a share from N(0, 0.05): the fix has no effect on this architecture."""
    return rng.gauss(0.0, 0.05)


def draw_as_predicted(rng: random.Random) -> float:
    """Draw a share from N(1.0, 0.1): the fix gives what the model predicts."""
    return rng.gauss(PRIOR_SHARE, 0.1)


def draw_noise(rng: random.Random) -> float:
    """Draw the share of a speedup that is independent of the estimate: 1 with 10 % of noise."""
    return rng.gauss(0, 0.1) / rng.uniform(0.2, 0.7)


def draw_fix_from_prior(rng: random.Random) -> DrawShare:
    """Draw a fix: its mean and spread come from the prior that the interval assumes."""
    spread = 0.35 / abs(rng.gauss(0, 1))
    mean = rng.gauss(PRIOR_SHARE, spread)
    return lambda other: other.gauss(mean, spread)


def draw_wide(rng: random.Random) -> float:
    """Draw a share from N(0.2, 0.6): a very wide distribution."""
    return rng.gauss(0.2, 0.6)


TRUE_SHARES: dict[str, DrawShare] = {
    "half of the prediction": draw_half,
    "works elsewhere, not here": draw_zero,
    "as predicted": draw_as_predicted,
    "reports are noise": draw_noise,
    "reports are wild": draw_wide,
}


def main() -> None:
    """Print the tables of shares, success rates, phase times and rankings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=1000, help="histories for each row")
    repeats = parser.parse_args().repeats
    knowledge = load_knowledge()
    print_shares(repeats)
    print_success_rates(repeats)
    print_phases(repeats)
    print_rankings(knowledge)


def make_history(rng: random.Random, count: int, draw: DrawShare, cc: str = "9.0") -> list[Session]:
    """Return ``count`` sessions of one case each, with shares from ``draw``."""
    return [make_session(f"s{n}", draw(rng), rng.uniform(0.2, 0.7), cc) for n in range(count)]


def make_session(name: str, share: float, estimate: float, cc: str) -> Session:
    """Return a session in which the fix realised a share of its predicted gain."""
    measured, predicted = math.exp(share * estimate), math.exp(estimate)
    decision = Decision(
        bottleneck=BOTTLENECK,
        fix=FIX,
        applied_as="after",
        predicted=(1.0, predicted, predicted),
        predicted_by="effects",
        calibration=PRIOR_SHARE,
        measured=measured,
        interval=(measured * 0.99, measured * 1.01),
    )
    entry = SessionEntry(
        session=name, at=DAY, goal="g", target="cuda", cc=cc, decisions=(decision,)
    )
    return Session(session=name, opened=DAY, goal="g", entries=(entry,))


def learn_from(sessions: list[Session]) -> LearnedCatalogue:
    """Return the calibrations and phase times learned from sessions."""
    return learn_from_sessions(sessions, lambda bottleneck, fix: (bottleneck, fix) == PAIR)


def print_shares(repeats: int) -> None:
    """Print true share, learned share, coverage and interval width, by number of cases."""
    print(f"Shares of fixes: {repeats} histories each, 95 % intervals of the next case")
    print(f"{'':28}{'cases':>6}{'truth':>8}{'learned':>9}{'± sd':>7}{'covered':>9}{'width':>7}")
    for name, known in (*TRUE_SHARES.items(), ("any, as the prior has them", None)):
        many = random.Random(0)
        means = [clip_share((known or draw_fix_from_prior(many))(many)) for _ in range(100_000)]
        for count in CASE_COUNTS:
            rng = random.Random(f"{name} {count}")
            found: list[LearnedFix] = []
            hits = 0
            for _ in range(repeats):
                draw = known or draw_fix_from_prior(rng)
                row = learn_from(make_history(rng, count, draw)).fixes[0]
                found.append(row)
                hits += row.interval[0] <= clip_share(draw(rng)) <= row.interval[1]
            values = [row.calibration for row in found]
            width = statistics.fmean(row.interval[1] - row.interval[0] for row in found)
            print(
                f"{name:28}{count:6}{statistics.fmean(means):8.3f}{statistics.fmean(values):9.3f}"
                f"{statistics.pstdev(values):7.3f}{hits / repeats:9.1%}{width:7.2f}"
            )


def print_success_rates(repeats: int) -> None:
    """Print the coverage of the interval of a success rate: how often it contains the true rate."""
    print(f"\nRates of success: {repeats} histories each, 95 % intervals, covered")
    print(f"{'rate':28}" + "".join(f"{count:>8}" for count in CASE_COUNTS))
    for rate in (0.1, 0.5, 0.9):
        row = []
        for count in CASE_COUNTS:
            rng = random.Random(f"{rate} {count}")
            draws = [sum(rng.random() < rate for _ in range(count)) for _ in range(repeats)]
            row.append(
                sum(low <= rate <= high for low, high in (wilson_interval(d, count) for d in draws))
            )
        print(f"{rate:<28}" + "".join(f"{hits / repeats:8.1%}" for hits in row))


def print_phases(repeats: int) -> None:
    """Print the coverage of the predicted interval of a phase's time in the next session."""
    print(
        f"\nTimes of phases: {repeats} histories each, 80 % intervals of the next session, covered"
    )
    print(f"{'spread of the logarithm':28}" + "".join(f"{count:>8}" for count in CASE_COUNTS))
    for spread in (0.2, 0.5, 0.7, 1.0):
        row = []
        for count in CASE_COUNTS:
            rng = random.Random(f"{spread} {count}")
            hits = 0
            for _ in range(repeats):
                low, _, high = predict_minutes(
                    [rng.lognormvariate(1, spread) for _ in range(count)]
                )
                hits += low <= rng.lognormvariate(1, spread) <= high
            row.append(hits)
        print(f"{spread:<28}" + "".join(f"{hits / repeats:8.1%}" for hits in row))


def print_rankings(knowledge: Knowledge) -> None:
    """Print how answers change after learning that a fix has no effect on one architecture."""
    before = compile_rules(knowledge.model_copy(update={"learned": LearnedCatalogue()}))
    found = learn_from(make_history(random.Random(0), 40, draw_zero))
    after = compile_rules(knowledge.model_copy(update={"learned": found}))
    cases = [dict(case.metrics) for b in knowledge.bottlenecks for case in b.cases]
    (mine,) = read_page(before, PAGES / "row_softmax_full.csv")
    vectors = [*read_recorded_metrics(before), *cases, *mix_cases(cases, mine)]
    symptoms = {b.id for b in knowledge.bottlenecks if BOTTLENECK in b.symptom_of}
    print(f"\nAnswers to {len(vectors)} vectors of metrics, after 40 cases of nothing on sm_90")
    print(f"{'':12}{'same':>8}{'gain':>8}{'order':>8}{'left out':>10}{'anything else':>15}")
    for device in ("h100-sxm", "a100-80-sxm", "l4", None):
        seen = Counter(
            classify_change(
                recommend(before, v, device=device),
                recommend(after, v, device=device),
                device == "h100-sxm" or v.get("device.cc") == 9.0,
                symptoms,
            )
            for v in vectors
        )
        print_changes(device or "unknown", seen)
    seen = Counter(
        classify_change(
            recommend(before, v, target="cpu"), recommend(after, v, target="cpu"), False, symptoms
        )
        for v in vectors
    )
    print_changes("cpu", seen)


def print_changes(name: str, seen: Counter[str]) -> None:
    """Print a row of the table of changed answers."""
    row = "".join(f"{seen[kind]:8}" for kind in ("same", "price", "order"))
    print(f"{name:12}{row}{seen['gone']:10}{seen['else']:15}")


def read_recorded_metrics(program: CompiledRules) -> Iterator[dict[str, float]]:
    """Yield the metrics of kernels that Nsight Compute recorded on an H100."""
    for page in sorted(PAGES.glob("**/*.csv")):
        if page.parent.name in ("faults", "library", "ncu"):
            yield from read_page(program, page)


def read_page(program: CompiledRules, page: Path) -> list[dict[str, float]]:
    """Return the metrics of every launch of a raw page."""
    launches = read_raw_page(page.read_text(encoding="utf-8"), list_raw_names(program))
    return [launch.metrics for launch in launches]


def mix_cases(
    cases: list[dict[str, float]], profile: dict[str, float]
) -> Iterator[dict[str, float]]:
    """Yield 2000 mixtures of three cases each, so that several diagnoses compete.

    Every second one has the counters of a profile in which the learned fix is offered.
    """
    rng = random.Random(0)
    for number in range(2000):
        mixed: dict[str, float] = {}
        for case in rng.sample(cases, 3):
            mixed.update(case)
        yield {**mixed, **profile} if number % 2 else mixed


def classify_change(before: Any, after: Any, same_architecture: bool, symptoms: set[str]) -> str:
    """Return ``same``, ``price`` (gain changed), ``order``, ``gone`` or ``else`` (an error).

    Args:
        before: The answer without learned calibrations.
        after: The answer to the same metrics with them. ``gone``: the learned gain is none.
        same_architecture: Whether the answers are for the architecture of the learned cases.
        symptoms: Bottlenecks that stand behind the learned one where it gains something.
    """
    if before == after:
        return "same"
    old, new = ({d["bottleneck"]: d for d in one["diagnoses"]} for one in (before, after))
    about = {name for name in old if old[name] != new.get(name)}
    gone = [row for row in after["suppressed"] if row not in before["suppressed"]]
    told_gone = [(row["bottleneck"], row["guard"]) for row in gone] == [(BOTTLENECK, "no-gain")]
    fixed = ("gate", "evidence_level", "conclusions", "headroom", "open_count")
    kept, was = (
        {**one.get(BOTTLENECK, {}), "predicted_speedup": None, "learned": None, "fixes": None}
        for one in (new, old)
    )
    if (
        not about <= {BOTTLENECK}
        or not (told_gone or (set(old) == set(new) and kept == was and not gone))
        or not same_architecture
        or any(before[key] != after[key] for key in fixed)
    ):
        return "else"
    if told_gone:
        return "gone"
    rest = [[name for name in one if name not in {BOTTLENECK, *symptoms}] for one in (old, new)]
    if rest[0] != rest[1]:
        return "else"
    return "price" if list(old) == list(new) else "order"


if __name__ == "__main__":
    main()
