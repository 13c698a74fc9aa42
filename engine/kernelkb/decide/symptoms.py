"""Finds known symptoms and error codes of CUDA in a log, and returns their causes and cures."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from kernelkb.decide.log_patterns import FULL_WIDTH, compile_pattern

if TYPE_CHECKING:
    from kernelkb.decide.rules import CompiledRules, CudaErrorRow, SymptomRow

_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Colours and links that compilers write to a terminal (ECMA-48: CSI, OSC and single codes)."""
_QUOTES = str.maketrans(
    FULL_WIDTH | dict.fromkeys("\u2018\u2019\u00b4\u00ab\u00bb\u2039\u203a\u201e\u201c\u201d", "'")
)
"""The marks of localised compilers; one character for one, so offsets stay."""
_RANK = re.compile(r"^\[rank\d+\]:", re.MULTILINE)
"""What torchrun puts before each line."""
_MAX_LINE_LENGTH = 300
"""Maximum number of characters of a log line in an answer."""
_LEAD = 80
"""Characters shown before a match that lies far inside a longer line."""
_MAX_MATCHED_LENGTH = 2000
"""Longer lines are cut before a pattern sees them: many patterns are quadratic in a line."""

_ERROR = re.compile(
    r"^(?!.*\berrors?: 0\b|.*fatal: not a git repository)(?:"
    r".*(?:\berror(?: \w+)? ?[:#]|\bE(?:rror|RROR):|\berreur\b|\bFehler:|错误|エラー|\bfatal\s*:"
    r"|\bFATAL\b|==ERROR==|NCCL WARN|undefined (?:reference|symbol)|[Cc]ommand not found"
    r"|CMake Error|Check failed: |Segmentation fault|\bAborted\b|terminate called"
    r"|Assertion (?:.* failed|`))"
    r"|\S+ \S+ ERROR \[|.{0,60}\[ERROR\] |.*\bFAILED \S.{0,200} - [\w.]*(?:Error|Exception)\b"
    r"|.*\w\.(?:cpp|cc|cu):\d+: Failure$|\s*={3,} Invalid __\w+__ |[\s>|]*(?:E {3,})?"
    r"(?:(?:Pallas|JAX|Triton|CUDA|PyTorch|Numba|CuPy) )?"
    r"(?:[\w.]+(?:Transformation|StackTrace): )?(?:\[\w+\]:\s*)?"
    r"[\w.]*(?:Error|Exception|Interrupt)\b(?::|$)"
    r")"
)
_CONSEQUENCE = re.compile(
    r"ninja: |CalledProcessError|returned non-zero exit|make(?:\[\d+\])?: \*\*\*|collect2: "
    r"|errors? detected in the compilation|aborted due to errors|error: command "
    r"|failed: \(Exit \d+\)|Error building extension|subprocess-exited-with-error|MSB3721"
    r"|\[end of output\]|ERROR: Failed building wheel|nvcc compilation of \S+ failed"
    r"|\b(?:an?|the|this|these|following|with|same|next) (?i:errors?(?: messages?)?): *$"
)
"""Lines that only report that something else failed, or that its words follow."""

_REMARK = re.compile(
    r"\s*(?:\[?warning\b|-- |[^\s():]+(?:\(\d+\)|:\d+(?::\d+)?): warning\b)", re.IGNORECASE
)
"""How lines begin that a program goes on after, where no word of theirs is that of an error."""
_WARNING = re.compile(
    r"\s*(?:\([^()\n]{1,60}\) )?(?:\[[WI][ \d]|W\d{4} \d\d:|\[?WARNING\b|\[warn"
    r"|[-\d: T.,/|]{8,32}[|\s]*\[?W(?:ARN(?:ING)?\b| ))"
    r"|[^\n]{0,200}?(?:^|[\s.])"
    r"(?:(?:User|Future|Runtime|Deprecation|Performance|Numba\w*)Warning: |- WARNING -)"
)
"""How lines begin that call themselves a warning or a remark, whatever they say of errors."""

_MAX_WRAPPED = 600
"""Characters of a text that is joined from its lines."""

