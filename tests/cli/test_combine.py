"""`combine` on a bus that `up` has filled: what it says of each combiner, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime import names
from streaminfer.runtime.api import comparison
from streaminfer.runtime.sampling import scratch
from tests.cli.conftest import Workplace
from tests.cli.test_draws import run

MODEL = {"kind": "logistic_regression", "features": ["a"], "target": "t"}
ROWS = [{"a": round(float(a), 3), "t": int(a + e > 1)} for a, e in np.random.default_rng(2).normal(size=(600, 2))]
QUICK = "average,average:equal,gaussian,kde,variational"


def spec_of(folder: Path, name: str, partitions: int = 3, **inference: Any) -> Path:
    settings = {"method": "mala", "chains": 1, "subposteriors": 3, **inference}
    path = folder / f"{name}.yaml"
    path.write_text(
        json.dumps({"name": name, "data": {"partitions": partitions}, "model": MODEL, "inference": settings})
    )
    return path


def data_of(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"rows-{len(rows)}.csv"
    path.write_text("a,t\n" + "".join(f"{row['a']},{row['t']}\n" for row in rows))
    return path


class Made:
    """Draws of three subposteriors on a bus, made by the services."""

    def __init__(self, workplace: Workplace) -> None:
        self.workplace, self.url = workplace, f"embedded:{workplace.folder / 'combined'}"
        self.spec = spec_of(workplace.folder, "parts")
        self.up(self.spec, ROWS)

    def up(self, spec: Path, rows: list[dict[str, Any]]) -> None:
        data = data_of(self.workplace.folder, rows)
        self.workplace.programs.run("up", spec, "--data", data, "--until-idle", "--bus", self.url)

    def combine(self, spec: Path, *options: object, code: int = 0) -> Any:
        return self.workplace.call("combine", spec, *options, "--bus", self.url, code=code)


@pytest.fixture(scope="module")
def made(workplace: Workplace) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scratch.VARIABLE, str(workplace.folder / "scratch"))
        yield Made(workplace)


def ends(url: str, spec: Path) -> dict[str, Any]:
    """How long every topic is."""
    with connect(url) as connection:
        return {each.name: connection.bus.ends(each.name) for each in names.topics_of(load_spec(spec))}


def test_a_table_with_a_line_for_each_combiner(made: Made) -> None:
    lines = made.combine(made.spec, "--by", QUICK).out.splitlines()
    assert lines[0] == "parts: 3,000 draws of 3 subposteriors, 600 events"
    assert lines[1].startswith("compared with the posterior: average, corrected by the exact density, Pareto k ")
    rows = [line.split() for line in lines[3:] if not line.strip().startswith("warning: ")]
    assert len(lines) == len(set(lines))  # what holds for all combiners is told once
    assert rows[0] == ["combiner", "seconds", "shift", "least", "sd", "largest", "sd", "Pareto", "k", "correction"]
    assert [row[0] for row in rows[1:]] == QUICK.split(",")
    assert {row[-1] for row in rows[1:]} == {"reliable"}


def test_documents_say_how_far_each_is_from_the_posterior(made: Made) -> None:
    whole = fit({"name": "whole", "model": MODEL, "inference": {"method": "mala", "draws": 4000}}, ROWS)
    documents = made.combine(made.spec, "--by", QUICK, "--json").documents
    assert [(each["by"], each["weights"]) for each in documents] == [
        ("average", "full"), ("average", "equal"), ("gaussian", None), ("kde", None), ("variational", None),
    ]  # fmt: skip
    for each in documents:
        assert each["n_events"] == 600
        assert each["refused"] is None
        assert (each["reliable"], each["compared_with"]["corrected"]) == (True, True)
        assert each["k_hat"] <= each["threshold"] == 0.7
        truth, found = each["compared_with"]["parameters"]["weights"], each["parameters"]["weights"]
        assert truth["mean"] == pytest.approx(whole.mean["weights"], abs=0.1 * float(whole.sd["weights"].min()))
        assert truth["sd"] == pytest.approx(whole.sd["weights"], rel=0.1)
        shifts = np.abs(np.subtract(found["mean"], truth["mean"])) / truth["sd"]
        ratios = np.divide(found["sd"], truth["sd"])
        assert each["difference"] == pytest.approx(
            {"shift": shifts.max(), "least": ratios.min(), "largest": ratios.max()}
        )
        assert each["corrected_difference"]["shift"] < 0.1
        assert [part["n_draws"] for part in each["subposteriors"]] == [1000] * 3
    assert documents[0]["difference"]["shift"] > documents[0]["corrected_difference"]["shift"]


def test_nothing_on_the_bus_changes(made: Made) -> None:
    before = ends(made.url, made.spec)
    made.combine(made.spec, "--by", "average,variational")
    assert ends(made.url, made.spec) == before


def test_all_leaves_nothing_out_and_the_slow_ones_come_last() -> None:
    found = [each.name for each in comparison.choices("all")]
    assert found[:3] == ["average", "average:diagonal", "average:equal"]
    assert found[-2:] == ["variational", "weierstrass"]
    assert len(found) == 12
    assert comparison.choices("average:full, average") == [comparison.Choice("average", "full")]


def test_weierstrass_says_how_far_it_is(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.cli.terminal.QUIET_INTERVAL", 0.0)
    called = made.combine(made.spec, "--by", "weierstrass", "--json")
    (document,) = called.documents
    assert document["difference"]["shift"] < 0.5
    assert "weierstrass: question 10 of 10, subposterior 3 of 3, " in called.err
    assert "average: the exact density at 10,000 points, subposterior 1 of 3, " in called.err


def test_events_that_are_gone_leave_the_average_to_compare_with(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of the segment are nowhere: the log has lost them, and no file has kept them."""
    spec = spec_of(made.workplace.folder, "gone")
    made.up(spec, ROWS[:300])
    monkeypatch.setenv(scratch.VARIABLE, str(made.workplace.folder / "empty"))
    with connect(made.url) as connection:
        topic = names.data_topic(load_spec(spec))
        connection.bus.delete_before(Partition(topic, 1), 5)
    called = made.combine(spec, "--by", "average,gaussian,variational")
    lines = [line for line in called.out.splitlines() if not line.strip().startswith("warning: ")]
    why = "events of subposterior 1 are gone from the log: partition 1 of the segment starts at 0, the log at 5"
    told = "compared with the average with full weights, which is not corrected and may be far from the posterior: "
    assert lines[1] == told + why
    assert lines[4].split()[2:] == ["0.00", "1.00", "1.00", "-", "none"]
    assert lines[6].split(maxsplit=1) == ["variational", f"refused: asks for densities, and there are none: {why}"]
    documents = made.combine(spec, "--by", "gaussian", "--json").documents
    assert (documents[0]["k_hat"], documents[0]["reliable"], documents[0]["compared_with"]["why_not"]) == (
        None, None, why,
    )  # fmt: skip


