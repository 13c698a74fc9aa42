"""Results stay short, whatever a compiler or a profiler says."""

import json

import anyio
import pytest
from broken_kernels import HEAD, make_broken_kernel
from mcp import Client

from kernelkb.errors import BadValueError
from kernelkb.model.records.measurement import Bench, Build, KernelResources, Loop, Profile, Rival
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig
from kernelkb_mcp.views.results import BenchResult, BuildResult
from kernelkb_mcp.views.truncate import MAX_RESULT_BYTES, truncate_result

BROKEN = {"kernel": "broken", "target": "cpu"}
MAX_BYTES = 8000
BENCH_NAMES = {"kernel": "broken", "variant": "naive", "target": "cpu"}


def call_and_wait(name, launch=None):
    async def run():
        async with Client(build_server(launch)) as client:
            result = await client.call_tool(name, BROKEN)
            handle = (result.structured_content or {}).get("job")
            if handle is not None:
                wait = {"id": handle["id"], "action": "wait"}
                result = await client.call_tool("job", wait)
            return result

    return anyio.run(run)


def make_long_bench(**more):
    return Bench(
        **BENCH_NAMES,
        workload="tiny",
        verdict="faster",
        candidate_us=1.5,
        baseline_us=3.0,
        speedup=2.0,
        interval=(1.9, 2.1),
        seconds=1,
        **more,
    )


def make_long_profile(count, measurement):
    metrics = {f"a_metric_with_quite_a_long_name_{number}": 1 / 3 for number in range(count)}
    evidence = tuple(f"line {number}: {'word ' * 60}" for number in range(200))
    return Profile(
        **BENCH_NAMES, workload="tiny", tool="ncu", metrics=metrics, evidence=evidence,
        measurement=measurement, seconds=1,
    )  # fmt: skip


def test_a_build_of_very_many_loops_is_short(project):
    loop = "for (std::int64_t i = 1; i < cols; ++i) y[i] += __builtin_sinf(y[i - 1] * {n}.f);\n"
    source = HEAD + "".join(loop.replace("{n}", str(n)) for n in range(120)) + "return 0;\n}\n"
    (make_broken_kernel(project, "right") / "naive.cpp").write_text(source)
    result = call_and_wait("build_kernel")
    found = result.structured_content

    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert found["build"]["status"] == "built"
    assert "build.loops" in found["left_out"]
    assert "kb build broken --target cpu --json shows all of it" in found["left_out"]


def test_a_compiler_error_of_ten_thousand_characters_is_short(project):
    (make_broken_kernel(project, "right") / "naive.cpp").write_text(
        f"#error {'too long ' * 1200}\n"
    )
    result = call_and_wait("build_kernel")
    found = result.structured_content

    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert found["build"]["error"].startswith("naive.cpp:1:")
    assert len(found["build"]["error"]) < 1000
    assert found["next"] == ["build_kernel(kernel='broken', variant='naive', target='cpu')"]


@pytest.mark.parametrize("launch", [None, ServerConfig(inline_s=0)], ids=["inline", "job"])
def test_a_bench_against_very_many_rivals_is_short(project, monkeypatch, launch):
    rivals = tuple(Rival(name=f"rival {n}", rejected="no " * 200) for n in range(60))
    made = make_long_bench(rivals=rivals, warnings=tuple(f"note {n} " * 40 for n in range(60)))
    monkeypatch.setattr(
        "kernelkb.actions.kernels.measure_variant.bench_variant", lambda *_, **__: made
    )
    result = call_and_wait("bench_kernel", launch)
    found = result.structured_content
    shown = found if launch is None else found["result"]

    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert shown["bench"]["verdict"] == "faster"
    assert shown["bench"]["interval"] == [1.9, 2.1]
    assert "bench.rivals" in shown["left_out"]
    assert found["next"] == ["profile_kernel(kernel='broken', variant='naive', target='cpu')"]


@pytest.mark.parametrize("launch", [None, ServerConfig(inline_s=0)], ids=["inline", "job"])
@pytest.mark.parametrize("measurement", ["0" * 32, None])
def test_a_profile_of_very_many_metrics_is_short(project, monkeypatch, launch, measurement):
    made = make_long_profile(285, measurement)
    monkeypatch.setattr("kernelkb.actions.kernels.measure_variant.profile_variant", lambda *_: made)
    result = call_and_wait("profile_kernel", launch)
    found = result.structured_content
    shown = found if launch is None else found["result"]

    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert "profile.evidence" in shown["left_out"]
    assert shown["next"][0].startswith("recommend_fix(")
    assert ("run=" in shown["next"][0]) == (measurement is not None)


def test_a_profile_that_fits_goes_into_the_next_call_as_it_is(project, monkeypatch):
    made = make_long_profile(3, None)
    monkeypatch.setattr("kernelkb.actions.kernels.measure_variant.profile_variant", lambda *_: made)
    follow = call_and_wait("profile_kernel").structured_content["next"][0]
    given = follow.removeprefix("recommend_fix(target='cpu', metrics=").removesuffix(")")

    assert json.loads(given) == dict.fromkeys(made.metrics, 0.333333)


def test_a_short_result_is_unchanged():
    result = BenchResult(summary="fast", bench=make_long_bench(), next=("profile_kernel()",))

    assert truncate_result(result, "kb bench") is result


def test_the_truncation_notice_counts_the_omitted_items():
    loops = tuple(Loop(line=n, vectorized=False, reason="no") for n in range(46))
    built = Build(
        **BENCH_NAMES,
        status="built",
        seconds=1,
        library=None,
        directory=".",
        command="g++",
        loops=loops,
    )
    cut = truncate_result(BuildResult(summary="built", build=built, next=("x",)), "kb build")

    assert cut.build.loops == loops[:16]
    assert cut.left_out == "left out for length: 30 of 46 build.loops. kb build shows all of it"


def test_names_of_any_length_fit_in_the_end():
    resources = tuple(
        KernelResources(
            kernel="template<" * 300, registers=1, spill_store_bytes=0, spill_load_bytes=0,
            stack_bytes=0, static_smem_bytes=0,
        )
        for _ in range(40)
    )  # fmt: skip
    built = Build(
        **BENCH_NAMES, status="built", seconds=1, library="l" * 5000, directory="d" * 5000,
        command="g++ " * 5000, resources=resources,
    )  # fmt: skip
    cut = truncate_result(BuildResult(summary="s" * 5000, build=built, next=("x",)), "kb build")

    assert len(cut.model_dump_json()) <= MAX_RESULT_BYTES


def test_a_list_of_failed_jobs_is_short(project, monkeypatch):
    def refuse(*_, **__):
        raise BadValueError("no " * 3000)

    monkeypatch.setattr("kernelkb.actions.kernels.measure_variant.build_variant", refuse)

    async def run():
        async with Client(build_server(ServerConfig(inline_s=0))) as client:
            for _ in range(12):
                begun = await client.call_tool("build_kernel", BROKEN)
                wait = {"id": begun.structured_content["job"]["id"], "action": "wait"}
                await client.call_tool("job", wait)
            return await client.call_tool("job", {})

    result = anyio.run(run)

    assert len(result.content[0].text.encode()) <= MAX_BYTES
    assert "0 running, 12 ended; the newest 8 of 12 are shown" in result.content[0].text
