"""``kb explain`` on programs that hang and crash: real ones here, planted ones on a GPU."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from broken_kernels import make_broken_kernel

from kernelkb.actions.kernels.explain_program import (
    ExplainOptions,
    explain_program,
    find_causes,
)
from kernelkb.actions.kernels.measure_variant import build_prepared, check_variant
from kernelkb.actions.project.bench_target import prepare
from kernelkb.cli import main
from kernelkb.measure.check.sanitize import (
    make_repeat_job,
    make_sandbox_words,
    quote_cpu_finding,
    quote_finding,
)
from kernelkb.measure.explain import debugger, stalls, watch
from kernelkb.measure.explain.collectives import (
    ask_collectives,
    describe_collectives,
    read_collectives,
)
from kernelkb.measure.explain.debugger import (
    GpuInstruction,
    GpuKernel,
    GpuPlace,
    _fills,
    read_kernels,
)
from kernelkb.measure.explain.stalls import decode_mbarrier, describe_kernels, find_wait
from kernelkb.measure.explain.watch import find_standstill, look_at
from kernelkb.measure.process.worker_jobs import write_job
from kernelkb.progress import OperationCancelled, cancel_on

DATA = Path(__file__).parents[1] / "data" / "explain"
RECORDED = json.loads((DATA / "recorded.json").read_text())
CAUSES = {
    "flag_ring": "shared-flag-not-set",
    "barrier_ring": "mbarrier-lacks-arrivals",
    "too_few_arrive": "mbarrier-lacks-arrivals",
    "wrong_parity": "mbarriers-wait-for-each-other",
    "too_many_bytes": "mbarrier-lacks-bytes",
    "copy_never_issued": "mbarrier-lacks-bytes",
    "divergent_syncthreads": "shared-flag-not-set",
    "named_barrier_count": "named-barrier-count",
    "named_barriers_crossed": "named-barriers-crossed",
    "grid_barrier": "blocks-wait-for-blocks",
    "lock_kept": "lock-not-released",
    "neighbour_left": "flag-not-set",
    "shuffle_mask": "mask-names-absent-lanes",
    "syncwarp_mask": "mask-names-absent-lanes",
    "cluster_barrier": "cluster-barrier-not-reached",
    "stride_zero": "endless-loop",
    "never_converges": "endless-loop",
    "list_with_cycle": "endless-loop",
    "host_flag": "flag-not-set",
    "wait_for_later": "flag-not-set",
    "persistent": "flag-not-set",
    "registers_not_released": "registers-not-released",
    "library_barrier": "mbarrier-lacks-arrivals",
    "library_grid": "flag-not-set",
    "three_wrappers": "mbarrier-lacks-arrivals",
    "tile_shuffle": "mask-names-absent-lanes",
    "ticket_lock": "flag-not-set",
}
"""The one expected first for each kernel of hangs.cu."""
CRASHES = {
    "past_the_end": "out-of-bounds-access",
    "just_past": "out-of-bounds-access",
    "misaligned": "misaligned-vector-access",
    "shared_past": "out-of-bounds-access",
    "null_pointer": "out-of-bounds-access",
    "asserts": "device-side-assert",
    "stack_overflow": "device-stack-overflow",
    "traps": "trap-reached",
    "host_pointer": "out-of-bounds-access",
    "shared_misaligned": "misaligned-vector-access",
    "freed": "out-of-bounds-access",
    "scattered": "out-of-bounds-access",
    "needs_many": "dynamic-smem-optin-missing",
}


def list_marked_lines(source, name, mark):
    """Return the lines of a function that end with a mark."""
    lines = (DATA / source).read_text().splitlines()
    begin = next(n for n, line in enumerate(lines) if re.search(rf"\b{name}\(.*{{", line))
    # A function that it calls stands before it.
    begin -= {"stack_overflow": 8, "ticket_lock": 12}.get(name, 0)
    marked = []
    for number in range(begin, len(lines)):
        if number > begin and lines[number].startswith("__global__") and marked:
            break
        if lines[number].endswith(f"// {mark}"):
            marked.append(number + 1)
        if lines[number] == "}" and number > begin and marked:
            break
    return marked


class Recording:
    """Answers what cuda-gdb printed, in the order in which it was asked."""

    def __init__(self, asked):
        self._asked = iter(asked)

    def ask(self, command, limit_s=0.0):
        known, printed = next(self._asked)
        assert command == known
        return printed


@pytest.mark.parametrize("name", sorted(RECORDED["hangs"]))
def test_a_recorded_hang_is_read(name):
    recorded = RECORDED["hangs"][name]
    recording = Recording(recorded["asked"])
    lines = describe_kernels(recording, read_kernels(recording))
    assert lines == recorded["lines"]
    told = {int(line) for line in re.findall(r"hangs\.cu:(\d+)", "\n".join(lines))}
    assert told & set(list_marked_lines("hangs.cu", name, "waits"))
    assert find_causes(lines)[0]["symptom"] == CAUSES[name]


@pytest.mark.parametrize("name", sorted(RECORDED["memcheck"]))
def test_a_recorded_crash_is_read(name):
    found = quote_finding(RECORDED["memcheck"][name])
    assert find_causes([f"memcheck: {found}"])[0]["symptom"] == CRASHES[name]


def test_without_lines_the_flag_is_named():
    recorded = RECORDED["hangs"]["named_barriers_crossed"]
    asked = [
        [command, "No line number information" if command.startswith("info line") else printed]
        for command, printed in recorded["asked"]
    ]
    recording = Recording(asked)
    lines = describe_kernels(recording, read_kernels(recording))
    assert lines[1].startswith(
        "  threads 0 to 63 (warps 0 to 1) of each block wait at named barrier 1"
    )
    assert lines[-1] == "  its lines are not known: build it with -lineinfo"


STAND_IN = """#!{python}
import json, sys
answers = iter(json.load(open({answers!r})))
for line in sys.stdin:
    if line.startswith("echo "):
        print("(cuda-gdb) " + line[5:].rstrip().removesuffix("\\\\n"))
    elif not line.startswith(("set ", "detach", "attach")):
        print("(cuda-gdb) " + next(answers)[1])
    sys.stdout.flush()
