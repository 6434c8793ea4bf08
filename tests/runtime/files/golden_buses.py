"""Golden buses, one of every kind of posterior that is folded, to be copied to files and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from streaminfer import parse_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Bus
from streaminfer.bus.sqlite.schema import OFFSET_BITS
from streaminfer.runtime.api.connection import Connection
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from tests.golden import records
from tests.golden.buses import DATABASE, complete
from tests.golden.playing import LATER, Player, Story
from tests.simulation.broker import Clock

NOT_COMPARED = ("version", "created_at", "read_to", "n_dropped", "staleness")
"""What a posterior that goes on from a backup may have in another way."""


class Golden:
    """A golden bus that was brought back, with its story."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.story: Story = records.load_story(records.FOLDER / kind / "story.xz")
        self.spec: Spec = parse_spec(self.story.spec)
        self._folder, self.clock = folder, Clock(LATER)
        (folder / DATABASE).write_bytes(records.load(records.FOLDER / kind / "embedded.bus.xz"))

    @contextmanager
    def open(self) -> Iterator[EmbeddedBus]:
        with EmbeddedBus(self._folder, clock=self.clock) as bus:
            complete(bus, self.story)
            yield bus

    def go_on(self, bus: Bus) -> None:
        """The rest of the story."""
        Player(self.story, bus, self.clock, compacts=True).go_on()

    def lose(self, *topics: str) -> None:
        """Removes all records of some topics."""
        lose(self._folder / DATABASE, *topics)


def lose(database: Path, *topics: str) -> None:
    """Removes all records of some topics from an embedded bus that nobody has open."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for topic in topics:
            for (number,) in connection.execute("SELECT id FROM partitions WHERE topic = ?", (topic,)).fetchall():
                connection.execute(f"DELETE FROM log WHERE id >> {OFFSET_BITS} = ?", (number,))  # noqa: S608


def shown(spec: Spec, bus: Bus) -> Any:
    """All that a user sees of a posterior, without what depends on when it was written."""
    connection = Connection(bus)
    if not kind_of(spec).by_key:
        found = connection.snapshot(spec)
        assert found is not None
        return {name: value for name, value in found.to_json().items() if name not in NOT_COMPARED}
    keys = [each.key for each in connection.keys(spec)]
    by_key = connection.by_key(spec, {key.encode() for key in keys})
    assert by_key is not None
    documents = [by_key[key.encode()].to_json() for key in keys]
    return [{n: v for n, v in each.items() if n not in NOT_COMPARED} for each in documents]
