"""Traces and exports of timelines are read as a program: where its time goes, and what waits."""

import gzip
import json
import os
import random
import sqlite3
import threading
from io import StringIO
from pathlib import Path

import pytest
from shipped_rules import program

from kernelkb.actions.advice.recommend_report import _describe_flush, recommend_from_report
from kernelkb.cli import main
from kernelkb.errors import KbError
from kernelkb.profiles import timeline
from kernelkb.profiles.launch import ProfiledLaunch
from kernelkb.profiles.program_tables import intersect, measure, merge, subtract
from kernelkb.profiles.report import read_report, read_report_text
from kernelkb.profiles.timeline import load_program

GPU, HOST = 0, 77
# Microseconds: two kernels side by side, a gap of 60 in a blocking call, a copy beside nothing, a
# gap of 20 in an operator, and a collective that the next kernel overlaps by 10.
GPU_EVENTS = [
    ("kernel", "gemm", 100, 40), ("kernel", "softmax", 120, 30),
    ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 210, 20),
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32", 250, 30), ("kernel", "gemm", 270, 30),
]  # fmt: skip
HOST_EVENTS = [
    ("cuda_runtime", "cudaLaunchKernel", 90, 5), ("cuda_runtime", "cudaLaunchKernel", 96, 4),
    ("cpu_op", "aten::item", 140, 100), ("cuda_runtime", "cudaStreamSynchronize", 150, 60),
    ("cpu_op", "aten::mm", 232, 30), ("cuda_runtime", "cudaLaunchKernel", 245, 5),
]  # fmt: skip


def make_events():
    for category, name, start, length in GPU_EVENTS:
        place = {"pid": GPU, "tid": 7, "args": {"device": GPU, "stream": 7}}
        yield {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, **place}
    for category, name, start, length in HOST_EVENTS:
        place = {"pid": HOST, "tid": HOST, "args": {}}
        yield {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, **place}
    yield {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 90, "id": 1, "pid": HOST, "tid": HOST}
    yield {"ph": "i", "name": "Iteration Start", "ts": 1}


def make_trace(events=None):
    device = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000}]
    found = list(make_events()) if events is None else events
    return {"schemaVersion": 1, "deviceProperties": device, "traceEvents": found, "traceName": "x"}


def load(tmp_path, trace, name="trace.json"):
    file = tmp_path / name
    file.write_text(trace if isinstance(trace, str) else json.dumps(trace), encoding="utf-8")
    return load_program([str(file)])


def assert_is_the_program(found: ProfiledLaunch):
    assert found.kernel == "program"
    assert found.metrics["gpu_idle_share"] == pytest.approx((60 + 20) / 200)
    assert found.metrics["copy_exposed_share"] == pytest.approx(20 / 200)
    assert found.metrics["communication_exposed_share"] == pytest.approx(20 / 200)
    assert found.metrics["sync_idle_share"] == pytest.approx(60 / 80)
    assert found.metrics["host_busy_share"] == pytest.approx(1 - 60 / 160)


def test_a_trace_says_where_the_time_goes(tmp_path):
    found = load(tmp_path, make_trace())

    assert_is_the_program(found)
    assert found.device == "NVIDIA H100 80GB HBM3"
    text = "\n".join(found.says)
    assert "GPU 0: 200.00 us from its first work to its last, 40% idle, 10% only copies" in text
    assert "the host was in: cudaStreamSynchronize 75% (1), aten::mm 25% (1)" in text
    assert "GPU time: gemm 54% (2 of 35.00 us)" in text
    assert "if they took no time: gemm 1.54x" in text
    assert found.hottest == "gemm"
    assert found.metrics["data_idle_share"] == 0.0


