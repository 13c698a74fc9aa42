"""An export loses nothing, and an import takes nothing else."""

import json

import pytest
from attempts import make_attempt, make_outcome, make_step
from measurements import START, make_bench, make_build, make_subject

from kernelkb.errors import BadValueError
from kernelkb.record.attempt_store import create_event, open_attempts
from kernelkb.record.import_export import generate_attempts, generate_export, import_records
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.record.measurements.rows import create_measurement
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
        assert all(one.imported for one in other.iter_all())
        assert [drop_mark(one) for one in other.iter_all()] == list(store.iter_all())
        assert other.list_promotions(in_force=False) == store.list_promotions(in_force=False)
        assert export_text(other) == export_text(store)
        assert import_records(other, tmp_path / "all.jsonl").new == 0


def drop_mark(one):
    return one.model_copy(update={"imported": False})


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
        ("[" * 100_000, "all.jsonl:1: it is nested too deeply; kb lab import reads"),
        ('{"promotion": ' + '{"a":' * 100_000, "all.jsonl:1: it is nested too deeply"),
        ('{"detail": "\\ud800"}', "all.jsonl:1: half a surrogate pair is no text"),
        ('{"attempt": {"\\udfff": 1}}', "all.jsonl:1: half a surrogate pair is no text"),
        ('{"id": ' + "9" * 5000 + "}", "all.jsonl:1: .* kb lab import reads"),
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


FORGED = {
    "a speedup": {"speedup": 500.0, "interval": (499.0, 501.0)},
    "an interval": {"interval": (2.9999, 3.0001)},
    "a time": {"candidate_us": 0.01},
    "a metric": {"metrics": {"speedup": 500.0}},
    "another metric": {"metrics": {"kernel_us": 0.01}},
    "a verdict without samples": {"samples": ()},
    "a verdict against its interval": {"verdict": "slower"},
    "samples of no time": {"samples": ((0.0, 1.0),) * 15},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_claim_that_its_samples_do_not_give_is_refused(sqlite, tmp_path, forged):
    path = tmp_path / "all.jsonl"
    path.write_text(make_bench(**forged).model_dump_json())

    with pytest.raises(BadValueError, match=r"all.jsonl:1: measurement \w{8} .*not imported$"):
        import_records(sqlite, path)
    assert sqlite.count() == 0


def test_a_failure_and_a_wider_interval_need_no_samples_behind_them(sqlite, tmp_path):
    failed = create_measurement("bench", START, make_subject(), verdict="incorrect")
    wide = make_bench(interval=(2.0, 4.0))
    kept = create_measurement("tune", START, make_subject(), status="confirmed", candidate_us=9.0)
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join(one.model_dump_json() for one in (failed, wide, kept)))

    assert import_records(sqlite, path).new == 3


def test_a_time_without_a_zone_and_a_number_beyond_the_database_are_refused(sqlite, tmp_path):
    sqlite.add([make_bench()])
    apply_regression_gate(sqlite)
    promotion = json.loads(export_text(sqlite).splitlines()[1])
    promotion["promotion"]["number"] = 2**70
    naive = make_bench().model_dump(mode="json") | {"at": "2026-11-01T00:00:00"}
    path = tmp_path / "all.jsonl"

    for line in (naive, promotion):
        path.write_text(json.dumps(line))
        with pytest.raises(BadValueError, match=r"all.jsonl:1: "):
            import_records(sqlite, path)


@pytest.fixture
def attempts(address, store, tmp_path):
    """The attempts in the database of ``store``."""
    with open_attempts(tmp_path, address) as one:
        yield one


CLAIMED = ("verdict", "candidate_us", "speedup", "interval")


def fill_two_attempts(store, attempts, **forged):
    """Record a state and a change of it with their benches, and what the change gave."""
    where = {"kernel": "scale", "target": "cuda", "device": "A GPU"}
    benches = [make_bench(where=where), make_bench(us=5.0, hours=1, where=where)]
    store.add(benches)
    first, content = make_attempt("first", 0)
    second, other = make_attempt("second", 1, parent=first.id)
    timings = [
        make_step(
            one,
            "bench",
            minute,
            **{name: getattr(bench, name) for name in CLAIMED},
            measurement=bench.id,
            workload="medium",
        )
        for minute, (one, bench) in enumerate(zip((first, second), benches, strict=True))
    ]
    given = {"measured": 2.0, "interval": (1.97, 2.03)}
    outcome = make_outcome(second, 1, "faster", **given | forged.pop("outcome", {}))
    changed = timings[1].model_dump() | forged
    timings[1] = create_event(**{key: changed[key] for key in changed if key != "id"})
    attempts.add([first, second], [*timings, outcome], [content, other])
    return first, second


def write_all(store, attempts, path):
    path.write_text(export_text(store) + "".join(generate_attempts(attempts)), encoding="utf-8")


def test_attempts_travel_whole_with_a_mark(store, attempts, tmp_path):
    first, second = fill_two_attempts(store, attempts)
    apply_regression_gate(store)
    write_all(store, attempts, path := tmp_path / "all.jsonl")
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with open_store(tmp_path, url) as here, open_attempts(tmp_path, url) as other:
        import_records(here, path, other)
        events = other.list_events([first.id, second.id])

        assert all(one.imported for one in (*other.iter_all(), *events))
        assert [drop_mark(one) for one in other.iter_all()] == list(attempts.iter_all())
        assert [drop_mark(one) for one in events] == attempts.list_events([first.id, second.id])
        assert here.list_promotions() == store.list_promotions()
        write_all(here, other, again := tmp_path / "again.jsonl")
        assert sorted(again.read_text().splitlines()) == sorted(path.read_text().splitlines())


FORGED_EVENTS = {
    "a time": {"candidate_us": 0.01},
    "a speedup": {"speedup": 500.0},
    "a measurement that is not there": {"measurement": "0" * 32},
    "no measurement": {"measurement": None},
    "another workload": {"workload": "large"},
    "a gain": {"outcome": {"measured": 500.0, "interval": (499.0, 501.0)}},
    "a narrow gain": {"outcome": {"interval": (1.9999, 2.0001)}},
    "a gain without an interval": {"outcome": {"measured": 500.0, "interval": None}},
}


@pytest.mark.parametrize("forged", FORGED_EVENTS.values(), ids=FORGED_EVENTS)
def test_an_event_claims_what_its_measurements_say(store, attempts, tmp_path, forged):
    fill_two_attempts(store, attempts, **forged)
    write_all(store, attempts, path := tmp_path / "all.jsonl")
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with (
        open_store(tmp_path, url) as here,
        open_attempts(tmp_path, url) as other,
        pytest.raises(BadValueError, match=r"all.jsonl:\d: .*not imported$"),
    ):
        import_records(here, path, other)


def test_a_promotion_claims_what_its_measurements_give(sqlite, tmp_path):
    sqlite.add([make_bench(), make_bench("vectorized", 5.0, hours=1)])
    apply_regression_gate(sqlite)
    *lines, last = export_text(sqlite).splitlines()
    forged = json.loads(last)
    forged["promotion"] |= {"ratio": 500.0, "interval": [499.0, 501.0]}
    path = tmp_path / "all.jsonl"
    path.write_text("\n".join([*lines, json.dumps(forged)]))
    with (
        open_store(tmp_path, f"sqlite:///{tmp_path / 'other.db'}") as other,
        pytest.raises(BadValueError, match=r"all.jsonl:4: claims a gain that"),
    ):
        import_records(other, path)
