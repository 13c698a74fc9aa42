"""``kernelkb`` and ``kernelkb_mcp`` lead to engine/ and mcp_server/ in each way of installing."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import jedi
import pytest

ROOT = Path(__file__).parents[2]
LINKS = {"kernelkb": "engine", "kernelkb_mcp": "mcp_server"}
SHOW = "import kernelkb, kernelkb_mcp; print(kernelkb.__file__); print(kernelkb_mcp.__file__)"


def run(*command, cwd):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def editable_environment(tree, folder):
    """Install ``tree`` as editable into a new environment that borrows our dependencies."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    (site_packages,) = (folder / "venv").glob("lib/python*/site-packages")
    borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (site_packages / "zz_borrowed.pth").write_text("\n".join(borrowed) + "\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq"]
    run(*pip, "--no-deps", "--no-index", "--no-build-isolation", "-e", tree, cwd=folder)
    return python


@pytest.mark.parametrize(("name", "folder"), LINKS.items())
def test_a_checkout_links_each_import_name_to_its_folder(name, folder):
    link = ROOT / "src" / name

    assert link.is_symlink()
    assert not link.readlink().is_absolute(), "an absolute link breaks in every other checkout"
    assert link.samefile(ROOT / folder)


def test_an_editable_install_of_a_source_distribution_runs_its_own_folders(tmp_path):
    """Archives made by hatchling hold no links, so the build hook makes them."""
    run(
        *(sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", tmp_path, ROOT),
        cwd=tmp_path,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        members.extractall(tmp_path, filter="data")
    (tree,) = (path for path in tmp_path.glob("kernelkb-*") if path.is_dir())
    python = editable_environment(tree, tmp_path)
    files = run(python, "-P", "-c", SHOW, cwd=tmp_path).splitlines()

    assert [Path(f).resolve().parent for f in files] == [tree / folder for folder in LINKS.values()]
    assert "kb" in run(python.with_name("kb"), "--help", cwd=tmp_path)


def test_mypy_reads_the_types_of_an_editable_install(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(
        "from kernelkb.errors import KbError\nreveal_type(KbError('x'))\nKbError(1)\n", "utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "--strict", user],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert 'Revealed type is "kernelkb.errors.KbError"' in done.stdout
    assert "import-untyped" not in done.stdout


def test_an_editor_goes_to_the_definition():
    """Jedi is what many editors ask; pyright and mypy follow the same src/ folder."""
    source = "from kernelkb.errors import KbError\nKbError\n"
    script = jedi.Script(source, path=ROOT / "tests" / "user.py", project=jedi.Project(ROOT))
    (definition,) = script.goto(2, 2, follow_imports=True)

    assert definition.module_path.samefile(ROOT / "engine" / "errors.py")
