"""Our own export format loses nothing; exports for other tools leave out what they cannot hold."""

import json
from collections import Counter

import pytest
from measurements import make_bench, make_build

from kernelkb.errors import BadValueError
from kernelkb.record.import_export import generate_export, import_records
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
        done = import_records(other, tmp_path / "all.jsonl")

        assert (done.total, done.new) == (4, 4)
        assert list(other.iter_all()) == list(store.iter_all())
        assert other.list_promotions(in_force=False) == store.list_promotions(in_force=False)
        assert export_text(other) == export_text(store)
        assert import_records(other, tmp_path / "all.jsonl").new == 0


@pytest.fixture
def sqlite(tmp_path):
    with open_store(tmp_path) as one:
        yield one


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "{",
            r"all.jsonl:1: Expecting .* kb lab import reads the JSON Lines that kb lab export",
        ),
        (
            '{"kind": "bench"}',
            "all.jsonl:1: id: field required; kb lab import reads",
        ),
        ("[1]", "all.jsonl:1: .* kb lab import reads the JSON Lines"),
        ('{"definition": "gemm"}', "kb lab import reads the JSON Lines that kb lab export writes"),
    ],
)
def test_a_line_of_something_else_is_named(sqlite, tmp_path, line, why):
    (tmp_path / "all.jsonl").write_text(line)

    with pytest.raises(BadValueError, match=why):
        import_records(sqlite, tmp_path / "all.jsonl")


def test_a_measurement_that_was_edited_is_refused_at_its_line(sqlite, tmp_path):
    good, other = make_bench(), make_bench(us=11.0)
    edited = other.model_dump(mode="json") | {"speedup": 99.0}
    (tmp_path / "all.jsonl").write_text(good.model_dump_json() + "\n" + json.dumps(edited) + "\n")

    with pytest.raises(BadValueError, match=r"all.jsonl:2: .* was changed since it was measured"):
        import_records(sqlite, tmp_path / "all.jsonl")


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
