"""The declaration of all topics and their schemas; code, chart and documentation derive from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Declaration:
    """One row of topics.yaml."""

    name: str
    about: str
    schema: str | None
    schema_id: int | None
    key: str
    partitions: Literal["data", "shard", "unit", "one"]
    cleanup: Literal["delete", "compact"]
    retention_ms: int | None
    max_bytes: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    describers: tuple[str, ...]
    """Who only asks for its partitions and positions."""
    only_with: tuple[str, ...] | None
    """A spec must have one of these to have this topic (see topics.yaml); None: every spec has it."""
    earlier: Mapping[int, str]
    """The files of the schemas that older versions wrote, by their ids."""

    @property
    def everyone(self) -> tuple[str, ...]:
        """All services and commands that have to do with it."""
        return (*self.writers, *self.readers, *self.describers)

    def topic(self, spec_name: str) -> str:
        """The full name of this topic for a spec."""
        return f"{spec_name}.{self.name}"


@dataclass(frozen=True, slots=True)
class Format:
    """A framed data format: its schema, None if each spec has its own, and the id without a registry."""

    schema: str | None
    schema_id: int


@cache
def formats() -> Mapping[str, Format]:
    """The data formats whose records are framed, by name."""
    document = yaml.safe_load(read("topics.yaml"))
    return {
        row["name"]: Format(None if row["schema"] == "none" else row["schema"], row["schema_id"])
        for row in document["formats"]
    }


@cache
def declarations() -> Mapping[str, Declaration]:
    """Every declared topic by its short name, in the order of the file."""
    document = yaml.safe_load(read("topics.yaml"))
    return {row["name"]: _declaration(row) for row in document["topics"]}


def read(file: str) -> str:
    """The text of a file of this folder, also from inside an installed wheel."""
    return resources.files(__name__).joinpath(file).read_text(encoding="utf-8")


def _declaration(row: dict[str, Any]) -> Declaration:
    days = row.get("retention_days")
    return Declaration(
        name=row["name"],
        about=row["about"],
        schema=None if row["schema"] == "none" else row["schema"],
        schema_id=row.get("schema_id"),
        key=row["key"],
        partitions=row["partitions"],
        cleanup=row["cleanup"],
        retention_ms=None if days is None else days * DAY_MS,
        max_bytes=row["max_bytes"],
        writers=tuple(row["writers"]),
        readers=tuple(row["readers"]),
        describers=tuple(row.get("describers", ())),
        only_with=tuple(row["only_with"]) if "only_with" in row else None,
        earlier={each["schema_id"]: each["schema"] for each in row.get("earlier", ())},
    )