def test_a_trace_is_read_however_it_is_written(tmp_path, monkeypatch):
    trace = make_trace()
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(trace).encode()))
    (tmp_path / "spaced.json").write_text(json.dumps(trace, indent=2), encoding="utf-8")
    (tmp_path / "bare.json").write_text(json.dumps(trace["traceEvents"]), encoding="utf-8")
    for file in sorted(tmp_path.iterdir()):
        (found,) = read_report(file, [])
        assert_is_the_program(found)
    for length in (1, 7, 64):
        monkeypatch.setattr(timeline, "_CHUNK_CHARS", length)
        assert_is_the_program(load_program([str(packed)]))
    (found,) = read_report_text(json.dumps(trace), [])
    assert_is_the_program(found)


def test_a_trace_that_was_cut_off_is_read_to_there(tmp_path):
    text = json.dumps(make_trace())
    found = load(tmp_path, text[: text.index('"cudaStreamSynchronize"')])

    assert found.metrics["gpu_idle_share"] == pytest.approx(0.4)
    assert found.metrics["sync_idle_share"] == 0.0


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ({"traceEvents": [], "x": 1}, "no work of a GPU"),
        (make_trace([one for one in make_events() if one.get("pid") == HOST]), "no work of a GPU"),
        ('{"ph": "X", "a": 1}', "holds no trace"),
    ],
)
def test_a_trace_without_a_gpu_says_so(tmp_path, trace, message):
    with pytest.raises(KbError, match=message):
        load(tmp_path, trace)


def test_events_that_are_damaged_are_left_out(tmp_path):
    damaged = [
        {"ph": "X", "cat": "kernel", "name": "late", "ts": "soon", "dur": 3},
        {"ph": "X", "cat": "kernel", "name": None, "ts": 150},
        {"ph": "X", "cat": ["kernel"], "ts": 1, "dur": 1}, 5, None, "text", [], {},
        {"ph": "M", "name": "process_name", "args": None},
        {"ph": "M", "name": "thread_name", "pid": [1], "args": {"name": "Stream #1"}},
        {"ph": "X", "cat": "cpu_op", "name": "x", "pid": {}, "tid": [], "ts": 1, "dur": 1},
    ]  # fmt: skip
    assert_is_the_program(load(tmp_path, make_trace([*damaged, *make_events()])))


