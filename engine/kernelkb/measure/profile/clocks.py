"""Times the inside of a CUDA kernel: a build whose warps read their clock where they wait.

Every barrier and every wait for a copy or a product of tensor cores gets a mark before and after
it, every kernel one where a block begins and ends. A warp adds the cycles since its last mark to
a table by the two marks; of a launch of 512 blocks and more the warps of 256 to 511 do, spread
over it, since all would wait for each other at the table. Every block keeps when it ran and on
which SM. The build is for this only: its time is told beside that of the plain build, and no time
of it is a measurement.
"""

from __future__ import annotations

import re
import time
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelkb.errors import BadValueError, EnvironmentGapError
from kernelkb.measure.build.build import build
from kernelkb.measure.job_specs import make_case_spec, make_code_spec, make_reference_spec
from kernelkb.measure.process.subprocesses import scratch_folder
from kernelkb.measure.process.worker_jobs import run_job
from kernelkb.measure.subject import MeasurementSubject
from kernelkb.measure.worker.shared.messages.jobs import ClocksJob, ClocksResult, KernelClocks
from kernelkb.model.records.measurement import Build, Profile
from kernelkb.safety.untrusted_text import to_one_line
from kernelkb.safety.workspace import read_text

_TIMEOUT_S = 180.0
_MAX_MARKS = 96
"""The table has an entry for each kernel, warp and pair of marks."""
_MAX_KERNELS = 4
_SHOWN_SEGMENTS = 8
_LEAST_SHARE = 0.02
"""Of the warps' time: shorter segments are left out."""
_MAX_COST = 1.25
"""Over the plain build: clocks that cost more change what they measure."""
_ROLE_DIFFERENCE = 0.3
"""Share of their time by which neighbouring warps must differ to have different roles."""
_TEXT_LENGTH = 56

_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_DEFINE = re.compile(r"#[ \t]*define[ \t]+(\w+)(.*)", re.DOTALL)
_WAITING_TEXT = re.compile(
    r"\bbar\.(?:cta\.)?sync|\bbarrier\.(?:cta\.)?sync|\bbarrier\.cluster\.wait|\bcp\.async\.wait"
    r"|\bcp\.async\.bulk\.wait|\bmbarrier\.(?:try|test)_wait|\bwgmma\.wait_group"
    r"|\btcgen05\.wait|\b__syncthreads\b|\b__pipeline_wait_prior\b"
)
_ASM = re.compile(r"\basm\b(?:\s+(?:volatile|inline|goto))*\s*\(")
_WAITING_CALL = re.compile(
    r"\b__syncthreads\s*\(|\b__pipeline_wait_prior\s*\("
    r"|\b(?:cg|cooperative_groups)::(?:sync|wait|wait_prior\s*<[^<>;]*>)\s*\("
    r"|\b\w+(?:\[[^\[\];]*\])?(?:\.|->)"
    r"(?:sync|wait|arrive_and_wait|consumer_wait|producer_acquire|wait_parity)\s*\("
)
_FUNCTION = re.compile(r"\b(__global__|__device__)\b")
_NAME = re.compile(r"(\w+)\s*(?:<[^<>()]*>\s*)?\(")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)|\balignas\s*\([^()]*\)")
_WRAPPER_STATEMENTS = 8
"""A function with a wait and no more statements is one: its callers' lines are told."""

