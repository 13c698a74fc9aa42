"""The measurement database with a million measurements: rates of writing, times of queries.

    python benchmarks/database_scale.py                  a million in a new SQLite file: minutes
    python benchmarks/database_scale.py --count 20000
    python benchmarks/database_scale.py --url postgresql://USER@HOST/AN_EMPTY_DATABASE

The measurements are synthetic: 20 kernels of 8 variants, 4 workloads, 3 devices, with 21 pairs of
times each; sources change after some ten measurements. The raw floor writes the same rows with the
database's own bulk interface, sqlite3's executemany or COPY, into a table with the same indexes,
and builds no records. A ratio above 1 is good for a rate, and bad for a time.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.dialects import sqlite

from kernelkb.model.records.history import Measurement, SubjectRecord
from kernelkb.record.measurements import store
from kernelkb.record.measurements.database import measurements, resolve_url
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.record.measurements.rows import create_measurement, measurement_row
from kernelkb.record.measurements.store import Store, open_store

BATCH_SIZE = 5000
KERNELS, VARIANTS, WORKLOADS, DEVICES, PAIRS = 20, 8, 4, 3, 21
MEASUREMENTS_PER_EDIT = 10 * KERNELS * VARIANTS * WORKLOADS * DEVICES
START = datetime(2026, 1, 1, tzinfo=UTC)
FLOOR_ROWS = 100_000


def main() -> None:
    """Fill the database, time its queries, and print one row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--url", help="of an empty database; by default a new SQLite file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder), options.url) as store:
        if store.count():
            raise SystemExit(f"{store.address} is not empty")
        print(f"{options.count:,} measurements in {store.address}")
        _time_inserts(store, options.count, Path(folder), options.url)
        _time_queries(store)
        _print_plans(Path(folder), options.url)


def _generate_measurements(count: int) -> Iterator[Measurement]:
    draw = random.Random(0)
    for at in range(count):
        subject = SubjectRecord(
            kernel=f"kernel_{at % KERNELS}",
            variant=f"variant-{draw.randrange(VARIANTS)}",
            target="cuda",
            workload=f"workload-{draw.randrange(WORKLOADS)}",
            sources={
                "kernel.cu": f"{at // MEASUREMENTS_PER_EDIT:032x}",
                "reference.py": f"{at % KERNELS:032x}",
            },
            flags=("-O3", "-gencode", "arch=compute_90a,code=sm_90a"),
            inputs={"rows": 4096, "cols": 4096},
            device=f"GPU {draw.randrange(DEVICES)}",
            environment={"driver": "580.65", "torch": "2.9.0", "nvcc": "13.0"},
            judge="1.0",
        )
        us = 100 * draw.lognormvariate(0, 0.02)
        pairs = tuple((us * draw.uniform(0.98, 1.02), 2 * us) for _ in range(PAIRS))
        yield create_measurement(
            "bench",
            START + timedelta(seconds=at),
            subject,
            verdict="faster",
            candidate_us=us,
            baseline="torch",
            baseline_us=2 * us,
            speedup=2.0,
            interval=(1.97, 2.03),
            timing="graph",
            metrics={"kernel_us": us, "correct": 1.0},
            samples=pairs,
            seconds=3.0,
        )


def _batches(count: int) -> Iterator[list[Measurement]]:
    made = _generate_measurements(count)
    while batch := list(islice(made, BATCH_SIZE)):
        yield batch


def _time_inserts(store: Store, count: int, folder: Path, url: str | None) -> None:
    spent, slowest, first = 0.0, 0.0, list[Measurement]()
    for batch in _batches(count):
        if len(first) < FLOOR_ROWS:
            first += batch
        seconds = _time_call(lambda batch=batch: store.add(batch))  # type: ignore[misc]
        spent, slowest = spent + seconds, max(slowest, seconds / len(batch))
    rows = [tuple(measurement_row(one, at % 5000).values()) for at, one in enumerate(first)]
    floor = (_time_postgres_copy if url else _time_sqlite_insert)(rows, folder, url) / len(rows)
    print(f"{'what':46}{'value':>12}{'wanted':>12}{'ratio':>8}")
    _print_rate("inserted a second, batches of 5,000", count / spent, 5000.0)
    _print_rate("  its slowest batch", 1 / slowest, 5000.0)
    _print_rate(f"  raw, the first {len(rows):,}: rows a second", 1 / floor, None)
    print(f"{'  time over raw':46}{spent / count / floor:>12.2f}")


