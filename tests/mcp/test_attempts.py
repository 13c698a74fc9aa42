"""The history of a kernel over MCP: its log, the difference of two attempts, and the way back."""

import json
from pathlib import Path

import pytest
from attempts import make_attempt, make_outcome, make_timing
from broken_kernels import make_broken_kernel
from tool_calls import call_tool, leave_workspace, run_client

from kernelkb.actions.history.attempts import load_attempt_log
from kernelkb.cli import main
from kernelkb.record.attempt_store import open_attempts
from kernelkb_mcp.calls.jobs import make_tool_call
from kernelkb_mcp.server_config import ServerConfig, enter_workspace
from kernelkb_mcp.views.paginate import MAX_ANSWER_BYTES

READ_ONLY = ServerConfig(read_only=True)


def store_attempts(pairs, events=(), **fields):
    """Add attempts with their contents, and events; return the attempts."""
    with open_attempts(Path.cwd(), **fields) as store:
        store.add([one for one, _ in pairs], events, [content for _, content in pairs])
    return [one for one, _ in pairs]


def grow(count):
    """Store attempts at a kernel, each after the one before; the second is the fastest."""
    pairs, events, parent = [], [], None
    for number in range(count):
        text = f"state {number}\n" + f"line of state {number}\n" * 40
        one, content = make_attempt(text, number, parent, said=f"change {number}, with words " * 5)
        events.append(make_timing(one, number, 50.0 if number == 1 else 100.0 + number))
        if parent is not None:
            result = "faster" if number == 1 else "no-gain"
            events.append(make_outcome(one, number, result, why="not by more than it varies"))
        pairs.append((one, content))
        parent = one.id
    return store_attempts(pairs, events)


def read_whole(name):
    """Return the first answer of read_entry, and the entry of all of its pages."""

    async def read_pages(client):
        first, entry, cursor = None, {}, None
        while True:
            given = {"id": name, **({"cursor": cursor} if cursor else {})}
            result = await client.call_tool("read_entry", given)
            assert not result.is_error, result.content[0].text
            assert len(result.content[0].text.encode()) <= MAX_ANSWER_BYTES
            page = result.structured_content
            first = first or page
            for field, value in page["entry"].items():
                entry[field] = entry[field] + value if field in entry else value
            cursor = page["cursor"]
            if cursor is None:
                return first, entry

    return run_client(ServerConfig(inline_s=600.0), read_pages)


@pytest.fixture
def run_kb_json(capsys):
    """Run ``kb ... --json`` and return what it printed."""

    def run(*words):
        main([*words, "--json"])
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def source(project):
    """The source of a kernel that compiles."""
    return make_broken_kernel(project, "right") / "naive.cpp"


def build(**more):
    result = call_tool("build_kernel", kernel="broken", **{"target": "cpu", **more})
    assert not result.is_error, result.content[0].text
    return result.structured_content


def time_attempt(attempt, us):
    with open_attempts(Path.cwd()) as store:
        store.add((), [make_timing(store.find(attempt), 0, us)])


@pytest.mark.parametrize("count", [2, 50])
def test_the_log_is_that_of_the_shell(project, run_kb_json, count):
    made = grow(count)
    first, entry = read_whole("attempts/scale")

    assert entry == run_kb_json("log", "scale")
    assert f"{count} attempts" in first["summary"]
    assert f"best {made[1].id[:8]}, 50.00 us" in first["summary"]


def test_the_log_names_what_to_read_and_how_to_go_back(project):
    made = grow(4)
    calls = read_whole("attempts/scale")[0]["next"]

    assert f"read_entry(id='attempts/{made[1].id[:12]}..{made[3].id[:12]}')" in calls
    assert "build_kernel(kernel='scale', restore='best')" in calls


def test_a_kernel_without_attempts_is_told_what_keeps_the_first(source):
    first, entry = read_whole("attempts/broken")

    assert entry["total"] == 0
    assert "0 attempts" in first["summary"]
    assert first["next"] == ["build_kernel(kernel='broken')"]


def test_a_difference_is_that_of_the_shell(project, run_kb_json):
    one, other = store_attempts(
        [
            make_attempt("".join(f"old {at}\n" for at in range(900)), 0),
            make_attempt("".join(f"new {at}\n" for at in range(900)), 1),
        ]
    )
    first, entry = read_whole(f"attempts/{one.id[:12]}..{other.id}")

    assert entry == run_kb_json("diff", one.id, other.id)
    assert first["cursor"]
    assert "time: not both were timed" in first["summary"]
    assert "read_entry(id='attempts/scale')" in first["next"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("attempts/row_sofmax", "did you mean 'row_softmax'?"),
        ("attempts", "read_entry(id='kernels') lists them"),
        ("attempts/", "read_entry(id='kernels') lists them"),
        ("attempts/abcd..ef01", "'abcd'; read_entry(id='attempts/...') lists them"),
        ("attempts/..", "read_entry(id='attempts/...') lists them"),
        ("attempts/../../x", "read_entry(id='attempts/...') lists them"),
    ],
)
def test_an_unknown_attempt_is_one_line_with_the_cure(project, name, text):
    result = call_tool("read_entry", id=name)

    assert result.is_error
    assert text in result.content[0].text
    assert "\n" not in result.content[0].text


