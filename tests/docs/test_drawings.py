"""The drawings of README and docs are what their scripts draw."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
NUMBER = re.compile(r"-?\d+\.\d+")


SLOW = ("drift", "samplers", "subsets", "combiners", "measuring", "error_pictures")
"""Up to half a minute each, and of the same kind as the others."""


@pytest.mark.parametrize("name", ["forgetting", *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)])
def test_the_drawing_is_the_scripts(name: str) -> None:
    script = [sys.executable, str(DOCS / f"{name}.py")]
    environment = {"PYTHONPATH": ".", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(script, cwd=DOCS.parent, env=environment, capture_output=True, text=True, check=True)
    kept = (DOCS / f"{name}.svg").read_text()
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", kept)
    drawn, there = (np.array(NUMBER.findall(text), dtype=float) for text in (done.stdout, kept))
    np.testing.assert_allclose(drawn, there, atol=0.11)
