"""What a drafted source computes as it stands is the reference of other variants."""

import pytest

from kernelkb.cli import main

UNKNOWN = """\
extern "C" void settle(const float* x, float* state, float* y, int n) {
  for (int i = 0; i < n; ++i) {
    state[i] += x[i] * 0.5f;
    y[i] = state[i] > 0 ? state[i] * x[i] : 0.25f * x[i];
  }
}
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A project with one C function of unknown meaning, entered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settle.cpp").write_text(UNKNOWN)
    return tmp_path


def test_a_function_of_unknown_meaning_is_its_own_reference_only_where_that_is_said(
    repository, capsys
):
    asked = main(["init", "settle.cpp"])
    code = main(["init", "settle.cpp", "--set", "reference=mine"])
    folder = repository / "kernels" / "settle"
    text = (folder / "kernel.yaml").read_text()

    assert (asked, code) == (1, 0)
    assert not (folder / "reference.py").exists()
    assert "reference: {variant: mine}" in text
    assert "# Said: reference=mine\n" in text
    assert "{name: state, shape: [n], dtype: float32, starts_as: state_start}" in text
    assert "kb variant add settle changed --from mine" in capsys.readouterr().out


@pytest.mark.slow
def test_a_copy_with_other_results_is_refused_and_the_source_alone_is_not_judged(
    repository, capsys
):
    main(["init", "settle.cpp", "--set", "reference=mine"])
    alone = main(["bench", "settle"])
    said = capsys.readouterr().err
    main(["variant", "add", "settle", "changed", "--from", "mine"])
    copy = repository / "kernels" / "settle" / "changed_settle.cpp"
    copy.write_text(copy.read_text().replace("0.25f", "0.26f"))
    main(["bench", "settle", "--variant", "changed", "--target", "cpu", "--against", "mine"])

    assert alone == 2
    assert "mine is the reference of settle" in said
    assert "kb variant add settle" in said
    assert "changed was not timed (incorrect)" in capsys.readouterr().out
