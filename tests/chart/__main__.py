"""Writes the derived files of the chart anew."""

from __future__ import annotations

from tests.chart.deriving import ROOT, files

for path, text in files().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(path.relative_to(ROOT))
