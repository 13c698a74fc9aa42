"""The page in a real Chromium: every view, by keyboard, narrow and wide, dark and light."""

import re
import shutil
from pathlib import Path

import pytest
from web_page import KERNEL, REPORT, SESSION, TOKEN

from kernelkb.progress import record_event, report_progress
from kernelkb.record.running import publish_progress

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_module = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is absent")
if CHROMIUM is None:
    pytest.skip("PATH has no chromium; apt install chromium", allow_module_level=True)

DECISION = "/decision?speedup=0.3&occupancy=0.4&metrics=over_fetch%3D3.9&gpu=h100-sxm"
VIEWS = (
    "/", "/search?q=bank", "/decision", DECISION, "/checklist", f"/session/{SESSION}", "/live",
    "/history", f"/kernel/{KERNEL}", "/knowledge", "/knowledge/quickref", "/knowledge/devices",
    "/knowledge/bottlenecks/uncoalesced-global-access", "/knowledge/trees/memory-hierarchy",
    "/knowledge/fixes/remap-threads-coalesced",
)  # fmt: skip
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
FEW_VIEWS = ("/", "/checklist", "/live", f"/kernel/{KERNEL}")
PICTURES = Path(__file__).parents[2] / "build" / "pages"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


@pytest.fixture(scope="module")
def page_server(page, web_project):
    with publish_progress(web_project, "bench row_softmax"):
        record_event("result", text="1.5x", name="bench", status="ok", seconds=2.0, speedup=1.5,
                     interval=(1.4, 1.6))  # fmt: skip
    return page


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        one = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        one.close()


