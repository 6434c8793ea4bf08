"""Reports: what the memory knows as one file, with pictures; text of events stays text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.http.report import content, html, marginals, png, svg
from streaminfer.http.report.figures import Figure, Line, Mark
from streaminfer.measuring.measurement import Measurement, Value
from tests.http.site import SCRIPT, Site, counted, site_of
from tests.http.test_page import measure


@pytest.fixture(scope="module")
def measured() -> Site:
    with site_of(counted()) as site:
        values = (
            Value("coverage", "rate", 0.61, 0.02),
            Value("shift", "rate", -0.5, 0.01),
            Value("ratio", "rate", 1.7),
        )
        measure(
            site, Measurement("coverage", "fail", "The interval of rate really holds 61%.", "Draw more.", values=values)
        )
        curve = np.array([[0.0, 0.1], [0.5, 0.45], [1.0, 0.9]])
        measure(site, Measurement("calibration", "good", "As it should be.", curves={"pit": curve}))
        return site


def test_a_report_has_what_the_dashboard_has(measured: Site) -> None:
    made = content.sections(measured.memory, measured.memory.verdict)
    page = html.page("demo", "a rate", made)
    document = measured.memory.posterior
    assert document is not None
    mean = document.found.mean["rate"]
    assert f"{float(mean):.5g}" in page
    assert "61%" in page
    assert "Draw more." in page
    assert "As it should be." in page
    titles = [each.title for each in made]
    assert (titles[:2], titles[-1]) == (["Can this posterior be trusted?", "Parameters"], "Where the error comes from")
    assert made[-1].tables[0].rows == (("rate", "0.5", "0.02", "1.7", "bias"),)
    (pit,) = next(each.figures for each in made if each.title == "Calibration")
    assert [list(line.values) for line in pit.lines] == [[0.1, 0.45, 0.9], [0.0, 0.5, 1.0]], "and its diagonal"
    assert "<script" not in page
    assert not re.search(r'(src|href)="', page)


def test_text_of_events_is_text(measured: Site) -> None:
    page = html.page("demo", SCRIPT, content.sections(measured.memory, measured.memory.verdict))
    assert "&lt;script&gt;" in page
    assert SCRIPT not in page


FIGURE = Figure("<a> & b", [0.0, 1.0, 2.0], (Line("m", [1.0, None, 3.0]),), ([0.0, None, 2.0], [2.0, None, 4.0]),
                marks=(Mark(1.0, "<drift>"),))  # fmt: skip


@pytest.mark.parametrize(
    "figure",
    [FIGURE, Figure("one", [1.7e9], (Line("m", [3.0]),), is_time=True), Figure("none", [], (Line("m", []),))],
)
def test_pictures_are_well_formed(figure: Figure) -> None:
    ElementTree.fromstring(svg.drawn(figure))  # noqa: S314 (ours)
    ElementTree.fromstring(svg.sheet("<t>", [figure, figure, figure]))  # noqa: S314 (ours)


def test_points_are_where_their_numbers_are() -> None:
    """The middle of three values is in the middle of the picture, whatever the scale."""
    figure = Figure("line", [0.0, 5.0, 10.0], (Line("m", [1e6, 2e6, 3e6]),))
    (points,) = re.findall(r'polyline class="line" points="([^"]+)"', svg.drawn(figure))
    found = np.array([[float(x) for x in each.split(",")] for each in points.split()])
    np.testing.assert_allclose(found[1], found[[0, 2]].mean(axis=0), atol=0.11)
    assert found[0, 1] > found[2, 1], "larger is higher"


def test_one_version_has_its_interval_and_a_minute_around_it() -> None:
    figure = Figure("one", [1.8e9], (Line("mean", [3.0]),), ([2.0], [4.0]), is_time=True)
    picture = svg.drawn(figure)
    assert picture.count('<line class="line"') == 1
    assert re.findall(r">(\d\d:\d\d:\d\d)<", picture) == [
        "07:59:30", "07:59:45", "08:00:00", "08:00:15", "08:00:30"
    ]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3e-9, 4e-9), (1e8, 1e8 + 30), (-5.0, 1e4)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = svg.ticks(low, high)
    assert 2 <= len(found) <= 11
    assert all(low - 1e-9 * (high - low) <= each <= high + 1e-9 * (high - low) for each in found)


def test_marginals_are_densities() -> None:
    rows = [{"k": int(k)} for k in np.random.default_rng(1).poisson(3, 400)]
    found = fit({"name": "demo", "model": {"kind": "poisson", "field": "k"}}, rows)
    (figure,) = marginals.figures(found)
    area = np.trapezoid([each or 0.0 for each in figure.lines[0].values], figure.x)
    assert area == pytest.approx(1.0, abs=0.02)
    assert figure.band is not None
    inside = [x for x, y in zip(figure.x, figure.band[1], strict=True) if y is not None]
    mean, sd = float(found.mean["rate"]), float(found.sd["rate"])
    assert [inside[0], inside[-1]] == pytest.approx([mean - 1.96 * sd, mean + 1.96 * sd], abs=0.3 * sd)


def test_pictures_as_png(tmp_path: Path) -> None:
    paths = png.write([FIGURE, FIGURE], tmp_path / "pictures")
    assert [each.name for each in paths] == ["00-a-b.png", "01-a-b.png"]
    assert all(each.read_bytes().startswith(b"\x89PNG") for each in paths)
