"""The first screen for a report: a table of its kernels, and only commands that work."""

import pytest
from machine_code import unpack_report

from kernelkb.actions.advice.next_steps import TAKE_IN
from kernelkb.actions.advice.recommend_report import recommend_from_report
from kernelkb.cli import main
from kernelkb.cli.terminal import print_styled_lines
from kernelkb.decide.next_measurement import strip_kernel_signature
from kernelkb.errors import NextStep
from kernelkb.render.text.reports import format_report_table, shorten_name


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return unpack_report(tmp_path_factory.mktemp("report"), "h100-sxm", "memory-latency-bound")


@pytest.fixture(scope="module")
def answers(report):
    return recommend_from_report(str(report))["kernels"]


def test_the_table_begins_with_the_kernel_that_takes_most_time(answers):
    header, *rows = format_report_table(answers)

    assert header.split() == ["kernel", "time", "share", "cause", "line", "gain"]
    assert len(rows) == len(answers)
    assert "memory-latency-bound" in rows[0]
    assert ".cu:" in rows[0]


def test_shares_are_of_the_time_of_all_launches(answers):
    assert sum(answer["share"] for answer in answers) == pytest.approx(1.0, abs=0.01)
    assert answers[0]["share"] == max(answer["share"] for answer in answers)


def test_the_table_fits_the_terminal(answers):
    named = [{**answer, "kernel": "k" * 200} for answer in answers]

    assert max(map(len, format_report_table(named, 100))) <= 100


def test_of_a_long_file_name_the_line_is_shown(answers):
    (answer, *_) = answers
    (diagnosis, *others) = answer["diagnoses"]
    (line, *more) = diagnosis["lines"]["lines"]
    at = {**line["at"], "file": "/k/miniature_weather_model_openacc.F90", "line": 285}
    lines = {**diagnosis["lines"], "lines": [{**line, "at": at}, *more]}
    renamed = {**answer, "diagnoses": [{**diagnosis, "lines": lines}, *others]}

    assert "miniature_weather_m…:285" in list(format_report_table([renamed]))[1]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("<unnamed>::normalize_rows(const float *, float *, int, int)", "normalize_rows"),
        ("void at::native::vectorized_elementwise_kernel<4, A<float>>(int, A)",
         "vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::f<int (*)(float)>(int)", "f"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_nn>(T1::Params)",
         "cutlass_80_simt_sgemm_128x128_nn"),
        ("void cutlass::device_kernel<flash::Attention<int>>(T1)", "Attention"),
        ("triton_red_fused_0", "triton_red_fused_0"),
        ("<lambda>", "<lambda>"),
    ],
)  # fmt: skip
def test_a_name_is_shown_without_its_arguments(kernel, name):
    assert shorten_name(kernel) == name


def test_of_several_kernels_the_longest_is_shown(report, capsys):
    assert main(["recommend", "--profile", str(report)]) == 0
    out = capsys.readouterr().out

    assert out.startswith("kernel ")
    assert "The longest; --kernel NAME shows another" in out
    assert out.count("Next\n") == 1


def test_the_answer_is_short_and_all_of_it_is_told_on_request(report, capsys):
    main(["recommend", "--profile", str(report), "--kernel", "add_squares"])
    short = capsys.readouterr().out.splitlines()
    main(["recommend", "--profile", str(report), "--kernel", "add_squares", "--all"])
    whole = capsys.readouterr().out.splitlines()

    assert len(short) <= 22 < len(whole)
    assert any(line.startswith("Where the time goes") for line in whole)
    assert not any(line.startswith(("Where the time", "Evidence", "Nsight")) for line in short)


def test_a_kernel_that_the_project_does_not_have_is_not_benched_by_name(answers):
    commands = [row["command"] for answer in answers for row in answer["measure_next"]]

    assert not [command for command in commands if command.startswith("kb bench")]
    assert TAKE_IN in answers[0]["next"]
    assert not [step for step in answers[0]["next"] if isinstance(step, NextStep)]


def test_long_lines_go_on_below_where_they_began(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    print_styled_lines(["     because " + "word " * 30, "short"])
    first, *rest, last = capsys.readouterr().out.splitlines()

    assert first.startswith("     because word")
    assert all(line.startswith("       word") and len(line) <= 60 for line in rest)
    assert last == "short"


def test_a_kernel_without_a_name_space_has_a_name_in_commands():
    for spelled in ("<unnamed>::scale(float *)", "void (anonymous namespace)::scale<int>(int)"):
        assert strip_kernel_signature(spelled) == "scale"
