"""kb report: a page of a real report, and one line for each mistake."""

import json
from pathlib import Path

import pytest
from machine_code import unpack_report

from kernelkb.cli import main

REPORTS = Path(__file__).parents[1] / "data" / "ncu" / "reports"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "memory-latency-bound")


def test_a_report_becomes_one_page(report, tmp_path, capsys):
    page = tmp_path / "page.html"
    status = main(["report", str(report), "-o", str(page), "--kernel", "add_squares"])
    html = page.read_text()

    assert status == 0
    assert f"{page}: 1 kernel, " in capsys.readouterr().out
    assert "const float value = x[i];" in html
    assert "LDG.E.CONSTANT" in html
    assert "% of the waits for memory</mark>" in html
    assert "memory roof" in html
    assert "the longest of 2 launches" in html


def test_a_kernel_without_counted_operations_has_no_roofline(report, tmp_path):
    page = tmp_path / "page.html"
    main(["report", str(report), "-o", str(page), "--kernel", "find_chunk_max.const float ."])

    assert '<svg class="roofline"' not in page.read_text()


def test_a_report_without_counts_by_instruction_says_how_to_record_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status = main(["report", str(REPORTS / "four_launches.ncu-rep"), "--json"])
    said = json.loads(capsys.readouterr().out)
    page = tmp_path / "four_launches.html"

    assert status == 0
    assert said == {"page": page.name, "kernels": said["kernels"], "bytes": page.stat().st_size}
    assert "No source: the report counts nothing by instruction" in page.read_text()


def test_a_table_becomes_a_page_without_code(tmp_path):
    page = tmp_path / "page.html"
    status = main(["report", str(REPORTS / "four_launches_raw.csv"), "-o", str(page)])

    assert status == 0
    assert "No source: a CSV page holds no code" in page.read_text()


def test_the_report_itself_is_never_overwritten(tmp_path, capsys):
    report = tmp_path / "a.ncu-rep"
    report.write_bytes((REPORTS / "four_launches.ncu-rep").read_bytes())
    before = report.read_bytes()
    status = main(["report", str(report), "-o", str(report)])

    assert status == 2
    assert "is the report itself" in capsys.readouterr().err
    assert report.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nothing.ncu-rep"], "cannot read nothing.ncu-rep"),
     ([str(REPORTS / "kernels.cu")], "is no report of Nsight Compute"),
     ([str(REPORTS / "four_launches.ncu-rep"), "--kernel", "zz"], "matches 'zz'"),
     ([str(REPORTS / "four_launches.ncu-rep"), "-o", "no/such/page.html"], "a folder that exists"),
     ([str(REPORTS / "four_launches.ncu-rep"), "-o", "."], "a folder that exists")],
)  # fmt: skip
def test_a_mistake_is_one_line(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status = main(["report", *words])
    error = capsys.readouterr().err

    assert status == 2
    assert said in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())