def make_jax_trace(*spans):
    """Write a trace as JAX does: spans of process, thread, name, start and length."""
    names = (1, None, "/device:GPU:0 (H100)"), (9, None, "/host:CPU")
    tracks = (1, 21, "Stream #21(Compute)"), (1, 2, "XLA Modules")
    events = [
        {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": text}}
        for kind, rows in (("process_name", names), ("thread_name", tracks))
        for pid, tid, text in rows
    ]
    events += [
        {"ph": "X", "pid": pid, "tid": tid, "name": text, "ts": start, "dur": length}
        for pid, tid, text, start, length in spans
    ]
    return {"displayTimeUnit": "ns", "traceEvents": events}


def test_a_program_of_jax_whose_host_launches_all_the_time_is_told_to_scan(tmp_path):
    calls = [(9, 3, "PjitFunction(step)", at * 50, 49) for at in range(20)]
    kernels = [(1, 21, "loop_add_fusion", at * 50 + 40, 2) for at in range(20)]
    load(tmp_path, make_jax_trace(*calls, *kernels))
    first = recommend_from_report(str(tmp_path / "trace.json"))["kernels"][0]["diagnoses"][0]

    assert first["bottleneck"] == "host-bound"
    fixes = [fix["id"] for fix in first["fixes"]]
    assert fixes[0] == "scan-the-steps"
    assert not {"cuda-graph", "torch-compile", "torch-cuda-graphs"} & set(fixes)


def test_a_program_of_torch_whose_host_launches_all_the_time_is_told_to_compile(tmp_path):
    where = {"ph": "X", "pid": HOST, "tid": HOST}
    events = [
        event
        for at in range(0, 1000, 50)
        for event in (
            {"cat": "cpu_op", "name": "aten::add", "ts": at, "dur": 48, **where},
            {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 30, "dur": 9, **where},
            {"cat": "kernel", "name": "k", "ph": "X", "pid": 0, "ts": at + 40, "dur": 2},
        )
    ]
    load(tmp_path, make_trace(events))
    first = recommend_from_report(str(tmp_path / "trace.json"))["kernels"][0]["diagnoses"][0]

    assert first["bottleneck"] == "host-bound"
    fixes = [fix["id"] for fix in first["fixes"]]
    assert fixes[:2] == ["torch-compile", "torch-cuda-graphs"]
    assert not {"cuda-graph", "scan-the-steps"} & set(fixes)


def test_streams_of_jax_are_told_by_their_names(tmp_path):
    spans = [
        (1, 21, "loop_add_fusion", 0, 10), (1, 21, "MemcpyD2H", 30, 10), (1, 2, "jit_step", 0, 40),
        (9, 3, "PjitFunction(step)", 0, 18), (9, 3, "PjitFunction(step)", 18, 2),
        (9, 3, "np.asarray(jax.Array)", 20, 15), (9, 3, "PjitFunction(step)", 35, 5),
    ]  # fmt: skip
    found = load(tmp_path, make_jax_trace(*spans))

    assert found.metrics["gpu_idle_share"] == pytest.approx(0.5)
    assert found.metrics["copy_exposed_share"] == pytest.approx(0.25)
    assert found.metrics["host_busy_share"] == pytest.approx(25 / 40)
    assert found.metrics["xla_program"] == 1


@pytest.mark.parametrize(
    ("loader", "is_busy"),
    [("_SingleProcessDataLoaderIter", True), ("_MultiProcessingDataLoaderIter", False)],
)
def test_a_gpu_that_waits_for_data_is_told(tmp_path, loader, is_busy):
    fetch = f"enumerate(DataLoader)#{loader}.__next__"
    where = {"pid": HOST, "tid": HOST}
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ph": "X", "dur": 1, **where}
    kernel = {"cat": "Kernel", "name": "void at::step<4>(int)", "ph": "X", "dur": 30, "pid": 0}
    events = [
        {**kernel, "ts": 10}, {**kernel, "ts": 80}, {**launch, "ts": 9}, {**launch, "ts": 79},
        {"cat": "Operator", "name": fetch, "ph": "X", "ts": 45, "dur": 33, **where},
    ]  # fmt: skip
    found = load(tmp_path, make_trace(events))
    answer = recommend_from_report(str(tmp_path / "trace.json"))["kernels"][0]

    assert found.metrics["data_idle_share"] == pytest.approx(0.33)
    assert (found.metrics["host_busy_share"] == 1.0) == is_busy
    assert found.hottest == "step"
    assert answer["diagnoses"][0]["bottleneck"] == "data-loading-bound"
    assert answer["diagnoses"][0]["fixes"][0]["id"] == "data-pipeline-async"
    assert any("-k regex:step " in row["command"] for row in answer["measure_next"])


def test_a_backward_pass_that_launches_from_a_thread_of_its_own_hides_no_fetch(tmp_path):
    main, backward = ({"pid": HOST, "tid": HOST + at, "ph": "X"} for at in (0, 1))
    kernel = {"cat": "kernel", "name": "step", "ph": "X", "dur": 10, "pid": 0}
    launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 1}
    wait = {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "dur": 40, "ts": 10}
    fetch = {"cat": "user_annotation", "name": "enumerate(DataLoader)#_Single.__next__", **main}
    events = [
        *({**kernel, "ts": 10 * at} for at in (1, 2, 3, 9)),
        *({**launch, **backward, "ts": 10 * at} for at in (0, 1, 2)),
        *({**launch, **main, "ts": at} for at in (8, 88)),
        {**wait, **main}, {"cat": "cpu_op", "name": "aten::mm", "dur": 30, "ts": 0, **backward},
        {**fetch, "ts": 50, "dur": 38},
    ]  # fmt: skip
    found = load(tmp_path, make_trace(events))

    assert found.metrics["data_idle_share"] == pytest.approx(38 / 90)
    assert found.metrics["host_busy_share"] == pytest.approx(1 - 20 / 89)
    assert any("the host was in: enumerate(DataLoader)" in text for text in found.says)


