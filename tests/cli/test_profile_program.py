"""kb profile -- COMMAND: any program, its timeline, and counters of its longest kernels."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from mcp import Client
from processes import reset_signals

from kernelkb.actions.kernels.profile_program import ProgramOptions, find_first, profile_program
from kernelkb.cli import main
from kernelkb.measure.profile import program
from kernelkb.measure.profile.observe import write_observer
from kernelkb.measure.profile.program import LaunchWindow, choose_windows, rank_kernels
from kernelkb.profiles.launch import ProfiledLaunch, find_program, name_function
from kernelkb.profiles.timeline import ProgramRun, Span, find_warm_up, load_run
from kernelkb.render.text.reports import format_program_lines
from kernelkb_mcp.server import build_server
from kernelkb_mcp.server_config import ServerConfig

REPORT = Path(__file__).parents[1] / "data" / "ncu" / "reports" / "four_launches.ncu-rep"
START_KB = Path(__file__).parents[1] / "support" / "start_kb.py"
STEPS = 20
STEP = (("few_blocks", 1000), ("transpose", 150))
GAP_US = 400
FAKE = """#!{python}
import json, os, shutil, subprocess, sys
words = sys.argv[1:]
with open({calls!r}, "a") as file:
    file.write(json.dumps([{name!r}, *words]) + "\\n")
def find(option):
    pairs = zip(words, words[1:])
    return next((b for a, b in pairs if a == option), None)
{body}
"""
FAKE_NSYS = """
print("nsys talks", flush=True)
output = next(w for w in words if w.startswith("--output=")).partition("=")[2]
if words[0] == "export":
    shutil.copy({timeline!r}, output)
else:
    open(output + ".nsys-rep", "w").close()
    at = next(at for at, w in enumerate(words) if at and not w.startswith("-"))
    sys.exit(subprocess.call(words[at:], close_fds=False))
"""
FAKE_NCU = f"""
print("ncu talks")
if not find("--import"):
    shutil.copy({str(REPORT)!r}, find("--export"))
"""
STACK = """
    Python CPU Call Stack (most recent call last):
      #0 File "/home/me/run.py", line 31, in <module>

      #1 File "/home/me/model.py", line 7, in step

      #2 File "/opt/env/lib/python3.12/site-packages/torch/functional.py", line 21, in softmax

"""
SECTION = """
    Section: Command line profiler metrics
    gpu__time_duration.sum  us  86.50
"""
TRANSPOSE = "  transpose(const float *, float *, int) (128, 128, 1)x(32, 8, 1), Context 1, Stream 7"
FEW_BLOCKS = "  few_blocks(float *, long) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7"
PAGE = f"{f'{TRANSPOSE}{SECTION}' * 3}{FEW_BLOCKS}{STACK}{SECTION}"
NCU_WITH_STACKS = f"""
{FAKE_NCU}
if find("--import"):
    print({PAGE!r})
"""
OLDER_NCU = f"""
if "--call-stack-type" in words:
    print("==ERROR== unrecognised option '--call-stack-type'. Use --help for further details.")
    sys.exit(1)
{FAKE_NCU}
"""
FORBIDDEN_NCU = """
print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
sys.exit(1)
"""
LISTING_NCU = """
if find("--export"):
    sys.exit(0)
with open(find("--log-file"), "w") as file:
    file.write('"ID","Kernel Name","gpu__time_duration.sum"\\n"","","ns"\\n')
    file.write('"0","few_blocks(float *)","9000"\\n"1","scale","1000"\\n')
