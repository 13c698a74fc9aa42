"""README and docs/ are part of the product: what they name exists, what they show is real."""

import ast
import json
import re
import shlex
from pathlib import Path

import defences
import pytest
from markdown_it import MarkdownIt

from kernelkb.cli import main
from kernelkb.cli.screen import _format_row
from kernelkb.commands import COMMANDS, spell_command
from kernelkb.loading.kernels import load_kernel
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.record.sessions import list_session_ids, read_session
from kernelkb_mcp.serving.options import _build_parser

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]
MAX_README_LINES = 200
MAX_COLUMNS = 100
FOLDERS_OF_TOOLS = {"build", "dist", "shared", "node_modules", "__pycache__"}
"""Folders that builds and tools leave in a checkout; those with a dot are hidden anyway."""


def page_parameters(test):
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)(test)


def read_page(page):
    return page.read_text(encoding="utf-8")


def parse_markdown(page):
    return MarkdownIt("commonmark").enable("table").parse(read_page(page))


def list_fences(page):
    return [token for token in parse_markdown(page) if token.type == "fence"]


def find_example_files(page):
    """Return the blocks of a page that stand below the name of a file."""
    pattern = r"^`([\w./-]+)`:\n\n```\w+\n(.*?)```"
    return dict(re.findall(pattern, read_page(page), re.DOTALL | re.MULTILINE))


def list_folders(parent):
    """The folders that hold a file; git leaves compiled files behind in one that was removed."""
    return {
        path.name
        for path in parent.iterdir()
        if path.is_dir() and path.name not in FOLDERS_OF_TOOLS and path.name[0] not in "._"
        if any(file.is_file() and file.suffix != ".pyc" for file in path.rglob("*"))
    }


def anchor_of(heading):
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_anchors(page):
    return {anchor_of(text) for text in re.findall(r"^#+ (.+)$", read_page(page), re.MULTILINE)}


def test_the_readme_is_short():
    assert len(read_page(README).splitlines()) <= MAX_README_LINES


def test_output_in_the_readme_fits_100_columns():
    lines = [line for fence in list_fences(README) for line in fence.content.splitlines()]

    assert [line for line in lines if len(line) > MAX_COLUMNS] == []


def test_the_readme_links_to_every_page():
    text = read_page(README)

    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in text] == []


@page_parameters
def test_every_relative_link_leads_to_a_file_or_a_heading(page):
    links = [
        child.attrs["href"].partition("#")
        for token in parse_markdown(page)
        for child in token.children or ()
        if child.type == "link_open" and "://" not in child.attrs["href"]
    ]

    assert [name for name, _, _ in links if not (page.parent / name).exists()] == []
    assert [
        anchor
        for name, _, anchor in links
        if anchor and anchor not in list_anchors(page.parent / name if name else page)
    ] == []


@page_parameters
def test_no_kb_command_is_named_that_does_not_exist(page):
    named = set(re.findall(r"(?:`|\$ |bin/)(kb (?:lab )?[a-z]+)\b", read_page(page)))

    assert named <= {*map(spell_command, COMMANDS), "kb lab"}


@page_parameters
def test_every_path_of_this_repository_that_is_named_exists(page):
    tops = "engine|mcp_server|tests|benchmarks|knowledge|skills|src"
    named = set(re.findall(rf"`((?:{tops})/[\w./-]*)", read_page(page)))
    named -= set(find_example_files(page)) | {"knowledge/reviews/", "knowledge/learned.yaml"}

    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "commands.md"])
def test_prose_has_one_sentence_per_line(page):
    lines = [
        line
        for token in parse_markdown(page)
        if token.type == "inline" and token.level <= 1
        for line in token.content.splitlines()
    ]
    prose = [re.sub(r"`[^`]*`|\([^)]*\)", "", line) for line in lines]

    assert [line for line in prose if re.search(r"[a-z]{3}\. [A-Z]", line)] == []


@page_parameters
def test_every_named_function_is_in_its_file(page):
    """Rows of tables: a file, then a function of it."""
    for file, function in re.findall(r"\| `((?:engine|mcp_server)/[\w/]+\.py)` \| `(\w+)` \|", (
        read_page(page)
    )):  # fmt: skip
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in functions, f"{page.name}: {file} has no {function}"


def list_shown_answers():
    """Return the commands on our own ``kb`` whose answer is shown below them."""
    pattern = r"```console\n\$ \.venv/bin/kb (.+?)\n```\n\n```text\n(.+?)```"
    return [
        pytest.param(page, command, shown, id=f"{page.name}: {command.split()[0]}")
        for page in PAGES
        for command, shown in re.findall(pattern, read_page(page), re.DOTALL)
    ]


BUILD_LOG = "ptxas error   : Entry function '_Z3bigPf' uses too much shared data "
BUILD_LOG += "(0x18000 bytes, 0xc000 max)\n"


