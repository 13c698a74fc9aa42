"""The shipped lessons, and the sessions that they are from."""

from pathlib import Path

from shipped_rules import knowledge

from kernelkb.actions.sessions.learn import (
    HEADER,
    format_learned_yaml,
    make_entry_lookup,
    read_sessions,
)
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.record.learn import learn_from_sessions

ROOT = Path(__file__).parents[2]
FILE = ROOT / "knowledge" / "learned.yaml"


def test_the_shipped_lessons_follow_from_the_sessions_that_they_name(monkeypatch):
    monkeypatch.chdir(ROOT)
    shipped = load_knowledge().learned
    read = [
        one
        for one in read_sessions(ROOT / "sessions")
        if one.session in (*shipped.sessions, *shipped.forgotten)
    ]
    found = learn_from_sessions(read, make_entry_lookup(knowledge()), shipped.forgotten)

    assert format_learned_yaml(found) == FILE.read_text(), (
        "run kb lab learn, then kb lab quickref --write"
    )


def test_loading_is_the_inverse_of_writing():
    shipped = load_knowledge().learned

    assert FILE.read_text().startswith(HEADER)
    assert format_learned_yaml(shipped) == FILE.read_text()
