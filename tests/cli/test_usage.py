"""Bad usage ends with 2, failure with 1, and the message names the fault, its place and the remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Workplace

pytestmark = pytest.mark.xdist_group("processes")


def fails(workplace: Workplace, code: int, *arguments: object) -> str:
    """Standard error of a command that must end with this code, say nothing else, and show no traceback."""
    program = workplace.call(*arguments, code=code)
    assert program.out == ""
    assert "Traceback" not in program.err
    return program.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["downn"], "invalid choice: 'downn'"),
        (["snapshot"], "SPEC"),
        (["run", "barista", "SPEC"], "invalid choice: 'barista'"),
        (["up", "SPEC", "--workers", "0"], "must be a whole number from 1 to 256 (got '0')"),
        (["up", "SPEC", "--until"], "unrecognized arguments: --until"),
        (["up", "SPEC", "--http", "8080"], "--http: must be HOST:PORT, such as 127.0.0.1:8080 (got '8080')"),
        (["run", "master", "SPEC", "--http", "127.0.0.1:99999"], "(got '127.0.0.1:99999')"),
        (["run", "master", "SPEC", "--http", "0.0.0.0:0"], "set STREAMINFER_HTTP_TOKEN"),
        (["up", "SPEC", "--http", "0.0.0.0:0"], "set STREAMINFER_HTTP_TOKEN"),
        (["snapshot", "SPEC", "--bus", "pigeon:loft"], "bus URL 'pigeon:loft'"),
        (["topics", "SPEC", "--bus", "embedded:"], "embedded needs a directory"),
        (["topics", "SPEC", "--bus", "embedded://./there"], "write embedded:./there"),
        (
            ["run", "svi-worker", "SPEC"],
            "SERVICE: must be master, svb-worker or monitor with the method svb (got 'svi-worker')",
        ),
        (["validate"], "SPEC"),
        (["validate", "nowhere.yaml"], "nowhere.yaml: (file): cannot be read: No such file or directory"),
    ],
)
def test_bad_usage(workplace: Workplace, arguments: list[str], message: str) -> None:
    given = [workplace.spec if argument == "SPEC" else argument for argument in arguments]
    assert message in fails(workplace, 2, *given)


@pytest.mark.parametrize(
    ("text", "field", "rule", "value"),
    [
        ("{name: a, modle: {kind: poisson}}", "modle", "did you mean 'model'", "{'kind': 'poisson'}"),
        ("{name: Coin, model: {kind: poisson, field: k}}", "name", "a lower-case letter", "'Coin'"),
        ("{name: a, model: {kind: poison, field: k}}", "model.kind", "did you mean 'poisson'", "'poison'"),
        ("{name: a, model: {kind: poisson, field: k, prior: {rate: -1}}}", "model.prior.rate", "at least 1e-50", "-1"),
        ("{name: a, model: {kind: poisson, field: k}, inference: {minibatch: 0}}",
         "inference.minibatch", "at least 1 and at most 1000000", "0"),
        ("{name: a, model: {kind: poisson, field: k}, data: {partitions: four}}",
         "data.partitions", "must be a whole number", "'four'"),
    ],
)  # fmt: skip
def test_a_bad_spec_is_told_by_file_field_rule_and_value(
    workplace: Workplace, text: str, field: str, rule: str, value: str
) -> None:
    bad = workplace.folder / "bad.yaml"
    bad.write_text(text)
    message = fails(workplace, 2, "topics", bad, "--bus", workplace.url)
    (line,) = [line for line in message.splitlines() if f"{bad}: {field}: " in line]
    assert rule in line
    assert line.endswith(f"(got {value})")


def test_each_of_several_problems_is_a_line_with_the_name_of_the_program(workplace: Workplace) -> None:
    bad = workplace.folder / "bad.yaml"
    bad.write_text("{name: Coin, model: {kind: bernoulli, feild: y}}\n")
    lines = fails(workplace, 2, "topics", bad, "--bus", workplace.url).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"streaminfer: {bad}: ") for line in lines)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nowhere.csv", None, "nowhere.csv: is not a file that can be read"),
        (
            "coin.txt",
            "y\n1\n",
            "coin.txt: the name must end in one of .csv, .ndjson, .jsonl, .csv.gz, .ndjson.gz, .jsonl.gz, .parquet, "
            ".avro (got '.txt')",
        ),
        ("other.csv", "x\n1\n", "other.csv: has no column 'y'"),
        ("empty.csv", "", "empty.csv: is empty"),
    ],
)
def test_a_file_that_cannot_be_loaded(workplace: Workplace, name: str, text: str | None, message: str) -> None:
    file: Path = workplace.folder / name
    if text is not None:
        file.write_text(text)
    assert message in fails(workplace, 1, "produce", workplace.spec, file, "--json", "--bus", workplace.url)


def test_up_with_a_file_that_is_not_there_leaves_nothing(workplace: Workplace) -> None:
    message = fails(workplace, 1, "up", workplace.spec, "--data", "nowhere.csv", "--bus", workplace.url)
    assert "nowhere.csv" in message


def test_a_bus_that_is_no_bus(workplace: Workplace) -> None:
    folder = workplace.folder / "junk"
    folder.mkdir()
    (folder / "bus.sqlite3").write_bytes(b"this is no database, but long enough to be taken for one" * 99)
    message = fails(workplace, 1, "topics", workplace.spec, "--bus", f"embedded:{folder}")
    assert "bus.sqlite3 is damaged or not a bus" in message


def test_help_and_version(workplace: Workplace) -> None:
    text = workplace.programs.run("--help").out
    commands = ("up", "run", "produce", "snapshot", "predict", "topics", "validate", "dead-letters", "demo")
    for command in commands:
        assert re.search(rf"^    {command}\s", text, re.MULTILINE)
    assert workplace.programs.run("--version").out.startswith("streaminfer ")


def test_a_diagonal_that_is_not_needed_is_a_warning_of_validate_and_up(workplace: Workplace, tmp_path: Path) -> None:
    """On standard error: what `validate` prints is a spec all the same, and the exit code says that it is good."""
    spec = tmp_path / "clicks.yaml"
    spec.write_text(
        "{name: clicks, model: {kind: logistic_regression, features: [a, b], target: y, covariance: diagonal}}"
    )
    warning = f"streaminfer: warning: {spec}: model.covariance: diagonal "
    program = workplace.call("validate", spec)
    assert program.err.startswith(warning)
    assert program.err.count("\n") == 1
    assert "minibatch: 1024" in program.out
    assert warning in workplace.programs.run("up", spec, "--until-idle", code=0).err