@pytest.mark.parametrize(("page", "command", "shown"), list_shown_answers())
def test_the_answer_it_shows_is_the_answer(page, command, shown, tmp_path, monkeypatch, capsys):
    """A line of three dots stands for lines that are left out."""
    (tmp_path / "build.log").write_text(BUILD_LOG)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command.replace("\\\n", " ")))
    printed = iter(capsys.readouterr().out.splitlines())
    lines = shown.splitlines()

    for line in lines:
        if line != "...":
            assert line in printed, f"{page.name}: {command} does not print {line!r} here"
    if "..." not in lines:
        assert next(printed, None) is None


def test_answers_are_shown():
    assert len(list_shown_answers()) >= 5


def test_the_map_of_folders_is_complete():
    folders = set(re.findall(r"^\| `([a-z_]+)/`", read_page(README), re.MULTILINE))

    assert folders == list_folders(ROOT)


def test_the_layers_of_the_engine_are_complete():
    text = read_page(DOCS / "architecture.md")
    folders = set(re.findall(r"^\| `([a-z_]+)/`", text, re.MULTILINE))

    assert folders == list_folders(ROOT / "engine" / "kernelkb")


def test_every_option_of_the_server_is_listed():
    text = read_page(DOCS / "mcp-server.md")
    options = [name for action in _build_parser()._actions for name in action.option_strings]

    assert [name for name in options if f"`{name}" not in text] == ["-h", "--help"]


def test_client_configuration_is_json_and_starts_our_script():
    blocks = [
        fence.content for fence in list_fences(DOCS / "mcp-server.md") if fence.info == "json"
    ]

    assert json.loads(blocks[0])["mcpServers"]["kernelkb"]["command"] == "kb-mcp"


def test_the_counts_are_those_of_the_knowledge():
    knowledge = load_knowledge()
    fixes = sum(len(family.fixes) for family in knowledge.families)
    symptoms = sum(len(family.symptoms) for family in knowledge.symptoms)

    assert (
        f"{len(knowledge.bottlenecks)} bottlenecks, {fixes} fixes, {symptoms} symptoms, "
        f"{len(knowledge.patterns)} patterns" in read_page(README)
    )


def test_every_benchmark_is_named():
    scripts = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py"))
    text = read_page(DOCS / "contributing.md")

    assert scripts
    assert [name for name in scripts if f"`benchmarks/{name}`" not in text] == []


def iter_printed_steps(session):
    """Yield each step of a session as ``kb triage`` prints it."""
    for entry in read_session(session, ROOT / "sessions").entries:
        for step in entry.steps:
            name = f"{step.name} {step.variant}" if step.variant else step.name
            yield str(_format_row(step.status, name, f"{step.found} ({step.seconds:.1f} s)"))


@pytest.mark.parametrize(("page", "count"), [(README, 1), (DOCS / "example-runs.md", 2)])
def test_a_transcript_is_that_of_the_session_that_is_named_above_it(page, count):
    transcripts = 0
    for above, block in re.findall(r"([^\n]+)\n\n```text\n(.+?)```", read_page(page), re.DOTALL):
        steps = re.findall(r"^(?:ok|!!|NO) .+", block, re.MULTILINE)
        if not steps:
            continue
        (session,) = re.findall(r"sessions/([a-z0-9-]+)\.md\)", above)
        assert session in list_session_ids(ROOT / "sessions")
        assert [line for line in steps if line not in set(iter_printed_steps(session))] == []
        transcripts += 1

    assert transcripts == count


@pytest.fixture
def example_project(tmp_path, monkeypatch):
    """Return a function that writes the files of a page into an empty project."""

    def write(page):
        files = find_example_files(page)
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return files

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write


def test_the_bottleneck_of_the_seven_steps_is_valid_and_recommended(example_project, capsys):
    files = example_project(DOCS / "adding-a-bottleneck.md")
    Path("kernels").mkdir()

    assert len(files) == 5
    assert main(["check"]) == 0, capsys.readouterr()
    capsys.readouterr()
    given = ["padded_row_share=0.5", "launch_gap_share=0.01"]
    main(["recommend", "--json", *(word for text in given for word in ("--metric", text))])
    (answer,) = json.loads(capsys.readouterr().out)["kernels"]
    assert answer["diagnoses"][0]["bottleneck"] == "padded-rows-computed"
    assert answer["diagnoses"][0]["fixes"][0]["id"] == "pack-sequences"


def test_the_kernel_by_hand_is_valid(example_project):
    files = example_project(DOCS / "adding-a-kernel.md")

    assert len(files) == 3
    assert load_kernel("scale", Path.cwd()).kernel.id == "scale"
    assert main(["check"]) == 0


def test_the_tables_of_attacks_are_those_of_the_tests():
    text = read_page(defences.PAGE)

    assert text == defences.render_page(text), "run tests/support/defences.py"


def test_each_number_of_an_attack_or_error_has_a_test():
    numbers = {row.number for row in defences.list_rows()}
    named = "".join(file.read_text() for file in (ROOT / "tests" / "integrity").glob("*.py"))

    assert {f"H{n}" for n in range(1, 25)} | {f"M{n}" for n in range(1, 14)} <= numbers
    assert set(re.findall(r'"([HM]\d+) ', named)) <= numbers


def test_make_names_no_target_that_does_not_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|\$ )make ([a-z]+)", read_page(page))
    }

    assert named <= targets