_HEADER = """\
#include <cuda_runtime.h>
namespace kernelkb_clocks {
constexpr int kMarks = %(marks)d, kKernels = %(kernels)d, kWarps = 32, kBlocks = 65536;
constexpr unsigned int kMarked = 512;
struct Table {
  unsigned long long cycles[kKernels][kWarps][kMarks][kMarks];
  unsigned int counts[kKernels][kWarps][kMarks][kMarks];
  unsigned long long begin[kKernels][kBlocks], end[kKernels][kBlocks];
  unsigned int sm[kKernels][kBlocks];
  unsigned int launches[kKernels], blocks[kKernels], threads[kKernels];
};
static __device__ Table table;
struct State { unsigned long long last[kWarps]; int mark[kWarps]; int kernel; };
__device__ __forceinline__ volatile State& state() {
  __shared__ State shared;
  return shared;
}
__device__ __forceinline__ unsigned int thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ unsigned int block_in_grid() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
// One block of 2^k: multiples of the golden ratio, of which every 2^(k+1) blocks in a row hold one,
// the first block among them. The same for a whole block, and nothing that changes in it.
__device__ __forceinline__ bool is_marked() {
  const unsigned int more = (gridDim.x * gridDim.y * gridDim.z) / kMarked;
  return block_in_grid() * 0x9e3779b9u <= 0xffffffffu >> (32 - __clz(more));
}
__device__ __forceinline__ bool is_first_active() {
  unsigned int before;
  asm volatile("mov.u32 %%0, %%%%lanemask_lt;" : "=r"(before));
  return (__activemask() & before) == 0;
}
__device__ __forceinline__ unsigned long long global_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %%0, %%%%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ void mark(int kernel, int id) {
  if (!is_first_active()) return;
  const unsigned long long now = clock64();
  const unsigned int warp = thread_in_block() / 32;
  volatile State& own = state();
  const int from = own.mark[warp];
  atomicAdd(&table.cycles[kernel][warp][from][id], now - own.last[warp]);
  atomicAdd(&table.counts[kernel][warp][from][id], 1u);
  own.mark[warp] = id;
  own.last[warp] = clock64();
}
__device__ __forceinline__ void mark(int id) {
  if (is_marked()) mark(state().kernel, id);
}
struct Block {
  const int kernel, end;
  __device__ __forceinline__ Block(int which, int start, int last) : kernel(which), end(last) {
    const unsigned int thread = thread_in_block(), block = block_in_grid();
    if (thread == 0 && block < kBlocks) {
      unsigned int sm;
      asm volatile("mov.u32 %%0, %%%%smid;" : "=r"(sm));
      table.begin[which][block] = global_ns();
      table.sm[which][block] = sm;
    }
    if (thread == 0 && block == 0) {
      atomicAdd(&table.launches[which], 1u);
      table.blocks[which] = gridDim.x * gridDim.y * gridDim.z;
      table.threads[which] = blockDim.x * blockDim.y * blockDim.z;
    }
    if (thread %% 32 == 0 && is_marked()) {
      volatile State& own = state();
      own.kernel = which;  // each warp writes the same before it reads
      own.mark[thread / 32] = start;
      own.last[thread / 32] = clock64();
    }
  }
  __device__ __forceinline__ ~Block() {
    const unsigned int block = block_in_grid();
    if (is_marked()) mark(kernel, end);
    if (block < kBlocks && is_first_active()) atomicMax(&table.end[kernel][block], global_ns());
  }
};
}  // namespace kernelkb_clocks
extern "C" __attribute__((visibility("default"))) int kernelkb_clear_clocks() {
  void* place = nullptr;
  cudaError_t error = cudaGetSymbolAddress(&place, kernelkb_clocks::table);
  if (error == cudaSuccess) error = cudaMemset(place, 0, sizeof(kernelkb_clocks::Table));
  return static_cast<int>(error == cudaSuccess ? cudaDeviceSynchronize() : error);
}
extern "C" __attribute__((visibility("default"))) int kernelkb_read_clocks(void* to, size_t size) {
  if (size != sizeof(kernelkb_clocks::Table)) return -1;
  return static_cast<int>(cudaMemcpyFromSymbol(to, kernelkb_clocks::table, size));
}
#ifdef __CUDA_ARCH__
#define KERNELKB_MARK(id) kernelkb_clocks::mark(id)
#define KERNELKB_BLOCK(which, start, last) kernelkb_clocks::Block kernelkb_block(which, start, last)
#else
#define KERNELKB_MARK(id) ((void)0)
#define KERNELKB_BLOCK(which, start, last) ((void)0)
#endif
#line 1
"""


