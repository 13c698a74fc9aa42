"""Calls of every ``kb`` command with odd arguments, made from its parser, and an odd project."""

import argparse
import itertools
import zlib
from pathlib import Path

import yaml
from simple_kernels import write_kernel

from kernelkb.cli import build_parser

NUMBERS = (
    "0", "-1", "1e999", "nan", "-inf", "9" * 30, "1,5", "40%", "\uff10", "1e-320", "0x10", "1_0",
)  # fmt: skip
TEXTS = (
    "", " ", "-", "--", "=", "a=b", "speedup=nan", "größe", "核", "\x1b[31m", "a\nb", "../..",
    "x" * 300, "last", "\udcff", "%s", "{0}", "[", "(a+)+$",
)  # fmt: skip
FILES = (
    "absent.txt", "absent/deep/file", "empty", "binary", "folder", "unreadable", "a b.csv", "loop",
    "list.json", "number.json", "broken.json", "broken.py", "broken.cu", "ünï.cu", "long.txt",
    "cut.ncu-rep", "short.csv", "null.jsonl", "bom.csv", "/proc/self/mem", "read_only/file",
    "x" * 300, "/dev/null",
)  # fmt: skip
UNMEASURABLE_KERNELS = (
    "cuda_only", "triton_only", "defaultless", "referenceless", "sourceless", "draft",
    "empty_yaml", "binary_yaml", "list_yaml", "folder_yaml", "wrong_types", "absent", "zoo",
    "kernels/draft", "kernels/draft/kernel.yaml", "/", "",
)  # fmt: skip
"""Names of kernels that no command builds or times on a machine without a GPU."""

_FILE_ARGUMENTS = {
    "file", "report", "profile", "run", "code", "log", "task", "candidate", "candidates", "tasks",
    "folder", "workloads", "export", "page", "table", "output", "root", "plot",
    "measured", "reports", "a", "b", "against",
}  # fmt: skip
_USUAL_VALUES = {
    "kernel": "cuda_only", "report": "short.csv", "what": "metrics", "gpu": "l4", "a": "1",
    "words": "softmax", "file": "broken.cu", "b": "2", "threads": "256", "registers": "32",
}  # fmt: skip


def make_odd_project(folder):
    """Write a project with kernels and files that a command may fail on; return its folder."""
    (folder / "sessions").mkdir(parents=True)
    write_kernel(folder, "cuda_only", is_cuda=True)
    _change_yaml(folder, "cuda_only", default_workload={"cuda": "large"})
    variant = {"id": "plain", "target": "cuda", "language": "triton", "source": "plain.py"}
    (write_kernel(folder, "triton_only") / "plain.py").write_text("def twice(x, y):\n    pass\n")
    _change_yaml(
        folder,
        "triton_only",
        default_workload={"cuda": "large"},
        variants=[{**variant, "summary": "a loop"}],
    )
    write_kernel(folder, "defaultless")
    _change_yaml(folder, "defaultless", default_workload={})
    (write_kernel(folder, "referenceless") / "reference.py").unlink()
    (write_kernel(folder, "sourceless") / "plain.cpp").unlink()
    for name, content in {
        "draft": b"id: draft\ntitle: FILL_IN\ninputs: [{name: x, shape: [FILL_IN]}]\n",
        "empty_yaml": b"",
        "binary_yaml": bytes(range(256)),
        "list_yaml": b"- 1\n",
        "wrong_types": b"id: 3\nvariants: {a: 1}\nworkloads: 5\ninputs: null\n",
    }.items():
        (write_kernel(folder, name) / "kernel.yaml").write_bytes(content)
    (folder / "kernels/folder_yaml/kernel.yaml").mkdir(parents=True)
    _write_odd_files(folder)
    return folder


def _change_yaml(folder, name, **fields):
    path = folder / "kernels" / name / "kernel.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **fields}))


def _write_odd_files(folder):
    for name, content in {
        "empty": b"",
        "binary": bytes(range(256)) * 20,
        "unreadable": b"x",
        "a b.csv": b"a,b\n1,2\n",
        "list.json": b"[1, null]",
        "number.json": b"3",
        "broken.json": b'{"a": ',
        "broken.py": b"def (:\n",
        "broken.cu": b"__global__ void k(float* a, int n) {",
        "ünï.cu": b'extern "C" __global__ void k(float* a) {}',
        "long.txt": b"error: " + b"x" * 100_000,
        "cut.ncu-rep": b"NVR\0" + bytes(100),
        "short.csv": b'"ID","Kernel Name"\n"0"\n',
        "null.jsonl": b"null\n{}\n3\n",
        "bom.csv": '\ufeff"ID","Metric Name","Metric Value"\n"0","x","nan"\n'.encode(),
    }.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "unreadable").chmod(0)
    (folder / "read_only").mkdir(mode=0o555)


def list_commands(parser=None, words=()):
    """Return the words and the parser of every command and every sub-command."""
    parser = parser or build_parser()
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        return [(words, parser)]
    children = (item for group in groups for item in group.choices.items())
    return [one for name, child in children for one in list_commands(child, (*words, name))]


def list_odd_calls(words, parser):
    """Return calls of a command: without arguments, each flag, and odd values of each argument.

    An argument gets one value of its own kind and one of any kind; which ones depends on its
    name, so that most values occur among the arguments of all commands.
    """
    usual = _list_usual_words(parser)
    calls = [[*words], [*words, *usual], [*words, "--help"], [*words, *usual, "--nonsense"]]
    calls += [[*words, *usual, flag] for flag in _list_flags(parser)]
    json = ["--json"] if "--json" in _list_flags(parser) else []
    for action in _list_arguments(parser):
        rest = _list_usual_words(parser, action)
        for value, extra in zip(_choose_values(words, action), itertools.cycle(([], json))):
            calls.append([*words, *rest, *_give(action, value), *extra])
    return calls


def list_kernel_calls(words, parser):
    """Return calls of a command that name each odd kernel."""
    found = [a for a in _list_arguments(parser) if a.dest in ("kernel", "kernels", "what", "name")]
    return [[*words, *_give(action, k)] for action in found[:1] for k in UNMEASURABLE_KERNELS]


def _list_arguments(parser):
    return [a for a in parser._actions if a.nargs != 0 and a.dest not in ("help", "version")]


def _list_flags(parser):
    return [a.option_strings[-1] for a in parser._actions if a.nargs == 0 and a.dest != "help"]


def _give(action, value):
    return [f"{action.option_strings[-1]}={value}"] if action.option_strings else [value]


def _list_usual_words(parser, left_out=None):
    required = (a for a in _list_arguments(parser) if a.required and a is not left_out)
    return [
        word
        for action in required
        for word in _give(
            action, action.choices[0] if action.choices else _USUAL_VALUES.get(action.dest, "1")
        )
    ]


def _choose_values(words, action):
    if action.choices:
        return [*map(str, action.choices), "other"]
    own = TEXTS
    if action.dest in ("kernel", "kernels"):
        own = UNMEASURABLE_KERNELS
    elif action.dest in _FILE_ARGUMENTS or action.type is Path:
        own = FILES
    elif action.type is not None or action.dest not in ("goal", "change", "session"):
        own = NUMBERS
    everything = (*NUMBERS, *TEXTS, *FILES, *UNMEASURABLE_KERNELS)
    start = zlib.crc32(f"{words} {action.dest}".encode())
    return [own[start % len(own)], everything[start // 64 % len(everything)]]
