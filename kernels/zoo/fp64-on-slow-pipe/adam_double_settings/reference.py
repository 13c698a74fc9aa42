"""Reference of adam_double_settings."""

import torch


def make_inputs(n: int) -> list[torch.Tensor]:
    """Return gradients, settings, parameters and moments."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    jitter = 0.9 + 0.1 * torch.rand(6, dtype=torch.float64)
    usual = torch.tensor([1e-2, 0.95, 0.999, 1e-6, 0.8, 0.3], dtype=torch.float64)
    half = [torch.randn(n, dtype=torch.bfloat16, device=device) for _ in range(2)]
    moments = [torch.randn(n, device=device), torch.rand(n, device=device)]
    return [half[0], (jitter * usual).to(device), half[1], *moments]


def adam_step(
    gradients: torch.Tensor,
    settings: torch.Tensor,
    old: torch.Tensor,
    old_first: torch.Tensor,
    old_second: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the parameters and both moments after a step, from at least fp32."""
    wide = old_first.dtype
    rate, decay_1, decay_2, epsilon, correction_1, correction_2 = settings.to(wide)
    gradient = gradients.to(wide)
    first = decay_1 * old_first + (1 - decay_1) * gradient
    second = decay_2 * old_second + (1 - decay_2) * gradient * gradient
    step = (first / correction_1) / ((second / correction_2).sqrt() + epsilon)
    return (old.to(wide) - rate * step).to(old.dtype), first, second
