"""Results of searches, from drawn trials of a space like that of the attention kernel."""

import random

from kernelkb.model.kernels.tuning import (
    ConfirmedConfiguration,
    SpaceRuleCount,
    TuningResult,
    TuningTrial,
)
from kernelkb.tune.outcome import analyse_rejections, measure_convergence

VALUES = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64],
    "NUM_WARPS": [4, 8, 16],
    "WARP_M": [16, 32],
    "STAGES": [1, 2, 3, 4],
    "UNROLL": [1, 2, 4],
    "CP_ASYNC": [0, 1],
    "SWIZZLE": [0, 1],
    "VEC_BYTES": [4, 8, 16],
    "Q_REGISTERS": [0, 1],
}
DEFAULT = {name: values[0] for name, values in VALUES.items()}


def draw_trials(count, seed=0):
    """Return trials, the first of the default; with BLOCK_N=256 each is refused."""
    rng = random.Random(seed)
    trials = []
    for number in range(count):
        drawn = {name: rng.choice(values) for name, values in VALUES.items()}
        configuration = drawn if number else DEFAULT
        is_refused = configuration["BLOCK_N"] == 256
        time_us = None if is_refused else 5.0 + 3.0 * rng.random() + 64 / configuration["BLOCK_M"]
        trials.append(
            TuningTrial(
                number=number,
                configuration=configuration,
                status="refused" if is_refused else "timed",
                detail="invalid argument" if is_refused else None,
                time_us=time_us,
                samples_us=() if is_refused else (time_us,) * 5,
                trial_s=0.25,
            )
        )
    return trials


def make_result(trials=None, gains=((1.3, 1.25, 1.35), (1.28, 1.2, 1.36)), **changes):
    """Return a result whose fastest configurations have these gains over the default."""
    trials = draw_trials(120) if trials is None else trials
    timed = sorted((one for one in trials if one.time_us), key=lambda one: one.time_us)
    default_us = next((one.time_us for one in trials if one.configuration == DEFAULT), 9.0)
    confirmed = [
        ConfirmedConfiguration(
            configuration=one.configuration, time_us=default_us / gain[0], gain=gain[0],
            low=gain[1], high=gain[2], is_tie=at > 0,
        )
        for at, (one, gain) in enumerate(zip(timed, gains, strict=False))
    ]  # fmt: skip
    rule = SpaceRuleCount(rule="BLOCK_M % WARP_M == 0", because="whole warps", excluded_count=100)
    fields = {
        "kernel": "attention_fp16", "variant": "flash-mma", "target": "cuda",
        "workload": "b2-h8-s512-d64", "device": "NVIDIA H200", "combination_count": 1000,
        "feasible_count": 900, "trials": trials, "confirmed": confirmed, "default": DEFAULT,
        "default_us": default_us, "importance": {"BLOCK_M": 0.5, "STAGES": 0.2},
        "rejections": analyse_rejections(trials), "infeasible": (rule,),
        "convergence": measure_convergence(trials), "seconds": 75.0, "device_s": 30.0,
        "journal": ".kb/tuning/x.jsonl",
    }  # fmt: skip
    return TuningResult.model_validate({**fields, **changes})
