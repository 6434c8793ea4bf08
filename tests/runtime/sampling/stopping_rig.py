"""Subposteriors that are combined, some of whose chains may stand still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.runtime.service import Service
from streaminfer.sampling.pooled.shown import Shown
from tests.runtime.sampling.rig import SamplerRig, sampled
from tests.simulation.bus import SimulatedBus


class Stopping(Sampler):
    """A sampler that does nothing for some subposteriors."""

    stopped: frozenset[int] = frozenset()

    def _begin(self, unit: OwnedUnit) -> bool:
        return unit.unit.subposterior not in self.stopped and super()._begin(unit)


class StoppingRig(SamplerRig):
    """Each of J partitions is a subposterior of two chains; partition p has the rows p, p + J, ..."""

    def __init__(
        self, model: dict[str, Any], rows: Sequence[Mapping[str, Any]], subposteriors: int, combine: Mapping[str, Any]
    ) -> None:
        options = {"method": "gibbs", "chains": 2, "draws": 400, "subposteriors": subposteriors, "combine": combine}
        super().__init__(sampled(model, {"partitions": subposteriors}, **options))
        self.service = Stopping(self.spec, SimulatedBus(self.broker), self.clock, self._sampler_metrics)
        self.all: list[Service] = [self.master(), self.service]
        for partition in range(subposteriors):
            self.send(*rows[partition::subposteriors], partition=partition)

    @property
    def shown(self) -> Shown:
        found = self.newest()
        assert found is not None
        assert found.payload.sampled is not None
        return found.payload.sampled.shown

    def run_to_draws(self) -> None:
        """Until the first draws are on the bus."""
        for _ in range(50):
            self.run(*self.all, rounds=1)
            if self.records("draws"):
                return
        raise AssertionError("there are no draws")