def make_nsys_export(path):
    names = {name: at for at, (_, name, *_) in enumerate([*GPU_EVENTS, *HOST_EVENTS])}
    with sqlite3.connect(path) as database:
        database.executescript("""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            CREATE TABLE TARGET_INFO_GPU (name TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
                (start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
                (start INTEGER, end INTEGER, deviceId INTEGER, copyKind INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
                (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
            INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100 80GB HBM3');
        """)
        database.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(v, k) for k, v in names.items()]
        )
        for category, name, start, length in [*GPU_EVENTS, *HOST_EVENTS]:
            times = (start * 1000, (start + length) * 1000)
            if category == "kernel":
                insert = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)"
                database.execute(insert, (*times, GPU, names[name]))
            elif category == "gpu_memcpy":
                insert = "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?)"
                database.execute(insert, (*times, GPU, 2))
            elif category == "cuda_runtime":
                insert = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)"
                database.execute(insert, (*times, HOST, names[name]))
    database.close()


def test_launches_that_failed_are_told_first(tmp_path):
    """A grid of 0 or a block of 2,048 threads runs nothing, and no later call says so."""
    make_nsys_export(tmp_path / "run.sqlite")
    with sqlite3.connect(tmp_path / "run.sqlite") as database:
        database.executescript("""
            ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME ADD COLUMN returnValue INTEGER DEFAULT 0;
            UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 9 WHERE rowid IN (
                SELECT t.rowid FROM CUPTI_ACTIVITY_KIND_RUNTIME t
                JOIN StringIds s ON s.id = t.nameId WHERE s.value LIKE 'cudaLaunch%' LIMIT 2);
        """)
    database.close()
    says = load_program([str(tmp_path / "run.sqlite")]).says

    told = "2 of cudaLaunchKernel FAILED with error 9 (an invalid grid or block): these"
    assert says[0] == f"{told} kernels did not run"


def test_an_export_of_nsys_gives_what_a_trace_gives(tmp_path):
    make_nsys_export(tmp_path / "a report? #1 50%.sqlite")
    (found,) = read_report(tmp_path / "a report? #1 50%.sqlite", [])

    assert_is_the_program(found)
    assert found.device == "NVIDIA H100 80GB HBM3"
    assert "copies: DtoH 100% (1 of 20.00 us)" in found.says


def test_a_database_of_something_else_is_no_timeline(tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE people (name TEXT)")
    database.close()

    with pytest.raises(KbError, match="no work of a GPU"):
        read_report(tmp_path / "other.sqlite", [])
    (tmp_path / "cut.sqlite").write_bytes((tmp_path / "other.sqlite").read_bytes()[:100])
    with pytest.raises(KbError, match=r"cut\.sqlite"):
        read_report(tmp_path / "cut.sqlite", [])


def test_intervals_are_those_of_sets():
    draw = random.Random(4).randrange
    for _ in range(200):
        left, right = (
            [(at := draw(40), at + draw(6), "name") for _ in range(draw(8))] for _ in range(2)
        )
        points = [{x for low, high, _ in side for x in range(low, high)} for side in (left, right)]
        one, other = merge(left), merge(right)

        assert measure(one) == len(points[0])
        assert measure(intersect(one, other)) == len(points[0] & points[1])
        assert measure(subtract(one, other)) == len(points[0] - points[1])


def test_no_more_than_a_chunk_is_kept_while_a_trace_is_read():
    events = [{"ph": "X", "cat": "python_function", "args": {"x": "y" * 50}}] * 5000
    text = StringIO(json.dumps({"traceEvents": events}))
    sizes = []

    def read(count):
        sizes.append(count)
        return text.read(200)

    assert sum(1 for _ in timeline._iter_events(read, [])) == 5000
    assert len(sizes) > 1000


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (",\n  ", ": ")])
@pytest.mark.parametrize(
    "odd",
    [
        {"name": "}, {", "args": {}},
        {"name": "},\n  {", "args": {"a": [{"b": 1}, {"b": 2}, {"b": "},{"}]}},
        {"name": "\ud800 \u00e9", "ts": float("nan"), "args": {"n": 10**40}},
        "text",
    ],
)
def test_each_event_is_read_however_many_are_decoded_at_once(odd, separators):
    plain = [{"ph": "X", "name": f"op {at}", "args": {"x": [at, 0.1 * at]}} for at in range(400)]
    events = [*plain[:200], odd, *plain[200:], odd]
    text = json.dumps({"traceEvents": events}, separators=separators)
    found = list(timeline._iter_events(StringIO(text).read, []))

    assert repr(found) == repr([one for one in events if isinstance(one, dict)])
    cut = text[: text.index('"op 390"')]
    assert len(list(timeline._iter_events(StringIO(cut).read, []))) == 390 + isinstance(odd, dict)