"""
"""Prints as cuda-gdb does, what was recorded."""


def test_a_process_is_looked_at_through_cuda_gdb(tmp_path, monkeypatch):
    recorded = RECORDED["hangs"]["flag_ring"]
    (tmp_path / "answers.json").write_text(json.dumps(recorded["asked"]))
    program = tmp_path / "cuda-gdb"
    answers = str(tmp_path / "answers.json")
    program.write_text(STAND_IN.format(python=sys.executable, answers=answers))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(watch, "_uses_gpu", lambda process: process == os.getpid())
    look = look_at(os.getpid(), tmp_path)
    assert look.lines == tuple(recorded["lines"])
    assert (len(look.launches), look.notes) == (1, ())


def test_without_cuda_gdb_the_cure_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(debugger, "find_cuda_tool", lambda _name: None)
    monkeypatch.setattr(watch, "_uses_gpu", lambda process: process == os.getpid())
    (note,) = look_at(os.getpid(), tmp_path).notes
    assert "cuda-gdb was not found" in note
    assert "put it on PATH" in note


def test_a_clean_log_has_no_finding():
    log = "========= COMPUTE-SANITIZER\nhello\n========= ERROR SUMMARY: 0 errors\n"
    assert quote_finding(log) is None


def test_an_allocation_is_told():
    found = quote_finding(RECORDED["memcheck"]["past_the_end"])
    assert "crashes.cu:10, by thread (0,0,0) in block (8,0,0)" in found
    assert "is 1 bytes after the nearest allocation" in found
    assert found.endswith("called by main")


def test_the_bits_of_an_mbarrier():
    # Read on an H200: init with 64, then 32 arrived; init with 1, 2,048 bytes expected, 1,024 came.
    assert decode_mbarrier(0x7FFF0000001FFF80) == (0, 64, 32, 0)
    assert decode_mbarrier(0x000003FF801FFFFE) == (0, 1, 0, 1024)
    assert decode_mbarrier(0xFFFFF800001FFFFE) == (1, 1, 1, 0)


class Registers:
    """A debugger that knows registers only."""

    def __init__(self, **values):
        self._values = values

    def ask(self, command, limit_s=0.0):
        name = command.rpartition("$")[2]
        return f"$1 = {self._values[name]:#x}\n" if name in self._values else "No symbol"


def read_spin(*texts, resident=2000, **values):
    """Describe threads that are at the first instruction of a loop."""
    code = tuple(GpuInstruction(16 * n, text) for n, text in enumerate(texts))
    wait = find_wait(GpuPlace(0, 0, "f", 0, "", code, 0), whole_warps=True)
    assert wait.kind == "spin"
    kernel = GpuKernel(0, 0, 1, "f", (2000, 1, 1), (256, 1, 1), resident, resident - 1, ())
    return stalls._describe_spin(Registers(**values), wait, kernel)


def test_a_spin_tells_value_and_end():
    told = read_spin(
        "LDG.E.STRONG.SYS R0,desc[UR4][R2.64]",
        "ISETP.GE.AND P0,PT,R0,R9,PT",
        "@!P0 BRA 0x0",
        R0=0x84,
        R9=0x108,
    )
    assert told == "read global memory in a loop until it is at least 264; it holds 132"


def test_a_barrier_of_more_blocks_than_the_gpu_holds_is_told():
    loop = (
        "ATOMG.E.ADD.STRONG.GPU PT,R0,desc[UR4][R2.64],RZ",
        "ISETP.GE.U32.AND P0,PT,R0,R7,PT",
        "@!P0 BRA 0x0",
    )
    told = read_spin(*loop, resident=1056, R0=1056, R7=2000)
    assert told.endswith(
        "until it is at least 2,000; it holds 1,056; so many blocks are not on the GPU"
    )
    assert find_causes([told])[0]["symptom"] == "blocks-wait-for-blocks"
    told = read_spin(*loop, resident=2000, R0=1056, R7=2000)
    assert find_causes([told])[0]["symptom"] == "flag-not-set"


def test_a_branch_that_is_taken_while_true_is_turned_round():
    told = read_spin("LDS R4[R8]", "ISETP.EQ.AND P1,PT,R4,RZ,PT", "@P1 BRA 0x0", R4=0, R8=0x400)
    assert told == "read shared memory in a loop until it is not 0; it holds 0"


def test_what_is_not_the_value_that_was_read_is_not_told():
    # The barrier of a grid: the test is made on the exclusive or of two values.
    told = read_spin(
        "LDG.E.STRONG.GPU R0,desc[UR4][R2.64]",
        "LOP3.LUT R0,R0,R5,RZ,0x3c,!PT",
        "ISETP.GT.AND P0,PT,R0,-0x1,PT",
        "@P0 BRA 0x0",
        R0=0x7FFFFFFF,
    )
    assert told == "read global memory in a loop until it changes"


def test_a_gpu_is_full_when_no_sm_is_left_out():
    assert _fills((1 << 132) - 1)
    assert not _fills(0x0550 << 64)
    assert not _fills(1)


def explain(*words, after_s=1.0):
    return explain_program(list(words), ExplainOptions(after_s=after_s, minutes=1, to_stderr=True))


def test_a_python_program_that_waits_is_told_by_its_line(tmp_path):
    program = tmp_path / "waits.py"
    program.write_text(
        "import threading\ndone = threading.Event()\n"
        "def wait_for_worker():\n    done.wait()\nwait_for_worker()\n"
    )
    answer = explain(sys.executable, str(program))
    assert answer["outcome"] == "hangs"
    (line,) = answer["lines"]
    assert "wait, called at waits.py:4 (wait_for_worker), called at waits.py:5" in line


def test_ranks_are_told_apart(tmp_path):
    program = tmp_path / "ranks.py"
    program.write_text(
        "import os, subprocess, sys, time\n"
        "if 'RANK' not in os.environ:\n"
        "    ranks = [subprocess.Popen([sys.executable, __file__],"
        " env={**os.environ, 'RANK': str(n)}) for n in range(2)]\n"
        "    [rank.wait() for rank in ranks]\n"
        "def all_reduce():\n    time.sleep(600)\n"
        "def save():\n    time.sleep(600)\n"
        "all_reduce() if os.environ['RANK'] == '0' else save()\n"
    )
    answer = explain(sys.executable, str(program))
    assert any("rank 0: Python is at ranks.py:6 (all_reduce)" in one for one in answer["lines"])
    assert any("rank 1: Python is at ranks.py:8 (save)" in one for one in answer["lines"])
    assert answer["causes"][0]["symptom"] == "collective-not-joined"
    told = (
        "rank 0: Python is at x.py:8 (<module>)\nrank 1: Python is at all_reduce, called at x.py:5"
    )
    assert find_causes([told])[0]["symptom"] == "collective-not-joined"


def test_a_program_that_computes_is_not_said_to_hang(tmp_path):
    program = tmp_path / "computes.py"
    program.write_text("import time\nend = time.time() + 4\nwhile time.time() < end:\n    pass\n")
    answer = explain(sys.executable, str(program))
    assert (answer["outcome"], answer["status"], answer["lines"]) == ("ended", 0, [])
    assert not answer["causes"]


def test_a_program_that_fails_keeps_its_status(tmp_path):
    answer = explain(sys.executable, "-c", "raise SystemExit(3)")
    assert (answer["outcome"], answer["status"]) == ("failed", 3)


def test_a_program_has_to_be_there(capsys):
    assert main(["explain", "--", "no-such-program"]) == 2
    assert "there is no such program" in capsys.readouterr().err


def test_a_program_or_a_process_is_named(capsys):
    assert main(["explain"]) == 2
    assert "give a program, kb explain -- COMMAND, or a process, --pid N" in capsys.readouterr().err


def test_a_process_has_to_be_there(capsys):
    assert main(["explain", "--pid", "99999999"]) == 2
    assert "--pid 99999999: there is no such process" in capsys.readouterr().err


def test_a_process_without_a_gpu_is_said_to_have_none(capsys):
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert main(["explain", "--pid", str(sleeper.pid)]) == 1
        sleeper.kill()
    assert "uses no GPU" in capsys.readouterr().out


def test_the_command_prints_lines_and_causes(tmp_path, capsys):
    program = tmp_path / "ends.py"
    program.write_text("print(1)\n")
    assert main(["explain", "--json", "--", sys.executable, str(program)]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "ended"
    assert main(["explain", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 1
    assert "program: it FAILED with exit status 3 after" in capsys.readouterr().out


def test_a_c_function_that_crashes_tells_its_line(project):
    source = make_broken_kernel(project, "segfault") / "naive.cpp"
    line = 1 + source.read_text()[: source.read_text().index("*(volatile int*)8")].count("\n")
    found = check_variant("broken", "naive", "cpu")
    assert found.status == "crashed"
    assert f"AddressSanitizer: SEGV, in row_softmax at naive.cpp:{line}" in found.detail
    assert found.cure.startswith("cpu-memory-error: ")


def test_a_candidate_can_be_watched_in_its_sandbox(project, tmp_path):
    make_broken_kernel(project, "endless")
    bench_target = prepare("broken", "naive", "cpu")
    built = build_prepared(bench_target)
    words, env, log = write_job(make_repeat_job(bench_target.subject, built), tmp_path)
    words = [*make_sandbox_words(bench_target.subject, built, tmp_path), *words]
    env = {**watch.make_env(tmp_path), **env}
    look = watch.watch_program(words, tmp_path, after_s=6.0, limit_s=7.0, log=log, env=env)
    assert look.outcome == "out-of-time"  # it computes
    (line,) = look.lines
    assert re.search(r"Python is at .*repeat\.py:\d+ \(repeat\)", line)


def test_a_heap_overflow_is_quoted():
    log = (
        "==9==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62100 at pc 0x7fd\n"
        "READ of size 4 at 0x621000856ca0 thread T0\n"
        "    #0 0x7fdfcf75b224 in scale /home/user/scale.cpp:4\n"
        "    #1 0x7fdff46a8f79  (/lib/x86_64-linux-gnu/libffi.so.8+0x6f79)\n\n"
        "0x621000856ca0 is located 0 bytes to the right of 4000-byte region [0x6210,0x6220)\n"
    )
    told = quote_cpu_finding(log)
    assert told == (
        "AddressSanitizer: heap-buffer-overflow, READ of size 4, in scale at scale.cpp:4, "
        "0 bytes to the right of 4000-byte region"
    )
    assert quote_cpu_finding("all is well") is None
    overflow = "/home/user/scale.cpp:7:12: runtime error: signed integer overflow: 2 * 2147483647\n"
    assert quote_cpu_finding(overflow).startswith("scale.cpp:7: signed integer overflow")


def write(folder, name, text):
    (folder / name).write_text(textwrap.dedent(text))
    return sys.executable, str(folder / name)


def test_a_child_that_became_another_program_is_not_signalled(tmp_path):
    words = write(
        tmp_path,
        "starts.py",
        """
        import os, subprocess, sys
        child = subprocess.Popen(["sleep", "5"], preexec_fn=os.setsid)
        sys.exit(child.wait())
        """,
    )
    answer = explain(*words)
    assert (answer["outcome"], answer["status"]) == ("ended", 0)


def test_a_program_that_polls_goes_on(tmp_path):
    words = write(
        tmp_path,
        "polls.py",
        """
        import time
        for _ in range(8):
            time.sleep(0.6)
        """,
    )
    assert explain(*words)["outcome"] == "ended"


def test_files_of_a_program_are_not_written_into(tmp_path):
    words = write(
        tmp_path,
        "closes.py",
        f"""
        import os, time
        os.closerange(3, 256)
        files = [open(f"{tmp_path}/own{{n}}", "w") for n in range(8)]
        time.sleep(5)
        """,
    )
    assert explain(*words)["outcome"] == "ended"
    assert all(file.stat().st_size == 0 for file in tmp_path.glob("own*"))


def test_the_thread_that_failed_is_told(tmp_path):
    words = write(
        tmp_path,
        "fails.py",
        """
        import os, threading, time
        def work():
            os.abort()
        def wait():
            threading.Thread(target=work).start()
            time.sleep(60)
        wait()
        """,
    )
    answer = explain(*words)
    assert answer["outcome"] == "failed"
    assert answer["lines"][0].startswith("Python was at fails.py:4 (work)")


def test_what_is_no_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "stack-7.txt")
    assert watch.read_last_stacks(tmp_path) == []
    (tmp_path / "pipe.8").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("mine")
    assert watch._dump(8, tmp_path) is None
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_a_program_prints_is_no_finding():
    assert quote_finding("========= Epoch 1 =========\n") is None
    assert quote_finding("========= Error: Target application terminated before\n") is None


def test_the_users_own_dumps_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_COREDUMP_FILE", "/home/user/core.%p")
    assert not any(name.startswith("CUDA") for name in watch.make_env(tmp_path))


def replace_debugger(monkeypatch, folder, text):
    (folder / "cuda-gdb").write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    (folder / "cuda-gdb").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(watch, "_uses_gpu", lambda process: process == os.getpid())


ECHOES = """
import sys
for line in sys.stdin:
    if line.startswith("echo "):
        print(line[5:].rstrip().removesuffix("\\\\n"))
    elif line.startswith("attach"):
        print({answer!r})
    sys.stdout.flush()
