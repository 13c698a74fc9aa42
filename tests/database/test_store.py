"""What was recorded is found again, whole and once, in both databases."""

import json
import os
import sqlite3
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measurements import START, make_bench, make_build, make_subject

from kernelkb.errors import BadValueError, DatabaseError, UnknownNameError
from kernelkb.model.base import Record
from kernelkb.record.measurements.rows import (
    canonical_json,
    create_measurement,
    digest,
    is_intact,
)
from kernelkb.record.measurements.store import open_store, stamp_database


def test_an_added_measurement_is_read_back_unchanged(store):
    one = make_bench(metrics={"kernel_us": 0.1 + 0.2}, warnings=("zwölf €", "a\x00b"))
    store.add([one])

    assert store.get(one.id) == one


def test_the_same_measurement_twice_is_one(store):
    one, other = make_bench(), make_bench(us=11.0)

    assert store.add([one, one]) == 1
    assert store.add([one, other]) == 1
    assert store.count() == 2


def test_an_id_depends_on_content_and_not_on_notation():
    hour_east = START.astimezone(timezone(timedelta(hours=1)))
    fields = {"metrics": {"b": 1, "a": 2.0}, "warnings": ["x"]}
    one = create_measurement("bench", START, make_subject(flags=("-O3",)), **fields)
    other = create_measurement("bench", hour_east, make_subject(flags=["-O3"]), **fields)

    assert one.id == other.id
    assert one.id != create_measurement("bench", START, make_subject(flags=("-O2",)), **fields).id
    assert is_intact(one)


def test_a_field_that_a_later_release_adds_changes_no_id():
    class Longer(type(make_subject())):
        added: str | None = None

    assert digest(canonical_json(Longer(**make_subject().model_dump()))) == digest(
        canonical_json(make_subject())
    )
    assert issubclass(Longer, Record)


@pytest.mark.parametrize(
    ("at", "fields", "why"),
    [
        (datetime(2026, 11, 1), {}, "has no time zone"),  # noqa: DTZ001 - the point
        (START, {"speedup": float("nan")}, "measurement field speedup"),
        (START, {"id": "0" * 32}, "ids follow from what it says"),
        (START, {"speed": 2.0}, "measurement field speed"),
    ],
)
def test_an_invalid_measurement_is_rejected(at, fields, why):
    with pytest.raises(BadValueError, match=why):
        create_measurement("bench", at, make_subject(), **fields)


def test_the_beginning_of_an_id_is_enough(store):
    ones = [make_bench(us=float(us)) for us in range(1, 40)]
    store.add(ones)

    assert store.get(ones[0].id[:12]) == ones[0]
    with pytest.raises(BadValueError, match="begins the ids of several"):
        store.get(next(a.id[0] for a in ones for b in ones if a.id[0] == b.id[0] and a != b))
    with pytest.raises(UnknownNameError, match="kb lab best"):
        store.get("xyz")


def test_history_is_the_newest_first(store):
    ones = [make_bench(hours=hour) for hour in range(6)]
    store.add([*ones, make_bench(hours=9, where={"kernel": "other"})])

    assert store.history("row_softmax", limit=4) == ones[:1:-1]
    assert store.history("nobody") == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 100])
def test_history_merges_series_for_any_limit(store, limit):
    ones = [make_bench(v, hours=h) for h, v in enumerate(["a", "b", "a", "c", "a", "b", "c", "c"])]
    store.add(ones)

    assert store.history("row_softmax", limit=limit) == ones[::-1][:limit]


def test_history_of_one_variant_workload_device_and_kind(store):
    wanted = make_bench("naive", where={"workload": "small", "device": "A GPU"})
    others = [
        make_bench("vectorized", where={"workload": "small", "device": "A GPU"}),
        make_bench("naive", where={"workload": "medium", "device": "A GPU"}),
        make_bench("naive", where={"workload": "small", "device": "A CPU"}),
    ]
    store.add([wanted, *others, make_build(workload="small", device="A GPU")])

    assert store.history("row_softmax", "naive", "small", "A GPU", kind="bench") == [wanted]
    assert len(store.history("row_softmax", "naive", "small", "A GPU")) == 2