def _time_sqlite_insert(rows: list[tuple[Any, ...]], folder: Path, _: str | None) -> float:
    """Return the seconds that plain sqlite3 takes to insert the rows, with the same settings."""
    raw = sqlite3.connect(folder / "raw.db", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-262144"):
        raw.execute(f"PRAGMA {pragma}")
    raw.executescript(
        "CREATE TABLE m (id TEXT PRIMARY KEY, subject TEXT, series INT, at INT, us REAL,"
        " body TEXT, samples BLOB);"
        "CREATE INDEX m1 ON m (series, at, id); CREATE INDEX m2 ON m (series, us, id);"
    )
    started = time.perf_counter()
    for at in range(0, len(rows), BATCH_SIZE):
        raw.execute("BEGIN IMMEDIATE")
        raw.executemany("INSERT INTO m VALUES (?, ?, ?, ?, ?, ?, ?)", rows[at : at + BATCH_SIZE])
        raw.execute("COMMIT")
    seconds = time.perf_counter() - started
    raw.close()
    return seconds


def _time_postgres_copy(rows: list[tuple[Any, ...]], folder: Path, url: str | None) -> float:
    """Return the seconds that PostgreSQL's COPY takes to insert the rows."""
    import psycopg

    plain = (
        resolve_url(folder, url).set(drivername="postgresql").render_as_string(hide_password=False)
    )
    with psycopg.connect(plain, autocommit=True) as raw:
        raw.execute(
            "CREATE TEMP TABLE m (id text PRIMARY KEY, subject text, series bigint, at bigint,"
            " us float8, body text, samples bytea)"
        )
        raw.execute("CREATE INDEX ON m (series, at, id)")
        raw.execute("CREATE INDEX ON m (series, us, id)")
        started = time.perf_counter()
        for at in range(0, len(rows), BATCH_SIZE):
            with raw.cursor().copy("COPY m FROM STDIN") as copy:
                for row in rows[at : at + BATCH_SIZE]:
                    copy.write_row(row)
        return time.perf_counter() - started


def _time_queries(store: Store) -> None:
    one = ("kernel_3", "variant-1", "workload-2", "GPU 1")
    first = time.perf_counter()
    apply_regression_gate(store)
    first = time.perf_counter() - first
    asked: list[tuple[str, Callable[[], object], float | None]] = [
        ("history of a kernel, 50", lambda: store.history("kernel_3"), 50.0),
        ("history of a variant in a place, 50", lambda: store.history(*one), 50.0),
        ("history of a kernel, 1,000", lambda: store.history("kernel_3", limit=1000), None),
        ("best of a kernel: 12 places", lambda: store.best("kernel_3"), 50.0),
        ("best of all: 240 places", store.best, 50.0),
        ("latest of a kernel: 96 benches", lambda: store.latest("kernel_3"), None),
        (
            "regress of a kernel: 96 benches",
            lambda: apply_regression_gate(store, "kernel_3"),
            200.0,
        ),
        ("regress of all: 1,920 benches", lambda: apply_regression_gate(store), None),
        ("one by the first 12 digits of its id", lambda: store.get(_find_id(store)), None),
    ]
    _print_time("regress of all, the first time", first * 1e3, None)
    for what, question, wanted in asked:
        _print_time(what, sorted(_time_call(question) for _ in range(5))[2] * 1e3, wanted)


def _find_id(store: Store) -> str:
    return store.history("kernel_3", limit=1)[0].id[:12]


def _print_plans(folder: Path, url: str | None) -> None:
    """Print the steps of each query plan on the table of measurements; none should scan it."""
    which = store.match_series(kernel="kernel_3")
    asked = {
        "history": store.select_newest_ids(which, 0, 50),
        "horizon": store.select_oldest_needed_time(which, 50),
        "best": store.select_fastest(which),
        "latest": store.select_newest_per_series(which),
        "prefix": store.select_ids_by_prefix("0123456789ab"),
    }
    engine = create_engine(resolve_url(folder, url))
    how = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    dialect = sqlite.dialect() if engine.dialect.name == "sqlite" else engine.dialect
    with engine.connect() as connection:
        for name, query in asked.items():
            words = query.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
            rows = connection.execute(text(f"{how} {words}".replace(":", "\\:"))).all()
            steps = [str(row[-1]).strip() for row in rows]
            scans = [step for step in steps if f"{measurements.name} " in f"{step} "]
            print(f"plan of {name}: {json.dumps(scans)}")
    engine.dispose()


def _time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _print_time(what: str, ms: float, wanted: float | None) -> None:
    ratio = f"{wanted:>9.0f} ms{ms / wanted:>8.2f}" if wanted else ""
    print(f"{what:46}{ms:>9.1f} ms{ratio}", flush=True)


def _print_rate(what: str, rate: float, wanted: float | None) -> None:
    ratio = f"{wanted:>12,.0f}{rate / wanted:>8.2f}" if wanted else ""
    print(f"{what:46}{rate:>12,.0f}{ratio}", flush=True)


if __name__ == "__main__":
    main()
