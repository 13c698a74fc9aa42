"""A search begins with what other journals of the variant tell."""

import math

import pytest

from kernelkb.model.kernels.tuning import TuningTrial
from kernelkb.record.tuning_journal import name_journal, open_journal
from kernelkb.tune.plan import find_prior, plan_tuning


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    found = plan_tuning("gemm", "blocked", "cpu")
    folder = tmp_path_factory.mktemp("tuning")
    return found._replace(journal=folder / found.journal.name)


def time_configuration(one):
    return 100 + 20 * abs(math.log2(one["BLOCK_K"] / 128)) + 5 * abs(math.log2(one["BLOCK_M"] / 16))


def write_journal(plan, trials, **identity):
    other = {**plan.identity, **identity}
    path = name_journal(plan.journal.parent, "gemm-blocked", other)
    with open_journal(path, other) as journal:
        for number, place in enumerate(trials):
            one = plan.space.get_configuration(place)
            trial = TuningTrial(
                number=number, configuration=one, status="timed", time_us=time_configuration(one)
            )
            journal.add(trial)
    return path


def test_without_other_journals_there_is_no_prior(plan):
    assert find_prior(plan._replace(journal=plan.journal.parent / "none" / "own.jsonl")) is None


def test_other_workloads_and_versions_tell_and_other_variants_do_not(plan):
    paths = [
        write_journal(plan, range(0, 140, 2), workload="medium"),
        write_journal(plan, range(1, 140, 3), build="another source"),
    ]
    write_journal(plan, range(140), variant="another")
    (plan.journal.parent / "damaged.jsonl").write_text("[1]\n")
    prior = find_prior(plan)
    best = plan.space.get_configuration(int(prior.mean(axis=1).argmin()))

    assert prior.shape == (len(plan.space.rows), 2)
    assert (best["BLOCK_M"], best["BLOCK_K"]) == (16, 128)
    for path in paths:
        path.unlink()


def test_the_own_journal_is_no_prior(plan):
    with open_journal(plan.journal, plan.identity) as journal:
        for number in range(60):
            one = plan.space.get_configuration(number)
            journal.add(
                TuningTrial(number=number, configuration=one, status="timed", time_us=number + 1.0)
            )

    assert find_prior(plan) is None
