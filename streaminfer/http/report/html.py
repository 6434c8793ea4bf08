"""Sections as one HTML file. All text is escaped; nothing is loaded from elsewhere, and there is no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from streaminfer.http.report.content import Section, Table
from streaminfer.http.report.svg import drawn

STYLE: Final = """
:root{--ground:#fff;--ink:#1b1f24;--soft:#565e69;--line:#d4d9df;--blue:#1f5fa8;--fail:#b3261e}
@media (prefers-color-scheme:dark){
:root{--ground:#14171b;--ink:#e8ebef;--soft:#a7b0bb;--line:#39414b;--blue:#78b0f0;--fail:#ff8a80}}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--ground);color:var(--ink)}
body{font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:1.5rem 0 0}p{margin:.25rem 0}.why{color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.93rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;border-bottom:1px solid var(--line)}
td{overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1.5rem}
figure{margin:.6rem 0;max-width:36rem}figcaption{font-weight:600;font-size:.95rem}
svg{width:100%;height:auto;font-size:11px}
svg text{fill:var(--soft)}.rule{stroke:var(--line)}.line{stroke:var(--blue);stroke-width:2;fill:none}
.dashed{stroke-dasharray:6 4;stroke:var(--soft)}.point,.band{fill:var(--blue)}.band{opacity:.2}
line.mark{stroke:var(--fail);stroke-dasharray:4 4}text.mark{fill:var(--fail)}
"""


def page(title: str, subtitle: str, made: Sequence[Section]) -> str:
    """The whole file."""
    body = "".join(_section(each) for each in made)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1><p class=why>{escape(subtitle)}</p>{body}</body></html>\n"
    )


def _section(section: Section) -> str:
    lines = "".join(f"<p><strong>{escape(line)}</strong></p>" for line in section.lines)
    tables = "".join(_table(each) for each in section.tables)
    pictures = "".join(
        f"<figure><figcaption>{escape(each.name)}</figcaption>{drawn(each)}</figure>" for each in section.figures
    )
    grid = f'<div class="grid">{pictures}</div>' if pictures else ""
    head = f"<h2>{escape(section.title)}</h2><p class=why>{escape(section.why)}</p>"
    return f"<section>{head}{lines}{tables}{grid}</section>"


def _table(table: Table) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
