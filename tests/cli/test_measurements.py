"""The commands on what was measured, as a shell calls them."""

import json
import re
from pathlib import Path

import pytest
from measurements import make_bench, make_build

from kernelkb.cli import main
from kernelkb.record.measurements.store import open_store


def record_measurements(project, *measurements):
    with open_store(project) as store:
        store.add(measurements)


def test_history_is_printed_newest_first(project, capsys):
    record_measurements(
        project, make_bench(), make_bench("vectorized", 5.0, hours=2), make_build(hours=1)
    )

    assert main(["history", "row_softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines] == ["bench", "build", "bench"]
    assert "5.00 us, 6x of torch [5.97, 6.03], faster  on A CPU" in lines[0]


def test_history_as_json_says_all_but_the_samples(project, capsys):
    record_measurements(project, make_bench())
    main(["history", "row_softmax", "--variant", "naive", "--limit", "1", "--json"])
    (found,) = json.loads(capsys.readouterr().out)

    assert found["subject"]["variant"] == "naive"
    assert "samples" not in found


def test_a_kernel_that_was_never_measured_is_offered_the_near_one(project, capsys):
    record_measurements(project, make_bench())

    assert main(["history", "row_sofmax"]) == 2
    assert "did you mean 'row_softmax'?" in capsys.readouterr().err


def test_best_needs_only_a_part_of_the_devices_name(project, capsys):
    record_measurements(
        project,
        make_bench(),
        make_bench("vectorized", 5.0),
        make_bench(where={"device": "NVIDIA L4"}),
    )

    assert main(["best", "row_softmax", "--device", "cpu"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "vectorized" in line


def test_compare_names_its_choice_and_prints_an_interval(project, capsys):
    one = make_bench()
    record_measurements(
        project, one, make_bench("vectorized", 9.0), make_bench("vectorized", 5.0, hours=1)
    )

    assert main(["compare", one.id[:8], "vectorized"]) == 0
    out = capsys.readouterr().out
    assert f"a: {one.id[:8]} (by its id), naive of row_softmax on medium" in out
    assert "(the newest of vectorized)" in out
    assert "b is 2x [1.98, 2.02] as fast as a; both timed against torch" in out


def test_compare_looks_for_a_variant_in_the_place_of_the_other(project, capsys):
    here = {"workload": "small"}
    one, other = make_bench(where=here), make_bench("vectorized", 5.0, where=here)
    record_measurements(project, one, other, make_bench("vectorized", 5.0, hours=5))
    main(["compare", "best", one.id[:10], "--json"])

    assert json.loads(capsys.readouterr().out)["a"] == other.id


def test_compare_without_common_ground_names_the_command(project, capsys):
    record_measurements(project, make_bench(), make_bench("vectorized", baseline="torch.compile"))

    assert main(["compare", "naive", "vectorized"]) == 1
    out = capsys.readouterr().out
    assert "no ratio: they were timed against different baselines" in out
    assert "$ kb bench row_softmax --variant vectorized" in out


@pytest.mark.parametrize("word", ["nobody", "abcd1234"])
def test_compare_with_something_unknown_says_where_to_look(project, capsys, word):
    record_measurements(project, make_bench())

    assert main(["compare", "naive", word]) == 2
    assert "`kb lab best` lists them" in capsys.readouterr().err


def test_regress_fails_only_on_a_confirmed_regression(project, capsys):
    record_measurements(project, make_bench())
    assert main(["regress"]) == 0
    record_measurements(project, make_bench(us=10.01, hours=1))
    assert main(["regress"]) == 0
    record_measurements(project, make_bench(us=12.0, hours=2))
    capsys.readouterr()

    assert main(["regress", "row_softmax"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("regressed    row_softmax medium on A CPU: naive 0.83")
    assert main(["regress", "--fail-under", "0.5"]) == 0


def test_regress_is_quiet_on_noise_unless_asked(project, capsys):
    record_measurements(project, make_bench())
    main(["regress"])
    record_measurements(project, make_bench(us=10.01, hours=1))
    capsys.readouterr()
    main(["regress"])
    quiet = capsys.readouterr().out
    main(["regress", "--verbose"])

    assert quiet == "newest benches that are not the promoted ones: 1 steady\n"
    assert "no change is confirmed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verdict", "us", "fields"),
    [
        ("steady", 10.01, {}),
        ("promoted", 8.0, {}),
        ("regressed", 12.0, {}),
        ("regressed", None, {"verdict": "incorrect"}),
        ("incomparable", 10.0, {"baseline": "torch.compile"}),
    ],
)
def test_regress_marks_a_bench_that_was_imported(
    project, tmp_path, monkeypatch, capsys, verdict, us, fields
):
    record_measurements(project, make_bench())
    main(["regress"])
    newest = make_bench(us=us or 10.0, hours=1, candidate_us=us, **fields)
    record_measurements(project, newest)
    main(["export", str(tmp_path / "all.jsonl")])
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")
    main(["import", str(tmp_path / "all.jsonl")])
    capsys.readouterr()
    main(["regress", "--verbose"])
    line = capsys.readouterr().out.splitlines()[0]

    assert line.startswith(verdict)
    assert re.search(rf"; imported: .*{newest.id[:8]}$", line)


def test_importing_an_export_adds_each_measurement_once(project, tmp_path, monkeypatch, capsys):
    record_measurements(project, make_bench(), make_bench(us=5.0, hours=1), make_build())
    main(["export", str(tmp_path / "all.jsonl")])
    monkeypatch.setenv("KB_DATABASE", f"sqlite:///{tmp_path / 'other.db'}")

    assert main(["import", str(tmp_path / "all.jsonl")]) == 0
    assert main(["import", str(tmp_path / "all.jsonl")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(", ")[2] for line in lines[1:]] == ["3 of them new", "0 of them new"]


@pytest.mark.parametrize("file", [[], ["-"]])
def test_an_export_goes_to_stdout(project, capsys, file):
    record_measurements(project, make_bench(), make_build())

    assert main(["export", *file]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one["kind"] for one in found) == ["bench", "build"]
    assert not Path("-").exists()


def test_an_unwritable_export_path_is_reported(project, capsys):
    record_measurements(project, make_bench())

    assert main(["export", str(project / "nowhere" / "all.jsonl")]) == 2
    assert "cannot write" in capsys.readouterr().err