def test_too_few_draws_are_told_by_subposterior(made: Made) -> None:
    spec = spec_of(made.workplace.folder, "few", draws=4)
    with connect(made.url) as connection:
        connection.produce(load_spec(spec), ROWS[:60])
    _run_until(made, spec, 3)
    message = made.combine(spec, code=1).err
    for j in range(3):
        assert f"no draws of 'few' on {made.url} can be combined yet: subposterior {j}: its draws are worth " in message
    assert "and must be worth 5: set inference.draws or inference.thin higher" in message


def test_one_that_is_left_out_is_named(made: Made) -> None:
    combine = {"by": "average", "missing": "leave_out", "missing_seconds": 0}
    spec = spec_of(made.workplace.folder, "left", combine=combine)
    with connect(made.url) as connection:
        names.create_topics(load_spec(spec), connection.bus)
        topic = names.data_topic(load_spec(spec))
        connection.bus.publish(
            [Output(topic, json.dumps(row).encode(), None, i % 2) for i, row in enumerate(ROWS[:80])]
        )
    _run_until(made, spec, 2)
    called = made.combine(spec, "--by", "average,kde")
    lines = called.out.splitlines()
    assert lines[1] == (
        "subposterior 2 has no draws: no event has come to its partitions yet; without it and its events"
    )
    assert lines[-1].split(maxsplit=1)[1].startswith("refused: needs draws of every subposterior, and 2 has none")


def _run_until(made: Made, spec: Path, parts: int) -> None:
    """Services until so many subposteriors have all their draws."""

    def done(connection: Any, loaded: Any) -> bool:
        found = [connection.subposterior(loaded, j) for j in range(parts)]
        return all(each is not None and each.sampling["complete"] for each in found)

    run(spec, made.url, done)


ERRORS: dict[str, tuple[str, list[str], int, str]] = {
    "a name of none": (
        "parts", ["--by", "average,median"], 2,
        "--by: must be all, or some of average, average:diagonal, average:equal, gaussian, kde,",
    ),
    "without a sampler": (
        "coin", [], 2,
        "coin.yaml: inference.method: must be a sampler, such as sgld, with subposteriors: 2 or more (got svb)",
    ),
    "one posterior": (
        "one", [], 2,
        "one.yaml: inference.subposteriors: must be 2 or more, as there is nothing to combine otherwise (got 1)",
    ),
    "no draws yet": ("later", [], 1, "no draws of 'later' on"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(made: Made, case: str) -> None:
    name, options, code, text = ERRORS[case]
    folder = made.workplace.folder
    spec_of(folder, "one", subposteriors=1)
    spec_of(folder, "later")
    called = made.combine(Path(f"{name}.yaml"), *options, code=code)
    assert text in called.err
    assert called.out == ""
