"""The shipped lessons, and the sessions that they are from."""

from pathlib import Path

from programs import knowledge
from session_histories import PRIORS

from kernelkb.actions.learn import HEADER, dumped, kinds, read_sessions
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.record.learn import learned

ROOT = Path(__file__).parents[2]
FILE = ROOT / "knowledge" / "learned.yaml"


def test_the_shipped_lessons_follow_from_the_sessions_that_they_name(monkeypatch):
    monkeypatch.chdir(ROOT)
    shipped = load_knowledge().learned
    read = [
        one
        for one in read_sessions(ROOT / "sessions", knowledge())
        if one.session in (*shipped.sessions, *shipped.forgotten)
    ]
    found = learned(read, PRIORS, kinds(knowledge()), shipped.forgotten)

    assert dumped(found) == FILE.read_text(), "run kb learn, then kb quickref --write"


def test_loading_is_the_inverse_of_writing():
    shipped = load_knowledge().learned

    assert FILE.read_text().startswith(HEADER)
    assert dumped(shipped) == FILE.read_text()
