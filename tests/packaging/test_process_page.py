"""engine/kernelkb/measure/README.md names files that exist, and every module of process/."""

import re
from pathlib import Path

MEASURE = Path(__file__).parents[2] / "engine" / "kernelkb" / "measure"
TEXT = (MEASURE / "README.md").read_text(encoding="utf-8")
PATHS = set(re.findall(r"(?:\.\./)?[a-z_]+(?:/[a-z_]+)*(?:\.py|/(?=[;.,)`\s]))", TEXT))


def test_every_path_of_the_page_exists():
    paths = PATHS - {"engine/kernelkb/measure/", "serving/watcher.py"}

    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (MEASURE / path).exists()] == []


def test_the_page_names_every_module_of_process():
    names = {f"process/{path.name}" for path in MEASURE.glob("process/*.py")}

    assert names - PATHS == {"process/__init__.py"}
