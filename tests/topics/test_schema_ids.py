"""A schema id means one schema for ever: whoever has records with it reads them."""

from __future__ import annotations

import json
from collections import Counter

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from streaminfer.topics import declarations, formats, read
from streaminfer.wire.avro import declared_ids

RELEASED = {
    1: "cdcb042118ea1faeb259ca67dc815cd696dce0f20709866536dec6577f6dc88a",
    3: "251a9ade11f6f3e0691a8428b742e3e0e8755ec1d8d892e338e9453fd241be5e",
    6: "15b0bb2d7c0f810d7dd8ed14e4a6b055f336d5947f2cd02eed5e8b6c8ea6254a",
    7: "e0220176005a75c68504c7c1476d7fe2ce66297958afd2c420db0dec4da6f3f5",
}
"""The SHA-256 of the canonical form of every schema that a release has written. Lines are added here, never changed."""
NOT_RELEASED = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
"""Ids that no release has written yet: their schemas may still change. A release moves them to RELEASED."""


def _files() -> list[tuple[int, str]]:
    """(id, file) of every declared schema, those of older versions too; once, if topics share it."""
    found = [(topic.schema_id, topic.schema) for topic in declarations().values()]
    found += [pair for topic in declarations().values() for pair in topic.earlier.items()]
    found += [(form.schema_id, form.schema) for form in formats().values()]
    return list({(number, file): None for number, file in found if number is not None and file is not None})


def _hash(file: str) -> str:
    return fingerprint(to_parsing_canonical_form(fastavro.parse_schema(json.loads(read(file)))), "SHA-256")


@pytest.mark.parametrize("number", RELEASED)
def test_a_released_id_has_the_schema_it_was_released_with(number: int) -> None:
    files = dict(_files())
    assert number in files, f"id {number} is declared no more: records of it could not be read"
    assert _hash(files[number]) == RELEASED[number], f"{files[number]}: give the changed schema a new id"


def test_every_id_is_of_one_schema_and_known_here() -> None:
    files = _files()
    assert [number for number, count in Counter(number for number, _ in files).items() if count > 1] == []
    assert {number for number, _ in files} == RELEASED.keys() | NOT_RELEASED
    assert {number for number, _ in files} <= declared_ids()
