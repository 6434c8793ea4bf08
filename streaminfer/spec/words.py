"""What a model of words asks of a spec: a vocabulary from a list or file, and options that it can be combined with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from streaminfer.models.lda.bags import MAX_BYTES
from streaminfer.models.lda.model import Lda
from streaminfer.models.lda.vocabulary import MOST, fault
from streaminfer.models.options import OptionsError
from streaminfer.spec import files
from streaminfer.variational.settings import Inference, Reaction

FILE_BYTES: Final = MOST * (MAX_BYTES + 2)


def with_words(kind: str, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A model's options with the words of the vocabulary if it names a file; raises OptionsError."""
    file = options["vocabulary"] if kind == Lda.kind else None
    return {**options, "vocabulary": _read(folder, file)} if isinstance(file, str) else dict(options)


def _read(folder: Path, file: str) -> tuple[str, ...]:
    path = files.named(folder, file, "vocabulary", "must be a list of words or name a file")
    try:
        if path.stat().st_size > FILE_BYTES:
            raise OptionsError("vocabulary", f"must name a file of at most {FILE_BYTES} bytes", file)
        with path.open("rb") as stream:
            words = tuple(_lines(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise files.unreadable("vocabulary", file, error) from None
    found = fault(words)
    if found is not None:
        raise OptionsError("vocabulary", f"line {found[0] + 1} of {path}: {found[1]}", file)
    if not words:
        raise OptionsError("vocabulary", f"must name a file with one word or more, and {path} has none", file)
    return words


def _lines(stream: Any) -> Iterator[str]:
    """One word more than there may be at most, so that too many are noticed."""
    for _ in range(MOST + 1):
        line = stream.readline(MAX_BYTES + 3)
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode()


def digest(words: Sequence[str]) -> str:
    """Says which words a vocabulary has, in any order."""
    found = hashlib.sha256()
    for word in sorted(words, key=str.encode):
        found.update(b"%d:%s" % (len(word.encode()), word.encode()))
    return found.hexdigest()


def check_format(kind: str, form: str) -> None:
    """Raises OptionsError if documents cannot come in a format."""
    if form != "json":
        raise OptionsError(
            "data.format", f"must be json with the model {kind}: documents are not rows of numbers", form
        )


def check_sampled(model: Lda, method: str) -> None:
    """Raises OptionsError, with the section in its name, if the model has something that draws of topics cannot."""
    if model.vocabulary is None:
        rule = (
            f"is required with the method {method}, as every draw has all words: name a file with one word a line, or "
            "use svb, svi or memoized, which learn words as they appear"
        )
        raise OptionsError("model.vocabulary", rule, None)
    if model.shards > 1:
        rule = f"must be 1 with the method {method}, whose draws have all words: leave it out"
        raise OptionsError("model.shards", rule, model.shards)
    if not model.by_mean:
        rule = f"means nothing with the method {method}, whose documents are fitted to draws of topics: leave it out"
        raise OptionsError("model.local", rule, model.local)


def check_words(kind: str, react: Reaction | None, inference: Inference, shards: int) -> None:
    """Raises OptionsError, with the section in its name, if something is set that words cannot have."""
    if inference.forget is not None:
        rule = f"cannot be set with {kind}: nothing decays its topics; leave it out, or use svi with constant steps"
        raise OptionsError("inference.forget", rule, dict(inference.forget))
    if inference.n_epochs > 1 and shards > 1:
        rule = (
            "must be 1 with more than one epoch, as each master would fix the ends of every pass by itself: set it "
            "to 1, or leave inference.epochs out"
        )
        raise OptionsError("model.shards", rule, shards)
    if react is not None:
        raise OptionsError("drift.react", f"must be report with {kind}: nothing decays its topics", asdict(react))
    if inference.step is not None and inference.step.constant == 1:
        rule = f"must be below 1 with {kind}: each minibatch would replace all topics, and leave none of other words"
        raise OptionsError("inference.step.constant", rule, inference.step.constant)
