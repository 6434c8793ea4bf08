"""`predict`: rows of every kind of file, bad ones among them, by one posterior or by that of their keys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer import connect, load_spec
from tests.cli.conftest import Called, Workplace
from tests.faults.programs import ROOT

pytestmark = pytest.mark.xdist_group("processes")

SPECS = {
    "line": "{name: line, data: {partitions: 1, timestamp: at}, inference: {forget: {half_life_seconds: 1.0e+9}}, "
            "model: {kind: linear_regression, features: [x], target: y}}\n",
    "towns": "{name: shops, model: {kind: poisson, field: k, exposure: hours}, key: {field: town, shards: 2}}\n",
    "words": "{name: words, model: {kind: lda, field: w, topics: 2}, inference: {minibatch: 8}}\n",
    "visits": "{name: visits, model: {kind: 'queue_models.visits:Visits', field: k}}\n",
    "dice": "{name: dice, model: {kind: categorical, field: face, categories: [heads, tails]}}\n",
}  # fmt: skip
DATA = {
    "line": "x,y,at\n" + "".join(f"{i % 7},{2 * (i % 7) + i % 2},{i}\n" for i in range(60)),
    "towns": "k,hours,town\n" + "4,1,north\n" * 20 + "1,1,south\n" * 10,
    "words": "w\n" + "cat dog dog\ntax law law\n" * 20,
    "dice": "face\n" + "heads\n" * 6 + "tails\n" * 2,
}


class Shop:
    """Specs whose posteriors are on one bus, and `predict` there."""

    def __init__(self, workplace: Workplace, url: str) -> None:
        self.folder, self.url, self._workplace = workplace.folder, url, workplace
        for name, text in SPECS.items():
            self.spec(name).write_text(text)
        for name, text in DATA.items():
            data = self.file(f"{name}-data.csv", text)
            workplace.programs.run("up", self.spec(name), "--data", data, "--until-idle", "--bus", url)

    def spec(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def predict(self, name: str, file: object, *more: object, code: int = 0) -> Called:
        return self._workplace.call("predict", self.spec(name), file, "--bus", self.url, *more, code=code)


@pytest.fixture(scope="module")
def shop(workplace: Workplace, shared_bus_url: str) -> Shop:
    return Shop(workplace, shared_bus_url)


def test_documents_are_what_the_snapshot_predicts(shop: Shop) -> None:
    """Neither the target nor the time is in the file; a bad row has its reason, and does not stop the others."""
    file = shop.file("new.csv", "x,note\n3,a\n,b\n-1.5,c\n")
    program = shop.predict("line", file, "--json", "--interval", 0.5)
    first, bad, last = program.documents
    with connect(shop.url) as bus:
        found = bus.snapshot(load_spec(shop.spec("line")))
    assert found is not None
    assert first == {"row": 0, **found.predict({"x": 3}, 0.5)}
    assert last == {"row": 2, **found.predict({"x": -1.5}, 0.5)}
    assert bad == {"row": 1, "error": "x: is empty, expected a number"}
    assert program.err == "2 of 3 rows predicted\n"
    (same, *_) = shop.predict("line", file, "--json").documents
    assert same == {"row": 0, **found.predict({"x": 3}, 0.95)}


def test_every_kind_of_file(shop: Shop) -> None:
    from fastavro import parse_schema, writer

    rows = [{"x": 1.0}, {"x": 2.5}]
    files = [shop.file("r.csv", "x\n1\n2.5\n"), shop.file("r.ndjson", '{"x": 1}\n{"x": 2.5}\n')]
    pq.write_table(pa.table({"x": [1.0, 2.5]}), shop.folder / "r.parquet")
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "x", "type": "double"}]})
    with (shop.folder / "r.avro").open("wb") as stream:
        writer(stream, schema, rows)
    files += [shop.folder / "r.parquet", shop.folder / "r.avro"]
    first, *others = [shop.predict("line", file, "--json").documents for file in files]
    assert len(first) == 2
    assert all(other == first for other in others)


def test_the_table_and_a_long_file(shop: Shop) -> None:
    file = shop.file("long.csv", "x\n" + "1\n" * 2500 + "?\n1\n")
    program = shop.predict("line", file)
    lines = program.out.splitlines()
    assert lines[0].startswith("line: linear_regression by svb, exact, version ")
    assert lines[1].split() == ["row", "mean", "sd", "lower", "upper"]
    assert len(lines) == 2 + 2502
    assert [line.split()[0] for line in lines[2:]] == [str(i) for i in range(2502)]
    assert lines[2].split()[1:] == lines[-1].split()[1:]
    assert lines[-2].split(maxsplit=1) == ["2500", "x: expected a number, got '?'"]
    assert program.err.splitlines()[-1] == "2,501 of 2,502 rows predicted"


def test_only_bad_rows_are_a_failure(shop: Shop) -> None:
    program = shop.predict("line", shop.file("bad.ndjson", '{"x": "?"}\nno\n[1]\n'), "--json", code=1)
    assert [document["row"] for document in program.documents] == [0, 1, 2]
    assert program.documents[1]["error"].startswith("not JSON: ")
    assert program.documents[2]["error"] == "an event must be an object with named fields (got a list of 1 value)"
    assert program.err == "0 of 3 rows predicted\n"
    assert shop.predict("line", shop.file("none.csv", "x\n"), "--json").documents == []


def test_named_outputs_are_by_name(shop: Shop) -> None:
    file = shop.file("throws.ndjson", "{}\n")
    (document,) = shop.predict("dice", file, "--json").documents
    assert document["probability"] == pytest.approx({"heads": 0.7, "tails": 0.3})
    assert set(document) == {"row", "probability", "lower", "upper"}
    lines = [line.split() for line in shop.predict("dice", file).out.splitlines()[1:]]
    assert [line[:3] for line in lines] == [
        ["row", "output", "probability"],
        ["0", "heads", "0.7"],
        ["0", "tails", "0.3"],
    ]


def test_each_row_by_its_own_key(shop: Shop) -> None:
    """An unknown key starts from the prior: Gamma(1, 1)."""
    file = shop.file("shifts.csv", "hours,town\n2,south\n2,north\n4,unheard\n1,\n1,north\n")
    program = shop.predict("towns", file, "--json")
    found = program.documents
    assert [(each.get("key"), each.get("known")) for each in found] == [
        ("south", True), ("north", True), ("unheard", False), (None, None), ("north", True),
    ]  # fmt: skip
    means = [each["mean"] for each in found if "mean" in each]
    assert means == pytest.approx([2 * 11 / 11, 2 * 81 / 21, 4.0, 81 / 21])
    assert found[3] == {"row": 3, "error": "town: is empty, must be a text of 1 to 256 bytes, or a whole number"}
    lines = shop.predict("towns", file).out.splitlines()
    assert lines[0] == "shops: poisson by svb, exact; each row with the posterior of its own key"
    assert lines[1].split()[:4] == ["row", "town", "known", "mean"]
    assert lines[4].split()[:4] == ["2", "unheard", "no", "4"]


def test_all_rows_by_one_key(shop: Shop) -> None:
    file = shop.file("hours.csv", "hours\n1\n3\n")
    found = shop.predict("towns", file, "--key", "north", "--json").documents
    assert [(each["key"], each["known"]) for each in found] == [("north", True)] * 2
    assert [each["mean"] for each in found] == pytest.approx([81 / 21, 3 * 81 / 21])
    missing = shop.predict("towns", file, "--key", "unheard", code=1)
    assert "no town 'unheard' in the posterior 'shops'" in missing.err
    nameless = shop.predict("towns", file, code=1)
    assert "hours.csv: has no column 'town', which the model reads" in nameless.err


def test_topics_and_how_exact_they_are(shop: Shop) -> None:
    file = shop.file("texts.csv", "w\ncat dog\nunheard\n")
    program = shop.predict("words", file, "--json")
    first, second = program.documents
    assert sum(first["topics"]) == pytest.approx(1)
    assert max(first["topics"]) > 0.9
    assert (first["words"], second["words"], second["topics"]) == (2, 0, [0.5, 0.5])
    assert program.err.startswith("words: lda by svb, approximate, version ")
    lines = shop.predict("words", file).out.splitlines()
    assert lines[0].startswith("words: lda by svb, approximate, version ")
    assert lines[1].split() == ["row", "topics", "words"]
    refused = shop.predict("words", file, "--interval", 0.9, code=2)
    assert "--interval: lda predicts probabilities without an interval; leave it out" in refused.err


def piped(shop: Shop, environment: dict[str, str], name: str, *more: str) -> subprocess.CompletedProcess[bytes]:
    """One row by standard input."""
    command = [sys.executable, "-P", "-m", "streaminfer", "predict", shop.spec(name), "-", "--bus", shop.url, *more]
    return subprocess.run(command, input=b'{"x": 1}\n', env=environment, capture_output=True, check=False)


def test_a_model_of_ones_own_that_does_not_predict(shop: Shop, workplace: Workplace) -> None:
    folder = ROOT / "docs" / "examples" / "own_model"
    environment = workplace.programs.environment
    path = f"{environment.get('PYTHONPATH', '')}{os.pathsep}{folder}".strip(os.pathsep)
    done = piped(shop, {**environment, "PYTHONPATH": path}, "visits", "--format", "ndjson")
    assert done.returncode == 2
    assert done.stderr.startswith(b"streaminfer: model.kind: queue_models.visits:Visits does not predict: ")
    assert len(done.stderr.splitlines()) == 1


def test_standard_input(shop: Shop, workplace: Workplace) -> None:
    environment = workplace.programs.environment
    done = piped(shop, environment, "line", "--format", "ndjson", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b'{"row": 0, "mean": ')
    assert piped(shop, environment, "line").returncode == 2
    refused = shop.predict("towns", "-", "--format", "csv", code=2)
    assert "-: rows that each have a town of their own need a file, which is read twice: say --key" in refused.err


def test_what_cannot_be_predicted(shop: Shop) -> None:
    file = shop.file("k.csv", "k\n1\n")
    for text in ("0", "1", "95", "x"):
        wide = shop.predict("line", file, "--interval", text, code=2)
        assert f"--interval: must be a number between 0 and 1, such as 0.95 (got '{text}')" in wide.err
    assert "has no key" in shop.predict("line", file, "--key", "a", code=2).err
    assert "has no column 'x', which the model reads" in shop.predict("line", file, code=1).err
    assert "is not a file" in shop.predict("line", shop.folder / "nowhere.csv", code=1).err
    other = shop.file("other.yaml", SPECS["line"].replace("name: line", "name: other"))
    missing = shop.predict(other.stem, shop.file("x.csv", "x\n1\n"), code=1)
    assert "no posterior 'other' on " in missing.err
