"""Limits of real architectures, and Hypothesis strategies that draw launches."""

from hypothesis import strategies as st
from shipped_rules import program

from kernelkb.decide.device_facts import build_limits
from kernelkb.device_math.occupancy import Launch

LIMITS = {
    cc: build_limits(program()["hardware"], cc) for cc in program()["hardware"]["architectures"]
}
H100, L4, A100, T4 = LIMITS["9.0"], LIMITS["8.9"], LIMITS["8.0"], LIMITS["7.5"]
ARCHITECTURES = st.sampled_from(sorted(LIMITS))


@st.composite
def launches(draw):
    whole = st.integers(1, 32).map(lambda warps: 32 * warps)
    return Launch(
        draw(whole | st.integers(1, 1024)),
        draw(st.integers(1, 255)),
        draw(st.just(0) | st.integers(0, 60000)),
        draw(st.just(0) | st.integers(0, 240000)),
        barriers=draw(st.just(0) | st.integers(1, 17)),
        carveout_bytes=draw(st.none() | st.integers(0, 65536)),
    )
