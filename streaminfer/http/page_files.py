"""The page: the files of one folder of the package, read once. No path of a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
INDEX: Final = "index.html"


@dataclass(frozen=True, slots=True)
class File:
    """One file."""

    body: bytes
    kind: str
    etag: str


def page_files() -> Mapping[str, File]:
    """All files of the page by their paths; the first page is also at `/`."""
    found = {f"/{name}": _file(name, each) for name, each in _walk(files("streaminfer.http") / "page", "")}
    return {**found, "/": found[f"/{INDEX}"]}


def _walk(folder: Traversable, before: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _walk(each, f"{before}{each.name}/")
        elif PurePosixPath(each.name).suffix in KINDS:
            found.append((f"{before}{each.name}", each))
    return found


def _file(name: str, source: Traversable) -> File:
    body = source.read_bytes()
    return File(body, KINDS[PurePosixPath(name).suffix], f'"{hashlib.sha256(body).hexdigest()[:20]}"')