def test_a_folder_of_ranks_says_for_which_others_wait(tmp_path):
    for rank, slow in ((0, 0), (1, 40), (2, 0)):
        events = [
            {**one, "ts": one["ts"] + slow * (one["ts"] > 200), "dur": one["dur"] + slow}
            if one["name"] == "softmax"
            else one
            for one in make_events()
        ]
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(make_trace(events)))
    (tmp_path / "notes.txt").write_text("nothing\n")
    (found,) = read_report(tmp_path, [])
    text = "\n".join(found.says)

    assert found.says[0].startswith("rank-0.json: GPU 0: 200.00 us")
    assert "rank-1.json computes 1.29x as long as the mean" in text
    assert "others wait" not in text
    assert "of rank-1.json: while it was idle" in text
    assert found.metrics["gpu_idle_share"] == pytest.approx((0.4 + 0.2 + 0.4) / 3)


def test_a_rank_that_others_wait_for_is_what_limits_the_program(tmp_path):
    """Its GPU starts late, as its host is: the other's collective lasts until it is there."""
    for rank, late in ((0, 0), (1, 100)):
        events = [
            {**one, "ts": one["ts"] + late * (one["ts"] > 0), "dur": one["dur"] + 100 - late}
            if one["name"].startswith("nccl")
            else one
            for one in make_events()
        ]
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps(make_trace(events)))
    (found,) = read_report(tmp_path, [])
    text = "\n".join(found.says)

    assert "others wait for rank-1.json in collectives, up to" in text
    assert "of rank-1.json: while it was idle" in text
    assert found.metrics["gpu_idle_share"] > 0.5
    assert found.metrics["communication_exposed_share"] < 0.15


def test_a_folder_without_timelines_says_so(tmp_path):
    with pytest.raises(KbError, match="a folder without timelines"):
        read_report(tmp_path, [])


def test_what_a_pipe_holds_is_read_once(tmp_path):
    """As of ``kb recommend --profile <(zcat trace.json.gz)``."""
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(
        target=(tmp_path / "pipe").write_text, args=(json.dumps(make_trace()),)
    )
    writing.start()
    (found,) = read_report(tmp_path / "pipe", [])
    writing.join()

    assert_is_the_program(found)


def test_the_command_answers_a_timeline_and_a_folder_of_them(tmp_path, capsys):
    (tmp_path / "rank-0.json").write_text(json.dumps(make_trace()))
    for given in (tmp_path / "rank-0.json", tmp_path):
        assert main(["recommend", "--profile", str(given)]) == 0
        answer = capsys.readouterr().out
        assert "\nsynchronization-serialization, confidence" in answer
        assert "because gpu_idle_share 0.4 > 0.1" in answer


