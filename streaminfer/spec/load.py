"""From a file to a Spec, or to errors that say file, field, rule and value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from streaminfer.models import MODELS
from streaminfer.models.did_you_mean import unknown_name
from streaminfer.models.events import Field
from streaminfer.models.lda.model import Lda
from streaminfer.models.options import OptionsError, Problem
from streaminfer.spec import drift as drift_section
from streaminfer.spec import inference as inference_section
from streaminfer.spec import monitor as monitor_section
from streaminfer.spec import sampler, words
from streaminfer.spec.data import DATA, Data, check_data, check_format, read_schema
from streaminfer.spec.key import KEY_OR_FIELD, Key, check_key
from streaminfer.spec.own_models import own
from streaminfer.spec.spec import NAME, Spec
from streaminfer.variational.methods import METHODS, method_of

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_BITS: Final = 4096
SECTIONS: Final = ("name", "data", "model", "inference", "key", "drift", "monitor")


class SpecError(ValueError):
    """A spec that cannot be used; its text has one line for each problem."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        super().__init__("\n".join(f"{file}: {problem}" for problem in problems))
        self.file = file
        self.problems = problems


def load_spec(path: str | Path) -> Spec:
    """Reads a spec file (YAML, and so JSON too)."""
    file = str(path)
    try:
        with open(path, "rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(file, [Problem("(file)", f"cannot be read: {error.strerror}", file)]) from error
    if len(text) > MAX_BYTES:
        raise SpecError(file, [Problem("(file)", f"must be at most {MAX_BYTES} bytes", f"{len(text)} bytes or more")])
    try:
        document = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
    except Exception as error:  # PyYAML lets IndexError, KeyError, OverflowError and the like escape on odd scalars
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise SpecError(file, [Problem("(file)", f"must be one YAML document: {detail}", file)]) from error
    return parse_spec(document, file, Path(path).parent)


def parse_spec(document: object, file: str = "spec", folder: Path = Path()) -> Spec:
    """Checks a document and fills its defaults; `file` is the name that errors give.

    Files that it names are looked for from `folder`.
    """
    _refuse_excess(document, file)
    if not isinstance(document, Mapping):
        raise SpecError(file, [Problem("(file)", f"must be a mapping with {', '.join(SECTIONS)}", document)])
    problems = [
        Problem(str(key), unknown_name(str(key), SECTIONS, "section"), document[key])
        for key in document
        if key not in SECTIONS
    ]
    name = _required(document, "name", "the prefix of every topic", problems)
    if name is not None:
        NAME.check(name, "name", problems)
    data = DATA.check(_section(document, "data"), "data", problems)
    inference = inference_section.checked(_section(document, "inference"), problems)
    drift = None if document.get("drift") is None else drift_section.DRIFT.check(document["drift"], "drift", problems)
    monitor = monitor_section.MONITOR.check(_section(document, "monitor"), "monitor", problems)
    given = document.get("key")
    key = None if given is None else KEY_OR_FIELD.check(given, "key", problems)
    model_section = _required(document, "model", "what is inferred", problems)
    sampled = inference_section.is_sampler(inference["method"])
    kind, options = _model_options(model_section, sampled, problems)
    if problems or kind is None:
        raise SpecError(file, problems)
    with _together("model", file):
        filled_in = words.with_words(kind, options, folder)
        model = own.built(kind, options, sampled) if own.is_own(kind) else MODELS[kind].build(filled_in)
    if sampled:
        with _together("inference", file):
            inference = sampler.filled(inference, kind, model, data["partitions"])
    else:
        inference = inference_section.filled(inference, model)
    filled = {"name": name, "data": data, "model": {"kind": kind, **options}, "inference": inference, "drift": drift}
    filled |= {} if key is None else {"key": key}
    filled["monitor"] = monitor
    with _together("data", file):
        check_data(str(name), data)
        text = None if data["schema"] is None else read_schema(folder, data["schema"])
        said, sampling = sampler.made(inference) if sampled else (inference_section.made(inference), None)
        spec = Spec(
            str(name), Data(**data, schema_text=text), model, said, _plain(filled),
            None if drift is None else drift_section.made(drift), None if key is None else Key(**key), sampling,
            monitor_section.made(monitor),
            folder=folder,
        )  # fmt: skip
        fields = spec.event_fields
    _check_together(spec, filled, fields, file)
    return spec


def _check_together(spec: Spec, filled: Mapping[str, Any], fields: tuple[Field, ...], file: str) -> None:
    """Raises SpecError if sections are right one by one but not together."""
    with _together("", file):
        if spec.words is not None:
            _check_documents(spec, spec.words)
        check_format(spec.data, fields)
    with _together("monitor", file):
        monitor_section.check(spec.kind, spec.model, None if spec.key is None else spec.key.field, spec.monitor)
    if spec.sampling is not None:
        with _together("", file):
            sampler.check_spec(spec.sampling.method, spec.sampling.subposteriors, spec.data, filled)
        return
    with _together("inference", file):
        inference_section.check_inference(spec.kind, spec.model, filled["inference"])
    if spec.key is not None:
        with _together("", file):
            check_key(spec.kind, spec.model, spec.inference.minibatch, spec.row_columns, spec.key.field)
        _check_alone(spec, file)
    _check_window(spec, file)
    _check_reaction(spec, file)


def _check_documents(spec: Spec, model: Lda) -> None:
    """Raises OptionsError, with the section in its name, if something is set that topics cannot have."""
    words.check_format(spec.kind, spec.data.format)
    if spec.sampling is not None:
        words.check_sampled(model, spec.sampling.method)
    else:
        react = None if spec.drift is None else spec.drift.react
        words.check_words(spec.kind, react, spec.inference, spec.shards)


def _check_alone(spec: Spec, file: str) -> None:
    """What one posterior for all may have, and those of keys may not."""
    if spec.inference.windowed:
        rule = "must be half_life_events or half_life_seconds with a key: panes of keys are not kept"
        raise SpecError(file, [Problem("inference.forget", rule, spec.inference.forget)])
    if spec.drift is not None:
        rule = "must not be set with key: scores of different keys cannot be compared"
        raise SpecError(file, [Problem("drift", rule, spec.document["drift"])])


def _check_window(spec: Spec, file: str) -> None:
    """A window is a sum of whole panes: it needs exact statistics, and nothing else may scale them."""
    if not spec.inference.windowed:
        return
    (forget,) = (spec.inference.forget or {}).keys()
    if spec.model.exactness != "exact" or spec.model.needs_base:
        rule = (
            "needs a model with exact statistics, as what leaves the window must leave nothing behind; use "
            f"{forget.replace('window', 'half_life')}"
        )
        raise SpecError(file, [Problem(f"inference.forget.{forget}", rule, spec.kind)])
    if spec.drift is not None and spec.drift.react is not None:
        rule = f"must be report if inference.forget has {forget}: what is in a window counts fully"
        raise SpecError(file, [Problem("drift.react", rule, spec.document["drift"]["react"])])


def _check_reaction(spec: Spec, file: str) -> None:
    """A reaction decays sums of statistics; svi holds none, and forgets by its steps."""
    if not method_of(spec.inference).forgets and spec.drift is not None and spec.drift.react is not None:
        able = " and ".join(method.name for method in METHODS.values() if method.forgets)
        rule = f"must be report with the method {spec.inference.method}: only {able} can forget faster"
        raise SpecError(file, [Problem("drift.react", rule, spec.document["drift"]["react"])])


def _refuse_excess(document: object, file: str) -> None:
    """Refuses what could not even be printed: bottomless nesting, integers of thousands of digits."""
    left: list[tuple[object, int]] = [(document, 1)]
    while left:
        value, depth = left.pop()
        if depth > MAX_DEPTH:
            raise SpecError(file, [Problem("(file)", f"must be nested at most {MAX_DEPTH} levels deep", "more")])
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            rule = f"must not hold a whole number of more than {MAX_BITS} bits"
            raise SpecError(file, [Problem("(file)", rule, f"{value.bit_length()} bits")])
        if isinstance(value, Mapping):
            left.extend((item, depth + 1) for pair in value.items() for item in pair)
        elif isinstance(value, list | tuple):
            left.extend((item, depth + 1) for item in value)


def _section(document: Mapping[Any, Any], name: str) -> object:
    given = document.get(name)
    return {} if given is None else given


def _required(document: Mapping[Any, Any], field: str, why: str, problems: list[Problem]) -> Any:
    value = document.get(field)
    if value is None:
        problems.append(Problem(field, f"is required: {why}", value))
    return value


def _model_options(section: object, sampled: bool, problems: list[Problem]) -> tuple[str | None, dict[str, Any]]:
    if section is None:
        return None, {}
    if not isinstance(section, Mapping):
        problems.append(Problem("model", f"must be a mapping with kind, one of {', '.join(MODELS)}", section))
        return None, {}
    kind = section.get("kind")
    rest = {key: value for key, value in section.items() if key != "kind"}
    if own.is_own(kind):
        return _own_options(kind, rest, sampled, problems)
    if not isinstance(kind, str) or kind not in MODELS:
        problems.append(Problem("model.kind", unknown_name(str(kind), list(MODELS), "model"), kind))
        return None, {}
    return kind, MODELS[kind].options.check(rest, "model", problems)


def _own_options(
    kind: str, rest: Mapping[Any, Any], sampled: bool, problems: list[Problem]
) -> tuple[str | None, dict[str, Any]]:
    try:
        return kind, own.checked(kind, rest, problems, sampled)
    except OptionsError as error:
        problems.append(error.problem._replace(field=f"model.{error.problem.field}"))
        return None, {}


@contextmanager
def _together(section: str, file: str) -> Iterator[None]:
    """Options of a section that do not fit together, as an error of the spec."""
    try:
        yield
    except OptionsError as error:
        problem = error.problem
        named = f"{section}.{problem.field}" if section else problem.field
        raise SpecError(file, [problem._replace(field=named)]) from error


def _plain(value: Any) -> Any:
    """Tuples as lists, so that the document prints as it would be written."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


class _StrictLoader(yaml.SafeLoader):
    """Safe, and refuses what would silently mean something else: repeated keys and aliases."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if isinstance(key_node, yaml.ScalarNode) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
            if isinstance(key_node, yaml.ScalarNode):
                seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e7 for a string; YAML 1.2 and most people take it for a number.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+\Z"), list("-+0123456789")
)