class Mark(NamedTuple):
    """A place where warps read their clock."""

    line: int
    """In the source, from 1."""
    kind: str
    """``start`` or ``end`` of a kernel, ``before`` or ``after`` a wait."""
    text: str
    """Of the wait; the kernel's name at its start and end."""


class ClockedSource(NamedTuple):
    """A source with marks."""

    text: str
    marks: tuple[Mark, ...]
    """The position is the mark's number."""
    kernels: tuple[str, ...]


class _Function(NamedTuple):
    name: str
    is_kernel: bool
    start: int
    """Offset after its ``{``."""
    end: int
    """Offset of its ``}``."""


def add_clocks(text: str) -> ClockedSource:
    """Return CUDA text with marks at its kernels' ends and around its waits, line by line the same.

    Waits are ``__syncthreads``, waits of cooperative groups, pipelines and barriers, PTX that waits
    (``bar.sync``, ``cp.async.wait_*``, ``mbarrier.try_wait``, ``wgmma.wait_group``), and calls of
    short functions and macros that hold one.

    Raises:
        BadValueError: It defines no kernel, or too many kernels or waits.
    """
    plain = _blank(_COMMENT_OR_STRING, _blank(_DIRECTIVE, text))
    functions = list(_iter_functions(plain))
    kernels = [function for function in functions if function.is_kernel]
    if not 0 < len(kernels) <= _MAX_KERNELS:
        raise BadValueError(
            f"clocks are for a source of 1 to {_MAX_KERNELS} kernels; it has {len(kernels)}"
        )
    waits = list(_iter_waits(text, plain, functions))
    if 2 * (len(kernels) + len(waits)) > _MAX_MARKS:
        raise BadValueError(f"the source has {len(waits)} waits, too many for clocks")
    newlines = [at for at, letter in enumerate(text) if letter == "\n"]
    marks: list[Mark] = []
    inserted: list[tuple[int, str]] = []
    for at, kernel in enumerate(kernels):
        begin, last = (bisect(newlines, offset) + 1 for offset in (kernel.start - 1, kernel.end))
        first = len(marks)
        marks += [Mark(begin, "start", kernel.name), Mark(last, "end", kernel.name)]
        inserted.append((kernel.start, f" KERNELKB_BLOCK({at}, {first}, {first + 1}); "))
    for start, end in waits:
        line, first = bisect(newlines, start) + 1, len(marks)
        words = to_one_line(text[start:end], _TEXT_LENGTH)
        marks += [Mark(line, "before", words), Mark(line, "after", words)]
        inserted.append((start, f"{{ KERNELKB_MARK({first}); "))
        inserted.append((end, f" KERNELKB_MARK({first + 1}); }}"))
    header = _HEADER % {"marks": len(marks), "kernels": len(kernels)}
    return ClockedSource(
        header + _insert(text, inserted), tuple(marks), tuple(kernel.name for kernel in kernels)
    )


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Return a text of the same length and lines with what matches replaced by blanks."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _insert(text: str, inserted: Iterable[tuple[int, str]]) -> str:
    parts, last = [], 0
    for offset, new in sorted(inserted, key=lambda item: item[0]):
        parts += [text[last:offset], new]
        last = offset
    return "".join([*parts, text[last:]])


def _iter_functions(plain: str) -> Iterator[_Function]:
    """Yield the functions on the GPU that a text defines; it has neither comments nor strings."""
    last = 0
    for found in _FUNCTION.finditer(plain):
        if found.start() < last:
            continue
        start = _find_body(plain, found.end())
        header = _BOUNDS.sub(" ", plain[found.end() : start or found.end()])
        name = _NAME.search(header)
        if start is None or name is None:
            continue
        last = _find_close(plain, start, "{}")
        is_kernel = "__global__" in plain[found.start() : start]
        yield _Function(name[1], is_kernel, start, last)