_QUOTED = re.compile(r"^[ \t]+\|.*|\b[Ii]f you (?:encounter|see|get|run into)\b.*", re.MULTILINE)
"""What a compiler proposes below a line of the program, and what is said of errors to come."""
_ECHOED = re.compile(
    r"^([^\n]{1,300}:\d+(?::\d+)?: (?:warning|note): [^\n]*\n)([ \t][^\n]{0,400})"
    r"(?=\n[ \t]*~*\^[~^]*[ \t]*(?:\n|$))",
    re.MULTILINE,
)
"""A line of the program that g++ shows below a warning, with a mark below it."""
_GUTTER = re.compile(
    r"^[ \t]+\|(?=[ \t>]+(?:E {3,}|[\w.]*(?:Error|Exception|Interrupt)\b(?::|$)|File \")|[ \t]*$)",
    re.MULTILINE,
)
_GROUP = re.compile(
    r"^[ \t]*[+|] (?:Exception Group )?Traceback \(|^[ \t]*\+-\+-{4,}", re.MULTILINE
)
"""What Python puts before the lines of a group of exceptions; each line of it has a gutter."""
_ANY_GUTTER = re.compile(r"^[ \t]+\|", re.MULTILINE)

_HEADING = re.compile(r"CMake Error (?:at|in) \S[^\n]*:\s*$")
"""An error line whose words stand in the next line."""

_COMPILERS = frozenset({"nvcc", "build"})
"""Kinds of symptoms whose general ones are errors of a compiler in the text of a program."""
_KIND_ONLY = "The line names the kind only: which of these it is, the check tells."
"""The note of an answer whose line does not settle the cause."""
_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30}
_DISTINCT_WORDS = 4
"""Words from which a text of cudaGetErrorString is taken without a word about CUDA before it."""


class SymptomMatch(TypedDict):
    """One symptom in a log."""

    symptom: str
    kind: str
    severity: str
    """``error`` where it stops the work, ``warning`` where it only costs time or hides a cause."""
    title: str
    line: int
    """Number of its first line in the log, from 1."""
    said: str
    """Text of that line."""
    captured: dict[str, str]
    """Values of the named groups of the regular expression."""
    times: int
    """Number of log lines that show it."""
    cause: str
    cure: str
    check: str
    note: str | None
    """A remark computed from what was captured, or None."""
    fixes: list[str]
    pattern: str | None


class Explanation(TypedDict):
    """Why a program does not end, or not well: the answer of ``kb explain``."""

    command: list[str]
    """Empty for a process that ran already."""
    outcome: Literal["ended", "failed", "crashed", "hangs", "out-of-time"]
    """crashed: the GPU raised an exception."""
    status: int | None
    """Its exit status, negative by a signal; null where it was ended from here."""
    seconds: float
    lines: list[str]
    """What was seen: kernels on the GPU, their threads by line, the exception, the host."""
    causes: list[SymptomMatch]
    """What the knowledge has for it, the likeliest first; empty where nothing known fits."""
    notes: list[str]
    """What could not be learned, and how to get it."""


class _SymptomHit(NamedTuple):
    row: SymptomRow
    matches: dict[int, re.Match[str]]
    """The first match of each line, by its number."""

    @property
    def told(self) -> tuple[int, re.Match[str]]:
        """The match to quote: compute-sanitizer's, which names the kernel, or else the first."""
        blocks = (found for found in self.matches.items() if "space" in found[1].re.groupindex)
        return next(blocks, next(iter(self.matches.items())))

    @property
    def is_specific(self) -> bool:
        """Whether it names more than a family of errors."""
        return not self.row["fallback"]

    @property
    def is_general_of_text(self) -> bool:
        """Whether it names a family of errors of a compiler in the text of a program."""
        return not self.is_specific and self.row["kind"] in _COMPILERS

    @property
    def is_remark(self) -> bool:
        """Whether its line is one that a program goes on after."""
        match = next(iter(self.matches.values()))
        return _is_warning(match) or _is_remark(match)

    @property
    def is_cause(self) -> bool:
        """Whether it may be what ended the work, though perhaps told in a warning before."""
        is_remark = _is_remark(next(iter(self.matches.values())))
        return self.is_specific and self.row["severity"] == "error" and not is_remark

    @property
    def lines(self) -> set[int]:
        """Numbers of all lines that its matches touch."""
        return {
            line + number
            for line, match in self.matches.items()
            for number in range(match[0].count("\n") + 1)
        }

    @property
    def order(self) -> tuple[bool, int, bool, int]:
        """Errors before warnings, then by line; of one line settled ones, then longer matches."""
        line, match = next(iter(self.matches.items()))
        is_error = self.row["severity"] == "error" and not self.is_remark
        return not is_error, line, self.row["kind_only"], match.start() - match.end()


