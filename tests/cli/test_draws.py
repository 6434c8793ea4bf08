"""`draws`, and `snapshot` and `predict` of a sampled posterior, on a bus that the real services have filled."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from prometheus_client import CollectorRegistry

from streaminfer import connect, fit, load_spec
from streaminfer.cli import draws as draws_command
from streaminfer.runtime.api.draws import Draw
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import needed
from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.supervising.chains import Chains
from streaminfer.services import ROLES
from streaminfer.spec import parse_spec
from tests.cli.conftest import Workplace
from tests.faults.programs import wait_for

ROWS = [{"a": float(a), "t": int(a + e > 0)} for a, e in np.random.default_rng(2).normal(size=(200, 2))]
MODEL = {"kind": "logistic_regression", "features": ["a"], "target": "t"}
CHAINS, DRAWS = 2, 60


def spec_of(folder: Path, name: str, **inference: Any) -> Path:
    settings = {"method": "mh", "chains": CHAINS, "draws": DRAWS, "warmup": 40, **inference}
    text = {"name": name, "data": {"partitions": 2}, "model": MODEL, "inference": settings}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(text))
    return path


def run(path: Path, url: str, until: Any) -> None:
    """The services of a spec in this process, until something is so."""
    spec = load_spec(path)
    with connect(url) as connection:
        ids = schemas.prepare(spec, connection.bus)
        services = [r.build(spec, connection.bus, CollectorRegistry(), None, ids) for r in needed(ROLES, spec)]
        try:
            wait_for(lambda: [service.step(0.01) for service in services] and until(connection, spec), "the draws")
        finally:
            for service in services:
                service.close()


def is_complete(segment: int) -> Any:
    def look(connection: Any, spec: Any) -> bool:
        found = connection.snapshot(spec)
        return found is not None and found.sampling["complete"] and found.sampling["segment"] == segment

    return look


class Made:
    """A spec with two segments of draws, and one with two subposteriors, on one bus."""

    def __init__(self, folder: Path) -> None:
        self.url = f"embedded:{folder / 'sampled'}"
        self.one, self.parts = spec_of(folder, "one"), spec_of(folder, "parts", subposteriors=2, chains=1)
        with connect(self.url) as connection:
            connection.produce(load_spec(self.one), ROWS[:100])
            connection.produce(load_spec(self.parts), ROWS)
        run(self.one, self.url, is_complete(0))
        with connect(self.url) as connection:
            connection.produce(load_spec(self.one), ROWS[100:])
        run(self.one, self.url, is_complete(1))
        run(self.parts, self.url, lambda c, s: all(c.subposterior(s, j) is not None for j in (0, 1)))


@pytest.fixture(scope="module")
def made(workplace: Workplace) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scratch.VARIABLE, str(workplace.folder / "scratch"))
        yield Made(workplace.folder)


def test_the_last_draws_of_each_chain(workplace: Workplace, made: Made) -> None:
    lines = workplace.call("draws", made.one, "--bus", made.url).out.splitlines()
    assert lines[0] == "120 draws of 2 chains, segment 1"
    assert lines[1].split() == ["subposterior", "chain", "draw", "weights[intercept]", "weights[a]"]
    assert [line.split()[:3] for line in lines[2:-1]] == [["0", str(c), str(d)] for c in (0, 1) for d in range(55, 60)]


def test_all_draws_as_documents(workplace: Workplace, made: Made) -> None:
    found = workplace.call("draws", made.one, "--json", "--bus", made.url).documents
    assert [
        (each["chain"], each["draw"]) for each in sorted(found, key=lambda each: (each["chain"], each["draw"]))
    ] == [(chain, draw) for chain in range(CHAINS) for draw in range(DRAWS)]
    assert {each["segment"] for each in found} == {1}
    assert np.shape(found[0]["parameters"]["weights"]) == (2,)
    assert all(np.isfinite(each["log_density"]) for each in found)


def test_draws_of_a_segment_and_a_chain(workplace: Workplace, made: Made) -> None:
    call = ["draws", made.one, "--segment", 0, "--chain", 1, "--json", "--bus", made.url]
    found = workplace.call(*call).documents
    assert {(each["segment"], each["chain"]) for each in found} == {(0, 1)}
    assert len(found) == DRAWS


def test_a_netcdf_file_reads_back_as_chains_and_draws(workplace: Workplace, made: Made, tmp_path: Path) -> None:
    path = tmp_path / "draws.nc"
    called = workplace.call("draws", made.one, "--netcdf", path, "--bus", made.url)
    assert called.err == f"{path}: 120 draws of 2 chains, segment 1\n"
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        weights = tree["posterior"]["weights"].to_numpy()
        assert tree["sample_stats"]["lp"].shape == tree["sample_stats"]["weight"].shape == (CHAINS, DRAWS)
    assert weights.shape == (CHAINS, DRAWS, 2)
    with connect(made.url) as connection:
        seen = connection.snapshot(load_spec(made.one))
    assert seen is not None
    assert np.array_equal(weights, seen.to_inference_data()["posterior"]["weights"].to_numpy())


def test_a_parquet_file_has_a_row_for_each_draw(workplace: Workplace, made: Made, tmp_path: Path) -> None:
    path = tmp_path / "draws.parquet"
    workplace.call("draws", made.one, "--parquet", path, "--bus", made.url)
    table = pq.read_table(path)
    assert table.num_rows == CHAINS * DRAWS
    assert {"segment", "chain", "draw", "weight", "log_density", "weights[0]", "weights[1]"} <= set(table.column_names)


def test_follow_prints_what_is_there_and_goes_on_until_it_is_interrupted(workplace: Workplace, made: Made) -> None:
    follower = workplace.programs.start("draws", made.one, "--follow", "--json", "--bus", made.url)
    wait_for(lambda: len(follower.documents) >= 2 * CHAINS * DRAWS, "the draws of two segments")
    assert follower.end(signal.SIGINT) == 0
    places = [(each["segment"], each["chain"], each["draw"]) for each in follower.documents]
    assert len(places) == len(set(places)) == 2 * CHAINS * DRAWS


def test_each_subposterior_by_itself(workplace: Workplace, made: Made, tmp_path: Path) -> None:
    found = workplace.call("draws", made.parts, "--subposterior", 1, "--json", "--bus", made.url).documents
    assert {each["subposterior"] for each in found} == {1}
    (document,) = workplace.call("snapshot", made.parts, "--subposterior", 1, "--json", "--bus", made.url).documents
    mean = np.mean([each["parameters"]["weights"] for each in found], axis=0)
    assert document["parameters"]["weights"]["mean"] == pytest.approx(mean, rel=1e-12)
    assert (document["n_events"], list(document["frontier"])) == (100, ["parts.events-1"])
    path = tmp_path / "part.nc"
    workplace.call("draws", made.parts, "--subposterior", 0, "--netcdf", path, "--bus", made.url)
    assert path.exists()


ERRORS: dict[str, tuple[list[Any], int, str]] = {
    "a chain that is not there": (
        ["draws", "one", "--chain", 2],
        2,
        "--chain: must be below 2, as the spec says (got 2)",
    ),
    "a part that is not there": (
        ["draws", "one", "--subposterior", 1],
        2,
        "--subposterior: must be below 1, as the spec",
    ),
    "a segment that is not there": (
        ["draws", "one", "--segment", 7],
        1,
        "no draws of segment 7 of 'one': there are those of segment 0 and 1",
    ),
    "chains of several targets": (
        ["draws", "parts", "--netcdf", "x.nc"],
        2,
        "--netcdf: its chains must be of one target, and the spec has 2 subposteriors: choose one with "
        "--subposterior 0 to 1",
    ),
    "a folder that is not there": (
        ["draws", "one", "--parquet", "no/x"],
        2,
        "--parquet: must be a file that can be written (got no/x: the folder no does not exist)",
    ),
    "follow into a file": (
        ["draws", "one", "--follow", "--netcdf", "x.nc"],
        2,
        "--follow: a file has the draws of one",
    ),
    "without a sampler": (
        ["draws", "coin"],
        2,
        "inference.method: svb has no draws on the bus, only a sampler such as",
    ),
    "no draws yet": (
        ["draws", "later"],
        1,
        "no draws of 'later' on",
    ),
    "a snapshot of no part": (
        ["snapshot", "parts", "--subposterior", 2],
        2,
        "--subposterior: must be below 2",
    ),
    "a part without a sampler": (
        ["snapshot", "coin", "--subposterior", 0],
        2,
        "coin.yaml: inference.method: svb has no draws",
    ),
    "follow a part": (
        ["snapshot", "parts", "--subposterior", 0, "--follow"],
        2,
        "--follow: a subposterior is shown as it",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(workplace: Workplace, made: Made, case: str) -> None:
    (command, name, *options), code, text = ERRORS[case]
    spec_of(workplace.folder, "later")
    called = workplace.call(command, f"{name}.yaml", *options, "--bus", made.url, code=code)
    assert text in called.err
    assert called.out == ""


def test_a_snapshot_says_what_it_is_made_of(workplace: Workplace, made: Made) -> None:
    lines = workplace.call("snapshot", made.one, "--bus", made.url).out.splitlines()
    assert lines[0].startswith("one: logistic_regression by mh, sampled, version ")
    assert lines[1].startswith("200 events; ")
    assert lines[2].startswith("segment 1 is complete: 120 draws of 2 chains, worth ")
    assert lines[3].endswith("% of proposals accepted.")
    (document,) = workplace.call("snapshot", made.one, "--json", "--bus", made.url).documents
    told = document["sampling"]
    assert (told["segment"], told["complete"], told["cut"], told["n_draws"]) == (1, True, False, 120)
    assert document["score"] < 0


def test_it_predicts_by_draws(workplace: Workplace, made: Made) -> None:
    (workplace.folder / "rows.csv").write_text("a\n3\n-3\n")
    called = workplace.call("predict", made.one, "rows.csv", "--json", "--bus", made.url)
    high, low = (each["probability"] for each in called.documents)
    assert 0 < low < 0.2 < 0.8 < high < 1
    assert "by mh, sampled, version" in called.err


def test_subscribers_get_it_and_it_is_what_fit_makes_of_all_rows(made: Made) -> None:
    spec = load_spec(made.one)
    with connect(made.url) as connection:
        (found,) = connection.subscribe(spec, timeout=0.1)
        assert found.sampling is not None
        whole = fit(spec, ROWS)
    assert found.n_events == whole.n_events == 200
    assert found.mean["weights"] == pytest.approx(whole.mean["weights"], abs=4 * float(whole.sd["weights"].max()))


def test_up_says_what_chains_do(made: Made) -> None:
    spec = load_spec(made.one)
    assert spec.sampling is not None
    with connect(made.url) as connection:
        chains = Chains(spec, spec.sampling, connection.bus, schemas.look_up(spec, connection.bus, ["draws"]))
        found = connection.snapshot(spec)
        assert found is not None
        assert chains.said(None) == ""
        assert chains.said(found.snapshot) == "segment 1: 2 chains read events and find their start"
        wait_for(lambda: chains.poll() or chains.said(found.snapshot) == "segment 1: 2 chains are done", "all draws")
        chains.close()


def test_validate_and_topics_of_a_sampler(workplace: Workplace, made: Made) -> None:
    assert "draws: 60" in workplace.call("validate", made.one).out
    listed = workplace.call("topics", made.one, "--bus", made.url).out
    assert "one.draws" in listed
    assert "one.sampler-state" in listed
    assert "one.increments" not in listed


def test_numbers_of_topics_are_named_by_their_words(tmp_path: Path) -> None:
    model = {"kind": "lda", "field": "words", "topics": 2, "vocabulary": ["b", "a"]}
    spec = parse_spec({"name": "topics", "model": model, "inference": {"method": "sgrld"}})
    draw = Draw(0, 0, 0, 0, 1.0, None, {"topics": np.full((2, 2), 0.5)})
    words = [word.decode() for word in spec.target.words]
    assert draws_command._columns(spec, draw) == [f"topics[{k}, {word}]" for k in range(2) for word in words]
