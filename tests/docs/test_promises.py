"""The table of docs/promises.md names every topic and those who write it."""

from __future__ import annotations

from pathlib import Path

from streaminfer.topics import declarations

PAGE = Path(__file__).parents[2] / "docs" / "promises.md"


def test_every_topic_is_there_with_its_writers() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    found = {row[1].strip(" `"): row[2].strip().split(", ") for row in rows if len(row) == 6}
    assert found == {name: list(topic.writers) for name, topic in declarations().items()}