def _is_remark(match: re.Match[str]) -> bool:
    """Return whether a match begins in a line of a compiler's or CMake's that stops nothing."""
    line = _cut_matched_line(match)
    return _REMARK.match(line) is not None and _ERROR.match(line) is None


def _is_warning(match: re.Match[str]) -> bool:
    """Return whether a match begins in a line that calls itself a warning."""
    return _WARNING.match(_cut_matched_line(match)) is not None


def _cut_matched_line(match: re.Match[str]) -> str:
    start = match.string.rfind("\n", 0, match.start()) + 1
    return match.string[start : match.end()].partition("\n")[0]


def find_symptoms(
    rules: CompiledRules, log: str | LogText, arch: str | None = None
) -> list[SymptomMatch]:
    """Return the symptoms found in a log: errors first, then warnings, each in order of lines.

    A line that a more specific symptom explains (``unless``) does not count for the general one,
    and a symptom that another one brings about (``consequence_of``) is not reported beside it.
    What only names a family of errors (``fallback``) is reported where no other error is found;
    a compiler's own error also before errors on later lines, which it may have brought about.
    Sentences in other letters, small or capital, count where nothing more than a family is found.

    Args:
        rules: The compiled rules.
        log: Output of a compiler, a loader, a sanitizer or a run.
        arch: Compute capability such as ``8.9``; read from the log when None.
    """
    text = clean_log(log) if isinstance(log, str) else log
    hits = _find_hits(rules, text)
    first = _find_first_line(hits)
    if (first is None or "CMake Error" in text.matched) and (joined := _join_wrapped(text)):
        found = _find_hits(rules, joined)
        other = _find_first_line(found)
        is_better = other is not None and (first is None or other < first)
        hits, text = (found, joined) if is_better else (hits, text)
    if _find_first_line(hits) is None:
        found = _find_hits(rules, text, in_any_case=True)
        hits = hits if hits and _find_first_line(found) is None else found
    return [_describe_hit(rules, hit, text, arch) for hit in hits]


def _find_first_line(hits: Iterable[_SymptomHit]) -> int | None:
    """Return the first line of a symptom that names more than a family of errors."""
    return min((hit.order[1] for hit in hits if hit.is_specific), default=None)


def _find_hits(
    rules: CompiledRules, text: LogText, *, in_any_case: bool = False
) -> list[_SymptomHit]:
    """Return what a log shows, in the order in which it is told."""
    codes = find_cuda_errors((e for row in rules["symptoms"] for e in row["cuda_errors"]), text)
    found = {
        row["id"]: matches
        for row in rules["symptoms"]
        if (matches := _match(row, text, codes, in_any_case))
    }
    hits = []
    for row in rules["symptoms"]:
        if row["id"] not in found or not found.keys().isdisjoint(row["consequence_of"]):
            continue
        explained = {line for name in row["unless"] for line in found.get(name, ())}
        matches = {n: match for n, match in found[row["id"]].items() if n not in explained}
        told = {n: match for n, match in matches.items() if not _is_warning(match)}
        if row["severity"] == "error" and told:
            matches = told
        if matches:
            hits.append(_SymptomHit(row, matches))
    hits = list(_drop_general_hits(_drop_consequences(hits, find_first_error(text))))
    return sorted(hits, key=lambda hit: hit.order)


def _drop_consequences(hits: list[_SymptomHit], first: FirstError | None) -> list[_SymptomHit]:
    """Return the hits without a compiler's family of errors behind an error that none explains."""
    if first is None or any(first["line"] in hit.lines for hit in hits):
        return hits
    return [hit for hit in hits if not hit.is_general_of_text or hit.order[1] < first["line"]]


def _drop_general_hits(hits: list[_SymptomHit]) -> Iterator[_SymptomHit]:
    """Yield the hits without those that say less than another error does."""
    named = [hit.order[1] for hit in hits if hit.is_cause]
    for hit in hits:
        is_first = hit.is_general_of_text and hit.order[1] < min(named, default=0)
        if hit.is_specific or not named or is_first:
            yield hit


def find_failure(rules: CompiledRules, log: str) -> SymptomMatch | None:
    """Return the symptom that explains why a log's command failed; None without one.

    What only names a family of errors explains no more than the compiler's own words; nor does a
    later error, which it may have brought about.
    """
    general = {row["id"] for row in rules["symptoms"] if row["fallback"]}
    errors = (row for row in find_symptoms(rules, log) if row["severity"] == "error")
    first = next(errors, None)
    return None if first is None or first["symptom"] in general else first


