"""What a service is, as a row of one table: from it follow `run`, `up`, `--until-idle` and the rights on topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.service import Service
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas

Builder = Callable[[Spec, Bus, CollectorRegistry, str | None, Schemas], Service]
"""Composes a service from a spec, a bus, a metrics registry, the name of its instance and the ids of its schemas."""


class Mark(Protocol):
    """The ends of the data at one moment, which `--until-idle` waits for."""

    def reached(self, snapshot: Snapshot | None) -> bool:
        """Whether the service has done all that it owes up to the mark."""


@dataclass(frozen=True)
class Role:
    """One service. `name` is what `run`, topics.yaml and the group call it."""

    name: str
    short: str
    """What its instances are called, with a number: master-0, worker-1."""
    build: Builder
    needed: Callable[[Spec], bool]
    """Whether a spec has this service."""
    replicas: Callable[[Spec, int], int]
    """How many processes `up --workers N` starts."""
    group: Callable[[Spec], str]
    """The consumer group that its instances share."""
    writer: Callable[[Spec], str] | None = None
    """The transactional id that it commits under, or if that ends with a dot, what its ids begin with."""
    after_seconds: float = 0.0
    """How much later than the others `up` starts it: what nobody waits for must not slow down a short job."""
    serves: bool = False
    """Whether it is the one that answers at the address of `up --http`."""
    idle: Callable[[Spec, Bus], Mark] | None = None
    """What `--until-idle` asks of it; None: it does nothing that others do not wait for."""


Roles = Mapping[str, Role]


def needed(roles: Roles, spec: Spec) -> list[Role]:
    """The services of a spec."""
    return [role for role in roles.values() if role.needed(spec)]