def _find_body(plain: str, at: int) -> int | None:
    """Return the offset after the ``{`` of a function's body; None for a declaration."""
    depth = 0
    for offset in range(at, len(plain)):
        letter = plain[offset]
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter in ";={":
            return offset + 1 if letter == "{" else None
    return None


def _find_close(plain: str, at: int, pair: str) -> int:
    """Return the offset of the bracket that closes the one before ``at``."""
    depth = 1
    for offset in range(at, len(plain)):
        depth += (plain[offset] == pair[0]) - (plain[offset] == pair[1])
        if depth == 0:
            return offset
    return len(plain)


def _iter_waits(text: str, plain: str, functions: Sequence[_Function]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the statements that wait, from their first letter to after their ``;``.

    One inside an expression is left out.
    """
    wrappers = [f for f in functions if not f.is_kernel and _is_wrapper(text, plain, f)]
    names = {f.name for f in wrappers} | set(_list_waiting_macros(text))
    calls = [_WAITING_CALL.finditer(plain)]
    if names:
        any_name = "|".join(re.escape(name) for name in sorted(names))
        pattern = rf"\b(?:\w+::)*(?:{any_name})\s*(?:<[^<>;]*>\s*)?\("
        calls.append(re.finditer(pattern, plain))
    starts = {found.start(): found.end() for group in calls for found in group}
    for found in _ASM.finditer(plain):
        end = _find_close(plain, found.end(), "()")
        if _WAITING_TEXT.search(text, found.start(), end):
            starts[found.start()] = found.end()
    for start, opened in sorted(starts.items()):
        end = _find_close(plain, opened, "()") + 1
        follows = re.compile(r"\s*;").match(plain, end)
        inside = [f for f in functions if f.start <= start < f.end]
        if not follows or not inside or inside[0] in wrappers or not _begins_one(plain, start):
            continue
        yield start, follows.end()


def _begins_one(plain: str, start: int) -> bool:
    """Return whether a statement begins here, not an operand."""
    before = plain[:start].rstrip()
    return before[-1:] in (";", "{", "}", ")", ":") or before.endswith("else")


def _is_wrapper(text: str, plain: str, function: _Function) -> bool:
    body = plain[function.start : function.end]
    return body.count(";") <= _WRAPPER_STATEMENTS and bool(
        any(
            _WAITING_TEXT.search(
                text,
                function.start + found.start(),
                _find_close(plain, function.start + found.end(), "()"),
            )
            for found in _ASM.finditer(body)
        )
    )


def _list_waiting_macros(text: str) -> Iterator[str]:
    for found in _DIRECTIVE.finditer(text):
        define = _DEFINE.search(found[0])
        if define and _WAITING_TEXT.search(define[2]):
            yield define[1]


def profile_clocks(subject: MeasurementSubject, plain: Build, workload: str) -> Profile:
    """Return where the warps of a variant spend their time on a workload, line by line.

    Args:
        subject: A variant in CUDA C++, on a GPU.
        plain: Its build.
        workload: Its name.

    Raises:
        BadValueError: The source has no kernel, or too many kernels or waits.
        EnvironmentGapError: It does not build with clocks, or its process ended early.
    """
    started = time.monotonic()
    clocked = add_clocks(read_text(subject.kernel_folder.folder / subject.variant.source))
    result = _run_clocked(subject, plain, clocked, workload)
    return Profile(
        **subject.identity_fields,
        workload=workload,
        tool="clocks",
        metrics={},
        evidence=tuple(describe_clocks(clocked, result)),
        seconds=time.monotonic() - started,
    )


def _run_clocked(
    subject: MeasurementSubject, plain: Build, clocked: ClockedSource, workload: str
) -> ClocksResult:
    built_subject, built = _build_clocked(subject, plain, clocked)
    sizes = subject.kernel.workloads[workload]
    job: ClocksJob = {
        "mode": "clocks",
        "target": "cuda",
        "reference": make_reference_spec(subject.kernel_folder),
        "code": make_code_spec(built_subject, built),
        "library": str(built.library),
        "plain_code": make_code_spec(subject, plain),
        "cases": [make_case_spec(subject.kernel_folder, workload, sizes)],
        "mark_count": len(clocked.marks),
        "kernel_count": len(clocked.kernels),
    }
    with scratch_folder() as scratch:
        done = run_job(job, scratch, timeout_s=_TIMEOUT_S)
    if done.result is None:
        last = (done.process.output.strip().splitlines() or ["no output"])[-1]
        raise EnvironmentGapError(
            f"the build with clocks did not run: {last}", "profile it without --clocks"
        )
    return done.result


def _build_clocked(
    subject: MeasurementSubject, plain: Build, clocked: ClockedSource
) -> tuple[MeasurementSubject, Build]:
    variant, source = subject.variant, subject.kernel_folder.folder / subject.variant.source
    root = Path(plain.directory).parents[1]
    with scratch_folder() as folder:
        file = folder / f"{source.stem}_clocks.cu"
        file.write_text(clocked.text, encoding="utf-8")
        changes = {"source": str(file), "flags": (*variant.flags, f"-I{source.parent}")}
        flagged = subject._replace(variant=variant.model_copy(update=changes))
        built = build(flagged, root, plain.defines, _TIMEOUT_S)
    if built.error:
        raise EnvironmentGapError(
            f"with clocks it does not build: {built.error}", "profile it without --clocks"
        )
    return flagged, built


def describe_clocks(clocked: ClockedSource, result: ClocksResult) -> Iterator[str]:
    """Yield what the clocks tell: their cost, when blocks ran, and the warps' time by lines."""
    cost = result["clocked_us"] / result["plain_us"]
    weighs = "; they weigh: read the shares as hints" if cost > _MAX_COST else ""
    yield (
        f"with clocks {result['clocked_us']:.4g} us a call, {cost:.2f} times the plain"
        f" {result['plain_us']:.4g} us{weighs}"
    )
    for kernel in result["kernels"]:
        yield from _describe_kernel(clocked, kernel)


def _describe_kernel(clocked: ClockedSource, kernel: KernelClocks) -> Iterator[str]:
    warps = -(-kernel["threads"] // 32)
    name, count = clocked.kernels[kernel["kernel"]], kernel["launches"]
    launches = "1 launch" if count == 1 else f"{count} launches"
    marked = _count_marked(clocked.marks, kernel)
    some = f"; clocks in {marked:,} of them" if marked < kernel["blocks"] else ""
    yield f"{name}: {kernel['blocks']:,} blocks of {warps} warps, {launches}{some}"
    if timeline := _describe_blocks(kernel):
        yield timeline
    by_warp = _sum_by_warp(clocked.marks, kernel)
    total = sum(sum(shares.values()) for shares in by_warp.values())
    if not total:
        return
    roles = _group_roles(by_warp)
    shown = _rank(by_warp.values())[:_SHOWN_SEGMENTS]
    yield "share of the warps' time" + (
        f", all, then {', '.join(_name_warps(role) for role in roles)}" if len(roles) > 1 else ""
    )
    for words in shown:
        share = sum(shares.get(words, 0.0) for shares in by_warp.values()) / total
        if share < _LEAST_SHARE:
            continue
        columns = [_share_of(by_warp, role, words) for role in roles] if len(roles) > 1 else []
        yield " ".join(f"{value:4.0%}" for value in (share, *columns)) + f"  {words}"


def _count_marked(marks: Sequence[Mark], kernel: KernelClocks) -> int:
    """Return the blocks of a launch whose warps read their clocks: each once from its start."""
    starts: dict[int, int] = {}
    for warp, start, _stop, _cycles, count in kernel["cycles"]:
        if marks[start].kind == "start":
            starts[warp] = starts.get(warp, 0) + count
    return min(max(starts.values(), default=0) // kernel["launches"], kernel["blocks"])


def _describe_blocks(kernel: KernelClocks) -> str | None:
    """Return ramp and tail of a launch; None for several, or more blocks than were kept."""
    begins, ends, sms = kernel["begin_ns"], kernel["end_ns"], kernel["sms"]
    if kernel["launches"] != 1 or len(begins) != kernel["blocks"] or not begins:
        return None
    origin, last = min(begins), max(ends)
    lasts: dict[int, int] = {}
    firsts: dict[int, int] = {}
    for begin, end, sm in zip(begins, ends, sms, strict=True):
        lasts[sm] = max(end, lasts.get(sm, 0))
        firsts[sm] = min(begin, firsts.get(sm, begin))
    length = last - origin
    idle = sum(last - end for end in lasts.values()) / len(lasts) / max(length, 1)
    ramp = sorted(firsts.values())[len(firsts) // 2] - origin
    half = sorted(lasts.values())[len(lasts) // 2]
    times = sorted(end - begin for begin, end in zip(begins, ends, strict=True))
    return (
        f"{length / 1e3:.3g} us on {len(lasts)} SMs: half have begun after {ramp / 1e3:.2g} us,"
        f" half are done {(last - half) / 1e3:.3g} us before the end, {idle:.0%} of the SMs' time"
        f" is idle there; a block takes {times[len(times) // 2] / 1e3:.3g} us,"
        f" {times[0] / 1e3:.3g} to {times[-1] / 1e3:.3g}"
    )


def _sum_by_warp(marks: Sequence[Mark], kernel: KernelClocks) -> dict[int, dict[str, float]]:
    """Return the cycles of each warp of a block, by the segment in words."""
    by_warp: dict[int, dict[str, float]] = {}
    for warp, start, stop, cycles, _count in kernel["cycles"]:
        words = _describe_segment(marks[start], marks[stop])
        own = by_warp.setdefault(warp, {})
        own[words] = own.get(words, 0.0) + cycles
    return by_warp


def _describe_segment(start: Mark, stop: Mark) -> str:
    if (start.kind, stop.kind, start.line) == ("before", "after", stop.line):
        return f"waits in line {start.line}: {start.text}"
    begin = "the beginning" if start.kind == "start" else f"line {start.line}"
    end = "the end" if stop.kind == "end" else f"line {stop.line}"
    return f"from {begin} to {end}"


def _rank(shares: Iterable[Mapping[str, float]]) -> list[str]:
    totals: dict[str, float] = {}
    for own in shares:
        for words, cycles in own.items():
            totals[words] = totals.get(words, 0.0) + cycles
    return sorted(totals, key=lambda words: -totals[words])


def _group_roles(by_warp: Mapping[int, Mapping[str, float]]) -> list[list[int]]:
    """Return runs of warps that spend their time alike."""
    roles: list[list[int]] = []
    for warp in sorted(by_warp):
        if roles and _differ(by_warp[roles[-1][0]], by_warp[warp]) < _ROLE_DIFFERENCE:
            roles[-1].append(warp)
        else:
            roles.append([warp])
    return roles


def _differ(left: Mapping[str, float], right: Mapping[str, float]) -> float:
    """Return the share of their time that two warps spend elsewhere, 0 to 1."""
    totals = sum(left.values()) or 1.0, sum(right.values()) or 1.0
    names = left.keys() | right.keys()
    return sum(abs(left.get(n, 0.0) / totals[0] - right.get(n, 0.0) / totals[1]) for n in names) / 2


def _name_warps(role: Sequence[int]) -> str:
    return f"warp {role[0]}" if len(role) == 1 else f"warps {role[0]} to {role[-1]}"


def _share_of(by_warp: Mapping[int, Mapping[str, float]], role: Sequence[int], words: str) -> float:
    total = sum(sum(by_warp[warp].values()) for warp in role)
    return sum(by_warp[warp].get(words, 0.0) for warp in role) / total if total else 0.0
