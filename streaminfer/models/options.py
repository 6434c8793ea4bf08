"""What a section of a spec may say: options with a rule, a default and a sentence of documentation.

The same declarations check a spec, fill its defaults and describe it to editors as a JSON Schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from streaminfer.models.did_you_mean import unknown_name


class Problem(NamedTuple):
    """One thing wrong with a spec: the field, the rule and the value."""

    field: str
    rule: str
    value: object

    def __str__(self) -> str:
        return f"{self.field}: {self.rule} (got {_short(self.value)})"


class OptionsError(ValueError):
    """Options that are right one by one but not together; raised by a model's `build`."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        super().__init__(f"{field}: {rule}")
        self.problem = Problem(field, rule, value)


class Rule(Protocol):
    """Checks one value; if the rule is broken, appends to `problems` and returns a harmless value."""

    def check(self, value: object, field: str, problems: list[Problem]) -> Any: ...

    def json_schema(self) -> dict[str, Any]: ...


_REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Option:
    """A key of a section. Without a default it is required; a default of None means «not set»."""

    name: str
    rule: Rule
    doc: str
    default: Any = _REQUIRED

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with known keys; an unknown one is a problem that names the nearest right one."""

    options: Sequence[Option]
    complete: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Fills the defaults that depend on other options, once all are right by themselves."""

    def check(self, value: object, field: str, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            problems.append(Problem(field, "must be a mapping of keys to values", value))
            value = {}
        names = [option.name for option in self.options]
        problems.extend(
            Problem(_join(field, str(key)), unknown_name(str(key), names, "key"), value[key])
            for key in value
            if key not in names
        )
        checked = {}
        for option in self.options:
            given = value.get(option.name)
            if given is not None:
                checked[option.name] = option.rule.check(given, _join(field, option.name), problems)
            elif not option.required:
                checked[option.name] = _fill(option)
            else:
                problems.append(Problem(_join(field, option.name), f"is required: {option.doc}", given))
        return self.complete(checked) if self.complete is not None and not problems else checked

    def json_schema(self) -> dict[str, Any]:
        properties = {}
        for option in self.options:
            entry = {**option.rule.json_schema(), "description": option.doc}
            if not option.required and not isinstance(option.rule, Section):
                entry["default"] = option.default
            properties[option.name] = entry
        required = [option.name for option in self.options if option.required]
        return {"type": "object", "properties": properties, "additionalProperties": False, "required": required}


@dataclass(frozen=True, slots=True)
class OneKey:
    """A mapping that has exactly one of a few keys."""

    options: Sequence[Option]

    def check(self, value: object, field: str, problems: list[Problem]) -> dict[str, Any]:
        names = [option.name for option in self.options]
        if not isinstance(value, Mapping) or len(value) != 1:
            problems.append(Problem(field, f"must be a mapping with exactly one of {', '.join(names)}", value))
            return {}
        ((key, given),) = value.items()
        for option in self.options:
            if option.name == key:
                return {key: option.rule.check(given, _join(field, key), problems)}
        problems.append(Problem(_join(field, str(key)), unknown_name(str(key), names, "key"), given))
        return {}

    def json_schema(self) -> dict[str, Any]:
        return {"oneOf": [Section([option]).json_schema() for option in self.options]}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number, with bounds; `above` is strict."""

    above: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    def check(self, value: object, field: str, problems: list[Problem]) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            problems.append(Problem(field, f"must be a number{self._bounds()}", value))
            return math.nan
        if (
            (self.above is not None and value <= self.above)
            or (self.minimum is not None and value < self.minimum)
            or (self.maximum is not None and value > self.maximum)
        ):
            problems.append(Problem(field, f"must be a number{self._bounds()}", value))
        return float(value)

    def _bounds(self) -> str:
        return _bounds(self.above, self.minimum, self.maximum)

    def json_schema(self) -> dict[str, Any]:
        bounds = {"exclusiveMinimum": self.above, "minimum": self.minimum, "maximum": self.maximum}
        return {"type": "number"} | {name: bound for name, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two bounds, both included."""

    minimum: int
    maximum: int

    def check(self, value: object, field: str, problems: list[Problem]) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.minimum <= value <= self.maximum:
            bounds = _bounds(None, self.minimum, self.maximum)
            problems.append(Problem(field, f"must be a whole number{bounds}", value))
            return self.minimum
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""

    def check(self, value: object, field: str, problems: list[Problem]) -> bool:
        if not isinstance(value, bool):
            problems.append(Problem(field, "must be true or false", value))
        return value is True

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text:
    """A string that matches a pattern as a whole; `says` is the pattern in words."""

    pattern: str = r"[\s\S]{1,200}"
    says: str = "1 to 200 characters"

    def check(self, value: object, field: str, problems: list[Problem]) -> str:
        if not isinstance(value, str):
            hint = " (quote it)" if isinstance(value, bool | int | float) else ""
            problems.append(Problem(field, f"must be a string{hint}", value))
            return ""
        if not re.fullmatch(self.pattern, value):
            problems.append(Problem(field, f"must be {self.says}", value))
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few names."""

    names: Sequence[str]

    def check(self, value: object, field: str, problems: list[Problem]) -> str:
        if value not in self.names:
            problems.append(Problem(field, unknown_name(str(value), self.names, "value"), value))
        return str(value)

    def json_schema(self) -> dict[str, Any]:
        return {"enum": list(self.names)}


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of different values of one kind, returned as a tuple."""

    item: Rule
    minimum: int = 1
    maximum: int = 1000
    unique: bool = True

    def check(self, value: object, field: str, problems: list[Problem]) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not self.minimum <= len(value) <= self.maximum:
            problems.append(Problem(field, f"must be a list of {self.minimum} to {self.maximum} values", value))
            return ()
        checked = tuple(self.item.check(item, f"{field}[{i}]", problems) for i, item in enumerate(value))
        if self.unique:
            earlier = set()
            for i, item in enumerate(checked):
                if item in earlier:
                    problems.append(Problem(f"{field}[{i}]", "must not repeat an earlier value", item))
                earlier.add(item)
        return checked

    def json_schema(self) -> dict[str, Any]:
        bounds = {"minItems": self.minimum, "maxItems": self.maximum, "uniqueItems": self.unique}
        return {"type": "array", "items": self.item.json_schema(), **bounds}


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping of names, which are not known here, to values of one kind."""

    item: Rule
    maximum: int = 1000

    def check(self, value: object, field: str, problems: list[Problem]) -> dict[str, Any]:
        if not isinstance(value, Mapping) or len(value) > self.maximum:
            problems.append(Problem(field, f"must be a mapping of at most {self.maximum} names to values", value))
            return {}
        odd = [key for key in value if not isinstance(key, str)]
        problems.extend(Problem(field, "must have strings as names (quote them)", key) for key in odd)
        return {key: self.item.check(item, _join(field, str(key)), problems) for key, item in value.items()}

    def json_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": self.item.json_schema(),
            "maxProperties": self.maximum,
        }


@dataclass(frozen=True, slots=True)
class OneOrMany:
    """One value for all coordinates, or a list with one for each (returned as a tuple)."""

    item: Rule

    def check(self, value: object, field: str, problems: list[Problem]) -> Any:
        if isinstance(value, list | tuple):
            return Listing(self.item, unique=False).check(value, field, problems)
        return self.item.check(value, field, problems)

    def json_schema(self) -> dict[str, Any]:
        return {"oneOf": [self.item.json_schema(), Listing(self.item, unique=False).json_schema()]}


@dataclass(frozen=True, slots=True)
class WordOr:
    """One word, or a mapping that says more."""

    word: str
    section: Section

    def check(self, value: object, field: str, problems: list[Problem]) -> Any:
        if value == self.word:
            return self.word
        if not isinstance(value, Mapping):
            keys = ", ".join(option.name for option in self.section.options)
            problems.append(Problem(field, f"must be {self.word}, or a mapping with {keys}", value))
            return self.word
        return self.section.check(value, field, problems)

    def json_schema(self) -> dict[str, Any]:
        return {"oneOf": [{"const": self.word}, self.section.json_schema()]}


@dataclass(frozen=True, slots=True)
class Short:
    """A section, or only the value of its first option."""

    section: Section

    def check(self, value: object, field: str, problems: list[Problem]) -> dict[str, Any]:
        given = value if isinstance(value, Mapping) else {self.section.options[0].name: value}
        return self.section.check(given, field, problems)

    def json_schema(self) -> dict[str, Any]:
        return {"oneOf": [self.section.options[0].rule.json_schema(), self.section.json_schema()]}


@dataclass(frozen=True, slots=True)
class Either:
    """What one of several rules allows."""

    rules: Sequence[Rule]

    def check(self, value: object, field: str, problems: list[Problem]) -> Any:
        """By the first rule that finds no problem, or by the first of all."""
        for rule in self.rules:
            found: list[Problem] = []
            checked = rule.check(value, field, found)
            if not found:
                return checked
        return self.rules[0].check(value, field, problems)

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [rule.json_schema() for rule in self.rules]}


def _fill(option: Option) -> Any:
    """A section that was not given is the section of its own defaults, unless its default is not to be set."""
    if isinstance(option.rule, Section) and option.default is not None:
        return option.rule.check({}, option.name, [])
    return option.default


def _join(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key


def _is_finite(value: float) -> bool:
    """Whether float64 holds it; a whole number of 400 digits is an int in YAML and no float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _bounds(above: float | None, minimum: float | None, maximum: float | None) -> str:
    parts = []
    if above is not None:
        parts.append(f"above {above:g}")
    if minimum is not None:
        parts.append(f"at least {minimum:g}" if isinstance(minimum, float) else f"at least {minimum}")
    if maximum is not None:
        parts.append(f"at most {maximum:g}" if isinstance(maximum, float) else f"at most {maximum}")
    return f" {' and '.join(parts)}" if parts else ""