"""


def test_a_debugger_that_fails_is_no_empty_gpu(tmp_path, monkeypatch):
    said = "fatal: The CUDA driver initialization failed"
    replace_debugger(monkeypatch, tmp_path, ECHOES.format(answer=said))
    look = look_at(os.getpid(), tmp_path)
    assert not look.lines
    assert "cuda-gdb cannot tell what is on the GPU" in look.notes[0]
    assert look.notes[0].count("see that its version fits the driver") == 1


def test_a_debugger_that_is_late_is_not_blamed_for_its_version(tmp_path, monkeypatch):
    monkeypatch.setattr(debugger, "_ANSWER_S", 0.3)
    late = ECHOES.format(answer="").replace("for line", "import time\nfor line")
    late = late.replace("sys.stdout.flush()", "time.sleep(60 * ('info cuda' in line))")
    replace_debugger(monkeypatch, tmp_path, late)
    (note,) = look_at(os.getpid(), tmp_path).notes
    assert "did not tell within" in note
    assert "version" not in note


def test_a_refused_process_is_not_ended_for_a_look(tmp_path, monkeypatch):
    replace_debugger(
        monkeypatch, tmp_path, ECHOES.format(answer="ptrace: Operation not permitted.")
    )
    look = look_at(os.getpid(), tmp_path)
    assert look.refused == (os.getpid(),)
    assert "may not attach" in look.notes[0]
    assert find_standstill(os.getpid(), tmp_path, 0.2) is None


def test_a_cancelled_look_leaves_no_debugger(tmp_path, monkeypatch):
    replace_debugger(monkeypatch, tmp_path, "import sys\nfor line in sys.stdin: pass\n")
    event = threading.Event()
    threading.Timer(1.0, event.set).start()
    with pytest.raises(OperationCancelled), cancel_on(event):
        look_at(os.getpid(), tmp_path)
    left = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "cuda-gdb"], check=False)
    assert left.returncode == 1


def build(name, folder):
    program = folder / name
    arch = ("-gencode", "arch=compute_90a,code=sm_90a")
    command = ["nvcc", "-O2", "-lineinfo", *arch, "-o", str(program), str(DATA / f"{name}.cu")]
    subprocess.run(command, check=True)
    return program


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc was not found")
    folder = tmp_path_factory.mktemp("explain")
    return {name: build(name, folder) for name in ("hangs", "crashes")}


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(CAUSES))
def test_a_hang_is_explained(programs, name):
    answer = explain(str(programs["hangs"]), name, after_s=1.5)
    assert answer["outcome"] == "hangs", (answer["lines"], answer["notes"])
    told = {int(line) for line in re.findall(r"hangs\.cu:(\d+)", "\n".join(answer["lines"]))}
    marked = list_marked_lines("hangs.cu", name, "waits")
    assert told & set(marked), answer["lines"]
    assert answer["causes"][0]["symptom"] == CAUSES[name], answer["lines"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(CRASHES))
def test_a_crash_is_explained(programs, name):
    answer = explain(str(programs["crashes"]), name, after_s=20)
    text = "\n".join(answer["lines"])
    assert answer["causes"][0]["symptom"] == CRASHES[name], text
    if name != "needs_many":
        told = {int(line) for line in re.findall(r"crashes\.cu:(\d+)", text)}
        assert told & set(list_marked_lines("crashes.cu", name, "faults")), text
        assert re.search(r"thread \(\d+,0,0\) in block \(\d+,0,0\)", text), text


def test_a_python_program_that_dies_tells_its_line(tmp_path):
    program = tmp_path / "dies.py"
    program.write_text("import os\ndef fall():\n    os.abort()\nfall()\n")
    answer = explain(sys.executable, str(program))
    assert (answer["outcome"], answer["status"]) == ("failed", -6)
    assert answer["lines"] == ["Python was at dies.py:3 (fall), called at dies.py:4 (<module>)"]


@pytest.mark.gpu
def test_a_crash_is_told_at_the_call_that_made_it(tmp_path):
    program = tmp_path / "gathers.py"
    program.write_text(
        "import torch\nx = torch.ones(1000, 64, device='cuda')\n"
        "i = torch.tensor([3, 2000], device='cuda')\ny = x[i]\nz = y * 2\n"
        "torch.cuda.synchronize()\n"
    )
    answer = explain(sys.executable, str(program), after_s=30)
    text = "\n".join(answer["lines"])
    assert answer["outcome"] == "crashed"
    assert "Python was at gathers.py:4 (<module>), with launches one by one" in text
    assert answer["causes"][0]["symptom"] == "device-side-assert"


@pytest.mark.gpu
def test_a_correct_program_is_not_explained(tmp_path):
    program = tmp_path / "right.py"
    program.write_text("import torch\nx = torch.ones(1000, device='cuda')\nprint(float(x.sum()))\n")
    answer = explain(sys.executable, str(program), after_s=30)
    assert (answer["outcome"], answer["lines"], answer["causes"]) == ("ended", [], [])


def write_flight(file, rank, calls):
    """Write what torch's flight recorder dumps, as two ranks on H200 wrote it with torch 2.11."""
    entries = [
        {
            "frames": [
                {"name": "all_reduce", "filename": "/x/lib/python3.12/c10d.py", "line": 3068},
                {"name": "step", "filename": "/home/me/train.py", "line": line},
            ],
            "process_group": ["0", "default_pg"],
            "collective_seq_id": number,
            "profiling_name": f"nccl:{name}",
            "input_sizes": [[size]],
            "state": state,
            "is_p2p": False,
        }
        for number, (name, size, state, line) in enumerate(calls, 1)
    ]
    file.write_bytes(pickle.dumps({"version": "2.10", "entries": entries, "rank": rank}))


