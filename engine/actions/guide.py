"""The guide for assistants, and the files that are made of it."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.knowledge import load_project_knowledge
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.knowledge import Knowledge
from kernelkb.render import guide, skill
from kernelkb.render.guide import PAGES, Spelling
from kernelkb.safety.paths import shipped_folder

_SKILL_FOLDER = Path("skills") / skill.NAME


def generate_guide_page(
    name: str,
    spelling: Spelling = "shell",
    kernel: str | None = None,
    metrics: str | None = None,
) -> str:
    """Return a page as this project's knowledge gives it now.

    Args:
        name: One of ``PAGES``.
        spelling: Whether it names commands or tools.
        kernel: The one it is about; None for any.
        metrics: What was measured, in anybody's words.

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
        return skill.format_skill_files(knowledge)["SKILL.md"]
    if name == "agents":
        return skill.format_agents_page(knowledge)
    raise UnknownNameError("page", name, PAGES, "kb guide --help")


def find_stale_files() -> list[Path]:
    """Return the files that are not what the shipped knowledge gives now."""
    return [
        file
        for file, text in _generate_files(load_knowledge()).items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]


def write_guide_files() -> list[Path]:
    """Write the skill and AGENTS.md, and return their files.

    Raises:
        BadValueError: This KernelKB is installed and has no repository around it.
    """
    files = _generate_files(load_knowledge())
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(files)


def _generate_files(knowledge: Knowledge) -> dict[Path, str]:
    root = Path(shipped_folder("knowledge")).parent
    if not (root / "pyproject.toml").is_file():
        raise BadValueError("the files lie in KernelKB's repository; kb guide skill prints one")
    made = {
        root / _SKILL_FOLDER / name: text
        for name, text in skill.format_skill_files(knowledge).items()
    }
    return {**made, root / "AGENTS.md": skill.format_agents_page(knowledge)}
