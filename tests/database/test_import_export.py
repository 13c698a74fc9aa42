"""An export loses nothing, and an import takes nothing else."""

import json

import pytest
from measurements import make_bench, make_build

from kernelkb.errors import BadValueError
from kernelkb.record.import_export import generate_export, import_records
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.record.measurements.store import open_store


def export_text(store):
    return "".join(generate_export(store))


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
