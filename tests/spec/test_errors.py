"""Every error names the file, the field, the rule and the value, and the nearest right name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.spec import SpecError, load_spec, parse_spec
from tests.spec.documents import document

NAMES = "a lower-case letter, then up to 39 letters, digits or hyphens"
TOPICS = "1 to 249 of the characters A-Z a-z 0-9 . _ - and not '.' or '..'"
PATHS = "a name, or names joined by dots, which lead into nested objects: 1 to 200 characters, at most 16 names"
SVB = "method, minibatch, linger_ms, max_staleness, snapshot_ms, snapshot_events, forget, local_iterations"
GIBBS = (
    "method, linger_ms, snapshot_ms, snapshot_events, forget, seed, chains, draws, thin, warmup, segment, "
    "subposteriors, combine, start, scan"
)
METHODS = "svb, svi, memoized, mh, mala, gibbs, sgld, sghmc, sgnht, sgrld, subsampled_mh, poisson_mh, flymc"
SAMPLERS = "mh or mala or gibbs or sgld or sghmc or sgnht"
ALL_SAMPLERS = f"{SAMPLERS} or sgrld or subsampled_mh or poisson_mh or flymc"
FORGET = "half_life_events, half_life_seconds, window_events, window_seconds"
KINDS = (
    "bernoulli, categorical, poisson, gaussian, linear_regression, logistic_regression, probit_regression, "
    "gaussian_mixture, lda"
)
LONG = "x" * 100


def _poisson(**options: Any) -> dict[str, Any]:
    return document(model={"kind": "poisson", "field": "k", **options})


def _mixture(**inference: Any) -> dict[str, Any]:
    return document(model={"kind": "gaussian_mixture", "fields": ["u"], "components": 2}, inference=inference)


def _forget(value: Any) -> dict[str, Any]:
    return document(inference={"forget": value})


CASES: list[tuple[dict[str, Any], str]] = [
    (document(modle={}), "modle: is not a known section; did you mean 'model'? known: name, data, model, "
     "inference, key, drift, monitor (got {})"),
    (document(zzz=1), "zzz: is not a known section; known: name, data, model, inference, key, drift, monitor (got 1)"),
    (document(name=None), "name: is required: the prefix of every topic (got None)"),
    (document(name="Demo"), f"name: must be {NAMES} (got 'Demo')"),
    (document(name="demo\n"), f"name: must be {NAMES} (got 'demo\\n')"),
    (document(name="x" * 41), f"name: must be {NAMES} (got '{'x' * 41}')"),
    (document(name=LONG), f"name: must be {NAMES} (got '{'x' * 76}...)"),
    (document(name=7), "name: must be a string (quote it) (got 7)"),
    (document(name=["demo"]), "name: must be a string (got ['demo'])"),
    (document(data=[]), "data: must be a mapping of keys to values (got [])"),
    (document(data="json"), "data: must be a mapping of keys to values (got 'json')"),
    (document(data={"format": "jsn"}), "data.format: is not a known value; did you mean 'json'? known: json, "
     "avro, rows (got 'jsn')"),
    (document(data={"format": 1}), "data.format: is not a known value; known: json, avro, rows (got 1)"),
    (document(data={"partition": 4}), "data.partition: is not a known key; did you mean 'partitions'? known: format, "
      "partitions, topic, fields, timestamp, schema, schema_id (got 4)"),
    (document(data={"format": "avro", "timestamp": "when-it-was"}, inference={"forget": {"half_life_seconds": 60}}),
     "data.timestamp: is not a schema that can be read here: timestamp (from when-it-was): must have a name that Avro "
     "allows: letters, digits and _, not beginning with a digit (got 'when-it-was')"),
    (document(key="k", data={"format": "avro"}), "key.field: is not a schema that can be read here: k: is of "
     "type double, "
     "it must be one of enum, int, long, string; name a data.schema that has it as one of them (got 'k')"),
    (document(key="city", data={"format": "avro", "fields": {"city": "k"}}), "data.fields.city: is not a schema "
     "that can "
     "be read here: city (from k): is of type double, it must be one of enum, int, long, string; name a data.schema "
     "that has it as one of them (got 'k')"),
    (document(key="big city", data={"format": "avro"}), "key.field: is not a schema that can be read here: big "
     "city: must "
     "have a name that Avro allows: letters, digits and _, not beginning with a digit (got 'big city')"),
    (document(key="y", data={"format": "avro", "timestamp": "k.at"}, inference={"forget": {"half_life_seconds": 60}}),
     "data.timestamp: is not a schema that can be read here: timestamp (from k.at): is inside the value of "
      "another field (got 'k.at')"),
    (document(key="city", inference={"forget": {"window_events": 9}}), "inference.forget: must be half_life_events or "
     "half_life_seconds with a key: panes of keys are not kept (got {'window_events': 9})"),
    (document(key="city", drift={}), "drift: must not be set with key: scores of different keys cannot be "
     "compared (got "
     "{'events_per_false_alarm': 10000000.0, 'block_events': 256, 'react': 'report'})"),
    (document(drift=1e7), "drift: must be a mapping of keys to values (got 10000000.0)"),
    (document(drift={"events_per_false_alarm": 0}), "drift.events_per_false_alarm: must be a number at least 1 and "
     "at most 1e+15 (got 0)"),
    (document(drift={"events_per_alarm": 1}), "drift.events_per_alarm: is not a known key; did you mean "
     "'events_per_false_alarm'? known: events_per_false_alarm, block_events, react (got 1)"),
    (document(drift={"block_events": 0}), "drift.block_events: must be a whole number at least 1 and at most 1000000 "
     "(got 0)"),
    (document(drift={"react": "forget"}), "drift.react: must be report, or a mapping with half_life_events, for_events "
     "(got 'forget')"),
    (document(drift={"react": {"half_life_events": 5}}), "drift.react.for_events: is required: How many events after "
     "an alarm the reaction lasts. (got None)"),
    (document(drift={"react": {"half_life_events": 5, "for_events": 9}}, inference={"forget": {"window_seconds": 60}}),
     "drift.react: must be report if inference.forget has window_seconds: what is in a window counts fully "
     "(got {'half_life_events': 5.0, 'for_events': 9})"),
    (document(data={"partitions": 0}), "data.partitions: must be a whole number at least 1 and at most 1024 (got 0)"),
    (document(data={"partitions": 1025}), "data.partitions: must be a whole number at least 1 and at most 1024 "
     "(got 1025)"),
    (document(data={"partitions": 4.0}), "data.partitions: must be a whole number at least 1 and at most 1024 "
     "(got 4.0)"),
    (document(data={"partitions": True}), "data.partitions: must be a whole number at least 1 and at most 1024 "
     "(got True)"),
    (document(data={"partitions": "4"}), "data.partitions: must be a whole number at least 1 and at most 1024 "
     "(got '4')"),
    (document(data={"topic": 7}), "data.topic: must be a string (quote it) (got 7)"),
    (document(data={"topic": "a/b"}), f"data.topic: must be {TOPICS} (got 'a/b')"),
    (document(data={"topic": ".."}), f"data.topic: must be {TOPICS} (got '..')"),
    (document(data={"topic": "x\n"}), f"data.topic: must be {TOPICS} (got 'x\\n')"),
    (document(data={"topic": "x" * 250}), f"data.topic: must be {TOPICS} (got '{'x' * 76}...)"),
    (document(data={"topic": "orders", "partitions": 2}), "data.partitions: must not be set together with data.topic: "
     "'orders' has partitions of its own; leave it out (got 2)"),
    (document(data={"topic": "demo.posterior"}), "data.topic: must not begin with 'demo.', as the spec's own topics "
     "do: give the spec another name, or leave it out if the spec's own demo.events is meant (got 'demo.posterior')"),
    (document(data={"fields": ["k"]}), "data.fields: must be a mapping of at most 1000 names to values (got ['k'])"),
    (document(data={"fields": {1: "a"}}), "data.fields: must have strings as names (quote them) (got 1)"),
    (document(data={"fields": {"k": 1}}), "data.fields.k: must be a string (quote it) (got 1)"),
    (document(data={"fields": {"k": "a..b"}}), f"data.fields.k: must be {PATHS} (got 'a..b')"),
    (document(data={"fields": {"k": ".".join("a" * 17)}}), f"data.fields.k: must be {PATHS} "
     f"(got '{'.'.join('a' * 17)}')"),
    (document("linear_regression", data={"fields": {"aa": "x"}}), "data.fields.aa: is not a known field of the model; "
     "did you mean 'a'? known: a, b, y (got 'x')"),
    (document(inference={"mini_batch": 1}), "inference.mini_batch: is not a known key with the method svb; "
     f"did you mean 'minibatch'? known: {SVB} (got 1)"),
    (document(inference={"method": "gibbs", "cains": 1}), "inference.cains: is not a known key with the method gibbs; "
     f"did you mean 'chains'? known: {GIBBS} (got 1)"),
    (document(inference={"method": "SVB"}), f"inference.method: is not a known value; known: {METHODS} (got 'SVB')"),
    (document(inference={"epochs": 0}), "inference.epochs: must be a whole number at least 1 and at most 10000 "
     "(got 0)"),
    (document(inference={"epochs": 10_001}), "inference.epochs: must be a whole number at least 1 and at most 10000 "
     "(got 10001)"),
    (document(inference={"epochs": 2}), "inference.epochs: means nothing with the method svb, only with svi or "
     "memoized: leave it out (got 2)"),
    (document(inference={"method": "memoized"}), f"inference.method: must be svb or {SAMPLERS} or subsampled_mh with "
     "the model poisson "
     "(got 'memoized')"),
    (_mixture(method="memoized", linger_ms=100), "inference.linger_ms: must be 0 with the method memoized, whose "
     "batches must be the same in every epoch: leave it out (got 100)"),
    (_mixture(method="svi", step={"constant": 0.1, "tau": 3}), "inference.step.constant: means nothing if step has "
     "tau or kappa: set constant alone, or leave it out (got 0.1)"),
    (_mixture(method="memoized", population=9), "inference.population: means nothing with the method memoized, only "
     "with svi or sgld or sghmc or sgnht: leave it out (got 9)"),
    (_mixture(method="memoized", forget={"half_life_events": 9}), "inference.forget: means nothing with the method "
     f"memoized, only with svb or {ALL_SAMPLERS}: leave it out (got {{'half_life_events': 9.0}})"),
    (document(inference={"minibatch": 1_000_001}), "inference.minibatch: must be a whole number at least 1 and at most "
     "1000000 (got 1000001)"),
    (document(inference={"linger_ms": -1}), "inference.linger_ms: must be a whole number at least 0 and at most "
     "3600000 (got -1)"),
    (document(inference={"max_staleness": 10_001}), "inference.max_staleness: must be a whole number at least 0 and at "
     "most 10000 (got 10001)"),
    (document(inference={"snapshot_ms": 0}), "inference.snapshot_ms: must be a whole number at least 1 and at most "
     "3600000 (got 0)"),
    (document(inference={"snapshot_events": 0}), "inference.snapshot_events: must be a whole number at least 1 and at "
     "most 1000000000000 (got 0)"),
    (_forget({"half_life_event": 5}), "inference.forget.half_life_event: is not a known key; did you mean "
     f"'half_life_events'? known: {FORGET} (got 5)"),
    (_forget({"window_event": 5}), "inference.forget.window_event: is not a known key; did you mean 'window_events'? "
     f"known: {FORGET} (got 5)"),
    (_forget({"window_events": 0}), "inference.forget.window_events: must be a whole number at least 1 and at most "
     "1000000000000000 (got 0)"),
    (_forget({"window_events": 1.5}), "inference.forget.window_events: must be a whole number at least 1 and at most "
     "1000000000000000 (got 1.5)"),
    (_forget({"window_seconds": 0.001}), "inference.forget.window_seconds: must be a number at least 0.01 and at most "
     "1e+12 (got 0.001)"),
    (_forget({"window_events": 9, "half_life_events": 9}), "inference.forget: must be a mapping with exactly one of "
     f"{FORGET} (got {{'window_events': 9, 'half_life_events': 9}})"),
    (_forget({}), f"inference.forget: must be a mapping with exactly one of {FORGET} (got {{}})"),
    (_forget(100), f"inference.forget: must be a mapping with exactly one of {FORGET} (got 100)"),
    (_forget({"half_life_events": 1, "half_life_seconds": 2}), "inference.forget: must be a mapping with exactly one "
     f"of {FORGET} (got {{'half_life_events': 1, 'half_life_seconds': 2}})"),
    (_forget({"half_life_events": 0}), "inference.forget.half_life_events: must be a number at least 0.01 and at most "
     "1e+15 (got 0)"),
    (_forget({"half_life_seconds": None}), "inference.forget.half_life_seconds: must be a number at least 0.001 and at "
     "most 1e+12 (got None)"),
    (_forget({"half_life_seconds": "1h"}), "inference.forget.half_life_seconds: must be a number at least 0.001 and at "
     "most 1e+12 (got '1h')"),
    (document(data={"timestamp": "a..b"}), f"data.timestamp: must be {PATHS} (got 'a..b')"),
    (document(model=None), "model: is required: what is inferred (got None)"),
    (document(model="poisson"), f"model: must be a mapping with kind, one of {KINDS} (got 'poisson')"),
    (document(model={"field": "k"}), f"model.kind: is not a known model; known: {KINDS} (got None)"),
    (document(model={"kind": "poison"}), f"model.kind: is not a known model; did you mean 'poisson'? known: {KINDS} "
     "(got 'poison')"),
    (document(model={"kind": ["poisson"]}), f"model.kind: is not a known model; did you mean 'poisson'? known: {KINDS} "
     "(got ['poisson'])"),
    (document(model={"kind": "poisson"}), "model.field: is required: the field that holds a count (got None)"),
    (_poisson(field=3), "model.field: must be a string (quote it) (got 3)"),
    (_poisson(field=""), "model.field: must be 1 to 200 characters (got '')"),
    (_poisson(expsure="t"), "model.expsure: is not a known key; did you mean 'exposure'? known: field, exposure, prior "
     "(got 't')"),
    (_poisson(exposure="k"), "model.exposure: must be another field than the count (got 'k')"),
    (_poisson(prior=3), "model.prior: must be a mapping of keys to values (got 3)"),
    (_poisson(prior={"shpe": 3}), "model.prior.shpe: is not a known key; did you mean 'shape'? known: shape, rate "
     "(got 3)"),
    (_poisson(prior={"shape": 0}), "model.prior.shape: must be a number at least 1e-50 and at most 1e+50 (got 0)"),
    (_poisson(prior={"shape": float("nan")}), "model.prior.shape: must be a number at least 1e-50 and at most 1e+50 "
     "(got nan)"),
    (_poisson(prior={"rate": True}), "model.prior.rate: must be a number at least 1e-50 and at most 1e+50 (got True)"),
    (_poisson(prior={"rate": 10**400}), "model.prior.rate: must be a number at least 1e-50 and at most 1e+50 "
     f"(got 1{'0' * 76}...)"),
    (document(model={"kind": "categorical", "field": "c", "categories": ["a"]}),
     "model.categories: must be a list of 2 to 1000 values (got ['a'])"),
    (document(model={"kind": "categorical", "field": "c", "categories": ["a", "b", "a"]}),
     "model.categories[2]: must not repeat an earlier value (got 'a')"),
    (document(model={"kind": "categorical", "field": "c", "categories": ["a", False]}),
     "model.categories[1]: must be a string (quote it) (got False)"),
    (document(model={"kind": "categorical", "field": "c", "categories": ["a", "b"], "prior": {"concentration": [1]}}),
     "model.prior.concentration: must be one number, or a list of 2: one for each category (got (1.0,))"),
    (document(model={"kind": "linear_regression", "features": ["a"], "target": "y", "intercept": "yes"}),
     "model.intercept: must be true or false (got 'yes')"),
    (document(model={"kind": "linear_regression", "features": ["a"], "target": "a"}),
     "model.target: must not be among the features (got 'a')"),
    (document(model={"kind": "gaussian", "fields": []}),
     "model.fields: must be a list of 1 to 1000 values (got [])"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text"), CASES, ids=[text.partition(":")[0] + f"-{i}" for i, (_, text) in
                                                       enumerate(CASES)])  # fmt: skip
def test_one_problem_is_one_exact_line(given: dict[str, Any], text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(given, "prices.yaml")
    assert str(caught.value) == f"prices.yaml: {text}"
    assert [problem.field for problem in caught.value.problems] == [text.partition(":")[0]]
    assert caught.value.file == "prices.yaml"


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(
            {
                "name": "A",
                "extra": 1,
                "data": {"partitions": 0, "fmt": 1},
                "model": {"kind": "bernoulli", "prior": {"alpha": -1}},
                "inference": {"minibatch": 0},
            },
            "f",
        )
    fields = [problem.field for problem in caught.value.problems]
    assert fields == [
        "extra", "name", "data.fmt", "data.partitions", "inference.minibatch", "model.field", "model.prior.alpha",
    ]  # fmt: skip
    assert str(caught.value).count("\n") == 6
    assert all(line.startswith("f: ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize("given", [None, [], "text", 3, True])
def test_not_a_mapping(given: object) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(given, "f")
    assert (
        str(caught.value)
        == f"f: (file): must be a mapping with name, data, model, inference, key, drift, monitor (got {given!r})"
    )


def test_what_cannot_even_be_printed_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for given in ({"name": deep}, deep, {"data": {"format": deep}}):
        with pytest.raises(SpecError, match=r"\(file\): must be nested at most 32 levels deep"):
            parse_spec(given)
    huge = 10**5000
    for given in ({"name": huge}, {huge: 1}, {"model": {"kind": huge}}):
        with pytest.raises(SpecError, match=r"a whole number of more than 4096 bits \(got '16610 bits'\)"):
            parse_spec(given)


GOOD = "name: demo\nmodel: {kind: poisson, field: k}\n"
FILES: dict[str, tuple[bytes, str]] = {
    "twice": (b"name: demo\nname: other\n", "must be one YAML document: key 'name' appears twice in "),
    "twice quoted": (b'{"name": "demo", name: other}', "must be one YAML document: key 'name' appears twice in "),
    "twice inside": (b"model: {kind: poisson, kind: gaussian}", "must be one YAML document: key 'kind' appears twice"),
    "alias": (b"name: &n demo\nmodel: *n\n", "must be one YAML document: aliases are not allowed in "),
    "garbage": (bytes(range(256)), "must be one YAML document: "),
    "nul": (b"name: \x00", "must be one YAML document: "),
    "not utf-8": (b"name: \xff\xff", "must be one YAML document: "),
    "two documents": (b"--- {}\n--- {}\n", "must be one YAML document: expected a single document"),
    "object": (b"!!python/object/apply:os.getcwd []", "must be one YAML document: could not determine a constructor"),
    "unclosed": (b"{name: demo", "must be one YAML document: "),
    "deep": (b"[" * 5000, "must be one YAML document: maximum recursion depth exceeded"),
    "empty int": (b"name: !!int ''", "must be one YAML document: "),
    "empty float": (b"name: !!float ''", "must be one YAML document: "),
    "odd bool": (b"name: !!bool perhaps", "must be one YAML document: "),
    "odd time": (b"name: !!timestamp soon", "must be one YAML document: "),
    "no character": (b'name: "\\UFFFFFFFF"', "must be one YAML document: "),
    "sexagesimal": (b"name: 1" + b":0" * 300 + b".5", "must be one YAML document: "),
    "huge hexadecimal": (b"name: 0x" + b"f" * 5000, "must not hold a whole number of more than 4096 bits"),
    "empty": (b"", "must be a mapping with name, data, model, inference, key, drift, monitor (got None)"),
    "a list": (b"- name", "must be a mapping with name, data, model, inference, key, drift, monitor (got ['name'])"),
    "too large": (GOOD.encode() + b"#" * (1 << 20), "must be at most 1048576 bytes (got '1048577 bytes or more')"),
}


@pytest.mark.parametrize("case", FILES)
def test_files_that_hold_no_spec(case: str, tmp_path: Path) -> None:
    content, rule = FILES[case]
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: (file): {rule}")
    assert len(str(caught.value)) < 1000


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(GOOD + "#" * ((1 << 20) - len(GOOD)))
    assert load_spec(path).name == "demo"


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError) as caught:
        load_spec("none.yaml")
    assert str(caught.value) == "none.yaml: (file): cannot be read: No such file or directory (got 'none.yaml')"
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        load_spec(tmp_path)


def test_the_file_of_an_error_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: demo\nmodel: {kind: poisson, field: k, exposure: k}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value) == f"{path}: model.exposure: must be another field than the count (got 'k')"


@pytest.mark.parametrize(("exactness", "needs_base"), [("bound", False), ("exact", True), ("approximate", True)])
def test_a_window_needs_exact_statistics(exactness: str, needs_base: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poisson, "exactness", exactness)
    monkeypatch.setattr(Poisson, "needs_base", needs_base)
    for unit in ("events", "seconds"):
        with pytest.raises(SpecError) as caught:
            parse_spec(_forget({f"window_{unit}": 60}), "prices.yaml")
        assert str(caught.value) == (
            f"prices.yaml: inference.forget.window_{unit}: needs a model with exact statistics, as what leaves the "
            f"window must leave nothing behind; use half_life_{unit} (got 'poisson')"
        )
        parse_spec(_forget({f"half_life_{unit}": 60}))
