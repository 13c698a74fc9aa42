"""What a page does where its project is empty, torn, full of nonsense, or not writable."""

import os
import shutil
import socket
import subprocess
import sys

import pytest
from measurements import make_bench
from web_page import KERNEL, ROOT, SESSION, TOKEN, fill_project, serve_project

from kernelkb.cli import main
from kernelkb.errors import BadValueError
from kernelkb.progress import record_event, report_progress
from kernelkb.record.measurements.store import open_store
from kernelkb.record.running import publish_progress, running_folder
from kernelkb.web import checklist, history, live, start
from kernelkb.web.export import export_site
from kernelkb.web.site import Site

VIEWS = (
    "/", "/decision", "/decision?speedup=0.5", "/checklist", "/live", "/history", "/search?q=x",
    "/knowledge", "/knowledge/quickref", "/knowledge/trees/performance-gate",
)  # fmt: skip
LONG = "a very long line <b>" * 5000
"""100 kB without a line break."""


def ask_all(page, paths=VIEWS):
    answers = {path: page.ask(path) for path in paths}
    return {path: one.status for path, one in answers.items()}, answers


def fill(*pages):
    site = Site("project", writes=True, form_key="k")
    return [site.fill(page) for page in pages]


def test_a_project_without_anything_has_every_view(tmp_path, monkeypatch):
    """First nothing at all, then a database that holds no row."""
    monkeypatch.chdir(tmp_path)
    with serve_project(tmp_path) as page:
        statuses = ask_all(page)[0]
        (tmp_path / "sessions").mkdir()
        with open_store(tmp_path) as store:
            store.add([])
        later = ask_all(page)[0]
        settled = page.ask("/difference?a=&b=").status, page.ask("/reports").status

    assert set(statuses.values()) == set(later.values()) == {200}
    assert set(settled) <= {404, 422}


@pytest.fixture(scope="module")
def torn_project(module_project):
    """A project and its server, for tests that harm the file of its session and mend it."""
    fill_project(module_project)
    file = module_project / "sessions" / f"{SESSION}.md"
    whole = file.read_text("utf-8")
    with serve_project(module_project) as page:
        yield page, file, whole
    file.write_text(whole, "utf-8")


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("steps:", "steps: [", 1),
        lambda text: text[: len(text) // 2] + "\x00\xff\x00" + text[len(text) // 2 :],
        lambda _: "",
        lambda _: "---\n" * 3000,
    ],
    ids=["cut", "not YAML", "not text", "empty", "fences"],
)
def test_a_session_whose_file_is_broken_in_the_middle_takes_no_view_away(torn_project, harm):
    page, file, whole = torn_project
    file.write_bytes(harm(whole).encode("latin-1", "replace"))
    statuses, answers = ask_all(page, (*VIEWS, f"/session/{SESSION}", f"/kernel/{KERNEL}"))

    told = {path for path, status in statuses.items() if status != 200}
    assert set(statuses.values()) <= {200, 422}
    assert told <= {"/checklist", f"/session/{SESSION}"}
    assert all("Traceback" not in one.text for one in answers.values())


def test_lines_of_100_kb_make_pages_of_few_kb(project):
    fill_project(project, LONG[:280])
    with publish_progress(project, LONG):
        report_progress(LONG, "notice")
        record_event("result", text=LONG, name=LONG, status="ok", seconds=1.0)
    checklist.mark_item(SESSION, "claims-verified", None, LONG)
    folder = project / ".kb" / "tuning"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("{}\n" + '{"number": 0, "detail": "' + LONG + '"}\n', "utf-8")
    pages = fill(
        checklist.show_checklist({}), live.show_live({}), start.show_start({}),
        history.show_history({}), start.show_search({"q": LONG}),
    )  # fmt: skip

    assert max(map(len, pages)) < 60_000


@pytest.mark.parametrize(
    "content",
    ["", "\n\n", "[1, 2]\n", '{"what": 5}\n', '{"what": "x"}\n{"kind": "result", "interval": 3}\n',
     '{"what": "x", "at": "never", "process": "none"}\n', '{"what": "x"}\n{"kind": ["a"]}\n',
     '{"what": "x"}\n{"kind": "gpu"}\n',
     '{"what": "x"}\n{"kind": "gpu", "sm_mhz": 1, "sm_max_mhz": 2, "power_w": 3, '
     '"temperature_c": 4}\n',
     '{"what": "x"}\n{"kind": "result", "seconds": "long", "speedup": "fast"}\n', "\x00" * 4096],
    ids=range(11),
)  # fmt: skip
def test_a_file_of_a_running_command_that_holds_nonsense_takes_no_view_away(project, content):
    folder = running_folder(project)
    folder.mkdir(parents=True)
    (folder / f"{1:020d}-00000000.jsonl").write_text(content, "utf-8")

    assert "Live" in fill(live.show_live({}))[0]


def test_a_port_that_is_taken_is_said_in_one_line_with_the_cure(project, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        assert main(["web", "--no-browser", "--port", str(port)]) == 2

    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in said
    assert "--port 0" in said
    assert said.count("\n") == 1


def test_an_export_to_a_folder_that_exists_replaces_its_pages_and_nothing_else(project):
    fill_project(project)
    folder = project / "copy"
    (folder / "session").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine", "utf-8")
    (folder / "index.html").write_text("an old page", "utf-8")
    export_site(folder, SESSION)

    assert (folder / "notes.txt").read_text("utf-8") == "mine"
    assert "an old page" not in (folder / "index.html").read_text("utf-8")


def test_an_export_to_a_file_or_below_one_says_so(project):
    fill_project(project)
    (project / "a").write_text("mine", "utf-8")
    for folder in (project / "a", project / "a" / "b"):
        with pytest.raises(BadValueError, match="cannot write to"):
            export_site(folder, SESSION)

    assert (project / "a").read_text("utf-8") == "mine"


def test_a_project_that_cannot_be_written_is_shown_and_a_tick_is_refused(tmp_path):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up its rights")
    project = tmp_path / "project"
    project.mkdir()
    fill_project(project)
    with open_store(project) as store:
        store.add([make_bench("naive", 12.0, hours=20)])
    for one in [project, *project.rglob("*")]:
        one.chmod(0o555 if one.is_dir() else 0o444)
    words = ["setpriv", "--bounding-set=-dac_override", sys.executable, "-c", _ASKS, str(project)]
    cache = tmp_path / "cache"
    env = {
        **os.environ, "KERNELKB_TOKEN": TOKEN, "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT / "tests" / "support")]),
    }  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False, cwd=project)

    assert done.stdout.split() == ["200"] * 5 + ["422"], done.stderr
    assert "cannot" in done.stderr


_ASKS = """
import sys
from pathlib import Path
from web_page import SESSION, serve_project
with serve_project(Path(sys.argv[1])) as page:
    for path in ("/", "/checklist", "/live", "/history", "/kernel/row_softmax"):
        print(page.ask(path).status)
    told = page.send("/checklist/mark", session=SESSION, item="claims-verified", note="n")
    print(told.status)
    sys.stderr.write(told.text)
"""
