"""Hidden inputs of a check, and which of them a kernel leaves out."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from kernelkb.model.base import Record

HiddenInputs = Literal["tripled", "hundredth", "hundredfold", "tiny", "negated", "constant",
                       "sparse", "extremes", "infinities", "nan", "sizes"]  # fmt: skip
"""What a check does to drawn inputs, besides comparing them as they are. tripled, hundredth,
hundredfold, tiny: scaled by 3, 0.01, 100, 1e-15. extremes: some values large, zero, −0, equal,
subnormal. infinities, nan: some values are. sizes: sizes that kernel.yaml does not name."""


class HiddenInputsOptions(Record):
    """Which hidden inputs a check leaves out."""

    skip: tuple[HiddenInputs, ...] = ()
    """Those for which the kernel is not defined; each verdict names them."""
    reason: str = ""
    """Why, in one line."""

    @model_validator(mode="after")
    def _require_reason(self) -> Self:
        if self.skip and not self.reason:
            raise ValueError("give the reason for what is skipped")
        return self
