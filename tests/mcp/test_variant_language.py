"""Fixes for Triton are offered for a variant in Triton, over both front ends, and for no other."""

import json

import pytest
import yaml
from measurements import make_bench
from simple_kernels import write_kernel
from tool_calls import call_tool

from kernelkb.cli import main
from kernelkb.record.measurements.store import open_store

SPILLS = {"spill_store_bytes": 760.0, "local_instruction_share": 0.1}
TRITON_FIX = "triton-num-warps"
LANGUAGES = [("triton", True), ("cuda", False)]


def write_variant(project, language):
    folder = write_kernel(project, "twice", is_cuda=True)
    path = folder / "kernel.yaml"
    fields = yaml.safe_load(path.read_text())
    if language == "triton":
        (folder / "plain.py").write_text("def twice(x, y):\n    pass\n")
        fields["variants"][0] |= {"language": "triton", "source": "plain.py"}
    fields["variants"][0]["kernels"] = ["twice_kernel"]
    path.write_text(yaml.safe_dump(fields))


def ask_cli(capsys, *words):
    main(["recommend", *words, "--json"])
    return json.loads(capsys.readouterr().out)


def list_fixes(answer):
    (kernel,) = answer["kernels"]
    return {fix["id"] for diagnosis in kernel["diagnoses"] for fix in diagnosis["fixes"]}


@pytest.mark.parametrize(("language", "is_offered"), LANGUAGES)
def test_of_numbers_for_a_kernel_by_name(project, capsys, language, is_offered):
    write_variant(project, language)
    given = [f"--metric={name}={value}" for name, value in SPILLS.items()]
    typed = ask_cli(capsys, "--kernel", "twice", *given)
    told = call_tool(
        "recommend_fix", kernel="twice", metrics=SPILLS, everything=True
    ).structured_content

    assert (TRITON_FIX in list_fixes(typed)) == is_offered
    assert (TRITON_FIX in list_fixes(told)) == is_offered


@pytest.mark.parametrize(("language", "is_offered"), LANGUAGES)
def test_of_a_record(project, capsys, language, is_offered):
    write_variant(project, language)
    where = {"kernel": "twice", "target": "cuda"}
    bench = make_bench("plain", where=where, metrics=SPILLS)
    with open_store(project) as store:
        store.add([bench])

    assert (TRITON_FIX in list_fixes(ask_cli(capsys, "--run", bench.id[:12]))) == is_offered
    told = call_tool("recommend_fix", run=bench.id[:12], everything=True).structured_content
    assert (TRITON_FIX in list_fixes(told)) == is_offered


@pytest.mark.parametrize(("language", "is_offered"), LANGUAGES)
def test_of_a_report(project, capsys, language, is_offered):
    write_variant(project, language)
    rows = [["ID", "Kernel Name"], ["", ""], ["0", "twice_kernel"]]
    report = project / "report.csv"
    report.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    given = [f"--metric={name}={value}" for name, value in SPILLS.items()]
    typed = ask_cli(capsys, "--profile", "report.csv", *given)

    assert (TRITON_FIX in list_fixes(typed)) == is_offered
