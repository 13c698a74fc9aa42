"""Our own files lose nothing; those of others say what they lose."""

import json
from collections import Counter

import pytest
from measurements import make_bench, make_build

from kernelkb.errors import BadValueError
from kernelkb.record.measurements.import_export import generate_export, import_records
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.record.measurements.store import open_store


def export_text(store, form="jsonl", left_out=None):
    return "".join(generate_export(store, form, Counter() if left_out is None else left_out))


def test_an_export_into_an_empty_database_is_the_identity(store, tmp_path):
    store.add(
        [
            make_bench(),
            make_bench("vectorized", 5.0, hours=1),
            make_build(),
            make_bench(warnings=("a\u2028b",)),
        ]
    )
    apply_regression_gate(store)
    (tmp_path / "all.jsonl").write_text(export_text(store), encoding="utf-8")
    with open_store(tmp_path, f"sqlite:///{tmp_path / 'empty.db'}") as other:
        done = import_records(other, tmp_path / "all.jsonl", {})

        assert (done.total, done.new) == (4, 4)
        assert list(other.iter_all()) == list(store.iter_all())
        assert other.list_promotions(in_force=False) == store.list_promotions(in_force=False)
        assert export_text(other) == export_text(store)
        assert import_records(other, tmp_path / "all.jsonl", {}).new == 0


@pytest.fixture
def sqlite(tmp_path):
    with open_store(tmp_path) as one:
        yield one


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "neither JSON Lines of kb export or of FlashInfer-Bench, nor T4"),
        ('{"kind": "bench"}', "all.jsonl:1: is no measurement: id: field required"),
        ("[1]", "neither JSON Lines"),
    ],
)
def test_a_line_of_something_else_is_named(sqlite, tmp_path, line, why):
    (tmp_path / "all.jsonl").write_text(line)

    with pytest.raises(BadValueError, match=why):
        import_records(sqlite, tmp_path / "all.jsonl", {})


def test_a_measurement_that_was_edited_is_refused_at_its_line(sqlite, tmp_path):
    good, other = make_bench(), make_bench(us=11.0)
    edited = other.model_dump(mode="json") | {"speedup": 99.0}
    (tmp_path / "all.jsonl").write_text(good.model_dump_json() + "\n" + json.dumps(edited) + "\n")

    with pytest.raises(BadValueError, match=r"all.jsonl:2: .* was changed since it was measured"):
        import_records(sqlite, tmp_path / "all.jsonl", {})


def test_a_t4_export_has_the_fields_its_schema_requires(sqlite):
    wrong = make_bench("wild", verdict="incorrect", candidate_us=None, samples=())
    left_out = Counter()
    sqlite.add([make_bench(where={"flags": ("-O3", "-DTILE=32", "-DFAST")}), wrong, make_build()])
    found = json.loads(export_text(sqlite, "t4", left_out))
    by_variant = {one["configuration"]["variant"]: one for one in found["results"]}

    assert found["schema_version"] == "1.0.0"
    assert by_variant["naive"]["configuration"] == {"variant": "naive", "TILE": 32, "FAST": ""}
    assert by_variant["naive"]["invalidity"] == "correct"
    assert len(by_variant["naive"]["times"]["runtimes"]) == 31
    assert by_variant["wild"]["invalidity"] == "correctness"
    assert left_out == {"a build does not fit": 1}


KERNEL_TUNER = {
    "schema_version": "1.0.0",
    "results": [
        {
            "timestamp": "2024-05-01T10:00:00+00:00",
            "configuration": {"block_size_x": 128},
            "times": {"compilation": 400.0, "runtimes": [0.5, 0.4, 0.6]},
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": 0.5, "unit": "ms"}],
            "objectives": ["time"],
        },
        {
            "timestamp": "2024-05-01T10:00:01",
            "configuration": {"block_size_x": 2048},
            "times": {},
            "invalidity": "compile",
            "correctness": 1,
        },
        {"configuration": {}, "times": {}, "invalidity": "timeout", "correctness": 0},
    ],
}


