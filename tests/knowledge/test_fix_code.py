"""The code of fixes: it compiles, and every mistake in its header is told with its line."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelkb.cli import main
from kernelkb.loading.fix_code import find_fix_code_problems
from kernelkb.loading.knowledge import load_knowledge

KNOWLEDGE = Path(__file__).parents[2] / "knowledge"
FOLDER = KNOWLEDGE / "fixes" / "code"
FILES = sorted(FOLDER.glob("*.cu"))
SOME = {
    "exp2-fold": "sm_90a", "use-wgmma": "sm_90a", "xor-swizzle": "sm_80",
    "remap-threads-coalesced": "sm_100a",
}  # fmt: skip
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def list_architectures(path):
    return re.search(r"^// arch: (.*)$", path.read_text(), re.MULTILINE)[1].split()


def compile_for(path, arch, folder):
    words = ["nvcc", "-std=c++17", f"-arch={arch}", "-cubin", "-o", folder / "a.cubin", path]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_sixty_fixes_have_code():
    assert len(FILES) >= 60


@needs_nvcc
@pytest.mark.parametrize(("fix", "arch"), SOME.items())
def test_some_code_compiles(tmp_path, fix, arch):
    done = compile_for(FOLDER / f"{fix}.cu", arch, tmp_path)

    assert done.returncode == 0, done.stderr


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_code_compiles_for_every_architecture_that_it_names(tmp_path, path):
    for arch in list_architectures(path):
        done = compile_for(path, arch, tmp_path)

        assert done.returncode == 0, (arch, done.stderr)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("// fix: xor-swizzle", "// fix: xor-swizzl", 1, "did you mean"),
        ("// fix: xor-swizzle", "// fix: smem-transpose", 1, "must equal the file's name"),
        ("// source: ", "// source: no-", 3, "unknown source"),
        ("// arch: ", "// archs: ", 2, "this line must be like `// arch:"),
        ("namespace after {", "namespace later {", 1, "namespace after"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, line, words):
    text = (FOLDER / "xor-swizzle.cu").read_text()
    assert old in text
    code = tmp_path / "fixes" / "code"
    code.mkdir(parents=True)
    (code / "xor-swizzle.cu").write_text(text.replace(old, new, 1))
    problems = find_fix_code_problems(tmp_path, load_knowledge(KNOWLEDGE))

    assert any(problem.line == line and words in problem.message for problem in problems), problems


def test_kb_show_prints_the_code(capsys):
    assert main(["show", "exp2-fold"]) == 0
    assert "namespace after {" in capsys.readouterr().out
