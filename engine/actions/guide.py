"""The guide for assistants, and the files that are made of it."""

from __future__ import annotations

from pathlib import Path

from kernelkb.actions.knowledge import here
from kernelkb.errors import BadValueError, UnknownNameError
from kernelkb.loading.knowledge import load_knowledge
from kernelkb.model.knowledge import Knowledge
from kernelkb.render import guide, skill
from kernelkb.render.guide import PAGES, Spelling
from kernelkb.safety.paths import shipped

_SKILL = Path("skills") / skill.NAME


def page(
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
    knowledge = here()
    if name == "session-start":
        return guide.session_start(knowledge, spelling, kernel)
    if name == "diagnose":
        return guide.diagnose(knowledge, spelling, kernel, metrics)
    if name == "close":
        return guide.close(knowledge, spelling)
    if name == "skill":
        return skill.skill(knowledge)["SKILL.md"]
    if name == "agents":
        return skill.agents(knowledge)
    raise UnknownNameError("page", name, PAGES, "kb guide --help")


def stale() -> list[Path]:
    """Return the files that are not what the shipped knowledge gives now."""
    return [
        file
        for file, text in _files(load_knowledge()).items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]


def write() -> list[Path]:
    """Write the skill and AGENTS.md, and return their files.

    Raises:
        BadValueError: This KernelKB is installed and has no repository around it.
    """
    files = _files(load_knowledge())
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(files)


def _files(knowledge: Knowledge) -> dict[Path, str]:
    root = Path(shipped("knowledge")).parent
    if not (root / "pyproject.toml").is_file():
        raise BadValueError("the files lie in KernelKB's repository; kb guide skill prints one")
    made = {root / _SKILL / name: text for name, text in skill.skill(knowledge).items()}
    return {**made, root / "AGENTS.md": skill.agents(knowledge)}
