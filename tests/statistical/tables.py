"""The tables of real data in `tests/data`."""

from __future__ import annotations

import gzip

import numpy as np

from tests.docs.pages import ROOT


def table(name: str) -> tuple[list[str], np.ndarray]:
    """The names of the columns, and the rows of a file."""
    path = ROOT / "tests" / "data" / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return file.readline().strip().split(","), np.loadtxt(file, delimiter=",")