FIRST = ("all_reduce", 1024, "completed", 4)


def read_flights(folder, *calls):
    for rank, own in enumerate(calls):
        write_flight(folder / f"flight-{rank}", rank, own)
    return describe_collectives(
        {rank: read_collectives(folder / f"flight-{rank}") for rank in range(len(calls))}
    )


def test_ranks_in_different_collectives_are_told_with_their_lines(tmp_path):
    lines = read_flights(
        tmp_path,
        [FIRST, ("all_reduce", 512, "scheduled", 6), ("broadcast", 1024, "completed", 7)],
        [FIRST, ("broadcast", 1024, "scheduled", 7)],
    )

    assert lines == [
        "rank 0 waits in collective 2, all_reduce of 512, called at train.py:6 (step)",
        "rank 1 waits in collective 2, broadcast of 1024, called at train.py:7 (step)",
        "collective 2 is all_reduce of 512 on rank 0 and broadcast of 1024 on rank 1",
    ]
    assert find_causes(lines)[0]["symptom"] == "collective-not-joined"


def test_a_rank_that_does_not_come_is_told(tmp_path):
    waits = ("all_gather", 64, "started", 9)
    lines = read_flights(tmp_path, [FIRST, waits], [FIRST], [FIRST, waits])

    assert lines[-1] == "collective 2, all_gather of 64, was not called by rank 1"
    assert find_causes(lines)[0]["symptom"] == "collective-not-joined"


