"""Files that a spec names, and modules that it imports: what is allowed, and that errors show none of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from streaminfer.spec import SpecError, parse_spec
from streaminfer.spec.files import VARIABLE
from tests.spec.own import WAITING, document

SECRET = "root:x:0:0"  # noqa: S105 (no password)


def topics(file: str) -> dict[str, Any]:
    return {"name": "t", "model": {"kind": "lda", "field": "w", "topics": 2, "vocabulary": file}}


def framed(file: str) -> dict[str, Any]:
    return {"name": "t", "data": {"format": "avro", "schema": file}, "model": {"kind": "poisson", "field": "k"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a spec; beside it is a file that is not meant for specs."""
    (tmp_path / "passwd").write_text(f"{SECRET}\n{SECRET}\n")
    found = tmp_path / "specs"
    found.mkdir()
    (found / "link").symlink_to(tmp_path / "passwd")
    return found


@pytest.mark.parametrize("made", [topics, framed])
@pytest.mark.parametrize("file", ["../passwd", "{absolute}", "link", "deeper/../../passwd"])
def test_files_are_below_the_folder_of_the_spec(made: Any, file: str, folder: Path) -> None:
    given = file.format(absolute=folder.parent / "passwd")
    with pytest.raises(SpecError, match="must be below the folder of the spec, unless STREAMINFER_SPEC_FILES=anywhere"):
        parse_spec(made(given), folder=folder)


@pytest.mark.parametrize("made", [topics, framed])
def test_elsewhere_if_it_is_allowed_and_errors_show_nothing_of_the_file(
    made: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "anywhere")
    for content in (f"{SECRET}\n{SECRET}\n", f'{{"type": "{SECRET}"}}', f'{{"{SECRET}": 1}}', f"\udcff{SECRET}"):
        (folder.parent / "passwd").write_bytes(2 * os.fsencode(f"{content}\n"))
        with pytest.raises(SpecError) as caught:
            parse_spec(made("../passwd"), folder=folder)
        assert SECRET not in str(caught.value)


def test_files_of_a_mounted_folder_are_links_within_it(folder: Path) -> None:
    (folder / "..data").mkdir()
    (folder / "..data" / "words").write_text("a\nb\n")
    (folder / "words").symlink_to(folder / "..data" / "words")
    assert parse_spec(topics("words"), folder=folder).name == "t"


@pytest.mark.parametrize("allowed", ["queue_models", "other, queue_models.waiting", "queue_models.waiting"])
def test_modules_that_may_be_imported(allowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMINFER_OWN_MODELS", allowed)
    assert parse_spec(document(WAITING)).kind == WAITING


@pytest.mark.parametrize("allowed", ["none", "", "queue", "queue_models.wait", "queue_models.waiting.deeper", ","])
def test_others_are_not_even_looked_for(allowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMINFER_OWN_MODELS", allowed)
    for kind in (WAITING, "no_such_module_at_all:Class"):
        with pytest.raises(SpecError, match="must be in a module that may be imported here: STREAMINFER_OWN_MODELS"):
            parse_spec(document(kind))
