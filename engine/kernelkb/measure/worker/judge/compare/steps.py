"""Records the steps of a reference, and runs it again with the result of one of them replaced.

A step is an operation of ATen. Large ones, such as a softmax, are taken apart, and are a step as a
whole besides.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import kernelkb

_MAX_BYTES = 2**28
"""Of all results, which are kept."""
_MAX_STEPS = 120
_TAKEN_APART = frozenset(
    ("_softmax", "_safe_softmax", "_log_softmax", "native_layer_norm", "native_group_norm",
     "native_batch_norm", "_native_batch_norm_legit_no_training", "_fused_rms_norm", "gelu", "silu",
     "addmm", "baddbmm", "addmv", "addcmul", "addcdiv", "lerp", "rsub", "glu", "std", "logsumexp",
     "nll_loss_forward", "mse_loss", "huber_loss", "smooth_l1_loss", "log_sigmoid_forward",
     "hardswish", "hardsigmoid", "elu", "leaky_relu", "softplus")
)  # fmt: skip
_ASSERTING = frozenset(
    ("nll_loss_forward", "nll_loss2d_forward", "binary_cross_entropy", "embedding_bag",
     "_embedding_bag", "multinomial", "bernoulli", "index_reduce", "put", "masked_scatter",
     "_assert_async", "segment_reduce", "ctc_loss", "multi_margin_loss", "multilabel_margin_loss")
)  # fmt: skip
_SAME = frozenset(
    ("view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "unsqueeze",
     "squeeze", "clone", "detach", "alias", "_to_copy", "slice", "select", "lift_fresh",
     "contiguous")
)  # fmt: skip
_LIBRARIES = tuple(str(Path(own).resolve()) for one in (torch, kernelkb) for own in one.__path__)


class ReferenceStep(NamedTuple):
    """One operation of a reference, with what it took and gave."""

    number: int
    name: str
    """ATen's, as ``exp``."""
    line: int
    """Of the reference's file; 0: not known."""
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    @property
    def label(self) -> str:
        """What the step is called in a sentence."""
        return f"{self.name} (reference line {self.line})" if self.line else self.name

    def strip(self, text: str) -> str:
        """Return a text without what the step is called."""
        return text.replace(self.label, "")

    @property
    def moves_only(self) -> bool:
        """Whether it only moves, copies or converts."""
        return self.name in _SAME


Made = Iterator[tuple[str, Any]]
Maker = Callable[[ReferenceStep, Sequence[ReferenceStep]], Made]


class StepChange(NamedTuple):
    """A step's result as a mistake would make it."""

    number: int
    text: str
    """What follows ``as if``."""
    output: Any
    is_rounding: bool = False
    """Whether only the last digits differ, and those in an order that is not known."""
    make: Maker | None = None
    """Yields texts and results for a step, this one's among them."""
    kind: tuple[str, object] = ("", None)
    """The text without the step, and the shapes of what it takes: alike in steps that one mistake
    may be made in."""
    numbers: tuple[int, ...] = ()
    """Steps in which it is made; empty: in one."""
    outputs: Mapping[int, Any] = {}
    """Results of further steps."""


class UnsafeStepError(Exception):
    """A step would stop the GPU for good: an index outside of its array, or no known check."""


