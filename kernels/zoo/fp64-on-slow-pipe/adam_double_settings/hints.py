"""Adam step on flat bf16 parameters with fp32 moments, with hints."""

import triton
import triton.language as tl


@triton.jit
def update(gradients, settings, parameters, first, second, size, BLOCK: tl.constexpr):
    """Update BLOCK parameters; settings holds rate, two decays, epsilon and two corrections."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    rate = tl.load(settings)
    decay_1 = tl.load(settings + 1)
    decay_2 = tl.load(settings + 2)
    epsilon = tl.load(settings + 3)
    correction_1 = tl.load(settings + 4)
    correction_2 = tl.load(settings + 5)
    gradient = tl.load(gradients + at, inside, 0.0, eviction_policy="evict_first").to(tl.float32)
    parameter = tl.load(parameters + at, inside, 0.0, eviction_policy="evict_first").to(tl.float32)
    mean = tl.load(first + at, inside, 0.0, eviction_policy="evict_first")
    square = tl.load(second + at, inside, 0.0, eviction_policy="evict_first")
    mean = decay_1 * mean + (1.0 - decay_1) * gradient
    square = decay_2 * square + (1.0 - decay_2) * gradient * gradient
    step = (mean / correction_1) / (tl.sqrt(square / correction_2) + epsilon)
    parameter = parameter - rate * step
    tl.store(parameters + at, parameter.to(tl.float32).to(tl.bfloat16), mask=inside)
    tl.store(first + at, mean.to(tl.float32), mask=inside)
    tl.store(second + at, square.to(tl.float32), mask=inside)


def adam_step(gradients, settings, _old, _old_first, _old_second, parameters, first, second):
    """Update parameters and both moments in place; settings is (6), float64."""
    size = parameters.shape[0]
    grid = (triton.cdiv(size, 1024),)
    update[grid](gradients, settings, parameters, first, second, size, BLOCK=1024)