def test_ranks_whose_collectives_are_done_are_not_told(tmp_path):
    assert read_flights(tmp_path, [FIRST], [FIRST]) == []


def test_a_flight_that_names_code_is_not_run(tmp_path):
    class Opens:
        def __reduce__(self):
            return open, (str(tmp_path / "made"), "w")

    (tmp_path / "flight-0").write_bytes(pickle.dumps({"entries": [Opens()]}))

    assert read_collectives(tmp_path / "flight-0") == []
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b".", b"}r\xff\xff\xff\x7f.", b"\x80\x05]."])
def test_a_flight_that_is_none_is_left_out(tmp_path, content):
    (tmp_path / "flight-0").write_bytes(content)
    os.mkfifo(tmp_path / "flight-1")

    assert read_collectives(tmp_path / "flight-0") == []
    assert read_collectives(tmp_path / "flight-1") == []


def test_what_a_flight_names_is_one_line(tmp_path):
    call = {"name": "x\nmisaligned address", "filename": "/home/me/a.py", "line": 3}
    entry = {"frames": [call], "collective_seq_id": 1, "profiling_name": "nccl:all_reduce\nx"}
    (tmp_path / "flight-0").write_bytes(pickle.dumps({"entries": [entry]}))
    own = read_collectives(tmp_path / "flight-0")[0]

    assert "\n" not in f"{own}{own.line}"


def test_a_rank_is_asked_by_its_fifo(tmp_path):
    pipe = tmp_path / "ask-0.pipe"
    os.mkfifo(pipe)
    write_flight(tmp_path / "later", 0, [FIRST, ("broadcast", 8, "scheduled", 5)])

    def answer():
        with pipe.open("rb") as opened:
            assert opened.readline() == b"1\n"
        (tmp_path / "later").rename(tmp_path / "flight-0")

    thread = threading.Thread(target=answer)
    thread.start()
    deadline = time.monotonic() + 20
    lines = []
    while not lines and time.monotonic() < deadline:  # until the thread has opened it
        lines = ask_collectives(tmp_path)
    thread.join()

    assert lines == ["rank 0 waits in collective 2, broadcast of 8, called at train.py:5 (step)"]
