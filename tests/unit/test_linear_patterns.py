"""No pattern that sees text from outside takes more than linear time on one long word.

On lines that repeat the pattern's own words, as long as a pattern ever sees one, it takes about as
long as on the same words in shorter lines: it looks for the next word near the last one only.
"""

import re
import signal
import time
from functools import partial
from itertools import pairwise
from re import _parser

import pytest
from shipped_rules import program

from kernelkb.decide.symptoms import clean_log, find_first_error, find_symptoms
from kernelkb.profiles.launch import list_raw_names
from kernelkb.profiles.program_tables import find_program_tables
from kernelkb.profiles.report import read_report_text

LENGTH = 20_000
WORDS = ["x", "_", "0", "a.", "a-", "=", " ", "\n", "'", '"', "((", "[]", "a::", "/a", "aGVsbG8+/"]
TEXTS = {word: (word * LENGTH)[:LENGTH] for word in WORDS}
TEXTS["nested"] = "([{<" * (LENGTH // 8) + ">}])" * (LENGTH // 8)

CPU_LIMIT_S = 0.5
"""Of this process, not of the clock: linear patterns need 0.01, quadratic ones 2 to 17."""

LONG_LINE, SHORT_LINE = 4_000, 500
MOST_GROWTH = 3.5
"""Of the time for the same characters in long lines, over that in short ones: 1 to 1.3 where a
pattern looks for its next word near the last one, 8 or more where it tries all pairs."""

LEAST_S = 0.02
"""A pattern that ends within this passes: so short a time cannot be compared."""


class TooSlowError(Exception):
    """The processor worked longer than a linear pattern can need."""


def stop(*_):
    raise TooSlowError


@pytest.fixture
def limit():
    """Call a function; return whether it ended within some seconds of CPU time."""
    before = signal.signal(signal.SIGVTALRM, stop)

    def ends(seconds, work):
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            work()
        except TooSlowError:
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return True

    yield ends
    signal.signal(signal.SIGVTALRM, before)


def iter_slow(patterns, limit):
    """Yield the patterns that do not end in time, each with the text."""
    for pattern in patterns:
        for word, text in TEXTS.items():
            if not limit(CPU_LIMIT_S, partial(all, pattern.finditer(text))):
                yield pattern.pattern, word


def list_patterns():
    for row in program()["symptoms"]:
        for pattern in row["log_patterns"]:
            yield re.compile(pattern, re.MULTILINE)
    for row in program()["libraries"]:
        yield re.compile(row["name_pattern"])
    for row in program()["raw_names"].values():
        yield from map(re.compile, row["rule_patterns"])


def list_words(parsed):
    """Return the literal words of a parsed pattern, in order."""
    words, word = [], ""
    for name, value in parsed:
        if str(name) == "LITERAL":
            word += chr(value)
            continue
        words, word = [*words, word], ""
        for part in value if isinstance(value, tuple) else ():
            for inner in part if isinstance(part, list) else [part]:
                words += list_words(inner) if isinstance(inner, _parser.SubPattern) else []
    return [*dict.fromkeys(one for one in [*words, word] if one.strip())]


def iter_own_texts(pattern):
    """Yield lines that repeat one word of a pattern, two that follow one another, or all but one.

    Without the last one it does not match, and has to try all that there is.
    """
    words = list_words(_parser.parse(pattern))[:12]
    units = [*words, *(" ".join(pair) for pair in pairwise(words))]
    for unit in dict.fromkeys([*units, " ".join(words[:3]), " ".join(words[:-1])]):
        yield tuple(
            ((f"{unit} " * size)[: size - 1] + "\n") * (2 * LONG_LINE // size)
            for size in (SHORT_LINE, LONG_LINE)
        )


def measure_cpu_s(pattern, text):
    start = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - start


def iter_slow_on_own_words(patterns, limit):
    """Yield the patterns whose time grows with the length of a line, each with the line's start.

    Three tries each: a busy machine makes one slow, not three.
    """
    for pattern in patterns:
        for short, long in iter_own_texts(pattern.pattern):
            most = max(LEAST_S, MOST_GROWTH * measure_cpu_s(pattern, short))
            if not any(limit(most, partial(measure_cpu_s, pattern, long)) for _ in range(3)):
                yield pattern.pattern, long[:60]


def test_every_pattern_of_the_knowledge_is_linear(limit):
    assert list(iter_slow(list_patterns(), limit)) == []


@pytest.mark.parametrize("pattern", [r"[\w.]*cuda[\w.]*\.whl is", r"=+ *lost"])
def test_a_quadratic_pattern_is_found(pattern, limit):
    found, _ = next(iter_slow([re.compile(pattern)], limit))

    assert found == pattern


def test_no_pattern_of_the_knowledge_tries_pairs_of_its_own_words(limit):
    assert list(iter_slow_on_own_words(list_patterns(), limit)) == []


@pytest.mark.parametrize(
    "pattern", [r"mask[^\n]* and other[^\n]* must be", "one.*two.*three.*four"]
)
def test_a_pattern_that_tries_pairs_of_its_own_words_is_found(pattern, limit):
    found, _ = next(iter_slow_on_own_words([re.compile(pattern)], limit))

    assert found == pattern


PAGE_WORDS = ["x", " ", "1", "1.", "1,", "x ", "x 1 ", "(1, 1, 1)x", "> ", " | ", "_", "x__",
              "OPT ", "Section: ", "global loads ", "\t", "1 cycles stalled "]  # fmt: skip
PAGE = "k(int) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 8.6\n  Section: Occupancy\n"


@pytest.mark.parametrize("word", PAGE_WORDS)
def test_a_printed_page_of_one_long_word_is_read(word, limit):
    line = (word * LENGTH)[:LENGTH]
    text = f"{line}\n{PAGE}{line}\n  OPT   {line}\n\n{line}\n"
    table = f"Time (%)  Total Time (ns)  Num Calls  Name\n{line}\n1  1  1  {line}\n{line}\n"

    names = list_raw_names(program())  # loaded before the limit counts

    assert limit(CPU_LIMIT_S, lambda: read_report_text(text, names))
    assert limit(CPU_LIMIT_S, lambda: find_program_tables(table))


@pytest.mark.parametrize("word", ["x", "(", "0", "="])
def test_a_log_of_one_long_word_is_diagnosed(word, limit):
    def diagnose():
        log = clean_log(f"error: {word * 5 * LENGTH}")
        find_symptoms(program(), log)
        errors.append(find_first_error(log))

    errors = []
    assert limit(20, diagnose)  # half a second; over 100 where a pattern is quadratic
    assert errors[0]["line"] == 1


def test_every_part_of_a_long_line_is_read():
    text = clean_log(f"first\n{'x' * 5000} y\nnvcc: not found {'z ' * 3000}nvcc: not found\nlast")

    (row,) = find_symptoms(program(), f"1\n2\n{'word ' * 1000}nvcc: not found\n4")
    assert (row["symptom"], row["line"]) == ("nvcc-missing", 3)
    assert "nvcc: not found" in row["said"]
    assert max(map(len, text.shown.split("\n"))) == 2000
    assert text.line_at(text.shown.index("last")) == 4
    assert text.quote_line(4) == "last"


def test_an_error_far_inside_a_long_line_is_quoted_with_the_number_of_its_line():
    log = clean_log(f"ok\n{'word ' * 1000}error: no such thing\nend")

    error = find_first_error(log)

    assert error["line"] == 2
    assert len(error["said"]) <= 300
