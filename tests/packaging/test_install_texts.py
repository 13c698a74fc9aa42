"""KernelKB is on no package index: no text tells to install it, or an extra of it, by its name."""

import ast
import re
import shlex
import sys
from pathlib import Path

import pytest

from kernelkb.errors import format_install_command, format_pip_command

ROOT = Path(__file__).parents[2]
_INSTALLS_BY_NAME = re.compile(r"\bpip install\b[^`\n]*?[\s'\"]kernelkb(?![\w/-])")
_TEXTS = ["README.md", "AGENTS.md", "docs/**/*.md", "skills/**/*.md", "knowledge/**/*.yaml"]


def list_strings(path):
    """Return the line and the value of every text in a module, the fixed parts of f-strings too."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return [
        (n.lineno, n.value) for n in nodes if isinstance(n, ast.Constant) if type(n.value) is str
    ]


def list_modules():
    found = [*(ROOT / "engine").rglob("*.py"), *(ROOT / "mcp_server").rglob("*.py")]
    return [path for path in found if "_data" not in path.parts]


def test_one_module_words_every_command_that_installs_a_package():
    elsewhere = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in list_modules()
        if path != ROOT / "engine/kernelkb/errors.py"
        for line, text in list_strings(path)
        if re.search(r"\bpip install\b|kernelkb\[", text)
    ]

    assert not elsewhere


@pytest.mark.parametrize("pattern", _TEXTS)
def test_no_page_installs_kernelkb_by_name(pattern):
    paths = sorted(ROOT.glob(pattern))
    lines = [(path, line) for path in paths for line in path.read_text("utf-8").splitlines()]

    assert paths
    assert not [(path, line) for path, line in lines if _INSTALLS_BY_NAME.search(line)]


@pytest.mark.parametrize(
    ("line", "is_wrong"),
    [
        ("pip install 'kernelkb[tune]'", True),
        ("python -m pip install --upgrade kernelkb", True),
        ("pip install '.[tune]'", False),
        ("pip install './kernelkb-0.1.0-py3-none-any.whl[tune]'", False),
        ("pip install /srv/kernelkb/", False),
    ],
)
def test_a_path_or_a_wheel_is_no_name(line, is_wrong):
    assert bool(_INSTALLS_BY_NAME.search(line)) is is_wrong


def test_the_command_is_for_the_interpreter_that_lacks_the_package():
    command = format_pip_command("scipy>=1.13", "optuna", python="/home/my user/bin/python")

    assert command == "'/home/my user/bin/python' -m pip install 'scipy>=1.13' optuna"
    python = shlex.quote(sys.executable)
    assert format_install_command("torch") == f"{python} -m pip install 'torch>=2.6'"


def test_an_extra_that_the_installed_metadata_lacks_is_named():
    assert "for the extra moon" in format_install_command("moon")
