"""What a change is taken to be: the author's words first, then what was advised and is seen."""

from kernelkb.actions.project.rules_cache import load_compiled_rules
from kernelkb.decide.recognise import ChangeEvidence, compare_lines, recognise_change

OLD = """void f(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i] * 2.0;
}
"""
VECTOR = OLD.replace("y[i] = x[i] * 2.0", "((float4*)y)[i] = ((const float4*)x)[i]")


def recognise(**evidence):
    fixes = load_compiled_rules()["fixes"]
    signatures = {name: row["recognised_by"] for name, row in fixes.items()}
    known = {name: row for name, row in signatures.items() if row}
    return recognise_change(known, fixes.keys(), ChangeEvidence(**evidence))


def test_the_author_is_believed_with_hyphens_or_spaces():
    found = recognise(sources=[(OLD, VECTOR)], said="Vectorize 128b at the store")

    assert (found.fixes, found.by) == (("vectorize-128b",), "said")
    assert found.lines == (2,)


def test_a_fix_is_named_within_other_words():
    found = recognise(sources=[(OLD, VECTOR)], said="now with unroll-ilp, after warp_shuffle")

    assert found.fixes == ("unroll-ilp", "warp-shuffle")


def test_the_advised_fix_is_recognised_by_its_source():
    found = recognise(sources=[(OLD, VECTOR)], advised="vectorize-128b")

    assert (found.fixes, found.by) == (("vectorize-128b",), "source")


def test_the_advised_fix_is_not_claimed_where_the_source_shows_another_change():
    renamed = OLD.replace("int n", "int count").replace("< n", "< count")

    assert recognise(sources=[(OLD, renamed)], advised="vectorize-128b").fixes == ()


def test_machine_code_shows_the_advised_fix_too():
    counts = ({"wide_loads": 0.0}, {"wide_loads": 4.0})
    found = recognise(sources=[(OLD, OLD + " ")], counts=counts, advised="vectorize-128b")

    assert found.by == "code"


def test_nobody_named_it_and_two_signs_agree_so_it_is_a_guess():
    old = OLD.replace("float*", "double*")
    counts = ({"fp64": 8.0}, {"fp64": 0.0})
    found = recognise(sources=[(old, OLD)], counts=counts)

    assert "fp64-to-fp32" in found.fixes
    assert found.by == "guess"


def test_comments_and_spaces_are_no_change():
    change = compare_lines(OLD, OLD.replace("{\n", "{  // why\n", 1).replace("  for", "    for"))

    assert change == ((), (), ())


def test_an_advised_fix_without_a_signature_is_taken_as_advised():
    fixes = load_compiled_rules()["fixes"]
    name = next(name for name, row in fixes.items() if row["recognised_by"] is None)

    assert recognise(sources=[(OLD, VECTOR)], advised=name).by == "advice"
