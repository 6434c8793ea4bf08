"""Draws for users: those on the bus, by segment, subposterior and chain, and as files that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.pooling.draws_reader import Arrived, DrawsReader
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


class NoSampler(ValueError):
    """A spec whose posterior has no draws on the bus."""


class Selection(NamedTuple):
    """Which draws are wanted; None: all, or of segments the newest."""

    segment: int | None = None
    subposterior: int | None = None
    chain: int | None = None

    def has(self, draws: Draws) -> bool:
        wanted = (self.subposterior, self.chain)
        return all(each in {None, is_} for each, is_ in zip(wanted, (draws.subposterior, draws.chain), strict=True))


class Draw(NamedTuple):
    """One draw."""

    segment: int
    subposterior: int
    chain: int
    draw: int
    """Its number in the chain's segment, from 0."""
    weight: float
    log_density: float | None
    parameters: dict[str, NDArray[np.float64]]

    def to_json(self) -> dict[str, Any]:
        """The document that `draws --json` prints."""
        return {**self._asdict(), "parameters": {name: value.tolist() for name, value in self.parameters.items()}}


class DrawsOnBus:
    """The draws of a spec, as they are and as they come. Use it once, and close it."""

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas, chosen: Selection) -> None:
        self._settings = settings_of(spec)
        self._chosen, self._shapes = chosen, dict(spec.target.shapes)
        self._reader = DrawsReader(spec, self._settings, flat.size(self._shapes), bus, schemas)
        self._ends: dict[tuple[int, int], int] = {}
        self._n_drawn: dict[tuple[int, int, int], int] = {}

    def poll(self, timeout: float) -> list[Draws]:
        """Blocks of draws that have come since the last call, each once."""
        return [
            each.draws for each in self._reader.poll(timeout) if self._is_new(each) and self._chosen.has(each.draws)
        ]

    def _is_new(self, arrived: Arrived) -> bool:
        """Draws of a step that was shown are not shown again."""
        place = (arrived.unit, arrived.draws.segment)
        new = arrived.draws.begin >= self._ends.get(place, 0)
        if new:
            self._ends[place] = arrived.draws.end
        return new

    def all(self) -> list[Draws]:
        """Those that are there now, of the segment that is wanted."""
        found: list[Draws] = []
        while not self._reader.at_end():
            found += self.poll(1.0)
        wanted = self._chosen.segment
        if wanted is None:
            wanted = max((each.segment for each in found if len(each.weights)), default=-1)
        return [each for each in found if each.segment == wanted]

    def rows(self, blocks: Iterable[Draws]) -> Iterator[Draw]:
        """Draw by draw; blocks of one chain must come in their order."""
        for block in blocks:
            named = flat.unflatten(block.values, self._shapes)
            known = len(block.log_density) == len(block.weights)
            chain = (block.segment, block.subposterior, block.chain)
            for i, weight in enumerate(block.weights.tolist()):
                number = self._n_drawn.get(chain, 0)
                self._n_drawn[chain] = number + 1
                log_density = float(block.log_density[i]) if known else None
                yield Draw(*chain, number, weight, log_density, {name: value[i] for name, value in named.items()})

    def close(self) -> None:
        self._reader.close()


def settings_of(spec: Spec) -> Settings:
    """How a spec's posterior is sampled; raises NoSampler."""
    if spec.sampling is None:
        raise NoSampler(
            f"inference.method: {spec.inference.method} has no draws on the bus, only a sampler such as sgld has; "
            "snapshot.sample(rng, n) in Python draws from this posterior"
        )
    return spec.sampling


def by_chain(spec: Spec, blocks: Iterable[Draws]) -> dict[str, NDArray[np.float64]]:
    """Parameters (chains, draws, ...), weights and log densities of equally many draws of each chain, the newest."""
    chains: dict[tuple[int, int], list[Draws]] = {}
    for block in blocks:
        if len(block.weights):
            chains.setdefault((block.subposterior, block.chain), []).append(block)
    joined = [np.concatenate([each.values for each in chain]) for _, chain in sorted(chains.items())]
    length = min((len(values) for values in joined), default=0)
    rows = np.stack([values[len(values) - length :] for values in joined]) if joined else np.empty((0, 0, 0))
    return flat.unflatten(rows, spec.target.shapes) if joined else {}


def write_netcdf(spec: Spec, blocks: Iterable[Draws], path: Path) -> None:
    """Draws in ArviZ's layout as a NetCDF file; needs the extra `arviz`."""
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError("--netcdf needs ArviZ: pip install '.[arviz]' in a clone of streaminfer") from error
    from_dict({"posterior": by_chain(spec, blocks)}).to_netcdf(path, engine="h5netcdf")


def write_parquet(rows: Iterable[Draw], path: Path) -> int:
    """One row for each draw, a column for each number; needs the extra `parquet`. Returns how many."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("--parquet needs pyarrow: pip install '.[parquet]' in a clone of streaminfer") from error
    table: dict[str, list[Any]] = {}
    n_rows = 0
    for draw in rows:
        n_rows += 1
        said = draw._asdict()
        columns = {name: said[name] for name in ("segment", "subposterior", "chain", "draw", "weight", "log_density")}
        for name, value in draw.parameters.items():
            for index in np.ndindex(value.shape):
                columns[f"{name}[{','.join(map(str, index))}]" if index else name] = float(value[index])
        for name, value in columns.items():
            table.setdefault(name, []).append(value)
    parquet.write_table(pa.table(table), path)
    return n_rows