class SafeSteps(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Runs no step on a GPU that fails an assertion there, after which no call works."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation.

        Raises:
            UnsafeStepError: It may not run.
        """
        check_step(func, args)
        return func(*args, **(kwargs or {}))


def check_step(func: Any, args: Sequence[Any]) -> None:
    """Look at the indices of an operation on a GPU before it runs.

    Raises:
        UnsafeStepError: One is outside, or the operation asserts something else.
    """
    tensors = [own for own in args if isinstance(own, torch.Tensor)]
    name = func.overloadpacket.__name__.rstrip("_")
    if not tensors or not _is_on_gpu(tensors[0]):
        return
    if name in _ASSERTING:
        raise UnsafeStepError(name)
    for index, size in _list_indices(name, args):
        is_number = index.dtype not in (torch.bool, torch.uint8) and index.numel()
        if is_number and not (-size <= int(index.min()) and int(index.max()) < size):
            raise UnsafeStepError(name)


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return bool(tensor.is_cuda)


def _list_indices(name: str, args: Sequence[Any]) -> list[tuple[torch.Tensor, int]]:
    """Return the indices that an operation takes, and the size of what each counts in."""
    value = args[0]
    if name in ("index", "index_put"):
        pairs = zip(args[1], value.shape, strict=False)
        return [(own, size) for own, size in pairs if own is not None]
    if name == "embedding":
        return [(args[1], value.shape[0])]
    if name == "take":
        return [(args[1], value.numel())]
    is_along = name in ("gather", "index_select") or name.startswith(("scatter", "index_"))
    return [(args[2], value.shape[args[1]] if value.dim() else 1)] if is_along else []


class StepRecorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no types for it
    """Records what runs while it is active.

    Attributes:
        steps: What was recorded.
        is_whole: Whether all was, and no step changes what an earlier one has made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[ReferenceStep] = []
        self.is_whole = True
        self._bytes = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation, or the operations that it is made of."""
        given = dict(kwargs or {})
        is_apart, output = _run_apart(self, func, args, given)
        if not is_apart:
            output = func(*args, **given)
        outputs = output if isinstance(output, (tuple, list)) else [output]
        self._bytes += sum(own.nbytes for own in outputs if isinstance(own, torch.Tensor))
        if func._schema.is_mutable or self._bytes > _MAX_BYTES or len(self.steps) >= _MAX_STEPS:
            self.is_whole = False
        if self.is_whole:
            name, number, line = func.overloadpacket.__name__, len(self.steps), _find_line()
            self.steps.append(ReferenceStep(number, name, line, func, tuple(args), given, output))
        return output


class ChangedSteps(TorchDispatchMode):  # type: ignore[misc]  # as above
    """Runs what was recorded with results replaced; what follows is computed from them."""

    def __init__(
        self,
        steps: Sequence[ReferenceStep],
        change: StepChange | None,
        rounded_to: torch.dtype | None = None,
    ) -> None:
        """Take what is changed.

        Args:
            steps: As recorded.
            change: None: nothing.
            rounded_to: Each result is rounded to this type, and overflows as in it.
        """
        super().__init__()
        self._steps, self._change, self._rounded_to = steps, change, rounded_to
        # A view of one layout is a copy of another: steps are counted by operation.
        self._counts: Counter[Any] = Counter()
        self._numbers: dict[tuple[Any, int], int] = {}
        for step in steps:
            self._numbers[step.function, self._counts[step.function]] = step.number
            self._counts[step.function] += 1
        self._counts.clear()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation, or return what it is to return."""
        given = dict(kwargs or {})
        change = self._change
        is_apart, output = _run_apart(self, func, args, given)
        number = self._numbers.get((func, self._counts[func]), len(self._steps))
        self._counts[func] += 1
        if change is not None and number < change.number and self._rounded_to is None:
            return _copy(self._steps[number].output)
        if change is not None and number == change.number and not change.numbers:
            output = _copy(change.output)
        elif not is_apart:
            check_step(func, args)
            output = func(*args, **given)
        if change is not None and number in change.outputs:
            output = _copy(change.outputs[number])
        if change is not None and number in change.numbers:
            output = self._change_alike(change, number, args, given, output)
        return self._round(output) if self._rounded_to and not is_apart else output

    def _change_alike(
        self,
        change: StepChange,
        number: int,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        step = self._steps[number]._replace(args=tuple(args), kwargs=kwargs, output=output)
        made = change.make(step, self._steps) if change.make else iter(())
        return next((own for text, own in made if step.strip(text) == change.kind[0]), output)

    def _round(self, output: Any) -> Any:
        if isinstance(output, (tuple, list)):
            return tuple(self._round(own) for own in output)
        if is_float(output):
            return output.to(self._rounded_to).to(output.dtype)
        return output


def _copy(output: Any) -> Any:
    """Return tensors of their own on the same memory: torch does not take one view twice."""
    if isinstance(output, (tuple, list)):
        return tuple(_copy(own) for own in output)
    return output.detach() if isinstance(output, torch.Tensor) else output


def _run_apart(
    mode: TorchDispatchMode, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    """Run what an operation is made of; return whether that is known, and the result."""
    apart = _load_decompositions().get(func)
    with mode:
        if apart is not None:
            output = apart(*args, **kwargs)
        elif func.overloadpacket.__name__ in ("softmax", "log_softmax"):  # inside of another
            output = func.decompose(*args, **kwargs)
        else:
            output = NotImplemented
    return output is not NotImplemented, output


@cache
def _load_decompositions() -> Mapping[Any, Callable[..., Any]]:
    aten = torch.ops.aten
    own: dict[Any, Callable[..., Any]] = {
        aten.var.correction: lambda *args, **kwargs: _take_variance(*args, **kwargs)[0],
        aten.var_mean.correction: _take_variance,
        aten.var.dim: lambda *args, **kwargs: _take_unbiased(*args, **kwargs)[0],
        aten.var_mean.dim: _take_unbiased,
    }
    with suppress(ImportError):  # another version of torch: large steps stay whole
        from torch._decomp import get_decompositions

        packets = (getattr(aten, name, None) for name in _TAKEN_APART)
        own |= get_decompositions([packet for packet in packets if packet])
    return own


def _take_variance(
    value: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean, as kernels compute them: the variance from the mean."""
    axes = list(dim) if dim else list(range(value.dim()))
    mean = value.mean(axes, keepdim=True)
    below = value - mean
    variance = (below * below).mean(axes, keepdim=True)
    count = value.numel() // max(1, mean.numel())
    lost = 1 if correction is None else correction
    if lost:
        variance = variance * (count / max(count - lost, 0))
    if not keepdim:
        mean, variance = (own.squeeze(axes) for own in (mean, variance))
    return variance, mean


def _take_unbiased(
    value: torch.Tensor, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    return _take_variance(value, dim, correction=float(unbiased), keepdim=keepdim)


def _find_line() -> int:
    """Return the line of the innermost frame that is of no library; 0: there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*_LIBRARIES, "<")):
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return 0


def get_root(tensor: Any, steps: Sequence[ReferenceStep]) -> int:
    """Return the address of what a tensor is a view or a copy of; 0 of anything else."""
    while isinstance(tensor, torch.Tensor):
        maker = _get_maker(tensor, steps)
        if maker is None or not maker.moves_only:
            return int(tensor.data_ptr())
        tensor = maker.args[0]
    return 0


def find_maker(tensor: Any, steps: Sequence[ReferenceStep]) -> ReferenceStep | None:
    """Return the step that computed what a tensor is, or is a view or a copy of."""
    maker = _get_maker(tensor, steps)
    while maker is not None and maker.moves_only:
        maker = _get_maker(maker.args[0], steps)
    return maker


def _get_maker(tensor: Any, steps: Sequence[ReferenceStep]) -> ReferenceStep | None:
    """Return the innermost step whose result a tensor is."""
    return next((step for step in steps if step.output is tensor), None)


def is_float(value: Any) -> TypeGuard[torch.Tensor]:
    """Return whether something is a tensor of floating-point numbers."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()