def test_a_program_is_no_kernel_to_be_timed_beside_a_reference(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(make_trace()))
    (answer,) = recommend_from_report(str(tmp_path / "trace.json"))["kernels"]

    assert answer["gate"]["id"] == "profile-alone"
    assert answer["conclusions"] == {"can": [], "cannot": []}
    assert not [row for row in answer["measure_next"] if row["command"].startswith("kb ")]
    assert not [step for step in answer["next"] if "kb init" in str(step)]


def make_host_event(name, start, length, category="python_function", **args):
    place = {"pid": HOST, "tid": HOST, "args": args}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, **place}


def make_kernel(name, start, length, correlation):
    args = {"device": GPU, "correlation": correlation}
    kernel = {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": length}
    return {**kernel, "pid": GPU, "tid": 7, "args": args}


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        ("site-packages/attention/core.py(12): forward", "called: scale by model.py:31 (loss)"),
        ("torch/nn/modules/module.py(9): _call_impl", "called: scale by model.py:31 (loss)"),
        ("contextlib.py(81): inner", "called: scale by model.py:31 (loss)"),
        ("blocks/mlp.py(7): forward", "called: scale by blocks/mlp.py:7 (forward)"),
    ],
)
def test_the_line_of_python_that_called_a_kernel_is_told(tmp_path, inner, says):
    events = [
        make_host_event("model.py(31): loss", 0, 100),
        make_host_event(inner, 10, 50),
        make_host_event("elsewhere.py(4): late", 70, 20),
        make_host_event("cudaLaunchKernel", 40, 5, "cuda_runtime", correlation=6),
        make_kernel("void scale<float>(float*)", 120, 30, 6),
    ]

    assert says in load(tmp_path, make_trace(events)).says


def test_the_steps_of_a_profiler_are_what_is_measured(tmp_path):
    warm_up = [make_kernel("slow", 0, 500, 1), make_kernel("slow", 600, 100, 2)]
    steps = [
        one
        for start, length in ((1000, 200), (1200, 300), (1500, 200))
        for one in (
            make_host_event(f"ProfilerStep#{start}", start, length, "user_annotation"),
            make_kernel("fast", start + 50, 50, start),
        )
    ]
    found = load(tmp_path, make_trace([*warm_up, *steps]))

    assert "3 steps of 200.00 us, the shortest 200.00 us, the longest 300.00 us" in found.says
    assert found.metrics["gpu_idle_share"] == pytest.approx(1 - 150 / 550)


@pytest.mark.parametrize(
    ("names", "breaks"),
    [
        (("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/0"), None),
        (("Torch-Compiled Region: 0/0", "model.py(3): forward"), 0),
        (
            (
                "model.py(3): forward",
                "model.py(8): torch_dynamo_resume_in_forward_at_8",
                "model.py(8): torch_dynamo_resume_in_forward_at_8",
                "model.py(12): torch_dynamo_resume_in_forward_at_12",
            ),
            2,
        ),
        (("model.py(3): forward",), None),
    ],
)
def test_graph_breaks_are_counted_where_functions_show_them(tmp_path, names, breaks):
    events = [make_host_event(name, at, 1) for at, name in enumerate(names)]
    found = load(tmp_path, make_trace([*events, make_kernel("one", 9, 5, 1)]))

    assert found.metrics.get("graph_break_count") == breaks


def test_a_gpu_outside_the_catalogue_is_described_by_the_trace(tmp_path):
    trace = make_trace()
    properties = {"computeMajor": 8, "computeMinor": 6, "numSms": 58, "warpSize": 32}
    trace["deviceProperties"] = [{"id": 0, "name": "NVIDIA New", **properties}]
    found = load(tmp_path, trace)

    assert (found.device, found.cc, found.gpu) == ("NVIDIA New", "8.6", {"sm_count": 58.0})


