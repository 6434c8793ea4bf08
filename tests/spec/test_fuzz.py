"""Whatever a spec file holds, the answer is a Spec or a SpecError."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.spec import SpecError, load_spec, parse_spec
from tests.spec.documents import FULL
from tests.wire.budget import examples
from tests.wire.mutation import arbitrary, mutated

FILES = [
    b"name: demo\ndata: {format: json, partitions: 4}\nmodel:\n  kind: poisson\n  field: k\n  prior: {shape: 1}\n",
    b'{"name": "demo", "model": {"kind": "gaussian", "fields": ["u", "v"], "prior": {"dof": 6.5}}}',
    b"name: demo\nmodel: {kind: categorical, field: c, categories: [a, b]}\ninference: {minibatch: 1}\n",
    b"name: demo\nmodel: {kind: poisson, field: k}\ninference: {method: sgld, chains: 2, step: {bias: 0.1}}\n",
    b"name: demo\nmodel: {kind: queue_models.waiting:WaitingTime, field: t, prior: {shape: 2}}\n",
]
PIECES = [
    b"!!int ''", b"!!float .", b"!!bool x", b"!!timestamp x", b"!!binary x", b"&a ", b"*a", b"<<: ", b"? ", b"\n- ",
    b"0x" + b"f" * 2000, b"1:00:00.5", b'"\\UFFFFFFFF"', b".nan", b"-.inf", b"2001-99-99", b"\x00", b"\xff", b"---\n",
    b"%YAML 9.9\n", b"|\n", b"[", b"{", b"\t", b"!!set {a}", b"!!omap [a]", b"!<x> ", b"~: ~\n",
]  # fmt: skip

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["demo", "json", "svb", "sgld", "mh", "poisson", "gaussian", "k", 10**400, 2**4096]),
)  # fmt: skip
_KEYS = st.one_of(
    st.sampled_from(
        [
            "name",
            "data",
            "model",
            "inference",
            "kind",
            "field",
            "fields",
            "prior",
            "partitions",
            "mean",
            "method",
            "step",
        ]
    ),
    st.text(max_size=8),
    st.integers(),
    st.none(),
)
_NESTED = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spec") / "spec.yaml"


@examples("parse_spec, nested values")
@given(_NESTED, st.sampled_from(sorted(FULL)), st.sampled_from(["name", "data", "model", "inference", "prior"]))
def test_nested_values(value: Any, kind: str, section: str) -> None:
    document: dict[str, Any] = {"name": "demo", "model": dict(FULL[kind])}
    if section == "prior":
        document["model"]["prior"] = value
    else:
        document[section] = value
    for given_document in (value, document):
        with suppress(SpecError):
            parse_spec(given_document)


@examples("load_spec, arbitrary bytes")
@given(files=arbitrary(max_size=60))
def test_arbitrary_bytes(path: Path, files: tuple[bytes, ...]) -> None:
    for data in files:
        path.write_bytes(data)
        with pytest.raises(SpecError):
            load_spec(path)


@examples("load_spec, mutated")
@given(files=mutated(FILES, PIECES))
def test_mutated_files(path: Path, files: list[bytes]) -> None:
    for data in files:
        path.write_bytes(data)
        with suppress(SpecError):
            load_spec(path)
