"""The README is part of the product: what it names must exist."""

import json
import pathlib
import re

import pytest
from markdown_it import MarkdownIt

from kernelkb.cli import COMMANDS, main
from kernelkb.cli.screen import _format_row
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.record.sessions import list_session_ids, read_session

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TOKENS = MarkdownIt("commonmark").enable("table").parse(TEXT)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_table(command):
    assert f"`kb {command}" in TEXT


def test_no_kb_command_is_named_that_does_not_exist():
    named = set(re.findall(r"`?(?:\.venv/bin/)?kb ([a-z]+)\b", TEXT)) - {"check"}

    assert named <= set(COMMANDS)


def test_every_relative_link_leads_to_a_file():
    links = [
        child.attrs["href"]
        for token in TOKENS
        for child in token.children or ()
        if child.type == "link_open" and "://" not in child.attrs["href"]
    ]

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_client_configuration_is_json_and_starts_our_script():
    blocks = [token.content for token in TOKENS if token.type == "fence" and token.info == "json"]

    assert json.loads(blocks[0])["mcpServers"]["kernelkb"]["command"] == "kb-mcp"


def test_every_folder_of_the_map_exists():
    folders = re.findall(r"^\| `([a-z_]+)/`", TEXT, re.MULTILINE)

    assert len(folders) >= 5
    assert [name for name in folders if not (ROOT / name).is_dir()] == []


def test_the_answer_it_shows_is_the_answer(capsys):
    main(["recommend", "--speedup", "0.3", "--occupancy", "0.4"])

    assert capsys.readouterr().out in TEXT


def test_the_counts_are_those_of_the_knowledge():
    knowledge = load_knowledge()
    fixes = sum(len(family.fixes) for family in knowledge.families)
    symptoms = sum(len(family.symptoms) for family in knowledge.symptoms)

    assert (
        f"{len(knowledge.bottlenecks)} bottlenecks, {fixes} fixes, {symptoms} symptoms, "
        f"{len(knowledge.patterns)} patterns" in TEXT
    )


def test_every_benchmark_is_named():
    scripts = sorted(path.name for path in (ROOT / "benchmarks").glob("*.py"))

    assert scripts
    assert [name for name in scripts if f"benchmarks/{name}`" not in TEXT] == []


def iter_printed_steps(session):
    """Yield each step of a session as ``kb triage`` prints it."""
    for entry in read_session(session, ROOT / "sessions").entries:
        for step in entry.steps:
            what = f"{step.name} {step.variant}" if step.variant else step.name
            yield str(_format_row(step.status, what, f"{step.found} ({step.seconds:.1f} s)"))


def test_a_transcript_is_that_of_the_shipped_session_that_is_named_above_it():
    shown = 0
    for above, block in re.findall(r"([^\n]+)\n\n```text\n(.+?)```", TEXT, re.DOTALL):
        steps = re.findall(r"^(?:ok|!!|NO) .+", block, re.MULTILINE)
        if not steps:
            continue
        (session,) = re.findall(r"\(sessions/([a-z0-9-]+)\.md\)", above)
        assert session in list_session_ids(ROOT / "sessions")
        assert [line for line in steps if line not in set(iter_printed_steps(session))] == []
        shown += 1

    assert shown == 2
