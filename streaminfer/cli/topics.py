"""show a spec's topics and schemas, and with --apply make and register those that are missing"""

from __future__ import annotations

import argparse
from typing import Any

from streaminfer.bus.protocol import Bus, Topic, UnknownTopic
from streaminfer.cli.common import add_bus, add_json, add_spec, bus_of, print_json, print_table
from streaminfer.runtime import names
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.registry.schemas import Registered
from streaminfer.spec import load_spec

MISSING = "missing: external, so streaminfer does not create it"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument(
        "--apply", action="store_true", help="create missing topics and partitions, register missing schemas"
    )
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    with bus_of(options, spec, make=options.apply) as bus:
        if options.apply:
            schemas.prepare(spec, bus, make=True)
        there = bus.topics()
        rows = [_row(bus, topic, there.get(topic.name)) for topic in names.topics_on(spec, bus)]
        if spec.data.topic is not None:
            rows.insert(0, _foreign_row(bus, spec.data.topic, there.get(spec.data.topic)))
        registered = schemas.statuses(spec, bus)
    if registered is not None:
        found = {names.topic(spec, short): each for short, each in registered.items()}
        rows = [{**row, **_schema(found.get(row["topic"]))} for row in rows]
    if options.json:
        for row in rows:
            print_json(row)
    else:
        header = ["topic", "partitions", "cleanup", "retention", "records", "status"]
        header += [] if registered is None else ["schema_id", "schema"]
        print_table(header, [[_text(row[name]) for name in header] for row in rows])
    return 1 if rows[0]["status"] == MISSING else 0


def _foreign_row(bus: Bus, name: str, found: Topic | None) -> dict[str, Any]:
    """An external topic: as it is, with nothing to compare it to, and as far as it may be seen."""
    if found is not None:
        return {**_row(bus, found, found), "status": "external"}
    row: dict[str, Any] = {"topic": name, **dict.fromkeys(("partitions", "cleanup", "retention", "records"))}
    try:
        return {**row, "partitions": len(bus.starts(name)), "records": _records(bus, name), "status": "external"}
    except UnknownTopic:
        return {**row, "status": MISSING}


def _row(bus: Bus, declared: Topic, found: Topic | None) -> dict[str, Any]:
    shown = found or declared
    return {
        "topic": declared.name,
        "partitions": shown.partitions,
        "cleanup": shown.cleanup,
        "retention": "for ever" if shown.retention_ms is None else _days(shown.retention_ms),
        "records": None if found is None else _records(bus, declared.name),
        "status": _status(declared, found),
    }


def _days(milliseconds: int) -> str:
    days = milliseconds / 86_400_000
    return "1 day" if days == 1 else f"{days:g} days"


def _schema(found: Registered | None) -> dict[str, Any]:
    """What the registry has; nothing of topics without a schema."""
    if found is None:
        return {"subject": None, "schema_id": None, "schema": None}
    return {"subject": found.subject, "schema_id": found.id, "schema": found.status}


def _records(bus: Bus, topic: str) -> int:
    """Positions in the log, holes included."""
    starts = bus.starts(topic)
    return sum(end - starts[index] for index, end in bus.ends(topic).items())


def _status(declared: Topic, found: Topic | None) -> str:
    if found is None:
        return "missing"
    names = ("partitions", "cleanup", "retention_ms", "max_bytes")
    other = [f"{name} {getattr(declared, name)}" for name in names if getattr(declared, name) != getattr(found, name)]
    return f"differs (declared: {', '.join(other)})" if other else "there"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
