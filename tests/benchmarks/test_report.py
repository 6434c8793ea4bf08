"""The benchmark's own arithmetic: repetitions in turn, ratios within one, the table, documents compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import keyed_cases, report, topic_cases
from benchmarks.cases import QUICK, Bench, cases, checked, together
from benchmarks.contenders.task import Outcome
from benchmarks.latency import Append, Sight, delays
from benchmarks.measure import Aim, Case, Difference, Figure, Ratio, is_chosen, measured
from benchmarks.processes import Failed
from benchmarks.workload import Workload, matrix


def two(order: list[str]) -> Case:
    """Contenders whose samples are 10, 40, 90 and 5, 10, 30."""
    found = {"A": iter([10.0, 40.0, 90.0]), "B": iter([5.0, 10.0, 30.0])}

    def run(name: str) -> dict[str, float]:
        order.append(name)
        return {name: next(found[name])}

    runs = {"A": lambda: run("A"), "B": lambda: run("B")}
    return Case("x", "two", "events/s", runs, [Ratio("of B", "A", "B", Aim(">=", 3.0))], {"A": Aim("<=", 39.0)})


def test_contenders_take_turns_and_ratios_are_of_one_repetition() -> None:
    order: list[str] = []
    figures = {figure.name: figure for figure in measured(two(order), 3)}
    assert order == ["A", "B", "A", "B", "A", "B"]
    assert figures["of B"].samples == (2.0, 4.0, 3.0)  # by the medians it would be 4
    assert (figures["of B"].median, figures["of B"].spread, figures["of B"].met) == (3.0, (2.0, 4.0), True)
    assert (figures["A"].median, figures["A"].met, figures["B"].met) == (40.0, False, None)


@pytest.mark.parametrize(
    ("only", "chosen"), [("", "a l1 l3"), ("l", "l1 l3"), ("al3", "a l3"), ("l3", "l3"), ("b", "")]
)
def test_cases_are_chosen_by_letter_or_with_a_number(only: str, chosen: str) -> None:
    assert " ".join(letter for letter in ("a", "l1", "l3") if is_chosen(letter, only)) == chosen


def test_log_densities_are_compared_by_difference() -> None:
    case = Case(
        "x", "two", "nats", {"A": lambda: {"A": -8.5, "B": -8.0}}, [Difference("A less B", "A", "B", None, "nats")]
    )
    assert measured(case, 1)[-1] == Figure("x", "A less B", "nats", (-0.5,))


def test_the_table_says_each_figure_with_its_aim() -> None:
    figures = [
        Figure("x", "A", "events/s", (12345.0, 999.0, 54321.0)),
        Figure("x", "of B", "ratio", (0.5, 0.75, 1.5), Aim(">=", 1.0)),
        Figure("y", "p50", "ms", (149.6,), Aim("<=", 150)),
    ]
    assert report.table(figures, {"x": "two of them", "y": "a delay"}).splitlines() == [
        "case  figure  unit      median         spread  aim      met",
        "x  two of them",
        "x     A       events/s  12,345  999 .. 54,321",
        "x     of B    ratio       0.75   0.50 .. 1.50  >= 1.00  NO",
        "y  a delay",
        "y     p50     ms           150     150 .. 150  <= 150   yes",
    ]


def test_two_documents_are_compared_figure_by_figure(tmp_path: Path) -> None:
    old = [
        Figure("x", "A", "events/s", (80.0, 128.0, 140.0)),
        Figure("x", "B", "ratio", (3.0, 4.0, 5.0), Aim(">=", 1.0)),
        Figure("z", "B", "ratio", (3.0,)),
    ]
    new = [Figure("x", "A", "events/s", (150.0, 160.0, 170.0)), Figure("x", "B", "ratio", (1.0, 2.0, 3.0))]
    paths = []
    for name, figures, quick in (("aaa", old, False), ("bbb", new, True)):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(report.document(figures, {"x": "two"}, name, {"quick": quick})))
    documents = [report.read(path) for path in paths]
    assert report.figures_of(documents[0]) == old
    assert report.comparison(*documents).splitlines() == [
        "case  figure  unit       aaa   bbb   change",
        "x     A       events/s   128   160  +25.0 %",
        "x     B       ratio     4.00  2.00  -50.0 %  within the spread",
        "one is a quick run and the other is not: figures that grow with the work differ by that alone",
    ]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"version": 2}', '{"version": 1, "figures": [{"case": "a"}]}'])
def test_what_is_no_document_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(report.BadResults, match=r"other\.json"):
        report.read(path)


def test_an_event_waits_for_the_first_snapshot_that_has_it() -> None:
    appends = [Append(1.0, 0, 10, 10), Append(1.5, 1, 4, 3), Append(2.0, 0, 12, 2)]
    sights = [Sight(1.25, {0: 9}), Sight(1.75, {0: 10, 1: 3}), Sight(3.0, {0: 12, 1: 4}), Sight(9.0, {0: 12, 1: 4})]
    assert delays(appends, sights) == [0.75] * 10 + [1.5] * 3 + [1.0] * 2
    with pytest.raises(LookupError, match="partition 1 up to 4"):
        delays(appends, sights[:2])


def test_loops_at_once_count_from_the_first_beginning_to_the_last_end() -> None:
    assert together([Outcome(3, 5.0, 8.0, 1.0), Outcome(4, 4.0, 7.0, 2.5)]) == Outcome(7, 4.0, 8.0, 3.5)


def test_a_rate_without_the_work_does_not_count() -> None:
    work = Workload("avro", 50, d=3)
    squares = float((matrix(work)[:, -1] ** 2).sum())
    assert checked("A", work, Outcome(50, 0.0, 1.0, squares)).events == 50
    with pytest.raises(Failed, match="A: the sum"):
        checked("A", work, Outcome(50, 0.0, 1.0, squares * (1 - 1e-6)))


def test_every_ratio_names_contenders_of_its_case() -> None:
    found = list(cases(Bench(Path("nowhere"), QUICK, "localhost:1")))
    assert [case.letter for case in found] == [
        "a",
        "b",
        "c",
        "d",
        "e1",
        "e2",
        "f1",
        "f2",
        "g1",
        "g2",
        "h1",
        "h2",
        "i",
        "j1",
        "j2",
        "k1",
        "k2",
        "l1",
        "l2",
        "l3",
        "l4",
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
        "n1",
        "n2",
        "n3",
        "n4",
        "o1",
        "o2",
        "o3",
        "o4",
        "o5",
        "o6",
        "x1",
        "x2",
        "x3",
        "p1",
        "p2",
        "w",
    ]
    for case in found:
        for ratio in case.ratios:
            assert {ratio.over, ratio.under} <= set(case.contenders) | set(case.units) | {topic_cases.STEP}
        assert set(case.aims or {}) <= {"p50", "p99"} | set(case.units)


def test_what_a_key_may_take_is_said_of_a_million() -> None:
    aims = [keyed_cases.many("f", "here", Path("nowhere"), "", keys).aims for keys in (999_999, 1_000_000)]
    assert aims == [None, {"master": Aim("<=", 400), "master, restored": Aim("<=", 400), "restore": Aim("<=", 30)}]


def test_a_case_may_have_units_of_its_figures_and_fewer_repetitions() -> None:
    case = Case("x", "two", "events/s", {"A": lambda: {"rate": 3.0, "size": 4.0}}, units={"size": "bytes"}, most=2)
    assert measured(case, 5) == [Figure("x", "rate", "events/s", (3.0,) * 2), Figure("x", "size", "bytes", (4.0,) * 2)]
    assert len(measured(case, 1)[0].samples) == 1
