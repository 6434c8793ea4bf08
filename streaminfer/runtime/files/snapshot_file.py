"""The newest snapshot of a posterior as a file, and as a JSON document beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from streaminfer import __version__
from streaminfer.bus.protocol import Partition, Record
from streaminfer.bus.recorded import framing
from streaminfer.bus.recorded.bus import RecordedBus
from streaminfer.bus.recorded.framing import contents_of
from streaminfer.runtime import names
from streaminfer.runtime.api.readers import reader_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.files.writing import remove_unfinished, replace_file
from streaminfer.runtime.following.shards import Shards
from streaminfer.spec import Spec, meaning
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED

KIND: Final = "snapshot"


def about(spec: Spec, kind: str, **more: Any) -> dict[str, Any]:
    """What a file says of itself."""
    text = meaning.text_of(spec.meaning)
    return {
        "kind": kind,
        "name": spec.name,
        "fingerprint": spec.fingerprint,
        "spec": None if text is None else text.decode(),
        "written_by": f"streaminfer {__version__}",
        **more,
    }


class SnapshotFile:
    """A file in a directory: `NAME.snapshot`; and `NAME.json`, unless every key has a posterior of its own."""

    def __init__(self, spec: Spec, directory: Path, key: str | None) -> None:
        self._spec, self._key = spec, key
        self.path, self.document = directory / f"{spec.name}.snapshot", directory / f"{spec.name}.json"
        self.newest: Snapshot | None = None
        """What is in the file; of shards, all as one. None until one was written."""
        for path in (self.path, self.document):
            remove_unfinished(path)

    def write(self, records: Sequence[Record]) -> bool:
        """Writes the snapshot that records are, if they are a whole one. Raises OtherSpec if it is of another spec."""
        spec = self._spec
        topics = {names.topic(spec, "posterior"): spec.shards}
        contents = contents_of({}, topics, records)
        found, shown = self._read(RecordedBus(contents, "the records of a snapshot"))
        if found is None:
            return False
        said = about(spec, KIND, key=self._key, version=found.version, created_at=found.created_at)
        replace_file(self.path, framing.encoded(said, topics, records))
        if shown is not None:
            document = json.dumps(shown.to_json(), ensure_ascii=False, allow_nan=False)
            replace_file(self.document, [document.encode(), b"\n"])
        self.newest = found
        return True

    def _read(self, bus: RecordedBus) -> tuple[Snapshot | None, PosteriorSnapshot | None]:
        """What a reader of the file will have: the snapshot, and the posterior if there is one for all."""
        spec, key = self._spec, self._key
        if not kind_of(spec).by_key:
            shown = _newest(spec, bus, None)
            return (None if shown is None else shown.snapshot), shown
        shards = Shards(spec, bus, DECLARED)
        try:
            found = shards.catch_up()
            if found is None or (key is None and not _has_all_keys(bus, spec, shards.snapshots)):
                return None, None
        finally:
            shards.close()
        return found, None if key is None else _newest(spec, bus, key)


def _newest(spec: Spec, bus: RecordedBus, key: str | None) -> PosteriorSnapshot | None:
    reader = reader_of(spec, bus, key, DECLARED)
    try:
        return reader.newest()
    finally:
        reader.close()


def _has_all_keys(bus: RecordedBus, spec: Spec, manifests: Sequence[Snapshot]) -> bool:
    """Whether each shard has as many keys as its manifest says: a log may be compacted while it is read."""
    topic = names.topic(spec, "posterior")
    for index, manifest in enumerate(manifests):
        places = (key_records.place_of(record.key) for record in bus.records(Partition(topic, index)))
        if len({place.label for place in places if place is not None}) != manifest.counts.n_keys:
            return False
    return True