@pytest.fixture
def open_tab(browser, page_server):
    """Opens a tab that has the token, and collects what goes wrong in it."""
    contexts = []

    def make(width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        tab = context.new_page()
        tab.problems, tab.hosts = [], set()
        tab.on("console", lambda said: said.type == "error" and tab.problems.append(said.text))
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.on("request", lambda asked: tab.hosts.add(asked.url.partition("/")[2].split("/")[1]))
        tab.goto(f"{page_server.url}/?token={TOKEN}")
        return tab

    yield make
    for context in contexts:
        context.close()


def find_violations(tab, axe, url, paths, options=RULES, pictures=None):
    """Names, labels, order and contrast by axe-core; what is wider than the screen.

    Pictures of the views are kept under the name that ``pictures`` makes of an address.
    """
    told = []
    for path in paths:
        tab.goto(url + path)
        if pictures is not None:
            tab.screenshot(path=pictures(path), full_page=True)
        found = axe.run(tab, options=options).response["violations"]
        told += [(path, one["id"], one["nodes"][0]["html"][:120]) for one in found]
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            told.append((path, "wider than the screen", ""))
    return told


@pytest.mark.parametrize(
    ("width", "scheme", "options"), [(1280, "light", RULES), (390, "dark", CONTRAST)]
)
def test_a_view_is_readable_by_everyone_and_asks_nobody_else(
    open_tab, page_server, width, scheme, options
):
    """Of all views and both schemes: make test-slow."""
    tab, axe = open_tab(width, scheme), axe_module.Axe()

    assert find_violations(tab, axe, page_server.url, FEW_VIEWS, options) == []
    assert tab.problems == []
    assert tab.hosts == {page_server.url.removeprefix("http://")}


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_readable_by_everyone(open_tab, page_server, width, scheme):
    """Pictures of them stay in build/pages, to be looked at."""
    tab, axe = open_tab(width, scheme), axe_module.Axe()

    def name_picture(path):
        name = re.sub(r"[^a-z0-9]+", "-", path).strip("-") or "start"
        return PICTURES / f"{name}-{width}-{scheme}.png"

    assert find_violations(tab, axe, page_server.url, VIEWS, pictures=name_picture) == []
    assert tab.problems == []
    assert name_picture("/live").stat().st_size > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_is_wider_than_a_phone_or_says_an_error(open_tab, page_server, scheme):
    tab = open_tab(390, scheme)
    for path in VIEWS:
        tab.goto(page_server.url + path)

        assert not tab.evaluate("document.documentElement.scrollWidth > innerWidth"), path
    assert tab.problems == []


def test_on_a_phone_the_menu_is_one_row_and_nothing_of_an_attempt_is_cut_off(open_tab, page_server):
    tab = open_tab(390)
    tab.goto(f"{page_server.url}/kernel/{KERNEL}")
    tops = tab.evaluate(
        "[...document.querySelectorAll('.site nav a')].map(it => it.getBoundingClientRect().top)"
    )
    right = tab.evaluate(
        "Math.max(...[...document.querySelectorAll('.attempts li')].map(it => it.scrollWidth))"
    )

    assert len(set(tops)) == 1
    assert 0 < right < 390
    assert not tab.evaluate(
        "(it => it.scrollWidth > it.clientWidth)(document.querySelector('nav'))"
    )


def test_a_printed_page_has_its_measurements_and_no_menu(open_tab, page_server):
    tab = open_tab()
    tab.goto(f"{page_server.url}/kernel/{KERNEL}")
    tab.emulate_media(media="print")

    assert tab.is_visible("text=Measurements")
    assert tab.is_visible("td >> text=naive")
    assert not tab.is_visible(".site")
    assert not tab.is_visible("button")


def test_the_address_loses_the_token(open_tab):
    assert "token" not in open_tab().url


def test_a_typed_number_changes_gate_path_and_address_and_back_goes_back(open_tab, page_server):
    tab = open_tab()
    tab.goto(page_server.url + "/decision")
    tab.fill("#f-speedup", "0.3")
    tab.wait_for_selector("#answer .verdict.stop")
    tab.wait_for_url("**/decision?**speedup=0.3**")
    assert tab.input_value("#s-speedup") == "0.3"

    tab.fill("#f-speedup", "0.9")
    tab.wait_for_url("**speedup=0.9**")
    tab.go_back()
    tab.wait_for_url("**speedup=0.3**")
    tab.wait_for_selector("#answer .verdict.stop")

    assert tab.input_value("#f-speedup") == "0.3"
    assert tab.problems == []


def test_a_slider_moves_its_field_and_the_answer(open_tab, page_server):
    tab = open_tab()
    tab.goto(page_server.url + "/decision")
    tab.focus("#s-speedup")
    for _ in range(4):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_selector("#answer .verdict.stop")

    assert float(tab.input_value("#f-speedup")) == pytest.approx(0.25)


def test_the_page_is_used_with_the_keyboard_alone(open_tab, page_server):
    """Tab reaches the menu, a link is followed by Enter, an item is ticked without a pointer."""
    tab = open_tab()
    tab.goto(page_server.url + "/checklist")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip the menu"
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "Tick or note":
            break
    with tab.expect_navigation():
        tab.keyboard.press("Enter")
    tab.wait_for_function("document.activeElement.name === 'note'")
    tab.keyboard.type("seen by keyboard")
    tab.keyboard.press("Tab")
    with tab.expect_navigation():
        tab.keyboard.press("Enter")

    assert "seen by keyboard" in tab.inner_text("main")
    assert tab.problems == []


def test_a_dropped_report_is_answered(open_tab, page_server):
    tab = open_tab()
    tab.goto(page_server.url + "/decision")
    with tab.expect_navigation():
        tab.set_input_files("#report", str(REPORT))

    assert "Where the time goes" in tab.inner_text("main")
    assert tab.problems == []


def test_a_command_that_runs_elsewhere_shows_up_without_a_reload(
    open_tab, page_server, web_project
):
    tab = open_tab()
    tab.goto(page_server.url + "/live")
    with publish_progress(web_project, "bench somewhere_else"):
        report_progress("check naive")
        tab.wait_for_selector("text=somewhere_else")
        report_progress("waiting for the CPU: 3 before us", "waiting")
        tab.wait_for_selector("text=3 before us")
    tab.wait_for_selector("text=3 before us", state="detached")

    assert tab.problems == []


def test_two_browsers_see_what_the_other_one_ticked(open_tab, page_server):
    one, other = open_tab(), open_tab(390)
    for tab in (one, other):
        tab.goto(f"{page_server.url}/checklist")
    with one.expect_navigation():
        one.locator("a", has_text="Tick or note").last.evaluate("it => it.click()")
    form = one.locator("form[action='/checklist/mark']").last
    form.locator("input[name=note]").evaluate("it => { it.value = 'from the first' }")
    with one.expect_navigation():
        form.locator("button").first.evaluate("it => it.click()")
    other.reload()

    assert "from the first" in other.text_content("main")


def test_without_scripts_every_form_still_works(browser, page_server):
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(60_000)
    tab = context.new_page()
    tab.goto(f"{page_server.url}/decision?token={TOKEN}")
    tab.fill("#f-speedup", "0.3")
    tab.click("text=Decide")
    shown = tab.inner_text("#answer")
    context.close()

    assert "stop" in shown


def test_back_leads_through_every_view_and_each_is_as_it_was(open_tab, page_server):
    tab, seen = open_tab(), []
    for path in VIEWS:
        tab.goto(page_server.url + path)
        seen.append((tab.url, tab.inner_text("h1")))
    for url, heading in seen[-2::-1]:
        tab.go_back()

        assert (tab.url, tab.inner_text("h1")) == (url, heading)
    assert tab.problems == []


def test_the_keyboard_skips_the_menu_of_every_view_and_reaches_all_that_is_in_it(
    open_tab, page_server
):
    tab = open_tab()
    for path in VIEWS:
        tab.goto(page_server.url + path)
        tab.keyboard.press("Tab")
        tab.keyboard.press("Enter")
        tab.keyboard.press("Tab")
        where = tab.evaluate(
            "(it => it === document.body || !!it.closest('main'))(document.activeElement)"
        )
        left_out = tab.evaluate(
            "[...document.querySelectorAll('main :is(a[href],button,input,select,summary)')]"
            ".filter(it => it.type !== 'hidden' && it.tabIndex < 0).length"
        )

        assert tab.url.endswith("#main"), path
        assert where, path
        assert left_out == 0, path
