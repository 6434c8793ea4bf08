"""A changed spec under a new name, which learns from the log of the old one; and what that log no longer has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from streaminfer.bus.protocol import Bus, Partition, UnknownTopic
from streaminfer.runtime import names
from streaminfer.runtime.files.writing import replace_file
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.snapshots import MANIFEST, TOPIC


class OtherFile(ValueError):
    """The file of the new spec exists and says something else."""


class Gone(NamedTuple):
    """Positions [begin, end) of a partition that the old posterior may have learned from."""

    partition: Partition
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.partition} [{self.begin:,}, {self.end:,})"


def renamed(path: Path, old: Spec, name: str) -> Spec:
    """The spec of a file under another name, with the old one's data topic; raises SpecError."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    data = {**(document.get("data") or {}), "topic": names.data_topic(old)}
    data.pop("partitions", None)
    changed = {"name": name, "data": data, **{key: document[key] for key in document if key not in {"name", "data"}}}
    return parse_spec(changed, f"{name}.yaml", path.parent)


def write(spec: Spec, path: Path) -> None:
    """Writes a spec with all its defaults; raises OtherFile if the file has another one."""
    text = yaml.safe_dump(dict(spec.document), sort_keys=False, default_flow_style=None, width=1000)
    if path.exists():
        if yaml.safe_load(path.read_text(encoding="utf-8")) != yaml.safe_load(text):
            raise OtherFile(f"{path} exists and is not this spec: remove it, or take another name")
        return
    replace_file(path, [text.encode()])


def gone(old: Spec, bus: Bus) -> list[Gone]:
    """What the log no longer has, from where the old posterior began; without one, from the beginning of the log."""
    topic = names.data_topic(old)
    began = _began(old, bus)
    starts = sorted(bus.starts(topic).items())
    return [
        Gone(Partition(topic, index), began.get(index, 0), start)
        for index, start in starts
        if start > began.get(index, 0)
    ]


def _began(old: Spec, bus: Bus) -> Mapping[int, int]:
    """By partition, where the old posterior began to read. It may be of any spec: only its frontier is looked at."""
    topic, found = names.topic(old, TOPIC), dict[int, int]()
    try:
        starts, ends = bus.starts(topic), bus.ends(topic)
    except UnknownTopic:
        return found
    known = schemas.look_up(old, bus, [TOPIC])
    for index, end in ends.items():
        partition = Partition(topic, index)
        with bus.reader({partition: starts[index]}) as reader:
            while reader.position(partition) < end:
                for record in (each for part in reader.poll(1.0).slices for each in part.records):
                    if record.key == MANIFEST:
                        found |= _starts(record.value, known)
    return found


def _starts(value: bytes | None, known: Schemas) -> dict[int, int]:
    try:
        manifest: Any = known.decode(TOPIC, value)["manifest"]
    except WireError:
        return {}
    entries = [] if manifest is None else manifest["frontier"]
    return {entry["partition"]: max(0, entry.get("start", 0)) for entry in entries}
