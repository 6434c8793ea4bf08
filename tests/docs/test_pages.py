"""Every page: commands print what it says, links lead somewhere, specs are valid, sentences are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaminfer import load_spec
from tests.docs.pages import BLOCK, PAGES, ROOT, play, shell_in

RUN = {
    "README.md": 7,
    "docs/combiners.md": 6,
    "docs/dashboard.md": 3,
    "docs/data-formats.md": 4,
    "docs/drift.md": 1,
    "docs/external-topics.md": 5,
    "docs/files.md": 6,
    "docs/forgetting.md": 1,
    "docs/keys.md": 6,
    "docs/measuring.md": 1,
    "docs/monitor.md": 2,
    "docs/operations.md": 9,
    "docs/own-models.md": 10,
    "docs/python.md": 2,
    "docs/samplers.md": 3,
    "docs/topic-models.md": 1,
}
"""How many commands and Python blocks with their outputs a page has at least."""
LONGEST = 25
"""Words of a sentence."""


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("name", RUN)
def test_commands_and_outputs(name: str, tmp_path: Path) -> None:
    assert play(PAGES[name], shell_in(tmp_path, ROOT / "docs" / "examples" / "own_model")) >= RUN[name]


def test_no_page_with_something_to_run_is_left_out() -> None:
    found = {name for name, page in PAGES.items() if {"console", "python"} & {kind for kind, _ in BLOCK.findall(page)}}
    assert found == set(RUN)


@pytest.mark.parametrize("name", [*PAGES, "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    for path, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", (ROOT / name).read_text()):
        if path.startswith("http"):
            continue
        target = (folder / path).resolve() if path else ROOT / name
        assert target.exists(), path
        assert target.is_relative_to(ROOT), path
        assert not anchor or anchor in _anchors(target), f"{path}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """The anchors of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([a-z-]+\.md)\)", PAGES["docs/index.md"]))
    assert linked == {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"}


def test_parts_of_specs_are_valid(tmp_path: Path) -> None:
    parts = [text for page in PAGES.values() for kind, text in BLOCK.findall(page) if kind == "yaml"]
    assert parts
    for text in parts:
        (tmp_path / "part.yaml").write_text(f"name: part\nmodel: {{kind: bernoulli, field: x}}\n{text}")
        load_spec(tmp_path / "part.yaml")


def test_folders_and_files_that_pages_name_exist() -> None:
    pattern = r"`((?:streaminfer|services|tests|topics|docs)/[\w./-]*)`"
    named = {path for page in PAGES.values() for path in re.findall(pattern, page)}
    assert len(named) >= 20
    assert not [path for path in named if not (ROOT / path).exists()]


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {target for page in PAGES.values() for target in re.findall(r"^make ([a-z-]+)", page, re.MULTILINE)}
    assert {"demo", "test", "lint", "test-long", "help", "kafka", "bench"} <= named <= targets


@pytest.mark.parametrize("name", [*PAGES, "CHANGELOG.md"])
def test_sentences_are_short(name: str) -> None:
    sentences = _sentences((ROOT / name).read_text())
    too_long = [sentence for sentence in sentences if len(sentence.split()) > LONGEST]
    assert not too_long, "\n".join(too_long)


def _sentences(page: str) -> Iterator[str]:
    """Of paragraphs, items and cells; code and links are as many words as a reader sees."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", BLOCK.sub("\n", page))
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"^(\s*(?:[-*>]|\d+\.)\s|#.*$)", r"\n\n\1", text, flags=re.MULTILINE)
    for part in re.split(r"\n\s*\n|\||^#.*$", text, flags=re.MULTILINE):
        yield from re.split(r"(?<=[.!?])\s+", " ".join(re.sub(r"[*>]|^\s*-\s", " ", part).split()))
