"""The quick reference: fresh, short, and real Markdown."""

from markdown_it import MarkdownIt

from kernelkb.actions.quickref import generate_quickref, is_quickref_fresh
from kernelkb.loading.knowledge import load_knowledge


def test_the_quick_reference_matches_the_knowledge():
    assert is_quickref_fresh()


def test_it_fits_two_printed_pages():
    assert len(generate_quickref().encode()) <= 8000


def test_every_bottleneck_has_a_row_in_a_table():
    cells = [
        token.content
        for token in MarkdownIt("commonmark").enable("table").parse(generate_quickref())
        if token.type == "inline"
    ]

    assert {b.id for b in load_knowledge().bottlenecks} <= set(cells)