def _match(
    row: SymptomRow, text: LogText, codes: Mapping[int, list[FoundError]], in_any_case: bool
) -> dict[int, re.Match[str]]:
    """Return the first match of each line, in order of lines."""
    matches: dict[int, re.Match[str]] = {}
    for pattern in row["log_patterns"]:
        for match in compile_pattern(pattern, in_any_case).finditer(text.matched):
            matches.setdefault(text.line_at(match.start()), match)
    own = {error["code"] for error in row["cuda_errors"]}
    for line, errors in codes.items() if own else ():
        for error in errors:
            if error.row["code"] in own:
                matches.setdefault(line, error.match)
    return dict(sorted(matches.items()))


def _describe_hit(
    rules: CompiledRules, hit: _SymptomHit, text: LogText, arch: str | None
) -> SymptomMatch:
    row = hit.row
    line, match = hit.told
    captured = {name: value for name, value in match.groupdict().items() if value is not None}
    known_arch = arch or _find_log_architecture(text.shown)
    return {
        "symptom": row["id"],
        "kind": row["kind"],
        "severity": "warning" if hit.is_remark else row["severity"],
        "title": row["title"],
        "line": line,
        "said": text.quote_line(line, match.start()),
        "captured": captured,
        "times": len(hit.matches),
        "cause": row["cause"],
        "cure": row["cure"],
        "check": row["check"],
        "note": _describe_captured(rules, row, captured, known_arch),
        "fixes": row["fixes"],
        "pattern": row["pattern"],
    }


def _find_log_architecture(text: str) -> str | None:
    """Return the compute capability of the ``sm_`` target in a log; None if not exactly one."""
    named = set(re.findall(r"\bsm_(\d+)(\d)[af]?\b", text))
    return ".".join(named.pop()) if len(named) == 1 else None


def _describe_captured(
    rules: CompiledRules, row: SymptomRow, captured: Mapping[str, str], arch: str | None
) -> str | None:
    notes = [
        describe_cuda_error(row["cuda_errors"], captured.get("error", "")),
        _KIND_ONLY if row["kind_only"] else None,
    ]
    if row["explain"] == "device-memory" and "requested" in captured:
        notes.append(_describe_request(captured["requested"], captured["capacity"]))
    size = captured.get("bytes") or captured.get("size")
    if row["explain"] == "shared-memory" and size is not None:
        notes.extend(_describe_shared_memory_fit(rules, int(size, 16), arch))
    return " ".join(filter(None, notes)) or None


def _describe_request(requested: str, capacity: str) -> str | None:
    parts = map(str.split, (requested, capacity))
    sizes = [float(number) * _BYTES[unit[0].upper()] for number, unit in parts]
    if sizes[0] <= sizes[1]:
        return None
    return "This one request exceeds the whole GPU, so no setting of the allocator helps."


def _describe_shared_memory_fit(rules: CompiledRules, size: int, arch: str | None) -> Iterator[str]:
    common, architectures = rules["hardware"]["common"], rules["hardware"]["architectures"]
    static = common["static_smem_block"]
    if size <= static:
        return
    yield f"{size:,} bytes exceed the {static:,} that a block may declare with a fixed size."
    if arch in architectures:
        most = architectures[arch]["smem_optin_block"]
        limit = f"the {most:,} of a block of {_format_architecture(arch)}"
        if size <= most:
            yield f"They fit {limit} after opting in."
        else:
            yield f"They exceed even {limit}: make the tile smaller."
        return
    fits = [
        _format_architecture(cc)
        for cc, row in architectures.items()
        if size <= row["smem_optin_block"]
    ]
    if fits:
        yield f"After opting in they fit a block of {', '.join(fits)}."
    else:
        yield "No GPU has that much for a block: make the tile smaller."


def _format_architecture(cc: str) -> str:
    return f"sm_{cc.replace('.', '')}"


class FoundError(NamedTuple):
    """A code in a log."""

    row: CudaErrorRow
    match: re.Match[str]
    """Its group ``error`` is the name, the number or the text."""


