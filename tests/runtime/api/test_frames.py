"""fit of a table of pandas: the same posterior as that of its rows, and what is missing is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streaminfer import RowError, fit, parse_spec
from streaminfer.runtime.api import frames

PRICES = {"kind": "linear_regression", "features": ["sqm", "rooms"], "target": "price"}


def spec_of(model: Any, **more: Any) -> Any:
    return parse_spec({"name": "demo", "model": model, **more})


def table(n: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    columns = {"id": [f"n{i}" for i in range(n)], "sqm": rng.uniform(20, 200, n), "rooms": rng.integers(1, 9, n)}
    return pd.DataFrame({**columns, "price": rng.normal(200, 30, n).astype(np.float32)}, index=range(7, 7 + n))


@pytest.mark.parametrize("types", ["numpy", "nullable", "object", "arrow"])
def test_a_table_gives_what_its_rows_give(types: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PORTION", 16)
    spec = spec_of(PRICES, inference={"minibatch": 7})
    expected = fit(spec, table().to_dict("records"))
    given = {
        "numpy": table,
        "nullable": lambda: table().convert_dtypes(),
        "object": lambda: table().astype(object),
        "arrow": lambda: table().convert_dtypes(dtype_backend="pyarrow"),
    }[types]()
    found = fit(spec, given)
    np.testing.assert_array_equal(found.posterior.natural, expected.posterior.natural)
    assert (found.n_events, found.version) == (50, 8)


def test_several_passes_over_a_table() -> None:
    model = {"kind": "gaussian_mixture", "fields": ["sqm"], "components": 2}
    spec = spec_of(model, inference={"method": "memoized", "epochs": 3, "minibatch": 16})
    found, expected = (fit(spec, data) for data in (table(), table().to_dict("records")))
    np.testing.assert_array_equal(found.posterior.natural, expected.posterior.natural)


def test_truths_categories_and_keys() -> None:
    data = pd.DataFrame({"y": [True, False, True, True], "c": pd.Categorical(list("abab")), "n": [1, 2, 1, 1]})
    assert fit(spec_of({"kind": "bernoulli", "field": "y"}), data).snapshot.payload.statistics.tolist() == [3, 1]
    letters = {"kind": "categorical", "field": "c", "categories": ["a", "b"]}
    assert fit(spec_of(letters), data).snapshot.payload.statistics.tolist() == [2, 2]
    keyed = fit(spec_of({"kind": "bernoulli", "field": "y"}, key="n"), data)
    assert {key: each.n_events for key, each in keyed.items()} == {"1": 3, "2": 1}
    numbers = {"kind": "categorical", "field": "n", "categories": ["1", "2"]}
    assert fit(spec_of(numbers), data).snapshot.payload.statistics.tolist() == [3, 1]
    with pytest.raises(RowError, match="row 0: y: expected a number, got True"):
        fit(spec_of({"kind": "gaussian", "fields": ["y"]}), data)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times(unit: str, zone: str | None) -> None:
    """Those without a zone are of UTC, as everywhere."""
    forget = {"data": {"timestamp": "at"}, "inference": {"forget": {"half_life_seconds": 60}}}
    spec = spec_of({"kind": "bernoulli", "field": "y"}, **forget)
    at = pd.Series(pd.to_datetime(["2024-05-01 12:00:00", "2024-05-01 12:01:00"])).dt.as_unit(unit)
    data = pd.DataFrame({"y": [1, 1], "at": at if zone is None else at.dt.tz_localize("UTC").dt.tz_convert(zone)})
    found = fit(spec, data)
    assert found.n_effective == pytest.approx(1.5)
    rows = [{"y": 1, "at": "2024-05-01T12:00:00Z"}, {"y": 1, "at": at.to_numpy()[1]}]
    assert fit(spec, rows).n_effective == pytest.approx(1.5)


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA, pd.NaT], ids=str)
def test_a_missing_value_is_told_by_row_and_column(missing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PORTION", 16)
    data = table().astype(object)
    data.iloc[40, 2] = missing
    data.iloc[3, 0] = missing  # which the model does not read
    with pytest.raises(RowError) as caught:
        fit(spec_of(PRICES), data)
    assert str(caught.value) == f"row 40: rooms: is missing (got {missing})"


def test_a_column_that_is_not_there_is_told_with_the_nearest() -> None:
    with pytest.raises(RowError) as caught:
        fit(spec_of(PRICES), table().rename(columns={"sqm": "SQM"}))
    assert str(caught.value) == (
        "the table has no column 'sqm', which the model reads; did you mean 'SQM'? "
        "(its columns, separated by commas: id, SQM, rooms, price)"
    )
    with pytest.raises(RowError, match="the table has more than one column 'sqm'"):
        fit(spec_of(PRICES), table().rename(columns={"id": "sqm"}))


def test_documents_of_a_table() -> None:
    words = {"kind": "lda", "field": "words", "topics": 2}
    rows = [{"words": ["a", "b"]}, {"words": ["c", "a"]}]
    cells = pd.DataFrame({"words": [np.array(row["words"], dtype=object) for row in rows]})
    found, expected = (fit(spec_of(words), data) for data in (cells, rows))
    np.testing.assert_array_equal(found.mean["topics"], expected.mean["topics"])


def test_pandas_is_not_needed() -> None:
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "from streaminfer import fit, parse_spec\n"
        "spec = parse_spec({'name': 'demo', 'model': {'kind': 'bernoulli', 'field': 'y'}})\n"
        "assert fit(spec, [{'y': True}]).n_events == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
