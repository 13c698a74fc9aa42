"""An author's words for a change are contradicted where source and machine code do not show it."""

import pytest

from kernelkb.actions.history.outcomes import list_signatures
from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recognise import ChangeEvidence, find_unconfirmed, recognise_change

OLD = "void f(const float* x, float* y, int n) {\n  for (int i = 0; i < n; ++i) y[i] = x[i];\n}\n"
RENAMED = OLD.replace("int n", "int count").replace("< n", "< count")
VECTOR = OLD.replace("y[i] = x[i]", "((float4*)y)[i] = ((const float4*)x)[i]")
EQUAL = ({"wide_loads": 2.0}, {"wide_loads": 2.0})
MORE = ({"registers": 20.0}, {"registers": 30.0, "wide_loads": 4.0})


def name_change(said, new, counts=EQUAL, **fields):
    """Return what a change is taken to be, and the reasons to doubt its author's words."""
    known = load_compiled_rules()["fixes"].keys()
    evidence = ChangeEvidence([(OLD, new)], counts, said, **fields)
    signatures = list_signatures()
    return (
        recognise_change(signatures, known, evidence),
        find_unconfirmed(signatures, known, evidence),
    )


def test_words_that_nothing_shows_are_unconfirmed_with_the_counts():
    change, doubts = name_change("vectorize-128b at line 2", RENAMED)

    assert (change.fixes, change.by) == (("vectorize-128b",), "unconfirmed")
    assert doubts["vectorize-128b"] == (
        "neither source nor machine code shows it: wide loads 2 before, 2 after"
    )


@pytest.mark.parametrize(
    ("said", "new", "counts", "fields"),
    [
        ("vectorize-128b", VECTOR, EQUAL, {}),
        ("vectorize-128b", RENAMED, MORE, {}),
        ("vectorize-128b", RENAMED, None, {}),
        ("vectorize-128b", RENAMED, EQUAL, {"is_whole": False}),
        ("unroll-ilp", RENAMED, EQUAL, {}),
        ("faster loads", RENAMED, EQUAL, {}),
    ],
    ids=["in the source", "in the code", "code unknown", "flags changed", "misses pairs", "no fix"],
)
def test_words_are_believed_unless_all_is_known_and_the_signature_finds_all(
    said, new, counts, fields
):
    change, doubts = name_change(said, new, counts, **fields)

    assert doubts == {}
    assert change.by != "unconfirmed"


def test_equal_machine_code_contradicts_every_fix_with_a_signature():
    change, doubts = name_change("unroll-ilp", RENAMED, None, same_code=True)

    assert change.by == "unconfirmed"
    assert doubts == {"unroll-ilp": "the machine code is the same as before"}


def test_a_fix_without_a_signature_is_believed_with_equal_machine_code():
    fixes = load_compiled_rules()["fixes"]
    name = next(name for name, row in fixes.items() if row["recognised_by"] is None)

    assert name_change(name, RENAMED, None, same_code=True)[0].by == "said"


def test_of_two_named_fixes_the_one_that_shows_counts():
    change, doubts = name_change("vectorize-128b and warp-shuffle", VECTOR)

    assert (change.fixes, change.by) == (("vectorize-128b",), "said")
    assert list(doubts) == ["warp-shuffle"]