def find_cuda_errors(rows: Iterable[CudaErrorRow], text: LogText) -> dict[int, list[FoundError]]:
    """Return the errors of each line, by its number.

    Args:
        rows: The codes to look for.
        text: The log.
    """
    known = {key: row for row in rows for key in _list_keys(row)}
    found: dict[int, list[FoundError]] = {}
    for pattern in _build_patterns(tuple(known)):
        for match in pattern.finditer(text.matched):
            begin = text.matched.rfind("\n", 0, match.start()) + 1
            if match["error"].isdigit() and _CONSEQUENCE.search(text.matched, begin, match.end()):
                continue  # the exit status of make behind the path of a file such as ggml-cuda
            row = known[match["error"].lower()]
            found.setdefault(text.line_at(match.start("error")), []).append(FoundError(row, match))
    return found


def describe_cuda_error(rows: Iterable[CudaErrorRow], said: str) -> str | None:
    """Return the code, name and text of what a log says; None where it is no code of ``rows``."""
    row = next((row for row in rows if said.lower() in _list_keys(row)), None)
    return f"{row['names'][0]} ({row['code']}): {row['text']}." if row else None


def _list_keys(row: CudaErrorRow) -> list[str]:
    return [str(row["code"]), row["text"].lower(), *(name.lower() for name in row["names"])]


