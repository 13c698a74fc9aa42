"""The journal of a search survives kills: whole lines stay, a torn one goes."""

import pytest

from kernelkb.errors import BadValueError
from kernelkb.model.kernels.tuning import TuningTrial
from kernelkb.record.tuning_journal import name_journal, open_journal, read_journal

IDENTITY = {"kernel": "k", "driver": "1"}


def make_trial(number):
    return TuningTrial(
        number=number, configuration={"M": number}, status="timed", time_us=1.5 + number
    )


def test_trials_are_there_when_it_is_opened_again(tmp_path):
    path = name_journal(tmp_path / "tuning", "k-v", IDENTITY)
    with open_journal(path, IDENTITY) as journal:
        journal.add(make_trial(0))
        journal.add(make_trial(1))
    with open_journal(path, IDENTITY) as journal:
        assert journal.trials == [make_trial(0), make_trial(1)]
    assert read_journal(path) == [make_trial(0), make_trial(1)]


def test_every_torn_end_leaves_the_trials_before_it(tmp_path):
    path = tmp_path / "one.jsonl"
    with open_journal(path, IDENTITY) as journal:
        for number in range(3):
            journal.add(make_trial(number))
    whole = path.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:length])
        with open_journal(path, IDENTITY) as journal:
            kept = len(journal.trials)
            assert kept == whole[:length].count(b"\n") - 1
            journal.add(make_trial(9))
        assert read_journal(path)[kept:] == [make_trial(9)]


def test_only_one_search_writes(tmp_path):
    path = tmp_path / "one.jsonl"
    with (
        open_journal(path, IDENTITY),
        pytest.raises(BadValueError, match="another kb tune"),
        open_journal(path, IDENTITY),
    ):
        pass


def test_other_versions_have_another_journal(tmp_path):
    names = {name_journal(tmp_path, "k", {**IDENTITY, "driver": str(one)}) for one in range(3)}

    assert len(names) == 3
