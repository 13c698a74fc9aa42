"""Real messages of build and run logs, and the symptom that each must be named by."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from shipped_rules import program

from kernelkb.decide.symptoms import find_symptoms

FOLDER = Path(__file__).parents[1] / "data" / "logs"


class Message(NamedTuple):
    name: str
    symptom: str | None
    resembles: str | None
    log: str


def read_messages():
    for path in sorted(FOLDER.glob("*.yaml")):
        for row in yaml.safe_load(path.read_text(encoding="utf-8"))["messages"]:
            assert row["from"].startswith(
                ("https://", "provoked: ", "composed: ", "read: ", "knowledge/")
            )
            yield Message(row["name"], row["symptom"], row.get("resembles"), row["log"])


MESSAGES = list(read_messages())
NAMED = [m for m in MESSAGES if m.symptom]


def is_held_out(message):
    """Whether the rules had to be written without this message."""
    return int(hashlib.sha256(message.name.encode()).hexdigest(), 16) % 2 == 0


def list_symptoms(log):
    return [row["symptom"] for row in find_symptoms(program(), log)]


def find_misses(messages, change=lambda log: log):
    """Return what was named instead, by the name of the message."""
    found = {m: list_symptoms(change(m.log)) for m in messages}
    return {m.name: names for m, names in found.items() if names[:1] != [m.symptom]}


def test_the_corpus_is_large_and_has_no_message_twice():
    assert len(NAMED) >= 490
    assert len({m.name for m in MESSAGES}) == len(MESSAGES)
    assert {m.symptom for m in NAMED} <= {row["id"] for row in program()["symptoms"]}


@pytest.mark.parametrize("held_out", [False, True], ids=["written for", "held out"])
def test_the_first_symptom_is_the_right_one(held_out):
    half = [m for m in NAMED if is_held_out(m) == held_out]
    misses = find_misses(half)

    assert len(half) >= 100
    assert len(half) - len(misses) == len(half), misses


def test_what_looks_alike_is_not_named():
    alike = [m for m in MESSAGES if m.resembles]

    assert len(alike) >= 30
    assert [m.name for m in alike if m.resembles in list_symptoms(m.log)] == []


def test_success_and_unrelated_errors_name_nothing():
    others = [m for m in MESSAGES if m.symptom is None]

    assert len(others) >= 40
    assert {m.name: found for m in others if (found := list_symptoms(m.log))} == {}


AFTERMATH = (
    "ninja: build stopped: subcommand failed.\n"
    "Traceback (most recent call last):\n"
    '  File "torch/utils/cpp_extension.py", line 2597, in _run_ninja_build\n'
    "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n"
    "RuntimeError: Error building extension 'm'\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.replace("\n", "\r\n"),
        lambda log: "".join(f"\x1b[01;31m\x1b[K{line}\x1b[m\x1b[K\n" for line in log.splitlines()),
        lambda log: "".join(f"[rank3]: {line}\n" for line in log.splitlines()),
        lambda log: f"[1/2] nvcc -c a.cu -o a.o\nFAILED: a.o\n{log}{AFTERMATH}",
    ],
    ids=["windows line ends", "colours", "prefix of a rank", "inside a build"],
)
def test_the_clothing_of_a_message_does_not_matter(change):
    assert find_misses(NAMED, change) == {}


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("cublas-not-linked", "`-lcublas`"),
        ("driver-not-linked", "`-lcuda`"),
        ("tcgen05-on-sm-120a", "mma.sync"),
        ("no-driver", "nvidia-smi"),
        ("no-driver-runtime-says-insufficient", "nvidia-smi"),
        ("driver-library-absent", "--gpus all"),
        ("compute-70-with-cuda-13", "CUDA 12.9"),
        ("ncu-permission", "NVreg_RestrictProfilingToAdminUsers=0"),
    ],
)
def test_the_cure_is_exact(name, cure):
    log = next(m.log for m in MESSAGES if m.name == name)

    assert cure in find_symptoms(program(), log)[0]["cure"]


@pytest.mark.parametrize(
    "line",
    [
        "a.cpp:1:10: fatal error: torch/extension.h: No such file or directory",
        "a.cpp:1:10: 致命错误\uff1atorch/extension.h\uff1a没有那个文件或目录",
        "a.cpp:1: schwerwiegender Fehler: torch/extension.h: Datei oder Verzeichnis nicht gefunden",
        "a.cpp:1:10: erreur fatale : torch/extension.h : Aucun fichier ou dossier de ce nom",
        "a.cpp:1:10: error fatal: torch/extension.h: No existe el fichero o el directorio",
        "a.cpp:1:10: фатальная ошибка: torch/extension.h: Нет такого файла или каталога",
    ],
)
def test_the_name_of_a_header_decides_in_any_language_of_gcc(line):
    found = find_symptoms(program(), line)

    assert [row["symptom"] for row in found] == ["torch-header-missing"]
    assert found[0]["captured"] == {"header": "torch/extension.h"}


def test_a_block_of_the_sanitizer_is_quoted_before_the_error_of_the_runtime():
    log = next(m.log for m in MESSAGES if m.name == "sanitizer-block-below-the-runtime-error")
    first = find_symptoms(program(), log)[0]

    assert "Invalid __global__ read" in first["said"]
    assert first["captured"]["kernel"] == "snap.cu:87"
