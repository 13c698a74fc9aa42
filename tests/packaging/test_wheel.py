"""The wheel and the source distribution: built, inspected, installed and run."""

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

import kernelkb

ROOT = Path(__file__).parents[2]
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
HOSTILE = 'raise SystemExit("hostile {name} imported")\n'


def run_command(*command, cwd, **environment):
    """Run a command away from this checkout; return the finished process."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, "HOME": str(cwd), "XDG_CACHE_HOME": str(cwd / "cache"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def list_ignored_names(folder, names):
    """Name what no build reads: environments, caches, earlier builds, hidden folders."""
    unwanted = {"__pycache__", "_data"}
    if Path(folder) == ROOT:
        unwanted |= {"build", "dist", "shared"}
    return {n for n in names if n in unwanted or (n.startswith(".") and n != ".gitignore")}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Build source distribution → wheel from a copy, so that a stray file cannot help."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(ROOT, folder / "tree", symlinks=True, ignore=list_ignored_names)
    # Without isolation: hatchling is a dev dependency, and tests use no network.
    built = run_command(sys.executable, "-m", "build", "--no-isolation", "tree", cwd=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = (folder / "tree" / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="session")
def sources(wheel):
    """Return what the source distribution holds that the wheel was built from."""
    (path,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return frozenset(name.partition("/")[2] for name in archive.getnames())


@pytest.fixture(scope="session")
def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(archive.namelist())


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Return the ``bin`` of a fresh environment that holds the wheel and borrows the rest."""
    folder = tmp_path_factory.mktemp("installed")
    environment = folder / "venv"
    made = run_command(sys.executable, "-m", "venv", "--without-pip", environment, cwd=folder)
    assert made.returncode == 0, made.stderr
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    done = run_command(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    # Dependencies come from the running environment, after the wheel's own files. The .pth of our
    # editable install lies in that folder, but Python does not read it from there.
    (site_packages,) = environment.glob("lib/python*/site-packages")
    behind = [entry for entry in sys.path if Path(entry).name in _PACKAGE_FOLDERS]
    (site_packages / "zz_dependencies.pth").write_text("\n".join(behind) + "\n", "utf-8")
    return environment / "bin"


@pytest.fixture
def hostile_folder(tmp_path):
    """Return a project with packages of its own that are called like our folders."""
    for name in ("engine", "mcp_server"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(HOSTILE.format(name=name), "utf-8")
    return tmp_path


@pytest.mark.slow
def test_check_wheel_contents_finds_nothing(wheel):
    outcome = run_command(sys.executable, "-m", "check_wheel_contents", wheel, cwd=ROOT)

    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize(
    "member",
    [
        "kernelkb/py.typed",
        "kernelkb/render/html/templates/base.html",
        "kernelkb/render/html/templates/style.css",
        "kernelkb_mcp/py.typed",
        "kernelkb/_data/kernels/row_softmax/kernel.yaml",
        "kernelkb/_data/kernels/row_softmax/naive.cpp",
    ],
)
def test_wheel_contains(member, members):
    assert member in members


def test_wheel_contains_every_knowledge_file(members):
    here = {
        f"kernelkb/_data/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "knowledge").rglob("*")
        if path.suffix in (".yaml", ".cu")
    }

    assert "kernelkb/_data/knowledge/fixes/code/xor-swizzle.cu" in here
    assert here <= members


@pytest.mark.parametrize("folder", ["benchmarks", "kernels", "knowledge", "sessions", "tests"])
def test_the_source_distribution_holds_the_files_its_tests_read(folder, sources):
    """Of files that git ignores, such as the demo's own sessions, it holds none."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = GitIgnoreSpec.from_lines(lines)
    files = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()
    }
    wanted = {file for file in files if not ignored.match_file(file)}

    assert wanted
    assert wanted - sources == set()
    assert (files - wanted) & sources == set()


@pytest.mark.parametrize(
    ("folder", "package"),
    [("engine/kernelkb", "kernelkb"), ("mcp_server/kernelkb_mcp", "kernelkb_mcp")],
)
def test_wheel_contains_every_module(folder, package, members):
    here = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for path in (ROOT / folder).rglob("*.py")
        if "_data" not in path.parts
    }

    assert here
    assert here - members == set()


def test_wheel_adds_only_our_own_top_level_names(members):
    """``tests`` and ``kernels`` are names that other distributions install, too."""
    tops = {member.partition("/")[0] for member in members}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"kernelkb", "kernelkb_mcp"}


@pytest.mark.parametrize("command", ["kb", "kernelkb", "kb-mcp"])
def test_a_users_engine_on_the_path_is_not_ours(command, installed, hostile_folder):
    outcome = run_command(installed / command, "--help", cwd=hostile_folder, PYTHONPATH=".")

    assert outcome.returncode == 0, outcome.stderr
    assert "hostile" not in outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_installed_kb_checks_its_own_knowledge_beside_a_users_engine(installed, hostile_folder):
    outcome = run_command(installed / "kb", "check", cwd=hostile_folder)

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "hostile" not in outcome.stdout + outcome.stderr


def test_installed_server_starts_beside_a_users_engine(installed, hostile_folder):
    """No input is a client that hangs up at once: the server ends without a complaint."""
    outcome = run_command(installed / "kb-mcp", cwd=hostile_folder)

    assert outcome.returncode == 0, outcome.stderr
    assert "hostile" not in outcome.stdout + outcome.stderr


def test_the_tested_package_is_the_wheel_and_not_the_checkout(installed, hostile_folder):
    code = (
        "import kernelkb, kernelkb_mcp; print(kernelkb.__file__, kernelkb_mcp.__file__, sep='\\n')"
    )
    # -P: leave the working directory out of sys.path, as a script does.
    outcome = run_command(installed / "python", "-P", "-c", code, cwd=hostile_folder)
    files = [Path(line) for line in outcome.stdout.splitlines()]

    assert len(files) == 2, outcome.stderr
    assert all(file.is_relative_to(installed.parent) for file in files)


@pytest.mark.parametrize("command", ["kb", "kernelkb"])
def test_the_version_names_the_package_that_runs(command, installed, tmp_path):
    outcome = run_command(installed / command, "--version", cwd=tmp_path)
    name, version, _, folder = outcome.stdout.removesuffix("\n").split(" ", 3)

    assert (name, version) == ("kb", kernelkb.__version__)
    assert Path(folder).is_relative_to(installed.parent)


@pytest.mark.parametrize(
    ("words", "status"), [(["recommend", "--speedup", "0.3"], 1), (["check"], 0)]
)
def test_installed_kb_in_a_source_tree_says_one_line(words, status, installed, tmp_path):
    """The tree's knowledge may be of another version: as an overlay it has hundreds of problems."""
    shutil.copytree(ROOT / "knowledge", tmp_path / "knowledge")
    (tmp_path / "knowledge" / "workflow.yaml").write_text("of_another_version: 1\n")
    (tmp_path / "sessions").mkdir()
    outcome = run_command(installed / "kb", *words, cwd=tmp_path)
    lines = [line for line in outcome.stderr.splitlines() if line.startswith("kb: ")]

    assert outcome.returncode == status, outcome.stdout + outcome.stderr
    assert len(lines) == 1
    assert f"{tmp_path / 'knowledge'} is not read" in lines[0]
    assert f" -m pip install -e {shlex.quote(str(tmp_path))}" in lines[0]


@pytest.mark.parametrize("extra", ["torch", "reports", "tune", "cluster", "postgresql"])
def test_a_cure_names_the_packages_of_the_extra(extra, installed, tmp_path):
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["optional-dependencies"][extra]
    code = f"from kernelkb.errors import *; print(format_install_command({extra!r}))"
    outcome = run_command(installed / "python", "-c", code, cwd=tmp_path)

    python, *words = shlex.split(outcome.stdout)
    assert Path(python).is_relative_to(installed.parent)
    assert words == ["-m", "pip", "install", *sorted(r.partition(";")[0] for r in wanted)]
