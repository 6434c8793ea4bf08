"""Golden data as files: stories, the records of a bus, and an SQLite file, all compressed."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from streaminfer.bus.protocol import Partition, Record
from tests.golden.playing import Story

FOLDER = Path(__file__).parent / "data"


def kinds() -> list[str]:
    """All that there is golden data of."""
    return sorted(path.name for path in FOLDER.iterdir())


def save(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def load(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes())


def save_lines(path: Path, lines: Iterable[Any]) -> None:
    save(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())


def load_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in load(path).decode().split("\n")[:-1]]


def save_story(path: Path, story: Story) -> None:
    save_lines(path, [story._asdict()])


def load_story(path: Path) -> Story:
    return Story(**load_lines(path)[0])


def lines_of(records: Iterable[Record], timestamps: bool = True) -> list[list[Any]]:
    """Every field of every record. Bytes are text, a character for each: nothing is lost, and much can be read."""
    return [
        [
            record.partition.topic,
            record.partition.index,
            record.offset,
            record.timestamp if timestamps else None,
            _text(record.key),
            [[name, _text(value)] for name, value in record.headers],
            _text(record.value),
        ]
        for record in records
    ]


def records_of(lines: Sequence[Sequence[Any]]) -> list[Record]:
    return [
        Record(
            Partition(topic, index),
            offset,
            timestamp,
            _bytes(key),
            _bytes(value),
            tuple((name, _bytes(each) or b"") for name, each in headers),
        )
        for topic, index, offset, timestamp, key, headers, value in lines
    ]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