def test_a_gpu_outside_the_catalogue_is_described_by_an_export_of_nsys(tmp_path):
    make_nsys_export(tmp_path / "run.sqlite")
    with sqlite3.connect(tmp_path / "run.sqlite") as database:
        database.executescript("""
            DROP TABLE TARGET_INFO_GPU;
            CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER,
                clockRate INTEGER, memoryBandwidth INTEGER, l2CacheSize INTEGER,
                computeMajor INTEGER, computeMinor INTEGER);
            INSERT INTO TARGET_INFO_GPU
                VALUES (0, 'NVIDIA New', 58, 1800000000, 600000000000, 4194304, 8, 9);
        """)
    database.close()
    (found,) = read_report(tmp_path / "run.sqlite", [])
    facts = {"sm_count": 58.0, "sm_clock_mhz": 1800.0, "dram_gbps": 600.0, "l2_mb": 4.0}

    assert (found.device, found.cc, found.gpu) == ("NVIDIA New", "8.9", facts)


def make_step(start, kernels=20, between=(), pause=3000):
    """Return operators that launch a short kernel each, one every 20 us, then what the host does.

    ``between``: category, name, and where in the pause it starts and how long it runs.
    """
    end = start + 20 * kernels
    for at in range(start, end, 20):
        yield make_host_event("aten::mm", at, 12, "cpu_op")
        yield make_host_event("cudaLaunchKernel", at + 4, 5, "cuda_runtime", correlation=at)
        yield make_kernel("gemm", at + 10, 5, at)
    for category, name, offset, length in between:
        yield make_host_event(name, end + offset, length, category)
    yield make_host_event("aten::embedding", end + pause, 20, "cpu_op")
    yield make_host_event("cudaLaunchKernel", end + pause + 4, 5, "cuda_runtime", correlation=end)
    yield make_kernel("embedding", end + pause + 10, 10, end)


def write_steps(tmp_path, **options):
    pause = options.get("pause", 3000)
    events = [one for at in range(5) for one in make_step(at * (500 + pause), **options)]
    found = load(tmp_path, make_trace(events))
    return found, recommend_from_report(str(tmp_path / "trace.json"))["kernels"][0]["diagnoses"]


LOOP = [("cpu_op", "aten::item", 10 * at, 3) for at in range(300)]
WAIT = [("cuda_runtime", "cudaStreamSynchronize", 0, 2990)]
FETCH = [("user_annotation", "enumerate(DataLoader)#_Single.__next__", 5, 2990)]
CPU_SORT = [("cpu_op", "aten::sort", 100, 900), ("cpu_op", "aten::sort", 1100, 1800)]


@pytest.mark.parametrize(
    "between",
    [
        [],
        LOOP,
        CPU_SORT,
        [("user_annotation", "tokenize", 0, 2900)],
        [("python_function", "train.py(31): tokenize", 0, 2900)],
    ],
    ids=["nothing", "numbers one by one", "on the CPU", "a range", "Python"],
)
def test_a_gpu_that_waits_for_code_of_the_host_is_told(tmp_path, between):
    found, causes = write_steps(tmp_path, between=between)

    assert found.metrics["host_code_idle_share"] > 0.85
    assert causes[0]["bottleneck"] == "host-code-between-launches"
    assert causes[0]["fixes"][0]["id"] == "overlap-host-code"
    assert "host-bound" not in [one["bottleneck"] for one in causes if one["verdict"] == "matches"]


@pytest.mark.parametrize(
    ("options", "bottleneck", "fix"),
    [
        ({"pause": 20}, "host-bound", "torch-compile"),
        ({"pause": 190}, "host-bound", "torch-compile"),
        ({"between": [("cpu_op", "aten::conv2d", 0, 3010)]}, "host-bound", "torch-compile"),
        ({"between": FETCH}, "data-loading-bound", "data-pipeline-async"),
        ({"between": WAIT}, "synchronization-serialization", "avoid-sync"),
    ],
    ids=["launches", "shorter pauses", "an operator that launches", "data", "waits"],
)
def test_a_gpu_that_waits_for_something_else_is_not_said_to_wait_for_code(
    tmp_path, options, bottleneck, fix
):
    found, causes = write_steps(tmp_path, **options)

    assert found.metrics["host_code_idle_share"] == 0.0
    assert (causes[0]["bottleneck"], causes[0]["fixes"][0]["id"]) == (bottleneck, fix)
    assert not any("own code" in text for text in found.says)


