"""Classifies judged mutants and prints the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from benchmarks.mutants.jobs import Judged
from benchmarks.mutants.mutant import Mutant

Word = Literal["refused", "equivalent", "within rounding", "does not run", "survives"]
_WORDS: tuple[Word, ...] = ("refused", "equivalent", "within rounding", "does not run", "survives")


class Classified(NamedTuple):
    """A mutant and what became of it."""

    mutant: Mutant
    word: Word
    detail: str
    distributions: tuple[str, ...] = ()
    """Of a survivor: on which inputs it differs, see ``equivalence``."""


def classify(mutant: Mutant, judged: Judged | None) -> Classified:
    """Return what became of a mutant; ``judged`` is None where it did not compile."""
    if judged is None:
        return Classified(mutant, "does not run", "does not compile")
    if judged.status == "incorrect":
        return Classified(mutant, "refused", judged.detail or "")
    if judged.status != "correct":
        return Classified(mutant, "does not run", f"{judged.status}: {judged.detail}")
    answer = judged.answer
    if answer is None:
        return Classified(mutant, "survives", "crashed or hung in the direct comparison")
    if answer["differs"] is not None:
        where = ", ".join(answer["distributions"])
        detail = f"differs on {answer['differs']} (in all: {where})"
        return Classified(mutant, "survives", detail, tuple(answer["distributions"]))
    word: Word = "within rounding" if answer["rounded"] else "equivalent"
    return Classified(mutant, word, f"{answer['calls']} inputs compared")


def print_tables(found: Sequence[Classified]) -> None:
    """Print the tables by kind, by kernel and by language, then every survivor."""
    _print_table("kind", found, lambda one: one.mutant.kind)
    _print_table("kernel", found, lambda one: one.mutant.kernel)
    _print_table("language", found, lambda one: one.mutant.language)
    survivors = [one for one in found if one.word == "survives"]
    count = sum(map(_needs_non_finite, survivors))
    print(f"{len(survivors)} survive, {count} of them wrong only for NaN or infinity")
    for one in found:
        if one.word == "survives":
            print(f"SURVIVES {one.mutant.name} ({one.mutant.kind})")
            print(f"    {one.mutant.difference}")
            print(f"    {one.detail}")


def _needs_non_finite(survivor: Classified) -> bool:
    names = survivor.distributions
    return bool(names) and all(name.endswith(("NaN", "infinite")) for name in names)


def _print_table(
    title: str, found: Sequence[Classified], group: Callable[[Classified], str]
) -> None:
    print(f"{title:34}{'judged':>8}" + "".join(f"{word:>17}" for word in _WORDS) + f"{'share':>9}")
    names = sorted({group(one) for one in found})
    for name in names:
        _print_row(name, [one for one in found if group(one) == name])
    _print_row("all", found)
    print()


def _print_row(name: str, found: Sequence[Classified]) -> None:
    counts = Counter(one.word for one in found)
    share = f"{100 * survivors_share(found):.2f} %"
    print(f"{name:34}{len(found):>8}" + "".join(f"{counts[w]:>17}" for w in _WORDS) + f"{share:>9}")


def survivors_share(found: Sequence[Classified]) -> float:
    """Return survivors among the mutants that run and differ from their original, 0 to 1."""
    counts = Counter(one.word for one in found)
    wrong = counts["refused"] + counts["survives"]
    return counts["survives"] / wrong if wrong else 0.0
