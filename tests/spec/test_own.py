"""A model of the user's own by the name of its class: what is refused, and what a spec makes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from queue_models.waiting import WaitingTime

from streaminfer.spec import SpecError, json_schema, load_spec, parse_spec
from tests.spec.own import WAITING, document, kind_of, line

__all__ = ["kind_of"]

RULE = (
    "must be the name of a model, or package.module:Class for a class of your own: letters, digits and _, dots before "
    "the colon, at most 200 characters"
)
MISSING = (
    "install its package for every process of the spec, or put its folder on their PYTHONPATH; services import nothing "
    "from the current directory"
)


NAMES = [
    "queue_models.waiting.WaitingTime", "queue_models.waiting:", ":WaitingTime", ":", ".", "..", "a:b:c", "a::b",
    "../own:Model", "/home/own:Model", "own/model:Model", "a..b:C", ".a:B", "a.:B", "1a:B", "a:1B", "a:B.c", "a:B()",
    "a b:C", "a:B\n", " a:B", "a-b:C", "a:B;import os", "ä:B", "a:Ä", "a\x00:B", "$a:B", "__import__('os'):system",
]  # fmt: skip


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_is_dotted_names_and_a_class(kind: str) -> None:
    assert line(document(kind)) == f"own.yaml: model.kind: {RULE} (got {kind!r})"


def test_a_name_has_a_length() -> None:
    kind = "a" * 199 + ":B"
    assert line(document(kind)) == f"own.yaml: model.kind: {RULE} (got '{'a' * 76}...)"
    assert "there is no 'aaaa" in line(document(kind[2:]))


CLASSES = [
    ("nowhere.at.all:Model", f"must be in a module that Python finds, but there is no 'nowhere': {MISSING}"),
    ("queue_models.nowhere:M",
     f"must be in a module that Python finds, but there is no 'queue_models.nowhere': {MISSING}"),
    ("queue_models.waiting.deeper:M",
     f"must be in a module that Python finds, but there is no 'queue_models.waiting.deeper': {MISSING}"),
    ("queue_models.waiting:Wating", "must name a class of the module, but queue_models.waiting has no 'Wating'"),
    ("os:system", "must name a class, but 'system' is a builtin_function_or_method"),
    ("os:path", "must name a class, but 'path' is a module"),
    ("math:pi", "must name a class, but 'pi' is a float"),
    ("builtins:int", "must name a model, but the class has no kind, which every model has; see docs/own-models.md"),
    ("subprocess:Popen", "must name a model, but the class has no kind, which every model has; see docs/own-models.md"),
    ("streaminfer.models.model:Conjugate",
     "must name a model, but the class has no kind, which every model has; see docs/own-models.md"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "rule"), CLASSES)
def test_what_is_no_model_is_one_exact_line(kind: str, rule: str) -> None:
    assert line(document(kind)) == f"own.yaml: model.kind: {rule} (got {kind!r})"


MODULES = {
    "raises": ("1 / 0", "raises ZeroDivisionError: division by zero"),
    "exits": ("import sys; sys.exit(3)", "raises SystemExit: 3"),
    "silent": ("raise RuntimeError", "raises RuntimeError"),
    "no_python": ("class Model(", "raises SyntaxError: '(' was never closed (no_python.py, line 1)"),
    "needs": ("import needs_nothing", "raises ModuleNotFoundError: No module named 'needs_nothing'"),
    "wants": (
        "from queue_models import nothing",
        "raises ImportError: cannot import name 'nothing' from 'queue_models'",
    ),
    "long": ("raise ValueError('x\\n' * 5000)", "raises ValueError: " + "x " * 149 + "x"),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_cannot_be_imported(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = MODULES[name]
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    found = line(document(f"{name}:Model"))
    assert found.startswith(f"own.yaml: model.kind: must be in a module that can be imported, but {name} {said}")
    assert found.endswith(f" (got '{name}:Model')")
    assert name not in sys.modules


def test_options_are_checked_like_those_of_every_model() -> None:
    assert (
        line(document(feild=3))
        == "own.yaml: model.feild: is not a known key; did you mean 'field'? known: field, prior (got 3)"
    )
    assert line(document(prior={"shape": -1})) == (
        "own.yaml: model.prior.shape: must be a number at least 1e-50 and at most 1e+50 (got -1)"
    )
    given = {**document(), "inference": {"method": "svi"}}
    assert line(given) == f"own.yaml: inference.method: must be svb with the model {WAITING} (got 'svi')"
    given = {**document("queue_models.visits:Visits"), "key": "k"}
    assert line(given) == (
        "own.yaml: key: cannot be set with queue_models.visits:Visits: its increments depend on a posterior, and "
        "workers hold no posterior of a key; leave it out, or use a spec and a topic for each key (got 'k')"
    )
    with pytest.raises(SpecError) as caught:
        parse_spec({**document("os:system"), "name": "A", "zzz": 1})
    assert [problem.field for problem in caught.value.problems] == ["zzz", "name", "model.kind"]


def test_a_spec_of_an_own_model(tmp_path: Path) -> None:
    spec = parse_spec(document())
    assert spec.model == WaitingTime("t")
    assert spec.kind == WAITING
    assert spec.document["model"] == {"kind": WAITING, "field": "t", "prior": {"shape": 1.0, "rate": 1.0}}
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(dict(spec.document)))
    again = load_spec(path)
    assert (again, again.fingerprint) == (spec, spec.fingerprint)
    flow = f"{{name: demo, model: {{kind: {WAITING}, field: t}}}}"
    path.write_text(flow)
    assert load_spec(path) == spec


def test_the_fingerprint_has_the_name_of_the_class_and_its_options(kind_of: Callable[[type], str]) -> None:
    one = parse_spec(document())
    assert parse_spec(document(prior={"shape": 2})).fingerprint != one.fingerprint
    renamed = parse_spec(document(kind_of(type("Model", (WaitingTime,), {"kind": "other"}))))
    assert renamed.fingerprint != one.fingerprint
    assert parse_spec(document(kind_of(WaitingTime))).fingerprint == renamed.fingerprint


def test_the_schema_of_editors_lets_own_models_have_any_options() -> None:
    validator = Draft202012Validator(json_schema())
    for good in (document(), document("a.b:C", anything=[1]), {"name": "demo", "model": {"kind": "a:B"}}):
        validator.validate(good)
    for kind in NAMES:
        if kind != "a:B\n":  # in Python's expressions, and no others, $ is also before a last newline
            assert not validator.is_valid(document(kind)), kind
    assert not validator.is_valid(document("a" * 199 + ":B"))


def test_a_class_of_the_program_itself_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """For notebooks, whose module is __main__."""
    monkeypatch.setattr(sys.modules["__main__"], "Mine", WaitingTime, raising=False)
    assert parse_spec(document("__main__:Mine")).model == WaitingTime("t")


def test_what_a_module_prints_is_kept_off_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "talking.py").write_text("print('hello')\nfrom queue_models.waiting import WaitingTime\n")
    monkeypatch.syspath_prepend(tmp_path)
    parse_spec(document("talking:WaitingTime"))
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize("command", ["validate", "topics", "snapshot"])
def test_commands_that_only_read_import_it_and_tell_the_same(command: str, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("name: demo\nmodel: {kind: 'raising:Model'}\n")
    (tmp_path / "raising.py").write_text("raise RuntimeError('not today')\n")
    code = "import sys; sys.path.insert(0, '.'); from streaminfer.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, command, "spec.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "streaminfer: spec.yaml: model.kind: must be in a module that can be imported, but raising raises "
        "RuntimeError: not today (got 'raising:Model')\n"
    )