def test_the_best_attempt_is_restored_and_built(source):
    before = source.read_bytes()
    best = build()["build"]["attempt"]
    time_attempt(best, 5.0)
    source.write_bytes(before + b"// not built, \r\n and without a last line break")
    unsaved = source.read_bytes()
    made = call_tool("build_kernel", kernel="broken", restore="best").structured_content

    assert source.read_bytes() == before
    assert made["build"]["attempt"] == made["restored"]["attempt"]["id"] == best
    assert made["restored"]["written"] == ["kernels/broken/naive.cpp"]
    kept = made["restored"]["kept"]
    assert made["summary"].startswith(f"restored {best[:8]}, naive of broken")
    assert f"kept as {kept[:8]}; naive for cpu" in made["summary"]

    build(restore=kept[:12], variant="naive")
    assert source.read_bytes() == unsaved


def test_a_build_without_restore_restores_nothing(source):
    assert build()["restored"] is None


def test_what_is_there_already_is_said(source):
    first = build()["build"]["attempt"]
    made = build(restore=first)

    assert made["summary"].startswith(f"{first[:8]} is there already; ")
    assert made["restored"]["kept"] is None


def test_a_deleted_source_comes_back(source):
    before = source.read_bytes()
    first = build()["build"]["attempt"]
    source.unlink()
    build(restore=first[:8])

    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kernel": "other"}, "an attempt at broken, not at other; read_entry(id='attempts/other"),
        ({"variant": "tiled"}, "is of variant naive, not tiled; leave variant out"),
        ({"target": "cuda"}, "is for cpu, not cuda; leave target out"),
        ({"change": "tiled it"}, "restore writes the source, and change names yours; leave one"),
        ({"restore": "best"}, "no valid time of broken is in its history; bench_kernel("),
        ({"restore": "best", "kernel": "brokn"}, "unknown kernel 'brokn'"),
        ({"restore": "0123"}, "unknown attempt '0123'; read_entry(id='attempts/broken') lists"),
        ({"restore": ""}, "unknown attempt ''; read_entry(id='attempts/broken') lists"),
    ],
)
def test_a_restore_that_does_not_fit_is_refused_before_anything_is_written(
    project, source, arguments, text
):
    make_broken_kernel(project, "right", "other")
    first = build()["build"]["attempt"]
    source.write_bytes(source.read_bytes() + b"// mine\n")
    mine, count = source.read_bytes(), load_attempt_log("broken").total
    result = call_tool("build_kernel", **{"kernel": "broken", "restore": first, **arguments})

    assert result.is_error
    assert text in result.content[0].text
    assert source.read_bytes() == mine
    assert load_attempt_log("broken").total == count


def test_a_state_that_cannot_be_built_any_more_is_said_to_be_restored(project, source):
    before = source.read_bytes()
    first = build()["build"]["attempt"]
    source.write_bytes(before + b"// mine\n")
    settings = source.parent / "kernel.yaml"
    settings.write_text(settings.read_text().replace("id: naive", "id: renamed"))
    result = call_tool("build_kernel", kernel="broken", restore=first)

    assert result.is_error
    assert result.content[0].text.startswith(f"restored {first[:8]}, naive of broken")
    assert "kept as" in result.content[0].text
    assert "'naive'" in result.content[0].text
    assert source.read_bytes() == before


def test_a_read_only_server_shows_attempts_and_writes_nothing(project):
    made = grow(3)
    folder = project / ".kb"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    enter_workspace(READ_ONLY)
    try:
        log = call_tool("read_entry", READ_ONLY, id="attempts/scale")
        found = call_tool("read_entry", READ_ONLY, id=f"attempts/{made[0].id}..{made[1].id}")
        refused = call_tool("build_kernel", READ_ONLY, kernel="scale", restore="best")
    finally:
        leave_workspace()

    assert "3 attempts" in log.structured_content["summary"]
    assert found.structured_content["entry"]["source"]
    calls = log.structured_content["next"] + found.structured_content["next"]
    assert calls
    assert not [call for call in calls if "build_kernel" in call]
    assert refused.is_error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_read_only_server_makes_no_history(project):
    enter_workspace(READ_ONLY)
    try:
        log = call_tool("read_entry", READ_ONLY, id="attempts/row_softmax")
    finally:
        leave_workspace()

    assert "0 attempts" in log.structured_content["summary"]
    assert not (project / ".kb").exists()


def test_the_brief_names_the_call_that_goes_back(project, capsys):
    grow(6)
    brief = call_tool("session", kernel="row_softmax", goal="x").structured_content["brief"]
    assert "kb " not in brief

    make_broken_kernel(project, "right", "scale")
    brief = call_tool("session", kernel="scale").structured_content["brief"]
    assert "build_kernel(kernel='scale', restore='best')" in brief
    assert "stuck: " in brief
    assert "kb lab restore" not in brief


def test_advice_for_a_kernel_that_is_stuck_names_the_way_back(project):
    make_broken_kernel(project, "right", "scale")
    grow(6)
    answer = call_tool("recommend_fix", kernel="scale", speedup=0.8, occupancy=0.2)

    assert answer.structured_content["kernels"][0]["gate"]["id"] == "stuck-no-gain"
    assert answer.structured_content["next"] == [
        "read_entry(id='attempts/scale')",
        "build_kernel(kernel='scale', restore='best')",
        "profile_kernel(kernel='scale', target='cuda')",
    ]


def test_what_is_cut_from_a_restored_build_is_shown_by_a_command_that_exists():
    call = make_tool_call("build_kernel", kernel="scale", variant="naive", restore="0123abcd")

    assert call.shell_command == "kb build scale --variant naive --json"
    assert "restore='0123abcd'" in str(call)
