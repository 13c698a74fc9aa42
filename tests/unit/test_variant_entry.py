"""One more variant in a kernel.yaml, with all of its text as it was."""

from pathlib import Path

import pytest
import yaml

from kernelkb.errors import KbError
from kernelkb.loading.kernels import insert_variant
from kernelkb.safety.paths import shipped_folder

FILES = sorted(Path(shipped_folder("kernels")).rglob("kernel.yaml"))
CHANGES = {"id": "new", "source": "new.cu", "summary": "naive with new", "applies": "[a, b]"}
LAYOUTS = {
    "block": "variants:\n- id: x\n  source: x.cu  # kept\n  summary: s  # last\n\n# end\nb: 2\n",
    "folded": "variants:\n  - id: x\n    source: x.cu\n    summary: |\n      a\n      b\n\n# c",
    "flow entries": "variants:\n  - {id: x, source: x.cu, summary: s}  # kept\n  # after\nb: 2\n",
    "flow": "variants: [{id: x, source: x.cu, summary: s}]\nb: 2\n",
    "no end": "variants:\n  -   id: x\n      source: x.cu\n      summary: s",
}


def check(text, position):
    made = insert_variant(text, position, CHANGES)
    old, new = yaml.safe_load(text), yaml.safe_load(made)
    *kept, added = new["variants"]
    assert kept == old["variants"]
    assert {**new, "variants": kept} == old
    fields = {**CHANGES, "applies": ["a", "b"]}
    assert added == {**old["variants"][position], **fields}
    pairs = enumerate(zip(text, made, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), len(text))
    assert made.endswith(text[same:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_text_is_inserted(layout):
    check(LAYOUTS[layout], 0)


def test_only_text_is_inserted_in_each_shipped_file():
    assert len(FILES) > 100
    for path in FILES[:: len(FILES) // 25]:
        text = path.read_text()
        check(text, len(yaml.safe_load(text)["variants"]) - 1)


@pytest.mark.parametrize("text", ["", "variants: []\n", "a: 1\n", "variants:\n  - {id: x}\n"])
def test_text_without_that_variant_is_refused(text):
    with pytest.raises(KbError, match="variant"):
        insert_variant(text, 1, CHANGES)
