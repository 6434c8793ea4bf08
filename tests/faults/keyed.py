"""Cases of keyed posteriors: rows of many keys in any order, and the exact answer of each key by itself."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streaminfer import connect, load_spec
from tests.faults.answers import MODELS, Case

BEGIN = 1_700_000_000


@dataclass(frozen=True)
class KeyedCase:
    """The case of every key. Rows of a key stand in its order in the file, with those of others between them."""

    cases: dict[str, Case]
    times: dict[str, list[int]] | None = None
    inference: dict[str, Any] | None = None

    @property
    def n_events(self) -> int:
        return sum(len(case.rows) for case in self.cases.values())

    def write_csv(self, path: Path, seed: int = 1) -> Path:
        turns = [key for key, case in self.cases.items() for _ in case.rows]
        random.Random(seed).shuffle(turns)
        first = next(iter(self.cases.values()))
        places = dict.fromkeys(self.cases, 0)
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow([*first.header, "id", *(["at"] if self.times else [])])
            for key in turns:
                i = places[key]
                places[key] += 1
                writer.writerow([*self.cases[key].rows[i], key, *([self.times[key][i]] if self.times else [])])
        return path

    def write_spec(self, path: Path, name: str, key: Any, data: dict[str, Any] | None = None, **inference: Any) -> Path:
        section = {"timestamp": "at" if self.times else None, **(data or {})}
        how = {**inference, **(self.inference or {})}
        model = next(iter(self.cases.values())).model
        path.write_text(json.dumps({"name": name, "data": section, "key": key, "model": model, "inference": how}))
        return path

    def check(self, spec_path: Path, url: str) -> None:
        """Asserts that every key has the exact posterior of its rows, each once, and that no other key exists."""
        spec = load_spec(spec_path)
        with connect(url) as connection:
            found = {each.key: each.n_events for each in connection.keys(spec, limit=10_000)}
            assert found == {key: len(case.rows) for key, case in self.cases.items()}
            for key, case in self.cases.items():
                snapshot = connection.snapshot(spec, key)
                assert snapshot is not None, key
                document = snapshot.to_json()
                assert document["key"] == key
                case.check(document)


def keyed(model: str, keys: int, rows: int, forgets: str = "") -> KeyedCase:
    """Keys with rows, half as many, a third as many, and so on; all are of different data."""
    sizes = {f"key/{i} ö": max(20, rows // (i + 1)) for i in range(keys)}
    if not forgets:
        return KeyedCase({key: MODELS[model](n, seed=i) for i, (key, n) in enumerate(sizes.items())})
    half_life = 30.0
    rng = np.random.default_rng(7)
    times = {key: BEGIN + rng.permutation(n) for key, n in sizes.items()}
    ages = {key: t.max() - t if forgets == "time" else np.arange(len(t))[::-1] for key, t in times.items()}
    cases = {
        key: MODELS[model](n, seed=i, weights=0.5 ** (ages[key] / half_life))
        for i, (key, n) in enumerate(sizes.items())
    }
    kind = "half_life_seconds" if forgets == "time" else "half_life_events"
    written = {key: t.tolist() for key, t in times.items()} if forgets == "time" else None
    return KeyedCase(cases, written, {"forget": {kind: half_life}})
