"""What the rows of a table of parameters are called."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.cli.snapshot import _rows
from streaminfer.models.model import Labels, Moments

FIELDS = ("u", "v")


@pytest.mark.parametrize(
    ("labels", "shape", "names"),
    [
        ((), (), ["x"]),
        (FIELDS, (2,), ["x[u]", "x[v]"]),
        (FIELDS, (2, 2), ["x[u, u]", "x[u, v]", "x[v, u]", "x[v, v]"]),
        (("u",), (1, 1), ["x[u, u]"]),
        ((("0", "1"), FIELDS), (2, 2), ["x[0, u]", "x[0, v]", "x[1, u]", "x[1, v]"]),
        ((("0",), ("u",), ("u",)), (1, 1, 1), ["x[0, u, u]"]),
    ],
)
def test_rows_are_called_by_the_labels_of_each_axis(labels: Labels, shape: tuple[int, ...], names: list[str]) -> None:
    moments = Moments(np.zeros(shape), np.ones(shape))
    assert list(_rows("x", moments, labels)) == [[name, "0", "1"] for name in names]
