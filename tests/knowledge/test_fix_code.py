"""The code of fixes: it compiles, its header is checked, and kb show prints it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from shipped_rules import knowledge

from kernelkb.actions.knowledge.knowledge import check_knowledge, look_up_entries
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.actions.sessions.pages import generate_entry_page
from kernelkb.cli import main
from kernelkb.errors import KnowledgeError
from kernelkb.loading.digest import compute_sha256
from kernelkb.loading.knowledge import CODE_FOLDER, read_fix_code
from kernelkb.safety.paths import shipped_folder

SHIPPED = Path(shipped_folder("knowledge"))
FIXES = [fix.id for family in knowledge().families for fix in family.fixes]
CODES = {fix: code for fix in FIXES if (code := read_fix_code(fix, [SHIPPED]))}
COMPILES = [(fix, arch) for fix, code in CODES.items() for arch in code.arch]
FEW = [
    ("xor-swizzle", "sm_80"),
    ("use-wgmma", "sm_90a"),
    ("exp2-fold", "sm_90a"),
    ("pack-stores", "sm_100a"),
]
SAMPLE = f"{CODE_FOLDER}/xor-swizzle.cu"

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")


def compile_code(fix, arch, folder):
    source = SHIPPED / CODE_FOLDER / f"{fix}.cu"
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-cubin", "-o", folder / "a.cubin", source]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def find_problems(folder):
    problems, _ = check_knowledge(folder)
    return [str(problem).removeprefix(f"{folder}/") for problem in problems]


@needs_nvcc
@pytest.mark.parametrize(("fix", "arch"), FEW)
def test_code_compiles(fix, arch, tmp_path):
    outcome = compile_code(fix, arch, tmp_path)

    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize(("fix", "arch"), COMPILES, ids=[f"{f}-{a}" for f, a in COMPILES])
def test_all_code_compiles_for_every_arch_of_its_header(fix, arch, tmp_path):
    outcome = compile_code(fix, arch, tmp_path)

    assert outcome.returncode == 0, outcome.stderr


def test_sixty_fixes_have_code():
    assert len(CODES) >= 60


def test_every_file_is_the_code_of_a_fix():
    assert {path.name for path in (SHIPPED / CODE_FOLDER).iterdir()} == {f"{f}.cu" for f in CODES}


MISTAKES = [
    (
        "// fix: ",
        "// fiks: ",
        ":1:1: fix: this line must be like `// fix: xor-swizzle`",
    ),
    ("// arch: ", "// arch ", ":2:1: arch: this line must be like `// arch: sm_80 sm_90a`"),
    ("// arch: sm_80 sm_90a sm_100a", "// arch:", ":2:1: arch: this line must be like"),
    ("// source: nsight-compute-rules\n", "", ":3:1: source: this line must be like"),
    ("sm_90a", "sm90a", ":2:16: arch.1: 'sm90a' does not fit"),
    (
        "fix: FIX",
        "fix: xor-swizle",
        ":1:9: fix: unknown fix 'xor-swizle' (did you mean 'xor-swizzle'?)",
    ),
    ("fix: FIX", "fix: pad-smem", ":1:9: fix: 'pad-smem' must equal the file's name"),
    ("fix: FIX", "fix: xor swizzle", ":1:9: fix: 'xor swizzle' does not fit"),
    ("nsight-compute-rules", "nsight-rules", ":3:12: source: unknown source 'nsight-rules'"),
    (
        "namespace before {",
        "namespace {",
        ":1:1: before: no line begins with `namespace before",
    ),
    (
        "namespace after {",
        "namespace {",
        ":1:1: after: no line begins with `namespace after {`",
    ),
]


def test_each_mistake_is_told_with_its_place(knowledge_copy):
    """Each in a file of its own, which is the sample under the name of another fix."""
    sample = (knowledge_copy / SAMPLE).read_text()
    others = [fix for fix in CODES if fix not in ("xor-swizzle", "pad-smem")]
    files = dict(zip(others, MISTAKES, strict=False))
    for fix, (old, new, _) in files.items():
        text = sample.replace("xor-swizzle", fix)
        assert old.replace("FIX", fix) in text
        changed = text.replace(old.replace("FIX", fix), new, 1)
        (knowledge_copy / CODE_FOLDER / f"{fix}.cu").write_text(changed)
    found = find_problems(knowledge_copy)

    assert len(files) == len(MISTAKES)
    for fix, (_, _, complaint) in files.items():
        file = f"{CODE_FOLDER}/{fix}.cu"
        assert any(text.startswith(f"{file}{complaint}") for text in found), (complaint, found)


def test_two_missing_lines_are_told_together(knowledge_copy):
    (knowledge_copy / SAMPLE).write_text("// fix: xor-swizzle\n")

    places = [":2:1: arch", ":3:1: source", ":1:1: before", ":1:1: after"]
    found = find_problems(knowledge_copy)
    assert all(any(place in text for text in found) for place in places)


@pytest.mark.parametrize("name", ["fixes/xor-swizzle.cu", f"{CODE_FOLDER}/xor-swizzle.cuh"])
def test_a_file_in_the_wrong_place_is_reported(knowledge_copy, name):
    (knowledge_copy / SAMPLE).rename(knowledge_copy / name)

    assert find_problems(knowledge_copy) == [
        f"{name}:1:1: file: not the code of a fix, which is {CODE_FOLDER}/<id of the fix>.cu"
    ]


def test_code_that_is_no_text_is_reported(knowledge_copy):
    (knowledge_copy / SAMPLE).write_bytes(b"// fix: \xff\n")

    assert find_problems(knowledge_copy)[0].startswith(f"{SAMPLE}:1:1: file: not UTF-8 text")


def test_reading_a_wrong_header_is_an_error(knowledge_copy):
    (knowledge_copy / SAMPLE).write_text("// fix: xor-swizzle\n")

    with pytest.raises(KnowledgeError, match="this line must be like"):
        read_fix_code("xor-swizzle", [knowledge_copy])


def test_code_does_not_change_the_hash_of_the_knowledge(knowledge_copy):
    before = compute_sha256(str(knowledge_copy))
    (knowledge_copy / SAMPLE).unlink()

    assert compute_sha256(str(knowledge_copy)) == before


def test_compiled_rules_hold_no_code():
    assert "namespace before" not in str(load_compiled_rules())


def test_kb_show_prints_the_code_line_by_line(capsys):
    assert main(["show", "xor-swizzle"]) == 0

    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    code = (SHIPPED / SAMPLE).read_text().splitlines()
    at = printed.index("// fix: xor-swizzle")
    assert printed[at : at + len(code)] == [line.strip() for line in code]


def test_an_entry_has_the_whole_file():
    for fix in CODES:
        assert look_up_entries(fix)["code"] == (SHIPPED / CODE_FOLDER / f"{fix}.cu").read_text()


def test_a_fix_without_code_has_no_such_field():
    assert "code" not in look_up_entries("stop")


def test_the_page_of_a_fix_has_its_code():
    page = generate_entry_page("fixes", "xor-swizzle")

    assert "## Code\n\n```cuda\n// fix: xor-swizzle\n" in page


def test_the_code_of_a_project_counts_first(project):
    file = project / "knowledge" / SAMPLE
    file.parent.mkdir(parents=True)
    own = (SHIPPED / SAMPLE).read_text() + "// ours\n"
    file.write_text(own)

    assert look_up_entries("xor-swizzle")["code"] == own


def test_the_code_of_a_project_is_checked(project):
    file = project / "knowledge" / SAMPLE
    file.parent.mkdir(parents=True)
    file.write_text("")
    problems, _ = check_knowledge()

    assert ("knowledge/" + SAMPLE, 2, 1) in [problem[:3] for problem in problems]
