"""Loads the machine code of chains when it is imported: processes that are forked afterwards have it at once.

Without that each of them loads it again, which takes longer than all its steps.
"""

from __future__ import annotations

from streaminfer import fit
from streaminfer.spec import parse_spec

fit(
    parse_spec(
        {
            "name": "compiled",
            "model": {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"},
            "inference": {"method": "sgld", "chains": 1, "draws": 2, "thin": 2, "warmup": 2, "minibatch": 2},
        }
    ),
    [{"a": 0.5 * i, "b": 1.0 - i, "y": i % 2} for i in range(8)],
)
