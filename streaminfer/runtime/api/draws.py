"""Draws for users: those on the bus, by segment, subposterior and chain, and as files that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.pooling.draws_reader import DrawsReader
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
        self.segments: list[int] = []
        """Those that have draws, once `all` has read them."""
        self._ends: dict[tuple[int, int], int] = {}
        self._n_drawn: dict[tuple[int, int, int], int] = {}

    def poll(self, timeout: float) -> list[Draws]:
        """Blocks of draws that have come since the last call, each once."""
        return [
            draws
            for unit, draws, _ in self._reader.poll(timeout)
            if self._is_new(unit, draws) and self._chosen.has(draws)
        ]

    def _is_new(self, unit: int, draws: Draws) -> bool:
        """Draws of a step that was shown are not shown again."""
        place = (unit, draws.segment)
        new = draws.begin >= self._ends.get(place, 0)
        if new:
            self._ends[place] = draws.end
        return new

    def all(self) -> list[Draws]:
        """Those that are there now, of the segment that is wanted; else of each subposterior the newest."""
        found: list[Draws] = []
        while not self._reader.at_end():
            found += self.poll(1.0)
        found = [each for each in found if len(each.weights)]
        self.segments = sorted({each.segment for each in found})
        newest: dict[int, int] = {}
        for each in found:
            newest[each.subposterior] = max(newest.get(each.subposterior, 0), each.segment)
        wanted = self._chosen.segment
        return [each for each in found if each.segment == (newest[each.subposterior] if wanted is None else wanted)]

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


class ByChain(NamedTuple):
    """Draws of one target as arrays (chains, draws, ...): parameters, and `lp` and `weight` of each draw."""

    posterior: dict[str, NDArray[np.float64]]
    sample_stats: dict[str, NDArray[np.float64]]


def by_chain(spec: Spec, blocks: Iterable[Draws]) -> ByChain:
    """Equally many draws of each chain, the newest; `lp`, the log density, is there if it is known."""
    chains: dict[tuple[int, int], list[Draws]] = {}
    for block in blocks:
        chains.setdefault((block.subposterior, block.chain), []).append(block)
    of_chains = [chain for _, chain in sorted(chains.items())]
    values = _stacked([[each.values for each in chain] for chain in of_chains])
    stats = {"weight": _stacked([[each.weights for each in chain] for chain in of_chains])}
    if all(len(each.log_density) == len(each.weights) for chain in of_chains for each in chain):
        stats["lp"] = _stacked([[each.log_density for each in chain] for chain in of_chains])
    return ByChain(flat.unflatten(values, spec.target.shapes), stats)


def _stacked(chains: list[list[NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Arrays (chains, n, ...) of the last n of each chain, as many as the shortest has."""
    joined = [np.concatenate(chain) for chain in chains]
    length = min(map(len, joined))
    return np.stack([each[len(each) - length :] for each in joined])


def write_netcdf(spec: Spec, blocks: Iterable[Draws], path: Path) -> None:
    """Draws of one target in ArviZ's layout as a NetCDF file; needs the extra `arviz`."""
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError("--netcdf needs ArviZ: pip install '.[arviz]' in a clone of streaminfer") from error
    from_dict(by_chain(spec, blocks)._asdict()).to_netcdf(path, engine="h5netcdf")


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
