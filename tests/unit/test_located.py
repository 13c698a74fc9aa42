"""A wrong file names the line to edit and the word to write."""

import pytest

from engine.errors import KnowledgeError
from engine.loading.located import load
from engine.model.threshold import ThresholdCatalogue

GOOD = """\
thresholds:
  - id: busy
    metric: dram_utilization
    value: 0.6
    evidence: judgement
    why: Below it a level is no limit.
    sources: [somewhere]
"""


def complaints(tmp_path, text):
    path = tmp_path / "thresholds.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(KnowledgeError) as caught:
        load(path, ThresholdCatalogue)
    return [str(p).removeprefix(f"{path}:") for p in caught.value.problems]


def test_a_good_file_loads(tmp_path):
    path = tmp_path / "thresholds.yaml"
    path.write_text(GOOD)

    assert load(path, ThresholdCatalogue).thresholds[0].value == 0.6


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (("evidence:", "evidense:"), "5:5: thresholds.0.evidense: unknown key (did you mean 'evi"),
        (("value: 0.6", "value: 60%"), "4:12: thresholds.0.value: shares are plain numbers: write"),
        (("value: 0.6", "value: 1e-3"), "4:12: thresholds.0.value: YAML reads 1e-3 as text; write"),
        (("value: 0.6", "value: 1.0e6"), "write 1.0e+6"),
        (("value: 0.6", "value: 012"), "another base"),
        (("value: 0.6", "value: 1:30"), "another base"),
        (("value: 0.6", "value: .nan"), "nothing can be compared with .nan"),
        (("why: Below", "why: no\n    wy: Below"), "YAML reads a bare no as a truth value"),
        (("id: busy", "id: busy\n    id: idle"), "3:5: thresholds.0.id: key 'id' appears twice"),
        (("id: busy", "id: Busy"), "2:5: thresholds.0.id: 'Busy' does not fit"),
        (("    why: Below it a level is no limit.\n", ""), "required key 'why' is missing"),
        (("[somewhere]", "[]"), "7:5: thresholds.0.sources: Tuple should have at least 1 item"),
        (("id: busy", "id: &x busy\n    device: *x"), "aliases hide things"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[1].strip()[:14],
)
def test_complaint_has_place_and_cure(tmp_path, edit, complaint):
    assert complaint in "\n".join(complaints(tmp_path, GOOD.replace(*edit)))


def test_every_problem_is_reported_at_once(tmp_path):
    text = GOOD.replace("metric:", "metrik:").replace("evidence: judgement", "evidence: rumour")

    assert len(complaints(tmp_path, text)) == 3  # unknown key, missing key, bad choice


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\xfe\x00bad", b"[1, 2", b"just words"],
    ids=["empty", "binary", "torn", "text"],
)
def test_what_is_no_record_is_one_complaint_with_a_place(tmp_path, text):
    (found,) = complaints(tmp_path, text)

    assert found[0].isdigit()
