"""The posterior as it is shown: the document of `snapshot --json` as bytes, made once for each version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.tables.kinds import KEYED, kind_of


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot, or that of a key, with its document."""

    found: PosteriorSnapshot
    body: bytes
    etag: str

    @property
    def version(self) -> int:
        return self.found.version


def shown(found: PosteriorSnapshot) -> Shown:
    """The document of a snapshot. A keyed posterior without a key has what all its keys have in common."""
    whole = found.key is None and kind_of(found.spec) is KEYED
    return Shown(found, encoded(found.about() if whole else found.to_json()), etag_of(found))


def etag_of(found: PosteriorSnapshot) -> str:
    """What stands for fingerprint, version and key. The time is that of the manifest: a key is shown as of it."""
    key = "" if found.key is None else hashlib.sha256(found.key.encode()).hexdigest()[:16]
    snapshot = found.snapshot
    return f'"{snapshot.fingerprint[:16]}-{snapshot.version}-{snapshot.created_at:x}-{key}"'


def encoded(document: Any) -> bytes:
    """JSON as `--json` prints it."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
