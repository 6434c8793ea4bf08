"""monitor: has the posterior measured, publishes what was found, and says whether it can be trusted now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.pulse import instance_of
from streaminfer.runtime.role import Role
from streaminfer.runtime.telemetry import MonitorMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas

if TYPE_CHECKING:
    from streaminfer.runtime.monitoring.measuring.measuring import Measuring
    from streaminfer.runtime.monitoring.memory.memory import Memory
    from streaminfer.runtime.monitoring.monitor import Monitor


def build(
    spec: Spec,
    bus: Bus,
    registry: CollectorRegistry,
    instance: str | None,
    schemas: Schemas,
    shown: Memory | None = None,
) -> Monitor:
    """A monitor that follows until the measuring is its own. It fills the memory that is `shown` to others."""
    from streaminfer.runtime.monitoring.following import Following
    from streaminfer.runtime.monitoring.measuring.measuring import Measuring
    from streaminfer.runtime.monitoring.memory.remembering import Remembering
    from streaminfer.runtime.monitoring.monitor import Monitor

    memory = Following(spec, bus, schemas) if shown is None else Remembering(spec, bus, shown, schemas)

    def measuring() -> Measuring:
        return Measuring(spec, str(bus), instance_of(instance))

    return Monitor(spec, bus, memory, measuring, MonitorMetrics(registry, spec.name), instance, schemas)


ROLE: Final = Role(
    "monitor",
    "monitor",
    build,
    needed=lambda _spec: True,
    replicas=lambda _spec, _workers: 1,
    group=names.monitor_group,
    writer=names.monitor_writer,
    after_seconds=10.0,
    serves=True,
)