def test_best_is_the_fastest_correct_bench_per_device_and_workload(store):
    slow, fast = make_bench("naive", 10.0), make_bench("vectorized", 5.0)
    wrong = make_bench("wild", 1.0, verdict="incorrect")
    elsewhere = make_bench("naive", 7.0, where={"device": "Another CPU"})
    store.add([slow, fast, wrong, elsewhere])

    assert store.best() == [fast, elsewhere]
    assert store.best("row_softmax", "medium", "A CPU") == [fast]
    assert store.best("nobody") == []


def test_latest_is_one_bench_for_each_variant_and_place(store):
    old, new, other = make_bench(hours=1), make_bench(hours=2), make_bench("vectorized", hours=1)
    store.add([new, old, other, make_build(hours=3)])

    assert store.latest() == [new, other]


def test_the_newest_of_each_kernel_is_its_last_bench_of_any_variant_and_place(store):
    other = {"kernel": "gemm", "device": "A GPU"}
    store.add([
        make_bench("naive", hours=1), make_bench("vectorized", hours=3), make_build(hours=9),
        make_bench("naive", hours=2, where={"device": "A GPU"}), make_bench(hours=1, where=other),
    ])  # fmt: skip
    found = store.list_newest()

    assert [(one.subject.kernel, one.subject.variant) for one in found] == [
        ("gemm", "naive"), ("row_softmax", "vectorized"),
    ]  # fmt: skip


def test_the_stamp_of_a_database_is_another_one_after_each_write(tmp_path, monkeypatch):
    monkeypatch.delenv("KB_DATABASE", raising=False)
    empty = stamp_database(tmp_path)
    stamps = []
    for hour in range(3):
        with open_store(tmp_path) as store:
            store.add([make_bench(hours=hour)])
        file = tmp_path / ".kb" / "measurements.db"
        os.utime(file, (1e9 + hour, 1e9 + hour))  # as if that were long ago
        stamps.append(stamp_database(tmp_path))
        with open_store(tmp_path, writes=False) as store:
            store.best()
        stamps.append(stamp_database(tmp_path))
    os.utime(file)

    assert stamp_database(tmp_path) != stamp_database(tmp_path)  # written a moment ago
    assert stamps[::2] == stamps[1::2]  # reading changes nothing
    assert len({empty, *stamps}) == 4


def test_a_tampered_record_is_not_returned(tmp_path):
    with open_store(tmp_path) as store:
        one = make_bench()
        store.add([one])
    with sqlite3.connect(tmp_path / ".kb/measurements.db") as raw:
        raw.execute("UPDATE measurement SET body = replace(body, '\"faster\"', '\"slower\"')")
    raw.close()

    with open_store(tmp_path) as store, pytest.raises(DatabaseError, match="is damaged"):
        store.get(one.id)


@pytest.mark.parametrize("samples", ["'text'", "17", "x'00ff'", "x'789c4b04000062006200'"])
def test_unreadable_samples_are_damage(tmp_path, samples):
    with open_store(tmp_path) as store:
        one = make_bench()
        store.add([one])
    with sqlite3.connect(tmp_path / ".kb/measurements.db") as raw:
        raw.execute(f"UPDATE measurement SET samples = {samples}")  # noqa: S608 these literals
    raw.close()

    with open_store(tmp_path) as store, pytest.raises(DatabaseError, match="is damaged"):
        store.get(one.id)


def test_the_default_is_a_file_of_the_project_and_the_environment_may_name_another(
    tmp_path, monkeypatch
):
    open_store(tmp_path).close()
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")
    open_store(tmp_path).close()

    assert (tmp_path / ".kb" / "measurements.db").is_file()
    assert (tmp_path / "other.db").is_file()


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    device=TEXT,
    flags=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
    samples=st.lists(st.tuples(FLOATS, FLOATS), max_size=30),
    metrics=st.dictionaries(st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z"), FLOATS, max_size=4),
    at=st.datetimes(timezones=st.just(START.tzinfo)),
)
def test_every_measurement_survives_the_database(store, device, flags, samples, metrics, at):
    what = make_subject(device=device, flags=tuple(flags))
    one = create_measurement("bench", at, what, samples=samples, metrics=metrics)
    store.add([one])

    assert store.get(one.id) == one
    assert json.loads(one.model_dump_json())["id"] == one.id
