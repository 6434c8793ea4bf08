"""The dashboard in a real browser: what it shows, that it follows, and that everybody can use it."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.page_files import page_files
from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.measuring.published import Moment, Published
from streaminfer.wire import beats, measurements
from streaminfer.wire.beats import Beat
from tests.http.browsing import BLANK, Visit, visit
from tests.http.site import SCRIPT, Site, by_city, counted, site_of, wide
from tests.http.test_streaming import listening

pytestmark = pytest.mark.xdist_group("browser")
LARGEST_PAGE = 200_000
TOKEN = "right token"  # noqa: S105 (of a test)


@pytest.fixture
def own() -> Iterator[Site]:
    with site_of(counted()) as found:
        yield found


def at(site: Site) -> str:
    return f"http://127.0.0.1:{site.port}/"


def put(site: Site, topic: str, key: bytes, value: bytes) -> None:
    site.rig.bus.publish([Output(site.rig.topic(topic), value, key, 0)])
    site.watch()


def measure(site: Site, found: Measurement) -> None:
    newest = site.memory.posterior
    assert newest is not None
    moment = Moment(newest.version, n_events=newest.found.n_events)
    said = Published(site.rig.spec.fingerprint, "monitor-0", site.memory.now(), moment, found)
    put(site, "metrics", *measurements.encode(said, 1 << 20))


def beat(site: Site, service: str, start: int, ready: bool = True) -> None:
    now = site.memory.now()
    said = Beat(service, f"{service}-0", start, "host", ready, {}, now)
    put(site, "health", *beats.encode(said))


def everything(site: Site) -> None:
    """Each panel has something to show."""
    curve = np.array([[0.1, 0.12, 0.1], [0.5, 0.45, 0.5], [0.9, 0.95, 0.9]])
    values = (Value("coverage", "rate", 0.61, 0.02), Value("shift", "rate", 0.7, 0.01), Value("ratio", "rate", 1.7))
    said = "The 95% interval of rate really holds 61%."
    measure(site, Measurement("coverage", "fail", said, "Use local: ep.", values=values))
    measure(site, Measurement("calibration", "good", "Predictions come true.", curves={"reliability": curve}))
    beat(site, "master", site.memory.now() - 1000)


def test_the_page_shows_what_the_api_says(chromium: Any, own: Site) -> None:
    everything(own)
    document = own.ask(own.one).document
    with visit(chromium, at(own)) as seen:
        seen.wait("#parameters", "rate")
        seen.wait("#parameters", "61%")
        cells = seen.page.locator("#parameters tbody td").all_inner_texts()
        assert float(cells[1]) == pytest.approx(document["parameters"]["rate"]["mean"], rel=1e-3)
        assert float(cells[2]) == pytest.approx(document["parameters"]["rate"]["sd"], rel=1e-3)
        assert f"{document['n_events']} events" in seen.text("header")
        seen.wait("#freshness", "last update")
        assert "Use local: ep." in seen.text("#computed")
        assert "Predictions come true." in seen.text("#calibration")
        assert seen.said == []
        assert seen.hosts == {f"127.0.0.1:{own.port}"}


def test_of_many_parameters_the_worst_come_first_and_others_are_searched(chromium: Any) -> None:
    with site_of(wide()) as site, visit(chromium, at(site)) as seen:
        seen.wait("#parameters caption", "25 of 930 numbers")
        worst = (Value("coverage", "cov[f7, f3]", 0.3, 0.01), Value("coverage", "mean[f9]", 0.6, 0.01))
        measure(site, Measurement("coverage", "fail", "Too narrow.", "Draw more.", values=worst))
        seen.wait("#parameters tbody tr:first-child", "30%")
        first = seen.page.locator("#parameters tbody td:first-child").all_inner_texts()[:3]
        assert first == ["cov[f7, f3]", "mean[f9]", "mean[f0]"]
        seen.page.fill("#search", "F29]")
        seen.wait("#parameters caption", "25 of 31 numbers")
        seen.page.get_by_role("button", name="Show more").click()
        seen.wait("#parameters caption", "31 of 31 numbers")


def test_sections_stand_in_their_order(chromium: Any, own: Site) -> None:
    with visit(chromium, at(own)) as seen:
        seen.wait("#parameters", "rate")
        found = seen.page.locator("main section").evaluate_all("all => all.map(each => each.id)")
    assert found == [
        "verdict", "parameters", "intervals", "score", "calibration", "computed", "flow", "dead-letters", "keys",
        "picture",
    ]  # fmt: skip


def test_new_events_appear(chromium: Any, own: Site) -> None:
    with visit(chromium, at(own)) as seen:
        seen.wait("#about", "10 events")
        own.add(5, 6, 7, 8)
        seen.wait("#about", "14 events")
        mean = own.ask(own.one).document["parameters"]["rate"]["mean"]
        seen.wait("#parameters", f"{mean:.4g}")


def test_text_of_events_is_shown_as_text(chromium: Any, own: Site) -> None:
    with visit(chromium, at(own)) as seen:
        seen.wait("#dead-letters", SCRIPT)
        assert seen.page.locator("main script").count() == 0
        assert seen.said == []


def test_keys_can_be_looked_up_whatever_they_are(chromium: Any) -> None:
    with site_of(by_city()) as site, visit(chromium, at(site)) as seen:
        seen.wait("#keys table", "berlin")
        for key, events in (("a/b", 2), (SCRIPT, 4), ("münchen", 5)):
            seen.page.fill("#key", key)
            seen.page.press("#key", "Enter")
            seen.wait("#keys caption", f"{key}: {events} events")
        seen.page.fill("#key", "no such key")
        seen.page.press("#key", "Enter")
        seen.wait("#keys", "No event has the key")
        assert [text for text in seen.said if "404" not in text] == []


def test_a_process_that_is_silent_or_was_restarted_is_shown(chromium: Any, own: Site) -> None:
    first = own.memory.now()
    beat(own, "master", first)
    with visit(chromium, at(own)) as seen:
        seen.wait("#flow", "healthy")
        beat(own, "master", first + 500)
        seen.wait("#flow tbody tr >> nth=0", "healthy")
        assert own.ask(f"{own.one}/services").document["services"][0]["restarts"] == 1
        own.rig.clock.advance(20.0)
        own.watch()
        own.memory.refresh()
        seen.wait("#flow", "silent")


def test_what_a_reader_does_is_kept_when_numbers_change(chromium: Any, own: Site) -> None:
    """Tables that are open stay open, and who is at a place with the keyboard stays there."""
    with visit(chromium, at(own)) as seen:
        seen.wait("#about", "10 events")
        seen.page.locator("#flow summary").first.click()
        seen.page.locator("#parameters .scroll").focus()
        own.add(5, 6, 7, 8)
        seen.wait("#about", "14 events")
        seen.wait("#parameters", f"{own.ask(own.one).document['parameters']['rate']['mean']:.4g}")
        assert seen.page.locator("#flow details[open] td").count() > 0
        assert seen.page.evaluate("document.activeElement.closest('section').id") == "parameters"


def test_beats_keep_telling_how_far_processes_are(chromium: Any, own: Site) -> None:
    now = own.memory.now()
    with visit(chromium, at(own)) as seen:
        for behind in (7, 3):
            put(
                own,
                "health",
                *beats.encode(Beat("up", "up-0", now, "host", True, {"behind": behind}, own.memory.now())),
            )
            seen.wait("#flow", f"{behind} positions of the data are not in the posterior yet")


def test_a_clock_that_is_wrong_does_not_make_the_posterior_old(chromium: Any, own: Site) -> None:
    said = []
    for year in (None, "2040-01-01", "2001-01-01"):
        with visit(chromium, BLANK) as seen:
            if year is not None:
                seen.page.clock.set_fixed_time(year)
            seen.page.goto(at(own))
            seen.wait("#freshness", "days ago")  # the clock of the simulated bus began long ago
            said.append(int(seen.text("#freshness").split()[2]))
    assert max(said) - min(said) <= 1


def test_a_stream_that_was_refused_is_asked_for_again(chromium: Any) -> None:
    """A browser gives up if the answer is not a stream, as when there are too many."""
    with (
        site_of(counted(), limits=Limits(streams=1)) as site,
        listening(site) as first,
        visit(chromium, at(site)) as seen,
    ):
        first.next("services")
        seen.wait("#parameters", "rate")
        seen.page.wait_for_event("response", lambda answer: answer.url.endswith("/events") and answer.status == 503)
        first.connection.shutdown(socket.SHUT_RDWR)
        seen.page.wait_for_event("response", lambda answer: answer.url.endswith("/events") and answer.status == 200)
        site.add(5, 6, 7, 8)
        seen.wait("#about", "14 events")


def test_a_page_that_is_signed_out_can_sign_in_again(chromium: Any) -> None:
    with site_of(counted(), TOKEN) as site, visit(chromium, at(site)) as seen:
        sign_in(seen)
        seen.page.context.clear_cookies()
        site.add(5, 6, 7, 8)
        sign_in(seen)
        seen.wait("#about", "14 events")


def sign_in(seen: Visit) -> None:
    seen.wait("#main", "Sign in")
    seen.page.locator("input[name=token]").press_sequentially(TOKEN, delay=60)
    seen.page.press("input[name=token]", "Enter")
    seen.wait("#parameters", "rate")


def test_a_monitor_that_is_gone_is_told(chromium: Any) -> None:
    with site_of(counted()) as site:
        seen = Visit(chromium.new_page(), at(site))
        seen.wait("#parameters", "rate")
    seen.wait("#banner", "No contact with the monitor")
    seen.page.close()


def test_the_page_signs_in_with_the_token(chromium: Any) -> None:
    with site_of(counted(), TOKEN) as site, visit(chromium, at(site)) as seen:
        sign_in(seen)
        assert seen.page.evaluate("document.cookie") == ""


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1200, "light"), (1200, "dark")])
def test_axe_finds_nothing_serious(width: int, scheme: str, chromium: Any, own: Site) -> None:
    from axe_playwright_python.sync_playwright import Axe

    everything(own)
    with visit(chromium, at(own), width, scheme) as seen:
        seen.wait("#parameters", "61%")
        seen.wait("#flow", "healthy")
        found = Axe().run(seen.page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_serious_among_keys(chromium: Any, cities: Site) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with visit(chromium, at(cities), 390, "dark") as seen:
        seen.wait("#keys table", "berlin")
        seen.page.get_by_role("button", name="a/b").click()
        seen.wait("#keys caption", "a/b: 2 events")
        found = Axe().run(seen.page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_keyboard_reaches_everything(chromium: Any, own: Site) -> None:
    everything(own)
    with visit(chromium, at(own)) as seen:
        seen.wait("#parameters", "61%")
        seen.wait("#computed", "61%")
        wanted = seen.page.evaluate(REACHABLE)
        reached = set()
        for _ in range(wanted + 5):
            seen.page.keyboard.press("Tab")
            reached.add(seen.page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        assert len(reached - {-1, 0}) >= wanted
        summary = seen.page.locator("#computed summary").first
        summary.focus()
        seen.page.keyboard.press("Enter")
        seen.wait("#computed table", "coverage: rate")


REACHABLE = """[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
    .filter(each => each.checkVisibility({contentVisibilityAuto: true})).length"""


def test_charts_recolour_and_have_their_numbers_in_a_table(chromium: Any, own: Site) -> None:
    with visit(chromium, at(own)) as seen:
        seen.wait("#intervals", "rate")
        picture = "document.querySelector('#intervals canvas').toDataURL()"
        seen.page.wait_for_function(
            f"() => document.querySelector('#intervals canvas') !== null && {picture}.length > 2000"
        )
        light = seen.page.evaluate(picture)
        seen.page.emulate_media(color_scheme="dark")
        seen.page.wait_for_function(f"before => {picture} !== before", arg=light)
        seen.page.locator("#intervals summary").first.click()
        seen.wait("#intervals table", "lower")


def test_the_page_is_small_and_what_is_vendored_is_what_it_says() -> None:
    assert sum(len(each.body) for path, each in page_files().items() if path != "/") <= LARGEST_PAGE
    vendor = files("streaminfer.http") / "page" / "vendor"
    lines = (vendor / "CHECKSUMS.txt").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
    assert "MIT" in (vendor / "uplot-LICENSE.txt").read_text()