def test_results_of_kernel_tuner_are_kept_and_never_the_best(sqlite, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(KERNEL_TUNER, indent=2))
    given = {"kernel": "vector_add", "workload": "large", "device": "NVIDIA A100"}
    done = import_records(sqlite, tmp_path / "results.json", given)
    failed, right = sqlite.history("vector_add")

    assert (done.new, done.left_out) == (2, {"it has no timestamp": 1})
    assert (right.candidate_us, right.verdict, right.status) == (500.0, "inconclusive", "imported")
    assert right.subject.flags == ("-Dblock_size_x=128",)
    assert (failed.verdict, failed.detail) == ("invalid", "T4 says compile")
    assert sqlite.best() == []


def test_results_that_name_no_kernel_ask_for_it(sqlite, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(KERNEL_TUNER))
    done = import_records(sqlite, tmp_path / "results.json", {})

    assert done.left_out == {"it names no kernel; give it with --kernel": 3}


@pytest.mark.parametrize("form", ["t4", "flashinfer"])
def test_our_export_in_a_foreign_format_is_imported_as_foreign(sqlite, tmp_path, form):
    sqlite.add([make_bench(where={"inputs": {"rows": 16}})])
    (tmp_path / "out").write_text(export_text(sqlite, form))
    with open_store(tmp_path, f"sqlite:///{tmp_path / 'empty.db'}") as other:
        import_records(other, tmp_path / "out", {})
        (found,) = other.history("row_softmax")

    assert (found.status, found.subject.variant, found.subject.device) == (
        "imported",
        "naive",
        "A CPU",
    )
    assert found.candidate_us == pytest.approx(10.0, rel=0.01)


def test_a_trace_has_the_fields_its_status_requires(sqlite):
    wrong = make_bench("wild", verdict="incorrect", candidate_us=None, samples=())
    crashed = make_bench(
        "crash", verdict="invalid", candidate_us=None, samples=(), detail="SIGSEGV"
    )
    sqlite.add([make_bench(), wrong, crashed])
    found = [
        json.loads(line)["evaluation"] for line in export_text(sqlite, "flashinfer").splitlines()
    ]
    by_status = {one["status"]: one for one in found}

    assert by_status["PASSED"]["performance"]["latency_ms"] == 0.01
    assert by_status["PASSED"]["correctness"] is not None
    assert by_status["INCORRECT_NUMERICAL"]["performance"] is None
    assert by_status["INCORRECT_NUMERICAL"]["correctness"] is not None
    assert by_status["RUNTIME_ERROR"]["correctness"] is None
    assert by_status["RUNTIME_ERROR"]["log"] == "SIGSEGV"


TRACE = {
    "definition": "gemm_n4096_k4096",
    "workload": {"axes": {"M": 128}, "inputs": {"A": {"type": "random"}}, "uuid": "1b2c"},
    "solution": "triton_gemm_v2",
    "evaluation": {
        "status": "PASSED",
        "environment": {"hardware": "NVIDIA_H100", "libs": {"torch": "2.8.0"}},
        "timestamp": "2025-10-01T12:00:00",
        "log": "",
        "correctness": {"max_relative_error": 1e-3, "max_absolute_error": 1e-2},
        "performance": {
            "latency_ms": 0.25,
            "reference_latency_ms": 0.5,
            "speedup_factor": 2.0,
        },
    },
}


def test_a_trace_of_flashinfer_bench_is_kept_as_its_own_word(sqlite, tmp_path):
    workload = {name: TRACE[name] for name in ("definition", "workload")}
    lines = (json.dumps(one) for one in (TRACE, workload))
    (tmp_path / "gemm.jsonl").write_text("\n".join(lines))
    done = import_records(sqlite, tmp_path / "gemm.jsonl", {})
    (found,) = sqlite.history("gemm_n4096_k4096")

    assert done.left_out == {"it is a workload, which nobody solved": 1}
    assert (found.subject.variant, found.subject.inputs) == ("triton-gemm-v2", {"M": 128})
    assert (found.candidate_us, found.speedup, found.status) == (250.0, 2.0, "imported")
    assert found.verdict == "inconclusive"
