"""A gradient step with momentum."""

RATE = 0.125
DECAY = 0.75


def step(parameter, velocity, gradient):
    """Return the next parameters and velocities."""
    moved = DECAY * velocity + gradient
    return parameter - RATE * moved, moved