"""
ENDLESS_NCU = """
import time
time.sleep(300)
"""
LIBRARY = "void at::native::reduce_kernel<512, 1>(int)"


def make_timeline(path):
    """Write what nsys exports of some steps, each of two kernels with a gap behind."""
    names = {name: at for at, (name, _) in enumerate(STEP)}
    with closing(sqlite3.connect(path)) as database:
        database.executescript("""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            CREATE TABLE TARGET_INFO_GPU (name TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
                (start INTEGER, end INTEGER, deviceId INTEGER, shortName INTEGER);
            INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H100 80GB HBM3');
        """)
        database.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", [(at, name) for name, at in names.items()]
        )
        now = 0
        for _ in range(STEPS):
            for name, us in STEP:
                row = (now * 1000, (now + us) * 1000, 0, names[name])
                database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", row)
                now += us
            now += GAP_US
        database.commit()


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Put stand-ins for nsys and ncu on a PATH without the real ones; return how."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(program, "find_cuda_tool", shutil.which)
    monkeypatch.setattr("kernelkb.actions.kernels.profile_program.find_cuda_tool", shutil.which)
    make_timeline(tmp_path / "timeline.sqlite")

    class Tools:
        def add(self, name, body):
            file = folder / name
            calls = str(tmp_path / "calls.jsonl")
            text = FAKE.format(python=sys.executable, calls=calls, name=name, body=body)
            file.write_text(text)
            file.chmod(0o755)
            return self

        def add_nsys(self):
            timeline = str(tmp_path / "timeline.sqlite")
            return self.add("nsys", FAKE_NSYS.format(timeline=timeline))

        @staticmethod
        def list_calls():
            lines = (tmp_path / "calls.jsonl").read_text().splitlines()
            return [json.loads(line) for line in lines]

    return Tools()


def profile(*words):
    return main(["profile", *words])


def test_a_program_is_answered_from_its_timeline_then_from_counters(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    status = profile("--json", "--", "sh", "-c", "echo out; echo err >&2")
    out, err = capfd.readouterr()
    answer = json.loads(out)

    assert (status, answer["status"], answer["tool"]) == (0, 0, "nsys")
    assert [line for line in err.splitlines() if not line.startswith("kb: ")] == ["out", "err"]
    assert "talks" not in out + err
    assert answer["warm_up_launches"] == len(STEP)
    assert answer["program"]["device"] == "h100-sxm"
    few, transpose = answer["kernels"]
    assert (few["kernel"], transpose["kernel"]) == ("few_blocks", "transpose")
    assert few["share"] == pytest.approx(1000 * 19 / (1550 * 19 - GAP_US), abs=1e-3)
    assert few["at_most"] == pytest.approx(1 / (1 - few["share"]), rel=1e-2)
    assert 1 < few["speedup"] <= few["at_most"]
    assert few["answer"]["diagnoses"][0]["bottleneck"] == "small-grid"
    causes = [one["bottleneck"] for one in transpose["answer"]["diagnoses"]]
    assert causes[0] == "shared-memory-bank-conflicts"
    assert answer["first"]["what"] == "kernel"
    assert answer["first"]["kernel"] == "few_blocks"


def test_ncu_counts_the_first_typical_launches_and_ends_the_program(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    profile("--", "echo", "it")
    trace, export, counting, printing = tools.list_calls()

    assert trace[:2] == ["nsys", "profile"]
    assert trace[-2:] == ["echo", "it"]
    assert export[:2] == ["nsys", "export"]
    assert counting[-2:] == ["echo", "it"]
    assert printing[:2] == ["ncu", "--import"]
    given = dict(pairwise(counting))
    assert (given["--launch-skip"], given["--launch-count"], given["--kill"]) == ("2", "2", "yes")
    pattern = given["--kernel-name"].removeprefix("regex:")
    assert re.search(pattern, "few_blocks")
    assert re.search(pattern, "void ns::transpose<(int)0>(float *)")
    assert not re.search(pattern, "transpose_back")


def test_the_answer_in_words_is_short_and_follows_what_the_program_prints(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    profile("--", "printf", "no line end")
    out, err = capfd.readouterr()

    assert out.startswith("no line endprogram: ")
    assert len(out.splitlines()) <= 25
    assert "the program runs twice or more" in err
    assert "First: few_blocks" in out


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (FORBIDDEN_NCU, "NVreg_RestrictProfilingToAdminUsers=0"),
        ("", "ncu ended with 0 and no report"),
        ('print("==PROF== Connected to process 7")', "ncu ended with 0 and no report"),
        ("print('==WARNING== Note: Running with unmodified GPU clocks.')", "and no report"),
        (None, "ncu was not found, so no kernel was looked into: install Nsight Compute"),
    ],
)
def test_without_counters_the_timeline_answers_and_says_what_is_missing(body, told, tools, capfd):
    tools.add_nsys()
    if body is not None:
        tools.add("ncu", body)
    status = profile("--", "true")
    out = capfd.readouterr().out

    assert status == 0
    assert told in out
    assert "few_blocks: 65% (19 of 1.00 ms), the traced time at most 2.89x as fast" in out


def test_an_ncu_that_does_not_end_costs_little_more_than_the_program(tools, monkeypatch, capfd):
    monkeypatch.setattr(program, "_COUNTING_S", 0.5)
    tools.add_nsys().add("ncu", ENDLESS_NCU)
    start = time.monotonic()
    status = profile("--", "true")

    assert status == 0
    out = capfd.readouterr().out
    assert "ncu had not ended after" in out
    assert "--minutes" not in out, "which is not what ended it"
    assert time.monotonic() - start < 150, "and not --minutes"


@pytest.mark.parametrize("own", ["", "/theirs"])
def test_all_runs_share_what_jax_compiled(tools, monkeypatch, tmp_path, own):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", own)
    note = f"""
with open({str(tmp_path / "caches")!r}, "a") as file:
    file.write(os.environ["JAX_COMPILATION_CACHE_DIR"] + "\\n")
"""
    tools.add("nsys", note + FAKE_NSYS.format(timeline=str(tmp_path / "timeline.sqlite")))
    tools.add("ncu", note + FAKE_NCU)
    profile("--", "true")
    caches = {line for line in (tmp_path / "caches").read_text().splitlines() if line}

    assert len(caches) == 1
    assert not own or caches == {own}


def test_what_ncu_has_to_save_is_kept_small(tools, tmp_path):
    """Of 105 GB that JAX had allocated, ncu crashed or did not end; it took 16 s without them."""
    note = """
with open({file!r}, "a") as file:
    file.write(name + str(os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")) + "\\n")
""".replace("{file!r}", repr(str(tmp_path / "seen")))
    nsys = FAKE_NSYS.format(timeline=str(tmp_path / "timeline.sqlite"))
    tools.add("nsys", f"name = 'nsys '{note}{nsys}").add("ncu", f"name = 'ncu '{note}{FAKE_NCU}")
    profile("--", "true")

    seen = set((tmp_path / "seen").read_text().splitlines())
    assert "ncu false" in seen
    assert {one for one in seen if one.startswith("nsys")} == {"nsys None"}, "which frees nothing"


def test_kernels_are_chosen_by_name_and_number(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    profile("--top", "1", "--kernel", "trans", "--skip", "4", "--", "true")
    given = next(call for call in tools.list_calls() if "--export" in call)

    assert "regex:(^|[ :])(transpose)($|[<(])" in given
    assert given[given.index("--launch-skip") + 1] == "4"


def test_a_kernel_is_told_with_the_line_of_python_that_launched_it(tools, capfd):
    tools.add_nsys().add("ncu", NCU_WITH_STACKS)
    profile("--json", "--", "true")
    few, transpose = json.loads(capfd.readouterr().out)["kernels"]
    profile("--", "true")
    lines = capfd.readouterr().out.splitlines()

    assert (few["called_by"], transpose["called_by"]) == ("/home/me/model.py:7 (step)", None)
    assert "  called by /home/me/model.py:7 (step)" in lines


def test_an_ncu_that_takes_no_stacks_counts_without_them(tools, capfd):
    tools.add_nsys().add("ncu", OLDER_NCU)
    profile("--json", "--", "true")
    answer = json.loads(capfd.readouterr().out)

    assert [one["called_by"] for one in answer["kernels"]] == [None, None]
    assert answer["kernels"][0]["answer"]
    assert answer["notes"] == []


def test_a_range_chooses_the_launches(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    profile("--range", "step 3", "--", "true")
    given = next(call for call in tools.list_calls() if "--export" in call)

    assert given[given.index("--nvtx-include") + 1] == "step 3/"


def test_a_program_that_fails_is_said_to_and_is_not_run_again(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    status = profile("--", "sh", "-c", "exit 3")
    out = capfd.readouterr().out

    assert status == 1
    assert "FAILED with exit status 3" in out
    assert "few_blocks" in out
    assert [call[0] for call in tools.list_calls()] == ["nsys", "nsys"]


def test_without_a_tracer_ncu_takes_the_times(tools, capfd, monkeypatch):
    monkeypatch.setattr(program, "query_driver", lambda: "a GPU")
    tools.add("ncu", LISTING_NCU)
    status = profile("--json", "--", "echo", "once")
    out, err = capfd.readouterr()
    answer = json.loads(out)

    assert (status, answer["tool"]) == (0, "ncu")
    assert "only the time in kernels is known, 10.00 us in all" in answer["notes"][0]
    assert [one["share"] for one in answer["kernels"]] == [0.9, 0.1]
    assert "gpu_idle_share" not in json.dumps(answer["program"]["diagnoses"])
    assert err.splitlines().count("once") == 1


def test_a_kernel_of_a_library_is_answered_at_its_call(tools, capfd, monkeypatch):
    monkeypatch.setattr(program, "query_driver", lambda: "a GPU")
    tools.add("ncu", LISTING_NCU.replace("scale", LIBRARY))
    profile("--json", "--", "true")
    own, reduction = json.loads(capfd.readouterr().out)["kernels"]

    assert (own["kernel"], own["library"]) == ("few_blocks(float *)", None)
    assert reduction["kernel"] == LIBRARY
    assert reduction["library"].startswith("PyTorch's own kernels: fuse it with its neighbours")

    answer = make_program_kernel("few_blocks", 0.9, "continue")["answer"]
    found = profile_program(["true"], ProgramOptions())
    told = [own, {**reduction, "answer": answer}]
    lines = list(format_program_lines({**found, "kernels": told}))
    said = [line for line in lines if "change the call" in line]
    assert said[0].startswith("  change the call, not the kernel, which is of PyTorch's own")
    assert len(said) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--", "no-such-program"], "there is no such program"),
        (["--"], "there is no such program"),
        (["--minutes", "3", "row_softmax"], "--minutes is for a program"),
        (["--kernel", "a", "row_softmax"], "--kernel is for a program"),
        ([], "name a kernel, or give a program"),
        (["row_softmax", "--", "true"], "kernel 'row_softmax' is for a kernel of a project"),
        (["--kernel", "(", "--", "true"], "is not a regular expression"),
        (["python3"], "a program stands behind --: kb profile -- python train.py"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(words, told, capsys):
    assert profile(*words) == 2
    assert told in capsys.readouterr().err


def test_a_program_without_the_dashes_is_told_of_them(capsys):
    with pytest.raises(SystemExit):
        profile("python", "train.py")

    assert "a program stands behind --: kb profile -- python" in capsys.readouterr().err


def test_a_program_that_nothing_can_trace_is_timed(tools, capsys):
    status = profile("--", "true")
    out = capsys.readouterr().out

    assert status == 1
    assert re.match(r"program: [\d.]+ ms, ended with 0\n  no work of a GPU was traced\n", out)
    assert "on a machine with the GPU: kb profile -- true" in out


def test_a_program_is_ended_after_its_time(tools, tmp_path):
    script = f"sleep 300 & echo $! > {tmp_path}/pid; wait"
    answer = profile_program(["sh", "-c", script], ProgramOptions(minutes=0.02))

    assert answer["status"] is None
    assert answer["seconds"] < 60
    assert "--minutes allows more" in answer["notes"][0]
    assert not is_alive(int((tmp_path / "pid").read_text()))
    assert next(format_program_lines(answer)).endswith("ended after its time")


TORCH_PROGRAM = """
import subprocess, sys
import torch
torch.manual_seed(1)
a = torch.randn(16, 16)
print(float((a @ a).sum()))
print("careful", file=sys.stderr)
sys.exit(7)
"""


def test_a_program_with_torch_does_what_it_does_alone(tmp_path, monkeypatch):
    """The real injection; this machine has no nsys, and no GPU or an unused one."""
    (tmp_path / "program.py").write_text(TORCH_PROGRAM)
    words = [sys.executable, "program.py"]
    alone = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    (tmp_path / "scratch").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "scratch"), "PATH": "/usr/bin:/bin"}
    kb = [sys.executable, str(START_KB), "profile", "--", *words]
    run = subprocess.run(kb, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)

    assert (alone.returncode, run.returncode) == (7, 1)
    assert run.stdout.startswith(alone.stdout)
    answer = run.stdout.removeprefix(alone.stdout)
    assert "FAILED with exit status 7" in answer
    assert "no work of a GPU was seen" in answer
    own = [line for line in run.stderr.splitlines() if not line.startswith("kb: ")]
    assert own == alone.stderr.splitlines()
    assert list((tmp_path / "scratch").glob("kernelkb-*")) == []


OWN_PROFILER = """
import os, torch
from torch.profiler import profile
a = torch.randn(8, 8)
a @ a
if os.fork() == 0:
    print("child", flush=False)
    raise SystemExit(9)
print("ended", os.waitstatus_to_exitcode(os.wait()[1]))
with profile() as mine:
    a + a
print(sorted(one.key for one in mine.key_averages() if one.key in ("aten::mm", "aten::add")))
"""
ENDLESS = """
import os, time, torch
a = torch.randn(8, 8)
end = time.time() + 60
while not [name for name in os.listdir({folder!r}) if name.endswith(".json") and "trace" in name]:
    a @ a
    if time.time() > end:
        os._exit(1)
os._exit(5)
"""


def run_traced(folder, text, seconds=60.0):
    """Run a program with the tracer in it; return its end and the operators of its traces."""
    env = {**os.environ, **write_observer(folder, {"trace_s": seconds})}
    run = subprocess.run(
        [sys.executable, "-c", text],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    files = sorted(folder.glob("trace-*.json"))
    events = [json.loads(file.read_text())["traceEvents"] for file in files]
    assert list(folder.glob("error-*")) == []
    assert load_run([str(file) for file in files]) is None  # none is of a GPU
    return run, [{one["name"] for one in found} for found in events]


JAX = {
    "__init__.py": "default_backend = lambda: 'gpu'",
    "monitoring.py": """
listeners = []
register_event_duration_secs_listener = listeners.append
def tell(*events):
    for event in events:
        for listener in listeners:
            listener(f"/jax/core/compile/{event}", 0.1, fun_name="f")
""",
    "profiler.py": """
import gzip, os
class ProfileOptions:
    python_tracer_level = 1
folder = None
def start_trace(log_dir, profiler_options=None):
    global folder
    assert folder is None, "one runs"
    assert profiler_options is None or profiler_options.python_tracer_level == 0
    folder = f"{log_dir}/plugins/profile/now"
def stop_trace():
    global folder
    os.makedirs(folder)
    with gzip.open(f"{folder}/host.trace.json.gz", "wt") as file:
        file.write('{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1}]}')
    folder = None
""",
}
"""What of JAX is used, as in 0.11.2; the program on a GPU below has the real one."""
COMPILED = "jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration"
IN_JAX = """
import glob, os, sys, time
import jax.monitoring, jax.profiler
def is_written():
    return glob.glob({folder!r} + "/trace-*.json.gz") != []
def wait():
    end = time.time() + 60
    while not is_written() and time.time() < end:
        time.sleep(0.05)
assert jax.profiler.folder is None
jax.monitoring.tell("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")
assert jax.profiler.folder is None, "it may still choose a device, or join others"
{body}
"""


def run_jax(folder, body, seconds=60.0, traces=1):
    """Run a program that uses a stand-in for JAX, traced; return what it printed."""
    (folder / "site" / "jax").mkdir(parents=True)
    for name, text in JAX.items():
        (folder / "site" / "jax" / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": str(folder / "site")}
    traced = write_observer(folder, {"trace_s": seconds})
    env |= traced | {"PYTHONPATH": f"{traced['PYTHONPATH']}:{folder / 'site'}"}
    script = IN_JAX.format(folder=str(folder), body=body)
    words = [sys.executable, "-c", script]
    run = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert list(folder.glob("error-*")) == []
    assert len(list(folder.glob("trace-*.json.gz"))) == traces
    return run.stdout


def test_jax_is_traced_from_its_first_compilation_to_its_end(tmp_path):
    body = f"jax.monitoring.tell(*{COMPILED})\nprint(jax.profiler.folder is None, is_written())"

    assert run_jax(tmp_path, body) == "False False\n"


def test_a_trace_of_jax_ends_some_time_after_the_last_compilation(tmp_path):
    body = f"""
jax.monitoring.tell(*{COMPILED}, *{COMPILED[:2]})
time.sleep(1.5)
print("compiles", is_written())
jax.monitoring.tell("backend_compile_duration", "jaxpr_trace_duration")
wait()
print(is_written(), jax.profiler.folder)
jax.monitoring.tell(*{COMPILED})
print(jax.profiler.folder)
"""
    assert run_jax(tmp_path, body, seconds=0.2) == "compiles False\nTrue None\nNone\n"


def test_jax_without_a_gpu_leaves_the_profiler_to_others(tmp_path):
    body = f"""
jax.default_backend = lambda: "cpu"
jax.monitoring.tell(*{COMPILED})
print(jax.profiler.folder)
"""
    assert run_jax(tmp_path, body, traces=0) == "None\n"


def test_a_forked_process_of_jax_has_its_own_trace(tmp_path):
    body = f"""
if os.fork() == 0:
    jax.monitoring.tell(*{COMPILED})
    wait()
    os._exit(0 if is_written() else 3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert run_jax(tmp_path, body, seconds=0.2) == "0\n"


def test_a_program_of_jax_that_profiles_itself_goes_on(tmp_path):
    body = f"""
jax.monitoring.tell(*{COMPILED})
jax.profiler.start_trace({str(tmp_path / "own")!r})
print(is_written(), "own" in jax.profiler.folder)
jax.profiler.stop_trace()
"""
    assert run_jax(tmp_path, body) == "True True\n"
    assert list((tmp_path / "own").rglob("*.gz"))


def test_a_program_that_forks_and_has_its_own_profiler_goes_on(tmp_path):
    run, traces = run_traced(tmp_path, OWN_PROFILER)

    assert (run.returncode, run.stdout) == (0, "child\nended 9\n['aten::add']\n")
    assert len(traces) == 1
    assert "aten::mm" in traces[0]
    assert "aten::add" not in traces[0]


def test_each_process_has_its_own_trace(tmp_path):
    text = "import torch, subprocess, sys; torch.ones(2) + 1\n"
    both = f"{text}subprocess.run([sys.executable, '-c', {text!r}], check=True)"
    run, traces = run_traced(tmp_path, both)

    assert run.returncode == 0
    assert len(traces) == 2
    assert all("aten::add" in one for one in traces)


def test_a_trace_ends_by_itself_in_a_program_that_does_not(tmp_path):
    run, traces = run_traced(tmp_path, ENDLESS.format(folder=str(tmp_path)), seconds=0.1)

    assert run.returncode == 5
    assert "aten::mm" in traces[0]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_interrupt_ends_all_processes_and_leaves_no_file(tmp_path):
    (tmp_path / "scratch").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "scratch"), "PATH": "/usr/bin:/bin"}
    script = "sleep 300 & echo $!; setsid sleep 300 & echo $!; wait"
    kb = [sys.executable, str(START_KB), "profile", "--", "sh", "-c", script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(kb, **pipes, env=env, preexec_fn=reset_signals) as run:
        pids = [int(run.stdout.readline()) for _ in range(2)]
        assert all(map(is_alive, pids))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    end = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)

    assert run.returncode == 130
    assert b"interrupted: the program was ended" in err
    assert not any(map(is_alive, pids))
    assert list((tmp_path / "scratch").glob("kernelkb-*")) == []


def make_spans(*launches):
    return [Span(at, at + us, name) for at, (name, us) in enumerate(launches)]


def find_start(*launches):
    return find_warm_up(make_spans(*launches))


def test_the_warm_up_ends_when_the_kernels_that_matter_ran_once():
    step = (("forward", 5.0), ("backward", 9.0))
    first = (("initialise", 3.0), ("forward", 8.0), ("backward", 12.0))

    assert find_start(*first, *(10 * step)) == 3
    assert find_start(*first, *step) == 0, "its first step is much of the program"
    assert find_start(*[("prefill", 9.0)] * 10, *[("decode", 1.0)] * 100) == 0, "it has parts"
    assert find_start(("once", 5.0)) == 0


def test_what_xla_ran_to_choose_its_code_is_no_part_of_the_program():
    """Its tries and their delays were 95 % of the time of a training step in JAX on an H100."""
    delay = ("stream_executor::<unnamed>::DelayKernel(volatile bool *)", 1e5)
    tries = [delay, ("gemm_fusion_dot_1", 400.0), delay, ("gemm_fusion_dot_2", 500.0)]
    step = [("gemm_fusion_dot_2", 80.0), ("loop_add_fusion", 20.0)]

    check = ("void stream_executor::gpu::xla_fp_comparison<float>(float *)", 3.0)
    launches = [*tries, check, *step * 20, *tries, check, ("input_reduce_fusion", 9.0)]
    own = find_program(make_spans(*launches))
    assert launches[own] == step * 20, "what ends the program is chosen last"
    assert find_program(make_spans(*tries, *step)) == slice(3, 6)
    assert find_program(make_spans(delay, delay)) == slice(0, 2), "nothing else was there"
    assert find_program(make_spans(*step)) == slice(0, 2)


def test_what_is_launched_around_a_compilation_is_no_part_of_the_program():
    """Of a loop in JAX on an H200 60 % was idle: it compiled what it printed at the end."""
    loop = [Span(at * 100, at * 100 + 80, "gemm") for at in range(50)]
    late = [Span(905_000, 905_009, "dynamic_slice"), Span(905_020, 905_029, "convert")]
    compiled = [(4_000, 904_990)]

    assert find_program([*loop, *late], compiled) == slice(0, 50)
    assert find_program([*loop, *late]) == slice(0, 52), "the host may have done anything"
    assert find_program(loop, [(2_000, 2_100)]) == slice(0, 50), "another thread compiles"


def make_jax_trace(path, *spans):
    """Write a trace as JAX does; spans of 9 are of the host, others of a stream."""
    names = [(1, None, "process_name", "/device:GPU:0"), (9, None, "process_name", "/host:CPU")]
    events = [
        {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": text}}
        for pid, tid, kind, text in [*names, (1, 21, "thread_name", "Stream #21")]
    ]
    events += [
        {"ph": "X", "pid": pid, "tid": 21 if pid == 1 else 3, "name": name, "ts": ts, "dur": us}
        for pid, name, ts, us in spans
    ]
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    return load_run([str(path)])


def test_launches_before_the_longest_part_count_as_they_do_for_ncu(tmp_path):
    """The parts of a program between compilations have kernels of the same names."""
    delay = "stream_executor::<unnamed>::DelayKernel(volatile bool *)"
    first = [(1, "loop_add_fusion", at * 50, 5) for at in range(40)]
    trials = [(1, delay, 50_000, 100), (1, "loop_add_fusion", 50_200, 90), (1, delay, 50_300, 100)]
    rest = [(1, "loop_add_fusion", 100_000 + at * 200, 150) for at in range(100)]
    compiled = (9, "backend_compile_and_load", 2_000, 97_900)
    found = make_jax_trace(tmp_path / "trace.json", *first, compiled, *trials, *rest)

    assert len(found.launches) == 140, "and none of the trials"
    assert found.warm_up == 41
    assert choose_windows(found, rank_kernels(found), 1) == [
        LaunchWindow(("loop_add_fusion",), 41, 1)
    ]
    assert not [text for text in found.program.says if "left out" in text], "it is little"
    assert found.program.metrics["gpu_idle_share"] == pytest.approx(0.25, abs=0.01)


def test_a_part_that_is_not_looked_at_is_told(tmp_path):
    parts = [
        (1, name, start + at * 100, 80)
        for name, start in (("train", 0), ("evaluate", 200_000))
        for at in range(1000)
    ]
    compiled = (9, "backend_compile_and_load", 100_500, 99_000)
    found = make_jax_trace(tmp_path / "trace.json", *parts, compiled)

    told = "left out, as compilations lie between: 1,000 launches, 80.00 ms of kernels"
    assert found.program.says[0] == told


def make_run(launches, warm_up=0):
    us = sum(one for _, one in launches)
    return ProgramRun(ProfiledLaunch("program", {}), launches, warm_up, us)


def choose(launches, warm_up=0, skip=1):
    found = make_run(launches, warm_up)
    return choose_windows(found, rank_kernels(found), skip)


def test_the_first_launch_and_odd_ones_are_passed_over():
    launches = [("a", 9.0), ("a", 10.0), ("a", 30.0), ("a", 10.5)]

    assert choose([("a", 10.0), *launches[2:]]) == [LaunchWindow(("a",), 2, 1)]
    assert choose(launches, warm_up=2) == [LaunchWindow(("a",), 2, 1)]
    assert choose(launches, skip=3) == [LaunchWindow(("a",), 3, 1)]
    assert choose([("a", 10.0)]) == [LaunchWindow(("a",), 0, 1)]


def test_kernels_far_from_each_other_take_a_run_each():
    launches = [("a", 10.0)] * 40 + [("b", 30.0)] * 20

    windows = choose([*launches, ("a", 10.0)])
    assert windows == [LaunchWindow(("b", "a"), 59, 2)]
    far = [("a", 10.0)] * 40 + [("b", 1.0)] * 20 + [("b", 100.0)] * 21
    assert choose(far) == [LaunchWindow(("b",), 20, 1), LaunchWindow(("a",), 1, 1)]


def test_kernels_of_one_function_are_found_among_all_its_launches():
    launches = [("f<int>()", 1.0), ("g", 5.0), ("f<float>()", 90.0)] * 3

    assert choose(launches) == [LaunchWindow(("f", "g"), 3, 3)]


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("void at::native::(anonymous namespace)::cat<float, 4>(float *)", "cat"),
        ("void at::native::vectorized<4, at::fn<float> >(int, at::fn<float>)", "vectorized"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
    ],
)
def test_a_filter_takes_the_name_of_the_function_alone(kernel, function):
    assert name_function(kernel) == function


def make_program_kernel(name, share, verdict):
    gate = {"verdict": verdict, "because": "it was built for a debugger"}
    answer = {"gate": gate, "diagnoses": []}
    gains = {"at_most": 2.0, "speedup": 1.5}
    return {
        "kernel": name,
        "share": share,
        **gains,
        "library": None,
        "called_by": None,
        "answer": answer,
    }


def test_a_kernel_that_was_built_for_a_debugger_comes_first():
    kernels = [make_program_kernel("fast", 0.6, "go"), make_program_kernel("slow", 0.3, "stop")]
    found = ProgramRun(ProfiledLaunch(kernel="program", metrics={}), [], 0, 100.0)
    first = find_first(found, kernels)

    assert first["kernel"] == "slow"
    assert first["because"] == "it was built for a debugger"


@pytest.mark.parametrize(
    ("metrics", "what"),
    [
        ({"host_code_idle_share": 0.6, "sync_idle_share": 0.1}, "host"),
        ({"host_code_idle_share": 0.1, "sync_idle_share": 0.1}, "launches"),
        ({"host_code_idle_share": 0.3, "sync_idle_share": 0.6}, "synchronisation"),
        ({"host_code_idle_share": 0.3, "data_idle_share": 0.4}, "data"),
        ({}, "host"),
    ],
)
def test_what_an_idle_gpu_waits_for_comes_first(metrics, what):
    program = ProfiledLaunch("program", {"gpu_idle_share": 0.7, **metrics})
    found = ProgramRun(program, [("one", 50.0)] * 10, 0, 2000.0)

    assert find_first(found, [])["what"] == what


def test_a_report_of_nsys_is_exported_and_read(tools, tmp_path, capfd, monkeypatch):
    report = tmp_path / "run one.nsys-rep"
    report.write_bytes(b"\0")
    monkeypatch.setattr("kernelkb.actions.advice.recommend_report.find_cuda_tool", shutil.which)
    without = main(["recommend", "--profile", str(report)])
    told = capfd.readouterr().err
    tools.add_nsys()
    status = main(["recommend", "--profile", str(report)])
    out = capfd.readouterr().out

    assert without == 2
    assert f"nsys export --type sqlite '{report}'" in told
    assert status == 0
    assert "from its first work to its last" in out
    assert tools.list_calls()[-1][1] == "export"


GPU_PROGRAM = """
import torch
x = torch.randn(4096, 4096, device="cuda")
for _ in range(20):
    x = torch.relu(x @ x * 1e-3)
torch.cuda.synchronize()
print(tuple(x.shape))
"""


@pytest.mark.gpu
def test_a_torch_program_on_a_gpu_is_answered(tmp_path, monkeypatch, capfd):
    (tmp_path / "program.py").write_text(GPU_PROGRAM)
    monkeypatch.chdir(tmp_path)
    status = profile("--json", "--top", "2", "--", sys.executable, "program.py")
    out, err = capfd.readouterr()
    answer = json.loads(out)

    assert status == 0
    assert err.splitlines().count("(4096, 4096)") == 1
    assert answer["tool"] in ("nsys", "torch.profiler")
    assert answer["kernels"][0]["share"] > 0.5
    counted = [one for one in answer["kernels"] if one["answer"]]
    assert counted, answer["notes"]
    assert all(one["answer"]["time"] for one in counted)


JAX_PROGRAM = """
import jax, jax.numpy as jnp
@jax.jit
def rank(x):
    return jnp.cumsum(jnp.tanh(x) @ x, axis=0)
x = jax.random.normal(jax.random.key(0), (4096, 4096))
for _ in range(100):
    x = rank(x / 1e3)
print(x.shape)
"""


@pytest.mark.gpu
def test_a_jax_program_on_a_gpu_is_answered(tmp_path, monkeypatch, capfd):
    pytest.importorskip("jax")
    (tmp_path / "program.py").write_text(JAX_PROGRAM)
    monkeypatch.chdir(tmp_path)
    status = profile("--json", "--top", "1", "--", sys.executable, "program.py")
    answer = json.loads(capfd.readouterr().out)

    assert status == 0
    assert answer["tool"] in ("nsys", "jax.profiler")
    assert answer["program"]["diagnoses"] or answer["kernels"]
    assert answer["kernels"][0]["launches"] > 50
    assert answer["kernels"][0]["answer"], answer["notes"]


def call_profile_kernel(config=None, **arguments):
    async def run():
        config_of_all = config or ServerConfig(run_programs=True, inline_s=600)
        async with Client(build_server(config_of_all)) as client:
            return await client.call_tool("profile_kernel", arguments)

    return anyio.run(run)


def test_a_server_with_leave_answers_for_a_program(tools, capfd):
    tools.add_nsys().add("ncu", FAKE_NCU)
    made = call_profile_kernel(command="sh -c 'echo out; echo err >&2'").structured_content
    answer = made["program"]

    assert len(json.dumps(made, separators=(",", ":")).encode()) < 6500
    assert made["left_out"] is None
    assert answer["output"] == "out\nerr\n"
    assert capfd.readouterr().out == ""
    assert [one["kernel"] for one in answer["kernels"]] == ["few_blocks", "transpose"]
    assert answer["kernels"][0]["answer"]["diagnoses"][0]["bottleneck"] == "small-grid"
    assert "First: kernel, it takes 65% of the time" in made["summary"]
    assert made["next"]

    chosen = call_profile_kernel(command="true", kernel="transpose").structured_content
    looked_at = [one["kernel"] for one in chosen["program"]["kernels"] if one["answer"]]
    assert looked_at == ["transpose"]


def test_a_server_without_leave_names_the_command(tools, tmp_path):
    tools.add_nsys().add("ncu", FAKE_NCU)
    made = call_profile_kernel(ServerConfig(), command=f"touch {tmp_path}/ran").structured_content

    assert not (tmp_path / "ran").exists()
    assert made["program"] is None
    assert made["next"][0] == f"in a shell: kb profile --json -- touch {tmp_path}/ran"
    assert made["next"][-1] == "recommend_fix(profile='timeline.nsys-rep')"


def test_a_program_that_fails_tells_a_server_what_it_printed(tools):
    made = call_profile_kernel(command="sh -c 'echo broken; exit 3'").structured_content

    assert made["program"]["status"] == 3
    assert made["program"]["output"] == "broken\n"
    assert "FAILED with exit status 3" in made["summary"]
    assert made["next"] == ["correct what output says; recommend_fix(log=...) takes its text"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": "ls 'x"}, "No closing quotation"),
        (
            {"command": "ls", "variant": "naive"},
            "variant, target, workload and clocks are of a kernel",
        ),
        ({"command": "no-such-program-here"}, "there is no such program"),
        ({}, "give kernel, or command="),
    ],
)
def test_a_server_refuses_a_call_that_makes_no_sense(arguments, told):
    made = call_profile_kernel(**arguments)

    assert made.is_error
    assert told in made.content[0].text
