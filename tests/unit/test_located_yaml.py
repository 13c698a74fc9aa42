"""A wrong file names the line to edit and the word to write."""

import pytest

from kernelkb.loading.located import parse_yaml, read_yaml
from kernelkb.model.base import Record, list_boolean_keys
from kernelkb.model.entries.quantities import ThresholdCatalogue

GOOD = """\
thresholds:
  - id: busy
    metric: dram_utilization
    value: 0.6
    evidence: judgement
    why: Below it a level is no limit.
    sources: [somewhere]
"""


def read_thresholds(path):
    """Return the catalogue of a file without complaints."""
    record, _, problems = read_yaml(path, ThresholdCatalogue)
    assert problems == []
    return record


def list_complaints(tmp_path, text):
    path = tmp_path / "thresholds.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    _, _, problems = read_yaml(path, ThresholdCatalogue)
    return [str(p).removeprefix(f"{path}:") for p in sorted(problems)]


def test_a_good_file_loads(tmp_path):
    path = tmp_path / "thresholds.yaml"
    path.write_text(GOOD)

    assert read_thresholds(path).thresholds[0].value == 0.6


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (("evidence:", "evidense:"), "5:5: thresholds.0.evidense: unknown key (did you mean 'evi"),
        (
            ("value: 0.6", "value: true"),
            "4:12: thresholds.0.value: value is not a boolean; write 1",
        ),
        (("0.6", "2026-13-45"), "4:12: thresholds.0.value: 2026-13-45 is not a calendar date"),
        (("value: 0.6", "value: 60%"), "4:12: thresholds.0.value: shares are plain numbers: write"),
        (("value: 0.6", "value: 1e-3"), "4:12: thresholds.0.value: YAML reads 1e-3 as text; write"),
        (("value: 0.6", "value: 1.0e6"), "write 1.0e+6"),
        (("value: 0.6", "value: 012"), "another base"),
        (("value: 0.6", "value: 1:30"), "another base"),
        (
            ("value: 0.6", f"value: {'7' * 5000}"),
            "4:12: thresholds.0.value: a number of 5000 digits; no value needs more than 100",
        ),
        (("value: 0.6", f"value: !!int '{'7' * 5000}'"), "a value cannot be read: Exceeds"),
        (("value: 0.6", "value: .nan"), ".nan cannot be a limit or a value"),
        (("why: Below", "why: no\n    wy: Below"), "YAML reads a bare no as a boolean"),
        (("id: busy", "id: busy\n    id: idle"), "3:5: thresholds.0.id: key 'id' appears twice"),
        (("id: busy", "id: Busy"), "2:5: thresholds.0.id: 'Busy' does not fit"),
        (("    why: Below it a level is no limit.\n", ""), "required key 'why' is missing"),
        (("[somewhere]", "[]"), "7:5: thresholds.0.sources: Tuple should have at least 1 item"),
        (("id: busy", "id: &x busy\n    device: *x"), "YAML aliases are not allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1].strip()[:14],
)
def test_complaint_has_place_and_cure(tmp_path, edit, complaint):
    assert complaint in "\n".join(list_complaints(tmp_path, GOOD.replace(*edit)))


def test_every_problem_is_reported_at_once(tmp_path):
    text = GOOD.replace("metric:", "metrik:").replace("evidence: judgement", "evidence: rumour")

    assert len(list_complaints(tmp_path, text)) == 3  # unknown key, missing key, bad choice


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\xfe\x00bad", b"[1, 2", b"just words"],
    ids=["empty", "binary", "torn", "text"],
)
def test_a_non_record_is_one_complaint_with_its_location(tmp_path, text):
    (found,) = list_complaints(tmp_path, text)

    assert found[0].isdigit()


@pytest.mark.parametrize("word", ["yes", "No", "on", "OFF"])
def test_a_bare_boolean_word_suggests_quotes(tmp_path, word):
    text = GOOD.replace("id: busy", f"id: {word}")

    assert f"2:9: thresholds.0.id: YAML reads a bare {word} as a boolean" in "\n".join(
        list_complaints(tmp_path, text)
    )


@pytest.mark.parametrize("value", ["'no'", '"off"', "60% of peak"])
def test_quoted_text_is_unchanged(tmp_path, value):
    path = tmp_path / "thresholds.yaml"
    path.write_text(GOOD.replace("Below it a level is no limit.", value))

    assert read_thresholds(path).thresholds[0].why == value.strip("'\"")


@pytest.mark.parametrize(
    ("written", "cure"),
    [
        ("1e3", "write 1.0e+3"),
        ("-2e5", "write -2.0e+5"),
        ("2.5E6", "write 2.5e+6"),
        ("60 %", "write 0.6, not 60 %"),
        ("2.5%", "write 0.025, not 2.5%"),
        ("190:20:30", "another base"),
        ("007", "another base"),
        ("-.inf", "-.inf cannot be a limit or a value"),
    ],
)
def test_a_number_that_yaml_reads_otherwise_is_refused_with_the_cure(tmp_path, written, cure):
    (found,) = list_complaints(tmp_path, GOOD.replace("0.6", written))

    assert found.startswith("4:12: thresholds.0.value: ")
    assert cure in found


@pytest.mark.parametrize("written", ["nan", "NaN", "inf", "Infinity", "1.0e+400"])
def test_a_limit_is_finite_however_it_is_spelt(tmp_path, written):
    """A bare nan is text to YAML and a number to pydantic; nothing compares with it."""
    (found,) = list_complaints(tmp_path, GOOD.replace("0.6", written))

    assert found.startswith("4:")


