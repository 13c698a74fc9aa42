"""Attempts in both databases: whole after kills, found by their id, carried over by an export."""

import random
import time
from multiprocessing import get_context

import pytest
from attempts import DEVICE, START, WORKLOAD, make_attempt, make_outcome, make_timing
from sqlalchemy import text

from kernelkb.actions.history.attempts import load_tree
from kernelkb.errors import BadValueError, DatabaseError, UnknownNameError
from kernelkb.record.attempt_store import create_attempt, digest_content, open_attempts
from kernelkb.record.import_export import generate_attempts, import_records
from kernelkb.record.measurements.store import open_store

ATTEMPTS, KILLS = 200, 25


@pytest.fixture
def attempts(address, tmp_path):
    """An empty store of attempts in each kind of database."""
    with open_attempts(tmp_path, address) as one:
        yield one


def fill(attempts, count):
    """Add a chain of attempts with a bench and an outcome each; return them."""
    chain = []
    for minute in range(count):
        one, content = make_attempt(
            f"state {minute}\n" * 40, minute, chain[-1].id if chain else None
        )
        events = [make_timing(one, minute, 100.0 + minute)]
        if chain:
            events.append(make_outcome(one, minute, "slower"))
        attempts.add([one], events, [content])
        chain.append(one)
    return chain


def test_an_equal_state_is_kept_once_with_its_first_parent(attempts):
    first, content = make_attempt("a", 0)
    again, _ = make_attempt("a", 5, parent="f" * 32)

    assert again.id == first.id
    assert attempts.add([first], (), [content]) == 1
    assert attempts.add([again], (), [content]) == 0
    assert attempts.find(first.id[:8]) == first


def test_a_file_comes_back_byte_for_byte(attempts):
    content = bytes(range(256)) * 1000
    attempts.add((), (), [content])

    assert attempts.read_file(digest_content(content)) == content


def test_words_that_name_no_attempt_or_several_are_refused(attempts):
    fill(attempts, 40)
    with pytest.raises(UnknownNameError):
        attempts.find("zz")
    with pytest.raises(UnknownNameError):
        attempts.find("")
    letters = [one.id[0] for one in attempts.iter_all()]
    common = max(letters, key=letters.count)
    with pytest.raises(BadValueError, match="several attempts"):
        attempts.find(common)


def test_ancestors_come_nearest_first(attempts):
    chain = fill(attempts, 5)

    assert attempts.list_ancestors(chain[3].id) == [one.id for one in chain[3::-1]]


def test_the_best_is_found_among_attempts_that_are_too_old_to_be_listed(attempts):
    chain = fill(attempts, 30)
    tree = load_tree(attempts, "scale", limit=10)

    assert tree.best == chain[0].id
    assert attempts.list_fastest("scale", WORKLOAD, DEVICE)[0].attempt == chain[0].id


def test_without_sources_the_tree_travels_and_nothing_can_be_restored(attempts, tmp_path):
    first, content = make_attempt("first", 0)
    second, other_content = make_attempt("second", 1, parent=first.id)
    attempts.add([first, second], (), [content, other_content])
    path = tmp_path / "all.jsonl"
    path.write_text("".join(generate_attempts(attempts, with_sources=False)))
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with open_store(tmp_path, url) as store, open_attempts(tmp_path, url) as other:
        import_records(store, path, other)
        import_records(store, path, other)

        assert other.list_ancestors(second.id) == [second.id, first.id]
        with pytest.raises(UnknownNameError, match="source file"):
            other.read_file(next(iter(first.files.values())))


def test_an_attempt_that_was_changed_on_its_way_is_refused(attempts, address, tmp_path):
    fill(attempts, 1)
    (line,) = generate_attempts(attempts)
    path = tmp_path / "all.jsonl"
    path.write_text(line.replace('"variant": "naive"', '"variant": "other"'))

    with (
        open_store(tmp_path, address) as store,
        pytest.raises(BadValueError, match=r"all.jsonl:1: .* was changed since"),
    ):
        import_records(store, path, attempts)


def test_a_damaged_source_file_is_said_in_one_line(attempts):
    chain = fill(attempts, 1)
    with attempts._engine.begin() as connection:
        connection.execute(text("UPDATE source_file SET content = :x"), {"x": b"nothing"})

    with pytest.raises(DatabaseError, match=r"source file .* is damaged"):
        attempts.read_file(next(iter(chain[0].files.values())))


def test_a_hundred_attempts_of_20_kb_take_less_than_a_megabyte(tmp_path):
    draw = random.Random(0)
    words = [f"value_{number}" for number in range(300)]
    lines = [
        f"  {draw.choice(words)} = {draw.choice(words)} * {draw.random():.4f}f;" for _ in range(550)
    ]
    parent = None
    with open_attempts(tmp_path) as store:
        for minute in range(100):
            lines[draw.randrange(550)] = f"  changed_{minute} = {draw.random():.6f}f;"
            one, content = make_attempt("\n".join(lines), minute, parent)
            store.add([one], [make_timing(one, minute, 50.0)], [content])
            parent = one.id
    size = sum(path.stat().st_size for path in tmp_path.rglob("measurements.db"))

    assert len(content) > 18_000
    assert size < 2**20


def _write_attempts(address, folder, ready):
    """Add attempts one by one, and note each that was acknowledged."""
    with (folder / "acknowledged").open("a+b", buffering=0) as notes:
        notes.seek(0)
        done = len(notes.read())
        with open_attempts(folder, address) as store:
            ready.release()
            for number in range(done, ATTEMPTS):
                one, content, events = _make_numbered(number)
                store.add([one], events, [content])
                notes.write(b".")


def _make_numbered(number):
    one, content = make_attempt(f"state {number}\n" * (number % 300), number)
    if number:
        parent = create_attempt(**_make_fields(number - 1))
        one = one.model_copy(update={"parent": parent.id})
    return one, content, [make_timing(one, number, 10.0 + number)]


def _make_fields(number):
    content = (f"state {number}\n" * (number % 300)).encode()
    files = {"kernels/scale/naive.cu": digest_content(content)}
    return {"kernel": "scale", "variant": "naive", "target": "cuda", "files": files, "at": START}


@pytest.mark.slow
def test_after_kills_every_state_comes_back_and_the_tree_is_whole(address, tmp_path):
    context, draw = get_context("spawn"), random.Random(0)
    kills = 0
    while True:
        ready = context.Semaphore(0)
        writer = context.Process(target=_write_attempts, args=(address, tmp_path, ready))
        writer.start()
        ready.acquire(timeout=60)
        if kills == KILLS:
            writer.join()
            break
        time.sleep(draw.uniform(0.0, 0.05))
        writer.kill()
        writer.join()
        kills += 1

    with open_attempts(tmp_path, address) as store:
        store.check()
        assert store.count("scale") == ATTEMPTS
        for number in range(ATTEMPTS):
            expected, content, _ = _make_numbered(number)
            one = store.find(expected.id)
            assert store.read_file(next(iter(one.files.values()))) == content
            assert one.parent == expected.parent