@lru_cache(maxsize=4)
def _build_patterns(known: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return one pattern for each way in which programs print an error."""
    keys = sorted(known, key=len, reverse=True)
    if not keys:
        return ()
    numbers = _join(key for key in keys if key.isdigit())
    names = _join(key for key in keys if key.startswith("cuda") and " " not in key)
    texts = [key for key in keys if " " in key]
    long = _join_by_letter(key for key in texts if len(key.split()) >= _DISTINCT_WORDS)
    short = _join(key for key in texts if len(key.split()) < _DISTINCT_WORDS)
    end = r"(?=\s*(?:[-:;,.!)\]'\"(]|$|at\b|in\b))"
    return tuple(
        re.compile(pattern, re.MULTILINE)
        for pattern in (
            # A name in source code that a compiler prints is no error of a run.
            rf"(?<![\w\"])(?<!== )(?<!!= )(?<!case )(?<!return )(?i:(?P<error>{names}))\b(?!\")",
            rf"(?<!\w)(?P<error>{long})(?!\w)",
            # A path such as /usr/local/cuda or cuda.h that another tool names is no call.
            r"(?:(?i:(?<!/)cuda|gpuassert|runtime api error)|\b(?!cu(?:BLAS|DNN|FFT|SPARSE|SOLVER"
            r"|RAND|TENSOR))cu[A-Z]\w)[^\n]{0,160}?(?:(?<!\.h)[:(] ?|')"
            rf"(?i:(?P<error>{short}))(?!\w)(?! (?:when|on|in)\b)",
            # As the macros of many samples print it, and a call that names itself.
            rf"(?P<error>{short}) in [^\n]{{1,200}}\.(?:cuh?|h|hpp|cpp|cc) at line \d",
            rf"\bcuda[A-Z]\w+ failed (?P<error>{short})(?!\w)",
            # The exit status of nvcc, a line number and a version are no codes.
            r"(?<![/\w])(?i:cuda)\w*(?:(?!\b(?i:cu(?:blas|dnn|fft|sparse|solver|rand)))[^\n]){0,40}?"
            r"\b(?i:errors?|failure|failed|fail)\b"
            r"(?:(?!exit|version)[^\n\d]){0,24}?(?<![:./\w-])(?<!line )\(?"
            rf"(?P<error>{numbers})\b{end}",
            r"\b(?!cu(?:BLAS|DNN|FFT|SPARSE|SOLVER|RAND|TENSOR))cu(?:da)?[A-Z]\w+(?:\(\w*\))?"
            r"(?::| failed| returned| error|)(?: with)?(?: error| code| status)*[ =:(]{1,3}"
            rf"(?P<error>{numbers})\b{end}",
            r"(?:driver API error No\. |\bCudaAPIError: \[(?=\d+\])|\[(?=\d+\] Call to cu)"
            r"|\(code (?=\d+, ERROR_))"
            rf"(?P<error>{numbers})\b",
        )
    )


def _join(keys: Iterable[str]) -> str:
    return "|".join(map(re.escape, keys)) or "(?!)"


def _join_by_letter(keys: Iterable[str]) -> str:
    """Return a pattern of texts in any case; ``re`` tries those that begin with its letter only."""
    letters = groupby(sorted(keys, key=lambda key: key[0]), key=lambda key: key[0])
    groups = (
        f"[{re.escape(letter + letter.upper())}](?i:{_join(key[1:] for key in begun)})"
        for letter, begun in letters
    )
    return "|".join(groups) or "(?!)"


def read_log(
    rules: CompiledRules, log: str, arch: str | None
) -> tuple[list[SymptomMatch], FirstError | None]:
    """Return the symptoms of a log, as ``find_symptoms``, and its first error line."""
    text = clean_log(log)
    return find_symptoms(rules, text, arch), find_first_error(text)


class LogText(NamedTuple):
    """A log in two forms of the same length and the same lines."""

    shown: str
    """Without terminal codes and carriage returns."""
    matched: str
    """The same with ASCII quotation marks and spaces for the rank, for the regular expressions."""
    line_starts: list[int]
    """Offset of each line of the log; a line that was cut has one."""

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds a character, from 1."""
        return bisect_right(self.line_starts, offset)

    def quote_line(self, line: int, offset: int = 0) -> str:
        """Return a line, at most 300 characters of it around ``offset``."""
        start = max(self.line_starts[line - 1], self.shown.rfind("\n", 0, offset) + 1)
        text = self.shown[start:].partition("\n")[0]
        begin = max(0, offset - start - _LEAD) if len(text) > _MAX_LINE_LENGTH else 0
        return text[begin : begin + _MAX_LINE_LENGTH].strip()


class FirstError(TypedDict):
    """The first line of a log that reports an error, known or not."""

    line: int
    """Its number in what was read, from 1."""
    said: str


class PossibleEntry(TypedDict):
    """An entry that shares words with an error that no symptom names."""

    kind: str
    id: str
    title: str


class LogExtent(TypedDict):
    """How much of a log was read."""

    lines: int
    skipped_characters: int
    """Characters in the middle of a long log that were not read."""


def clean_log(log: str) -> LogText:
    """Return a log without terminal codes and carriage returns; a long line is cut into several."""
    lines = _TERMINAL_CODE.sub("", log).replace("\r\n", "\n").replace("\r", " ").split("\n")
    cut = [_cut_line(line) for line in lines]
    starts = [0, *accumulate(len(line) + 1 for line in cut[:-1])]
    shown = "\n".join(cut)
    matched = shown.translate(_QUOTES)
    gutter = _ANY_GUTTER if _GROUP.search(matched) else _GUTTER
    for left_out in (_RANK, gutter, _QUOTED):
        matched = left_out.sub(lambda found: " " * len(found[0]), matched)
    matched = _ECHOED.sub(lambda found: found[1] + " " * len(found[2]), matched)
    return LogText(shown, matched, starts)


def _join_wrapped(text: LogText) -> LogText | None:
    """Return a log with indented lines behind those before them, as CMake wraps a text; or None."""
    ends = [*(start - 1 for start in text.line_starts[1:]), len(text.matched)]
    joined = ""
    starts: list[int] = []
    for start, end in zip(text.line_starts, ends, strict=True):
        line, last = text.matched[start:end], joined.rpartition("\n")[2]
        is_more = line[:1].isspace() and line.strip() and last.strip() and len(last) < _MAX_WRAPPED
        joined += " " if is_more else "\n" if starts else ""
        starts.append(len(joined))
        joined += line.strip() if is_more else line
    return LogText(joined, joined, starts) if len(joined) < len(text.matched) else None


def _cut_line(line: str) -> str:
    """Return a line cut after each 2,000 characters, or at a space in the half before."""
    pieces, start = [], 0
    while len(line) - start > _MAX_MATCHED_LENGTH:
        end = start + _MAX_MATCHED_LENGTH
        space = line.rfind(" ", start + _MAX_MATCHED_LENGTH // 2, end)
        end = space if space > 0 else end
        pieces.append(line[start:end])
        start = end
    return "\n".join([*pieces, line[start:]])


def find_first_error(log: LogText) -> FirstError | None:
    """Return the first line that reports an error, or the first consequence of one, or None."""
    consequence, offset, is_headed = None, 0, False
    for line in log.shown.split("\n"):
        if _CONSEQUENCE.search(line):
            consequence = offset if consequence is None else consequence
        elif _HEADING.match(line):
            is_headed = True
        elif (is_headed and line.strip()) or _ERROR.match(line):
            return _quote_error(log, offset)
        offset += len(line) + 1
    return None if consequence is None else _quote_error(log, consequence)


def _quote_error(log: LogText, offset: int) -> FirstError:
    number = log.line_at(offset)
    return {"line": number, "said": log.quote_line(number, offset)}
