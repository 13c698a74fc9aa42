"""Writes the documents that are generated from the knowledge: quick reference, guides, skill."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from kernelkb.actions.knowledge.knowledge import load_project_knowledge
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.entries.knowledge import Knowledge
from kernelkb.render.documents import guide
from kernelkb.render.documents.guide import PAGES, Spelling, format_commands_page
from kernelkb.render.documents.quickref import format_quickref
from kernelkb.render.html.pages import format_quickref_sheet
from kernelkb.safety.files import replace_file
from kernelkb.safety.paths import shipped_folder

_SKILL_FOLDER = Path("skills") / guide.NAME


def generate_guide_page(
    name: str,
    spelling: Spelling = "shell",
    kernel: str | None = None,
    metrics: str | None = None,
) -> str:
    """Return a page of the guide, generated from this project's knowledge.

    Args:
        name: One of ``PAGES``.
        spelling: Whether the page names shell commands or MCP tools.
        kernel: The kernel that the page is about; None for any.
        metrics: Free text of measured values, copied into the page.

    Raises:
        UnknownNameError: There is no such page.
        KnowledgeError: The knowledge is wrong.
    """
    knowledge = load_project_knowledge()
    if name == "session-start":
        return guide.format_session_start_page(knowledge, spelling, kernel)
    if name == "diagnose":
        return guide.format_diagnosis_page(knowledge, spelling, kernel, metrics)
    if name == "close":
        return guide.format_closing_page(knowledge, spelling)
    if name == "skill":
        return guide.format_skill_files(knowledge)["SKILL.md"]
    if name == "agents":
        return guide.format_agents_page(knowledge)
    raise UnknownNameError("page", name, PAGES, "guide --help")


def find_stale_files(parser: ArgumentParser) -> list[Path]:
    """Return the files that differ from what knowledge and parser of ``kb`` give now."""
    return [
        file
        for file, text in _generate_files(load_knowledge(), parser).items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]


def write_guide_files(parser: ArgumentParser) -> list[Path]:
    """Write the skill, AGENTS.md and docs/commands.md, and return their paths.

    Args:
        parser: That of ``kb``, with all commands; this layer cannot import it.

    Raises:
        BadValueError: This KernelKB is an installed package, not a checkout.
    """
    files = _generate_files(load_knowledge(), parser)
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text)
    return list(files)


def _generate_files(knowledge: Knowledge, parser: ArgumentParser) -> dict[Path, str]:
    root = Path(shipped_folder("knowledge")).parent
    if not (root / "pyproject.toml").is_file():
        raise BadValueError("the files lie in KernelKB's repository; kb lab guide skill prints one")
    skill_files = guide.format_skill_files(knowledge).items()
    return {
        **{root / _SKILL_FOLDER / name: text for name, text in skill_files},
        root / "AGENTS.md": guide.format_agents_page(knowledge),
        root / "docs" / "commands.md": format_commands_page(parser),
    }


def generate_quickref() -> str:
    """Return the text of the quick reference."""
    return format_quickref(load_knowledge())


def generate_quickref_sheet() -> str:
    """Return the quick reference as HTML that prints on two A4 pages."""
    return format_quickref_sheet(load_knowledge())


def is_quickref_fresh() -> bool:
    """Return whether the file equals the generated text."""
    file = _quickref_path()
    return file.is_file() and file.read_text(encoding="utf-8") == generate_quickref()


def write_quickref() -> Path:
    """Write the file and return it."""
    file = _quickref_path()
    replace_file(file, generate_quickref())
    return file


def _quickref_path() -> Path:
    return Path(shipped_folder("knowledge")) / "QUICKREF.md"
