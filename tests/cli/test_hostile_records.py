"""No text of a record reaches a terminal, or a model, with what either would obey."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Annotated

import anyio
import pytest
from measurements import make_bench
from pydantic import TypeAdapter, ValidationError
from simple_kernels import write_kernel
from terminals import Terminal
from tool_calls import call_tool

from kernelkb.model.records.history import (
    Attempt,
    AttemptEvent,
    ChangeOutcome,
    Measurement,
    SubjectRecord,
)
from kernelkb.model.records.session import Decision, Session, SessionEntry, Step
from kernelkb.record.attempt_store import (
    create_attempt,
    create_event,
    digest_content,
    open_attempts,
)
from kernelkb.record.measurements.regression_gate import apply_regression_gate
from kernelkb.record.measurements.rows import create_measurement
from kernelkb.record.measurements.store import open_store
from kernelkb.record.sessions import append_entry, create_session
from kernelkb_mcp.server import build_server

HOSTILE = "x\x1b[2J\u202ey\r\x9b31m\x07\u2066\x1b]0;t\x07z\u200b"
OBEYED = ("\x1b", "\u202e", "\r", "\x9b", "\x07", "\u2066", "\u200b")
KERNEL = "twice"
NOW = datetime.now(UTC)


def fill_texts(model, **given):
    """Return fields of a model: hostile text wherever it takes any text, and what is given."""
    fields = dict(given)
    for name, field in model.model_fields.items():
        if name in given:
            continue
        adapter = TypeAdapter(Annotated[field.annotation, *field.metadata, None])
        for text in (HOSTILE, (HOSTILE,), {HOSTILE: HOSTILE}, {HOSTILE: 1}):
            try:
                fields[name] = adapter.validate_python(text)
                break
            except ValidationError:
                continue
    return fields


def takes_text(model):
    """Return the fields of a model into which hostile text was put."""
    return {name for name, value in fill_texts(model).items() if HOSTILE in str(value) or value}


def test_the_fields_that_take_any_text_are_found():
    assert takes_text(SubjectRecord) >= {"workload", "sources", "flags", "device", "judge"}
    assert takes_text(Measurement) >= {"baseline", "detail", "warnings"}
    assert takes_text(Attempt) == {"files", "flags", "said"} - {"files"}
    assert takes_text(AttemptEvent) >= {"found", "origin", "device", "workload"}
    assert takes_text(SessionEntry) >= {"goal", "went_wrong"}


@pytest.fixture
def hostile(project):
    """A project whose records hold hostile text in every field that takes any."""
    source = write_kernel(project, KERNEL) / "plain.cpp"
    where = {"kernel": KERNEL, "target": "cpu"}
    subject = SubjectRecord(**fill_texts(SubjectRecord, variant="plain", **where))
    benches = []
    for minute, us in enumerate((10.0, 5.0)):
        bench = make_bench(us=us)
        own = {
            name: getattr(bench, name)
            for name in ("verdict", "speedup", "interval", "candidate_us", "samples")
        }
        ids = ("id", "subject_id", "kind", "at", "subject", "session", "imported")
        texts = {
            name: value
            for name, value in fill_texts(Measurement, **own).items()
            if name not in ids and name not in ("status", "baseline_sources")
        }
        texts["metrics"] = {"speedup": own["speedup"], "kernel_us": us}
        at = NOW.replace(minute=minute)
        benches.append(create_measurement("bench", at, subject, **texts))
    failed = create_measurement("build", NOW, subject, status=HOSTILE, detail=HOSTILE)
    with open_store(project) as store:
        store.add([benches[0], failed])
        apply_regression_gate(store)
        store.add([benches[1]])
    add_attempts(project, source, benches)
    add_session(project, benches[0].id)
    return project


def add_attempts(project, source, benches):
    made, parent = [], None
    for minute, bench in enumerate(benches):
        content = f"// {minute} {HOSTILE}\n{source.read_text()}".encode()
        texts = fill_texts(Attempt, kernel=KERNEL, variant="plain", target="cpu", parent=parent)
        texts = {name: texts[name] for name in texts if name not in ("id", "session", "imported")}
        files = {f"kernels/{KERNEL}/plain.cpp": digest_content(content)}
        if minute:
            files[HOSTILE] = digest_content(content)
        at = NOW.replace(minute=minute)
        attempt = create_attempt(**texts | {"files": files, "at": at})
        events = [make_event(attempt, bench, kind) for kind in ("build", "check", "bench", "note")]
        if parent:
            change = ChangeOutcome(**fill_texts(ChangeOutcome, parent=parent, result="undecided"))
            events.append(make_event(attempt, bench, "outcome", outcome=change))
        with open_attempts(project) as store:
            store.add([attempt], events, [content])
        made.append(attempt)
        parent = attempt.id
    return made


def make_event(attempt, bench, kind, **more):
    texts = fill_texts(AttemptEvent, attempt=attempt.id, kernel=KERNEL, kind=kind, at=NOW)
    texts = {name: texts[name] for name in texts if name not in ("id", "imported")}
    if kind == "bench":
        claims = ("verdict", "speedup", "interval", "candidate_us")
        more |= {"measurement": bench.id, **{name: getattr(bench, name) for name in claims}}
    return create_event(**texts | more)


def add_session(project, measurement):
    folder = project / "sessions"
    texts = fill_texts(Session, session="2026-11-01-twice", opened=NOW, kernel=KERNEL)
    texts.pop("entries", None)
    create_session(Session(**texts), folder)
    step = Step(**fill_texts(Step, status="failure", seconds=1.0, measurement=measurement))
    decision = Decision(**fill_texts(Decision, bottleneck="low-occupancy", fix="unroll-ilp"))
    entry = fill_texts(SessionEntry, session="2026-11-01-twice", at=NOW, kernel=KERNEL)
    entry |= {"steps": (step,), "decisions": (decision,)}
    append_entry(SessionEntry(**entry), folder)


PROGRAM = """
import json, sys
from kernelkb.cli import _prepare_streams, main
_prepare_streams()
for words in json.loads(sys.argv[1]):
    print("#", words[0], flush=True)
    try:
        print("status", main(words))
    except SystemExit as error:
        print("status", error.code)
