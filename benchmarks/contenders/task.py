"""What a contender is told, and what it tells: one JSON document each way."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.workload import Workload


@dataclass(frozen=True)
class Task:
    """Work on a bus: `address` is host:port of Kafka or the directory of an embedded bus; `label` is unlike others', or
    says which of several; `file` is one to be read."""

    work: Workload
    address: str = ""
    partitions: tuple[int, ...] = ()
    label: str = ""
    file: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Outcome:
    """Events done between two times (seconds since 1970), and the sum of y² in them, which shows that they were."""

    events: int
    began: float
    ended: float
    sum_of_squares: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / (self.ended - self.began)


def received() -> Task:
    """The task in this process's first argument."""
    given: Mapping[str, Any] = json.loads(sys.argv[1])
    return Task(**{**given, "work": Workload(**given["work"]), "partitions": tuple(given["partitions"])})


def tell(outcome: Outcome) -> None:
    print(json.dumps(asdict(outcome)), flush=True)