@pytest.mark.parametrize("written", ["0.6e-2", "6.0e+2", "1_000", "6", "-0.5"])
def test_a_number_that_yaml_reads_as_one_is_taken(tmp_path, written):
    path = tmp_path / "thresholds.yaml"
    path.write_text(GOOD.replace("0.6", written))

    assert read_thresholds(path).thresholds[0].value == float(written)


@pytest.mark.parametrize(
    "text",
    [GOOD.replace("0.6", "2026-13-45"), GOOD + "\x07", GOOD + "\x00"],
    ids=["a date that does not exist", "a bell", "a null byte"],
)
def test_a_yaml_parser_failure_is_a_located_complaint(tmp_path, text):
    (found,) = list_complaints(tmp_path, text)

    assert found[0].isdigit()


def test_a_second_document_is_refused(tmp_path):
    (found,) = list_complaints(tmp_path, GOOD + "---\n" + GOOD)

    assert found.startswith("8:1: file: ")


@pytest.mark.parametrize("text", [GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD], ids=["crlf", "bom"])
def test_files_with_bom_and_windows_line_ends_load(tmp_path, text):
    path = tmp_path / "thresholds.yaml"
    path.write_bytes(text.encode())

    assert read_thresholds(path).thresholds[0].id == "busy"


def test_complaints_stand_in_the_order_of_the_file(tmp_path):
    text = GOOD.replace("id: busy", "id: yes").replace("0.6", "60%").replace("why: B", "why: .inf")
    lines = [int(found.partition(":")[0]) for found in list_complaints(tmp_path, text)]

    assert lines == sorted(lines)
    assert lines[:2] == [2, 4]


def test_a_key_that_resembles_nothing_gets_no_offer(tmp_path):
    text = GOOD.replace("    why:", "    zzzzzz: 1\n    why:")

    assert any(c.endswith("zzzzzz: unknown key") for c in list_complaints(tmp_path, text))


def test_a_file_that_is_not_there_is_a_complaint(tmp_path):
    record, _, (problem,) = read_yaml(tmp_path / "absent.yaml", ThresholdCatalogue)

    assert record is None
    assert ":1:1: file: cannot be read: No such file" in str(problem)


def test_a_file_that_nests_without_end_is_refused(tmp_path):
    """Composing it would end the process, not raise."""
    (found,) = list_complaints(tmp_path, "a: " + "[" * 60_000 + "]" * 60_000)

    assert "nested deeper than 100 levels" in found


def test_many_lists_that_do_not_nest_are_read(tmp_path):
    text = GOOD.replace("[somewhere]", "[" + ", ".join(["'[['"] * 80) + "]")

    assert all("nested" not in found for found in list_complaints(tmp_path, text + "x: 1\n"))


def test_a_record_class_that_is_loaded_later_is_known_too():
    before = list_boolean_keys()

    class Later(Record):
        comes_later: bool = False

    assert "comes_later" not in before
    assert "comes_later" in list_boolean_keys()
    assert Later().comes_later is False


def test_yaml_inside_of_a_file_is_complained_about_at_the_lines_of_the_file():
    text = GOOD.replace("evidence:", "evidense:")
    record, marks, problems = parse_yaml(text, ThresholdCatalogue, "x.md", line_offset=10)

    assert record is None
    assert marks[("thresholds", 0, "value")].line == 13
    assert {problem.line for problem in problems} == {12, 15}


def test_a_key_implied_by_the_location_is_rejected():
    _, _, problems = parse_yaml(GOOD, ThresholdCatalogue, "x.md", implied_values={"thresholds": ()})

    assert [str(p) for p in problems] == [
        "x.md:1:1: thresholds: thresholds is given by the section that this is in; leave it out"
    ]


def test_a_character_that_yaml_refuses_is_found(tmp_path):
    assert list_complaints(tmp_path, GOOD.replace("no limit", "no \x07limit"))[0].startswith(
        "6:33: "
    )


def test_of_very_many_mistakes_the_first_hundred_are_worded(tmp_path):
    unknown = "".join(f"    key{number}: 1\n" for number in range(20_000))

    complaints = list_complaints(tmp_path, GOOD + unknown)

    assert len(complaints) == 101
    assert "19900 more problems, not listed" in complaints[0]
    assert all("unknown key" in line for line in complaints[1:])


@pytest.mark.parametrize("marks", ["- ", "? ", "? - ", "-   "])
def test_lists_that_nest_in_one_line_are_refused(tmp_path, marks):
    """Composing them would end the process, too."""
    (found,) = list_complaints(tmp_path, "a:\n  " + marks * 200_000)

    assert "nested deeper than 100 levels" in found


@pytest.mark.parametrize("comment", ["#pragma unroll", "#ifdef A", "#1"])
def test_a_text_that_a_comment_cuts_is_a_problem(comment):
    text = f"words: a macro inside {comment}\n{GOOD}"
    _, _, problems = parse_yaml(text, ThresholdCatalogue, "x.md")

    assert any(f"ends before {comment.split()[0]}, which begins" in p.message for p in problems)


def test_a_remark_behind_a_text_is_none():
    text = f"words: a macro  # of the project\n{GOOD}"
    _, _, problems = parse_yaml(text, ThresholdCatalogue, "x.md")

    assert not any("begins a comment" in p.message for p in problems)