"""


def run_all(commands):
    """Run commands in a child as the program ``kb`` does; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)], capture_output=True, check=True
    )
    return done.stdout.decode(), done.stderr.decode()


def test_no_command_prints_what_a_terminal_obeys(hostile):
    with open_attempts(hostile) as store:
        first, second = sorted(store.iter_all(), key=lambda one: one.at)
    with open_store(hostile) as store:
        old, new = sorted(one.id for one in store.iter_all() if one.kind == "bench")
    (hostile / HOSTILE).write_text(HOSTILE)
    shown = [
        ["history", KERNEL],
        ["best"],
        ["best", "--device", HOSTILE],
        ["best", "--device", "nobody's"],
        ["compare", old, new],
        ["compare", old, "best"],
        ["regress", "--verbose"],
        ["log", KERNEL],
        ["diff", first.id, second.id],
        ["restore", second.id],
        ["restore", first.id],
        ["recommend", "--run", new],
        ["session", "list"],
        ["session", "show", "2026-11-01-twice"],
        ["session", "show", "2026-11-01-twice", "--brief"],
        ["learn"],
        ["import", HOSTILE],
        ["diagnose", HOSTILE],
        ["show", HOSTILE],
        [HOSTILE],
    ]
    out, err = run_all([*shown, ["export"], *([*words, "--json"] for words in shown[:-1])])

    for letter in OBEYED:
        assert letter not in out + err, repr(letter)
    assert "Traceback" not in err
    told = out.replace("\\u001b[2J\\u202e", "")
    for command in ("history", "best", "compare", "regress", "log", "diff", "session"):
        assert "xyz" in told.split(f"# {command}\n", 1)[1].split("\n# ", 1)[0], command


def test_an_export_in_a_pipe_holds_every_letter(hostile, tmp_path, monkeypatch):
    out, _ = run_all([["export"]])
    lines = [line for line in out.splitlines() if line.startswith("{")]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")
    run_all([["import", str(tmp_path / "all.jsonl")]])
    with open_store(hostile) as other:
        found = next(one for one in other.iter_all() if one.kind == "bench")

    assert found.detail == found.subject.device == HOSTILE


def test_a_real_terminal_gets_its_colours_and_nothing_of_a_record(hostile):
    with open_store(hostile) as store:
        new = next(one.id for one in store.iter_all() if one.kind == "bench")
    terminal = Terminal("recommend", "--run", new)
    terminal.wait()

    assert "xyz" in terminal.said
    assert "\x1b[" in terminal.said
    for text in ("\x1b[2J", "\u202e", "\x9b", "\x07", "\u2066", "y\r\x9b"):
        assert text not in terminal.said


def test_no_answer_of_the_server_holds_them(hostile):
    with open_attempts(hostile) as store:
        first, second = sorted(store.iter_all(), key=lambda one: one.at)
    with open_store(hostile) as store:
        old, new = sorted(one.id for one in store.iter_all() if one.kind == "bench")
    answers = [
        call_tool("read_entry", id=f"attempts/{KERNEL}"),
        call_tool("read_entry", id=f"attempts/{first.id}..{second.id}"),
        call_tool("read_entry", id=f"{old}..{new}"),
        call_tool("recommend_fix", run=new),
        call_tool("build_kernel", kernel=KERNEL, restore=second.id),
        call_tool("session", kernel=KERNEL),
    ]

    for answer in answers:
        said = answer.content[0].text + json.dumps(answer.structured_content, ensure_ascii=False)
        for letter in OBEYED:
            assert letter not in said
            assert json.dumps(letter)[1:-1] not in said


def test_no_page_and_no_prompt_of_the_server_holds_them(hostile):
    server = build_server()
    prompt = anyio.run(server.get_prompt, "session_start", {"kernel": KERNEL})
    pages = [anyio.run(server.read_resource, f"kb://{name}") for name in ("sessions", "index")]
    said = [prompt.messages[0].content.text, *(page[0].content for page in pages)]

    assert "xyz" in said[1]
    for letter in OBEYED:
        assert letter not in "".join(said)