def test_the_lines_of_the_host_that_a_gpu_waits_for_are_told(tmp_path):
    between = [
        ("python_function", "train.py(9): train", 0, 3000),
        ("python_function", "data/words.py(31): tokenize", 0, 2250),
        ("python_function", "json/decoder.py(3): decode", 200, 1900),
        ("python_function", "train.py(40): log", 2250, 750),
    ]
    found, _ = write_steps(tmp_path, between=between)
    (told,) = (text for text in found.says if "own code" in text)

    assert told.startswith("it waits for the host's own code for 8")
    assert " of the time, 5 times, at: data/words.py:31 (tokenize) 7" in told
    assert "%, train.py:40 (log) 2" in told
    assert "decoder" not in told


def test_without_lines_what_comes_after_the_code_of_the_host_is_told(tmp_path):
    found, _ = write_steps(tmp_path)

    assert any("5 times, before: aten::embedding 100%; py-spy" in text for text in found.says)


def test_a_thread_that_waits_in_its_system_runs_no_code(tmp_path):
    make_nsys_export(tmp_path / "run.sqlite")
    shares = []
    with sqlite3.connect(tmp_path / "run.sqlite") as database:
        database.executescript("""
            UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 900000, end = end + 900000
                WHERE start >= 240000;
            UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 900000, end = end + 900000
                WHERE start >= 240000;
            INSERT INTO StringIds VALUES (98, 'write');
            INSERT INTO StringIds VALUES (99, 'pthread_cond_wait');
            CREATE TABLE OSRT_API
                (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
        """)
        database.execute("INSERT INTO OSRT_API VALUES (215000, 1140000, ?, 98)", (HOST,))
    for name in (98, 99):
        with sqlite3.connect(tmp_path / "run.sqlite") as database:
            database.execute("UPDATE OSRT_API SET nameId = ?", (name,))
        database.close()
        shares.append(load_program([str(tmp_path / "run.sqlite")]).metrics["host_code_idle_share"])

    assert shares[0] > 0.8
    assert shares[1] == 0.0


def test_a_call_of_short_kernels_says_what_lies_between_them_and_what_a_graph_gives(tmp_path):
    times = [(100 + 6 * at, 4) for at in range(20)] + [(300, 50)]
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{at % 3}", "ts": start, "dur": length, "pid": GPU}
        for at, (start, length) in enumerate(times)
    ]
    text = "\n".join(load(tmp_path, make_trace(events)).says)

    assert (
        "gaps: 19 up to 5 us, 38.00 us; 1 above 5 us, 82.00 us; a graph saves 90.00 us to" in text
    )
    assert "113.00 us; programmatic dependent launches up to 38.00 us" in text


def load_recorded(kernel):
    """Return a launch of a pair of the zoo, as its report has it."""
    file = Path(__file__).parents[2] / "kernels/zoo/measured/h100-sxm.jsonl"
    rows = map(json.loads, file.read_text("utf-8").splitlines())
    side = next(row["after"] for row in rows if row["kernel"] == kernel)
    metrics = {**side["metrics"], "profiled_us": side["kernel_us"]}
    return ProfiledLaunch(kernel, metrics, "NVIDIA H100 80GB HBM3")


def test_a_kernel_after_another_is_told_what_the_flush_between_them_takes_away():
    launches = [load_recorded(name) for name in ("silu_mul_bf16", "layer_scale_residual_half")]
    (note,) = _describe_flush(program(), launches, 1, None)

    assert note.startswith("ncu empties L2: 50 MiB of 128 MiB read may be in it after ")
    assert "silu_mul_bf16, up to 17." in note
    assert list(_describe_flush(program(), launches, 0, None)) == []
    assert list(_describe_flush(program(), [launches[0]] * 2, 1, None)) == []
