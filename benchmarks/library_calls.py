"""Calls of cuBLAS, cuDNN, cub and torch of known work: a child process of ``benchmarks.ceilings``.

    python -m benchmarks.library_calls time [--tiny] [NAME ...]      a line of JSON for each
    python -m benchmarks.library_calls profile NAME ...              once each, for ncu

Without names, all of them. ``--tiny`` runs small arrays on a CPU. The mix of a line holds the
fields of ``kernelkb.device_math.roofline.Mix``, for the work that the call must do: what it moves
beyond that makes it slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

BUDGET_S, BATCH_S, MAX_BATCHES = 0.3, 0.004, 31
MEGA = 1 << 20
HALF, SINGLE, LONG = 2, 4, 8
"""Bytes of an element."""


class Arrays(NamedTuple):
    """Makes inputs on one device."""

    torch: Any
    device: str
    tiny: bool

    def count(self, full: int) -> int:
        """Return a size, or a small one."""
        return min(full, 64) if self.tiny else full

    def random(self, *shape: int, dtype: str = "float32") -> Any:
        """Return normal values of a shape."""
        made = self.torch.randn(*shape, device=self.device)
        return made.to(getattr(self.torch, dtype))

    def indices(self, end: int, *shape: int) -> Any:
        """Return random integers below ``end``."""
        return self.torch.randint(0, end, shape, device=self.device)


_COMPUTE_BOUND = ("gelu",)
"""As softmax and cast: ncu counts 49, 18 and 39 % of the DRAM peak of an H200 for them."""


class Call(NamedTuple):
    """A call and the work that it must do."""

    run: Callable[[], Any]
    mix: dict[str, Any]
    at_ceiling: bool = False
    """Whether it is known to be at its ceiling."""


def stream(read: float, written: float, **others: Any) -> dict[str, Any]:
    """Return the mix of bytes that are read and written once."""
    return {"read_bytes": read, "write_bytes": written, **others}


def product(arrays: Arrays, kind: str) -> Call:
    """Return a large square matrix product."""
    torch, n = arrays.torch, arrays.count(8192)
    pipe = {"tf32": "tensor tf32", "fp8": "tensor fp8", "int8": "tensor fp8"}.get(
        kind, "tensor fp16"
    )
    mix = {"work": [[pipe, 2.0 * n**3]]}
    if kind == "int8":
        one, other = (arrays.indices(100, n, n).to(torch.int8) for _ in range(2))
        return Call(lambda: torch._int_mm(one, other.t()), mix)
    if kind == "fp8":
        one, other = (arrays.random(n, n).to(torch.float8_e4m3fn) for _ in range(2))
        scale = torch.ones((), device=arrays.device)
        return Call(
            lambda: torch._scaled_mm(
                one,
                other.t(),
                scale_a=scale,
                scale_b=scale,
                out_dtype=torch.bfloat16,
                use_fast_accum=True,
            ),
            mix,
            at_ceiling=True,
        )
    dtype = {"tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}[kind]
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    left, right = arrays.random(n, n, dtype=dtype), arrays.random(n, n, dtype=dtype)

    def run() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        return torch.matmul(left, right)

    return Call(run, mix, at_ceiling=True)


def elementwise(arrays: Arrays, dtype: str, inputs: int, apply: str) -> Call:
    """Return an operation on each element of one or two large arrays."""
    torch, n = arrays.torch, arrays.count(128 * MEGA)
    values = [arrays.random(n, dtype=dtype) for _ in range(inputs)]
    out, size = torch.empty_like(values[0]), values[0].element_size()
    operation = getattr(torch, apply, None) or getattr(torch.nn.functional, apply)
    has_out = apply in ("add", "mul", "exp")
    run = (lambda: operation(*values, out=out)) if has_out else (lambda: operation(*values))
    moved = stream(float(size * n * inputs), float(size * n))
    return Call(run, moved, at_ceiling=apply not in _COMPUTE_BOUND)


def on_rows(arrays: Arrays, apply: str, dtype: str = "bfloat16") -> Call:
    """Return an operation that reads each row once and writes it once."""
    torch = arrays.torch
    rows, width = arrays.count(32768), arrays.count(8192)
    values = arrays.random(rows, width, dtype=dtype)
    functional, size = torch.nn.functional, values.element_size()
    runs: dict[str, Callable[[], Any]] = {
        "softmax": lambda: torch.softmax(values, -1),
        "log_softmax": lambda: torch.log_softmax(values, -1),
        "layer_norm": lambda: functional.layer_norm(values, (width,)),
        "cumsum rows": lambda: torch.cumsum(values, -1),
        "flip": lambda: torch.flip(values, (-1,)),
        "transpose": lambda: values.t().contiguous(),
        "cast": lambda: values.to(torch.float32),
        "clone": lambda: values.clone(),
    }
    written = SINGLE if apply == "cast" else size
    mix = stream(float(rows * width * size), float(rows * width * written))
    return Call(runs[apply], mix, at_ceiling=apply == "clone")


def reduction(arrays: Arrays, apply: str) -> Call:
    """Return an operation that reads all and writes little."""
    torch, rows, width = arrays.torch, arrays.count(65536), arrays.count(4096)
    values = arrays.random(rows, width)
    runs: dict[str, Callable[[], Any]] = {
        "sum": values.sum,
        "max": values.max,
        "sum of rows": lambda: values.sum(-1),
        "sum of columns": lambda: values.sum(0),
        "argmax": lambda: values.argmax(-1),
        "norm": lambda: torch.linalg.vector_norm(values),
        "matrix by vector": lambda: values @ values[0],
    }
    return Call(
        runs[apply], stream(float(rows * width * SINGLE), 0.0), at_ceiling=apply != "argmax"
    )


def scan(arrays: Arrays) -> Call:
    """Return a prefix sum by cub."""
    n = arrays.count(128 * MEGA)
    values = arrays.random(n)
    return Call(lambda: values.cumsum(0), stream(float(n * SINGLE), float(n * SINGLE)))


def sort(arrays: Arrays) -> Call:
    """Return a radix sort by cub: at least four passes over keys and positions."""
    n = arrays.count(32 * MEGA)
    values = arrays.indices(1 << 31, n).int()
    moved = float(4 * n * (SINGLE + LONG))
    return Call(lambda: values.sort(), stream(moved, moved))


def select_rows(arrays: Arrays, apply: str, width: int) -> Call:
    """Return a gather of whole rows of a table that is larger than L2."""
    torch, rows = arrays.torch, arrays.count(512 * MEGA // width)
    table, count = arrays.random(rows, width), arrays.count(256 * MEGA // width)
    at = arrays.indices(rows, count)
    moved, piece = float(count * width * SINGLE), float(width * SINGLE)
    mix = stream(float(count * LONG), moved, random_bytes=moved, piece_bytes=piece)
    mix["buffer_ratio"] = 8.0
    runs: dict[str, Callable[[], Any]] = {
        "index_select": lambda: torch.index_select(table, 0, at),
        "embedding": lambda: torch.nn.functional.embedding(at, table),
    }
    return Call(runs[apply], mix)


def take(arrays: Arrays) -> Call:
    """Return a gather of words of 4 bytes from a table that stays in L2."""
    torch, words, count = arrays.torch, arrays.count(4 * MEGA), arrays.count(32 * MEGA)
    table, at = arrays.random(words), arrays.indices(words, count)
    mix = stream(float(count * LONG), float(count * SINGLE), random_bytes=float(count * SINGLE))
    return Call(lambda: torch.take(table, at), {**mix, "piece_bytes": 4.0, "buffer_ratio": 0.25})


def scatter(arrays: Arrays, words: int) -> Call:
    """Return additions at random places by atomics."""
    count, words = arrays.count(32 * MEGA), arrays.count(words)
    at, values = arrays.indices(words, count), arrays.random(count)
    out = arrays.torch.zeros(words, device=arrays.device)
    mix = stream(float(count * (LONG + SINGLE)), 0.0, atomics=float(count))
    return Call(lambda: out.scatter_add_(0, at, values), {**mix, "atomic_words": float(words)})


def convolution(arrays: Arrays, size: int) -> Call:
    """Return a convolution by cuDNN, channels last."""
    torch, images, channels, side = (
        arrays.torch,
        arrays.count(64),
        arrays.count(256),
        arrays.count(56),
    )
    inputs = arrays.random(images, channels, side, side, dtype="bfloat16")
    weights = arrays.random(channels, channels, size, size, dtype="bfloat16")
    last = torch.channels_last
    inputs, weights = inputs.to(memory_format=last), weights.to(memory_format=last)
    flops = 2.0 * images * channels**2 * size**2 * side**2
    mix = stream(float(inputs.numel() * HALF), float(inputs.numel() * HALF))
    mix["work"] = [["tensor fp16", flops]]
    apply = torch.nn.functional.conv2d
    return Call(lambda: apply(inputs, weights, padding=size // 2), mix)


def attention(arrays: Arrays, causal: bool) -> Call:
    """Return attention of long sequences."""
    torch, batch, heads, length, width = arrays.torch, arrays.count(4), 16, arrays.count(4096), 128
    made = [arrays.random(batch, heads, length, width, dtype="bfloat16") for _ in range(3)]
    flops = 4.0 * batch * heads * length**2 * width / (2 if causal else 1)
    apply = torch.nn.functional.scaled_dot_product_attention
    return Call(lambda: apply(*made, is_causal=causal), {"work": [["tensor fp16", flops]]})


def pooling(arrays: Arrays) -> Call:
    """Return an average over squares of 2 x 2."""
    images, side = arrays.count(1024), arrays.count(256)
    values = arrays.random(images, 8, side, side, dtype="bfloat16")
    size = float(values.numel() * HALF)
    apply = arrays.torch.nn.functional.avg_pool2d
    return Call(lambda: apply(values, 2), stream(size, size / 4))


def batch_norm(arrays: Arrays) -> Call:
    """Return a normalisation with known statistics."""
    images, side = arrays.count(256), arrays.count(128)
    channels = 32
    values = arrays.random(images, channels, side, side, dtype="bfloat16")
    mean, variance = arrays.random(channels), arrays.random(channels).abs()
    size = float(values.numel() * HALF)
    apply = arrays.torch.nn.functional.batch_norm
    return Call(lambda: apply(values, mean, variance), stream(size, size))


CALLS: dict[str, Callable[[Arrays], Call]] = {
    **{f"matmul {kind}": lambda a, kind=kind: product(a, kind)  # type: ignore[misc]
       for kind in ("bf16", "fp16", "tf32", "fp8", "int8")},
    "add fp32": lambda a: elementwise(a, "float32", 2, "add"),
    "add bf16": lambda a: elementwise(a, "bfloat16", 2, "add"),
    "mul fp16": lambda a: elementwise(a, "float16", 2, "mul"),
    "exp fp32": lambda a: elementwise(a, "float32", 1, "exp"),
    "gelu bf16": lambda a: elementwise(a, "bfloat16", 1, "gelu"),
    "silu fp32": lambda a: elementwise(a, "float32", 1, "silu"),
    **{apply: lambda a, apply=apply: on_rows(a, apply)  # type: ignore[misc]
       for apply in ("softmax", "log_softmax", "layer_norm", "cumsum rows", "flip", "transpose",
                     "cast", "clone")},
    **{apply: lambda a, apply=apply: reduction(a, apply)  # type: ignore[misc]
       for apply in ("sum", "max", "sum of rows", "sum of columns", "argmax", "norm",
                     "matrix by vector")},
    "cumsum": scan,
    "sort": sort,
    "index_select 2 KiB": lambda a: select_rows(a, "index_select", 512),
    "embedding 256 B": lambda a: select_rows(a, "embedding", 64),
    "take 4 B": take,
    "scatter_add 1M": lambda a: scatter(a, MEGA),
    "scatter_add 1024": lambda a: scatter(a, 1024),
    "conv 3x3": lambda a: convolution(a, 3),
    "conv 1x1": lambda a: convolution(a, 1),
    "attention": lambda a: attention(a, causal=False),
    "attention causal": lambda a: attention(a, causal=True),
    "avg_pool": pooling,
    "batch_norm": batch_norm,
}  # fmt: skip
"""By name, what makes the call."""


def time_call(arrays: Arrays, run: Callable[[], Any]) -> float:
    """Return the median time of a warm call in microseconds."""
    if arrays.tiny:
        started = time.perf_counter()
        run()
        return (time.perf_counter() - started) * 1e6
    torch = arrays.torch

    def time_batch(count: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3 / count

    time_batch(2)
    count = max(1, int(BATCH_S * 1e6 / time_batch(2)))
    times: list[float] = []
    while len(times) < MAX_BATCHES and sum(times) * count < BUDGET_S * 1e6:
        times.append(time_batch(count))
    return statistics.median(times)


def time_calls(names: list[str], *, tiny: bool) -> None:
    """Print a line for each call: its name first, in case that it ends the process."""
    import torch

    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        row: dict[str, Any] = {"kernel": name}
        try:
            arrays = Arrays(torch, "cpu" if tiny else "cuda", tiny)
            call = CALLS[name](arrays)
            us = time_call(arrays, call.run)
            row |= {"us": us, "mix": call.mix, "at_ceiling": call.at_ceiling}
            del call
        except Exception as error:  # one that is not supported here is no reason to end
            row["error"] = (
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
        print(json.dumps(row), flush=True)
        if not tiny:
            torch.cuda.empty_cache()


def profile_calls(names: list[str]) -> None:
    """Run each call once where ncu looks, after a kernel by which the calls are told apart."""
    import torch

    arrays = Arrays(torch, "cuda", tiny=False)
    for name in names:
        try:
            call = CALLS[name](arrays)
            call.run()
            torch.cuda.synchronize()
        except Exception as error:  # not supported here
            print(
                json.dumps({"kernel": name, "error": f"{type(error).__name__}: {error}"}),
                flush=True,
            )
            continue
        torch.cuda.profiler.start()
        torch.cuda._sleep(1)
        call.run()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        print(
            json.dumps({"kernel": name, "mix": call.mix, "at_ceiling": call.at_ceiling}), flush=True
        )
        del call
        torch.cuda.empty_cache()


def main() -> int:
    """Run calls by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("time", "profile"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    names = options.names or list(CALLS)
    if options.verb == "profile":
        profile_calls(names)
    else:
        time_calls(names, tiny=options.tiny)
    return 0


if __name__ == "__main__":
    sys.exit(main())
