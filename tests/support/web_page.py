"""Starts a real ``kb web`` as a child process, for a project with measurements and a session."""

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from attempts import make_attempt, make_outcome, make_timing
from measurements import make_bench

from kernelkb.model.records.history import AdvisedChange
from kernelkb.model.records.session import Decision, PlannedPhase, Session, SessionEntry, Step
from kernelkb.record.attempt_store import open_attempts
from kernelkb.record.measurements.store import open_store
from kernelkb.record.sessions import append_entry, create_session, set_open_session

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "tests" / "data" / "ncu" / "reports" / "four_launches.ncu-rep"
KERNEL = "row_softmax"
SESSION = "2026-11-29-softmax"
TOKEN = "t" * 30


class Answer(NamedTuple):
    """What a server answered, without following a redirect."""

    status: int
    text: str
    headers: dict


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class PageClient(NamedTuple):
    """Speaks to a server as a browser with the token would."""

    url: str
    child: subprocess.Popen
    """The server."""

    @property
    def process(self):
        """Return the id of the server's process."""
        return self.child.pid

    def ask(self, path, *, form=None, body=None, headers=None, token=TOKEN, method=None):
        """Ask for a page, or send a form; ``body`` is sent as it is."""
        given = {"Origin": self.url, **({"Authorization": f"Bearer {token}"} if token else {})}
        given |= headers or {}
        data = body if body is not None else None
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        kept = {name: value for name, value in given.items() if value is not None}
        asked = urllib.request.Request(self.url + path, data, kept, method=method)  # noqa: S310 ours
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        try:
            with opener.open(asked, timeout=60) as answer:
                return Answer(answer.status, answer.read().decode(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), dict(error.headers))

    def open_stream(self):
        """Return the stream of the live view, of which the first line was read."""
        asked = urllib.request.Request(  # noqa: S310 ours
            f"{self.url}/live/stream", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        stream = opener.open(asked, timeout=60)
        assert stream.readline() == b"event: runs\n"
        return stream

    def read_form_key(self):
        """Return what each form sends back."""
        return re.search(r'name="form_key" value="([0-9a-f]+)"', self.ask("/decision").text)[1]

    def send(self, path, **form):
        """Send a form of the page."""
        return self.ask(path, form={"form_key": self.read_form_key(), **form})


@contextmanager
def serve_project(project, *options):
    """Yield a client of a server that runs in a project."""
    words = ["web", "--no-browser", "--port", "0", *options]
    program = "import sys; from kernelkb.cli import start; sys.exit(start())"
    child = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=project,
        env={**os.environ, "KERNELKB_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        line = child.stdout.readline()
        address = re.search(r"http://[^/]+", line)
        assert address, line + child.stdout.read()
        yield PageClient(address[0], child)
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


def fill_project(project, name=KERNEL):
    """Write measurements, attempts and an open session of a kernel, all with ``name`` in them."""
    where = {"kernel": KERNEL}
    with open_store(project) as store:
        benches = [
            make_bench(
                "naive", 30.0 / (1 + hour / 8), hours=hour, where=where,
                metrics={"attainable_speedup": 2.5},
            )
            for hour in range(6)
        ]  # fmt: skip
        benches.append(make_bench("naive", 20.0, hours=9, where=where, verdict="incorrect"))
        store.add(benches)
    first, content = make_attempt("first", 0, kernel=KERNEL)
    second, other = make_attempt("second", 5, kernel=KERNEL, parent=first.id, said=name)
    advised = AdvisedChange(
        bottleneck="uncoalesced-global-access", fix="unroll-ilp", predicted=(1.1, 1.4, 1.9)
    )
    events = [
        make_timing(first, 1, 30.0),
        make_timing(second, 6, 20.0),
        make_outcome(second, 7, "faster", advised=advised),
    ]
    with open_attempts(project) as store:
        store.add([first, second], events, [content, other])
    write_session(project, name)
    return first.id, second.id


def write_session(project, said="row softmax at 1.5x of torch", session=SESSION):
    """Write an open session with a plan and what a triage recorded."""
    begun = datetime(2026, 11, 29, 9, tzinfo=UTC)
    phase = PlannedPhase(phase="build", gates=("smoke-test-right",), budget_min=20)
    folder = project / "sessions"
    create_session(
        Session(session=session, opened=begun, goal=said, kernel=KERNEL, phases=(phase,)), folder
    )
    steps = (
        Step(name="environment", status="ok", found=said, seconds=1.0),
        Step(name="build", variant="naive", status="ok", found="built in 1.4 s", seconds=1.4),
        Step(name="bench", variant="naive", status="ok", found="0.62x of torch", seconds=9.5),
    )
    decision = Decision(
        bottleneck="uncoalesced-global-access",
        fix="remap-threads-coalesced",
        predicted=(1.1, 1.6, 2.1),
        measured=1.5,
    )
    append_entry(
        SessionEntry(
            session=session, at=begun, goal=said, by="triage", kernel=KERNEL,
            steps=steps, decisions=(decision,), went_right=(said,),
        ),
        folder,
    )  # fmt: skip
    set_open_session(project, session)


def wait_for(claim, seconds=60):
    """Wait until a claim holds; a busy machine is slow."""
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
