"""Finding entries by ids, by what people see, and by words typed badly."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shipped_rules import graph, knowledge

from kernelkb.graph.search import build_search_index, search


@cache
def build_index():
    return build_search_index(graph())


def search_first(query, **how):
    return search(build_index(), query, **how)[0]


def search_ids(query, **how):
    return [hit.id for hit in search(build_index(), query, **how)]


@pytest.mark.parametrize("bottleneck", knowledge().bottlenecks, ids=lambda b: b.id)
def test_its_own_id_finds_a_bottleneck(bottleneck):
    assert search_first(bottleneck.id).id == bottleneck.id


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("coalesing", "uncoalesced-global-access"),
        ("warp divergance", "branch-divergence"),
        ("shared memory bank conflcts", "shared-memory-bank-conflicts"),
        ("regsiter spiling", "register-spilling"),
        ("tensorcores", "tensor-core-unused"),
        ("cudagraph", "cuda-graph"),
        ("too few blocks", "small-grid"),
        ("nan", "nan-inf-overflow"),
        ("undefined symbl torch", "undefined-symbol-torch-abi"),
        ("kernel hangs while building", "jit-lock-hang"),
        ("illegal memory access", "out-of-bounds-access"),
        ("no kernel image", "no-kernel-image"),
        ("exponentials roots reciprocals", "special-function-bound"),
        ("smsp__average_warp_latency_per_inst_issued.ratio", "warp_latency_cycles"),
        ("waits for launches", "launch-overhead-bound"),
    ],
)
def test_misspelt_queries_find_the_intended_entry(query, wanted):
    assert search_first(query).id == wanted


def test_two_letters_that_changed_places_are_one_mistake():
    assert "shared-memory-bank-conflicts" in search_ids("shared memroy")


def test_a_kind_filters_the_hits():
    found = search(build_index(), "occupancy", kind="fix")

    assert found
    assert {hit.kind for hit in found} == {"fix"}


def test_more_words_that_fit_count_more():
    both = search_first("register spilling")
    one = next(h for h in search(build_index(), "register", max_count=300) if h.id == both.id)

    assert both.score > one.score


def test_hits_are_limited():
    assert len(search_ids("memory", max_count=3)) == 3


def test_nothing_like_it_finds_nothing():
    assert search_ids("qqqqxxzz") == []


@given(st.text(max_size=60))
def test_any_text_is_a_query(text):
    scores = [hit.score for hit in search(build_index(), text)]

    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("asked", "form"),
    [("coalesced", "coalescing"), ("spilled", "spilling"), ("divergent", "divergence")],
)
def test_another_form_of_a_word_finds_the_same_entry(asked, form):
    assert search_first(asked).id == search_first(form).id
