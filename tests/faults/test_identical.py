"""An approximate posterior that was killed again and again is the same, to the last digit, as one that was not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.faults.buses import params_with
from tests.faults.identical import CASES, SERIAL
from tests.faults.programs import Programs, document
from tests.faults.test_kills import play

EVERY = [(model, method) for model in CASES for method in ("svb", "svi")]
IN_EVERY_RUN: dict[str, list[tuple[str, str]]] = {
    "embedded": [("gaussian_mixture", "svb")],
    "kafka": [],
}
"""The passes of `test_passes` are of the same kind: words by memoized steps there, and svi on Kafka."""
LATER = {bus: [each for each in EVERY if each not in rows] for bus, rows in IN_EVERY_RUN.items()}


def killed(programs: Programs, url: str, model: str, method: str) -> None:
    """The same topic twice, so that minibatches end at the same positions: once in peace, once with kills."""
    rules = {"method": method, "minibatch": 400, "snapshot_ms": 20, **SERIAL}
    case = CASES[model](24_000)
    play(programs, url, case, 5, seed=11, partitions=1, **rules)
    peaceful = case.write_spec(
        programs.folder / "peaceful.yaml", "peaceful", data={"topic": "kills.events", "partitions": None}, **rules
    )
    programs.run("up", peaceful, "--until-idle", "--bus", url)
    found, wanted = (document(programs.folder / name, url) for name in ("spec.yaml", "peaceful.yaml"))
    case.check(wanted)
    np.testing.assert_array_equal(found["natural"], wanted["natural"])
    assert found["score"] == wanted["score"]


@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_kills_change_no_digit(programs: Programs, bus_url: str, model: str, method: str) -> None:
    killed(programs, bus_url, model, method)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(LATER), indirect=["bus_url"])
def test_kills_change_no_digit_of_any_other(programs: Programs, bus_url: str, model: str, method: str) -> None:
    killed(programs, bus_url, model, method)
