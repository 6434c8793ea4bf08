"""All looks in their order. One that fails is a finding too, and the others are still made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streaminfer.bus.environment import SettingsError
from streaminfer.bus.protocol import Bus, BusError
from streaminfer.runtime.doctoring import places, posterior
from streaminfer.runtime.doctoring.finding import Finding, good, wrong
from streaminfer.runtime.role import Roles
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec

LOGIN = "check STREAMINFER_KAFKA_* and the rights of the user"


def findings(spec: Spec, opening: Callable[[], Bus], roles: Roles, role: str | None) -> Iterator[Finding]:
    """What is found on the bus that `opening` gives, which has answered."""
    try:
        bus = opening()
    except BusError as error:
        yield wrong("bus", str(error), f"is --bus correct, and is it running? If it refuses the log-in, {LOGIN}")
        return
    with bus:
        yield good("bus", f"{bus} answers, and takes the log-in")
        looks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
            ("topics", lambda: places.topics(spec, bus)),
            ("rights", lambda: places.rights(spec, bus, role)),
            ("schemas", lambda: places.schema_ids(spec, bus)),
            ("posterior", lambda: posterior.look(spec, bus, roles)),
            ("groups", lambda: places.groups(spec, bus)),
        )
        for name, look in looks:
            try:
                yield from look()
            except (BusError, Fatal, SettingsError) as error:
                yield wrong(name, str(error), LOGIN)
