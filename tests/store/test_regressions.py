"""A key figure of a run is judged against the last comparable runs, when the run is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import snia_pts as pts
from snia_pts.cli.main import main
from snia_pts.errors import RegressionFound, RegressionUnknown
from snia_pts.model.dut import AssumedSpeed
from snia_pts.procedures.estimator import Assumptions
from snia_pts.results import main_figures
from snia_pts.results.limit_checks import measurable_figures
from snia_pts.store.ingestion import Rows
from snia_pts.store.regression_rule import judge
from snia_pts.store.store import Filter, Store
from tests.run_folders.make import RUNS
from tests.store.stored_runs import like, put, rows_of
from tests.strategies import TESTS, dut, standard


@pytest.fixture(scope="session")
def rows(runs: Path) -> Rows:
    """The rows of a run of IOPS on a simulated drive."""
    return rows_of(runs / "iops")


def checks(store: Store, number: int) -> list[Mapping[str, Any]]:
    """Return the judgements of a run."""
    table = store.regressions(Filter(number=number)).columns
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def findings(store: Store, number: int) -> set[str]:
    return {str(check["finding"]) for check in checks(store, number)}


# -- the rule ---------------------------------------------------------------------------------------------------------


def test_below_five_comparable_runs_there_is_no_basis() -> None:
    """However far the value is; nor for a value that does not count."""
    assert judge(1.0, [100.0] * 4, "more").finding == "no basis"
    assert judge(None, [100.0] * 10, "more").finding == "no basis"
    assert judge(1.0, [100.0] * 5, "more").finding == "regression"


@pytest.mark.parametrize(
    ("value", "better", "finding"),
    [
        (94.9, "more", "regression"),
        (95.1, "more", "unchanged"),
        (104.9, "more", "unchanged"),
        (105.1, "more", "improvement"),
        (94.9, "less", "improvement"),
        (105.1, "less", "regression"),
        (105.1, None, "regression"),
        (94.9, None, "regression"),
    ],
)
def test_the_tolerance_is_five_percent_of_the_median(value: float, better: Any, finding: str) -> None:
    """``better`` says which side is a regression."""
    assert judge(value, [100.0, 100.0, 100.0, 99.0, 101.0, 150.0], better).finding == finding


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=10), st.floats(1, 1e6))
def test_the_tolerance_is_at_least_four_median_absolute_deviations(values: list[float], value: float) -> None:
    """Compared with numpy."""
    check = judge(value, values, "more")
    median = float(numpy.median(values))
    tolerance = max(0.05 * median, 4 * float(numpy.median(numpy.abs(numpy.array(values) - median))))

    assert check.median == pytest.approx(median)
    assert check.tolerance == pytest.approx(tolerance)
    assert check.tolerance is not None
    assert check.median is not None
    assert (check.finding == "unchanged") == (abs(value - check.median) <= check.tolerance)


@pytest.mark.parametrize("test", TESTS)
def test_a_test_has_at_most_six_judged_figures(test: str) -> None:
    """Each is one that a run of the test has."""

    names = {f"{metric} at {at}" for metric, at in main_figures._FIGURES[test]}
    assumed = Assumptions(speed=AssumedSpeed.constant(500), overhead_seconds=0.3)
    assert 1 <= len(names) <= 6
    assert names <= set(measurable_figures(standard(test).spec, dut(), assumed))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_any_kind_has_judged_figures(runs: Path, name: str) -> None:
    """Another test than those of the standard has its first IOPS."""
    for folder in (journal.parent for journal in (runs / name).rglob("journal.jsonl")):
        run = pts.load(folder)
        judged = main_figures.main_figures(run.test, run.figures)
        assert 1 <= len(judged) <= 6
        if name == "profile":
            assert [figure.metric for figure in judged] == ["iops"] * 6


# -- in a store -------------------------------------------------------------------------------------------------------


def test_a_slower_run_is_a_regression_and_a_faster_one_an_improvement(store: Store, rows: Rows) -> None:
    """The judgement has the median and the tolerance of the last ten comparable runs."""
    numbers = put(store, *(like(rows, day) for day in range(12)), like(rows, 12, 0.9), like(rows, 13, 1.1))

    assert [findings(store, number) for number in numbers[:5]] == [{"no basis"}] * 5
    assert [findings(store, number) for number in numbers[5:12]] == [{"unchanged"}] * 7
    assert findings(store, numbers[12]) == {"regression"}
    assert findings(store, numbers[13]) == {"improvement"}
    check = checks(store, numbers[12])[0]
    assert check["like_runs"] == 10
    assert check["change_percent"] == pytest.approx(-10)
    assert check["tolerance_percent"] == pytest.approx(5)


@pytest.mark.parametrize(
    "changes",
    [
        {"spec_sha256": "other"},
        {"test_class": "client"},
        {"model": "other"},
        {"cpu": "other"},
        {"engine": "fio 3.99"},
        {"ending": "interrupted"},
    ],
    ids=str,
)
def test_only_finished_comparable_runs_count(store: Store, rows: Rows, changes: dict[str, Any]) -> None:
    """Another specification, class, model, host class or ending is no basis."""
    *_, number = put(store, *(like(rows, day, **changes) for day in range(9)), like(rows, 9))
    assert findings(store, number) == {"no basis"}


def test_only_runs_before_it_and_the_last_ten_count(store: Store, rows: Rows) -> None:
    """Runs that were added before, but started later, do not count; other units and firmwares do."""
    later = [like(rows, 100 + day) for day in range(9)]
    fast = [like(rows, day, 2.0) for day in range(10)]
    slow = [like(rows, 20 + day, firmware=f"{day}", serial=f"S{day}") for day in range(10)]
    *_, number = put(store, *later, *fast, *slow, like(rows, 50))
    assert findings(store, number) == {"unchanged"}
    assert {check["like_runs"] for check in checks(store, number)} == {10}


def test_a_run_of_an_unknown_model_or_host_has_no_like_run(store: Store, rows: Rows) -> None:
    """Two unknown drives are not the same model."""
    for name in ("model", "cpu"):
        unknown: dict[str, Any] = {name: ""}
        *_, number = put(store, *(like(rows, day, **unknown) for day in range(9)))
        assert findings(store, number) == {"no basis"}


def test_a_judgement_stays_when_other_runs_are_added(store: Store, rows: Rows) -> None:
    """It is stored with the run, so that an alarm of last year is still one."""
    *_, number = put(store, *(like(rows, day) for day in range(20, 30)), like(rows, 50, 0.9))
    before = checks(store, number)
    put(store, *(like(rows, 40 + day, 0.9) for day in range(9)))
    assert checks(store, number) == before


def test_a_figure_that_is_not_steady_is_not_judged(store: Store, rows: Rows) -> None:
    """It is no basis for others either."""
    from dataclasses import replace

    unsteady = [
        replace(
            run, figures=tuple((replace(figure, steady=False), {**row, "steady": False}) for figure, row in run.figures)
        )
        for run in (like(rows, day) for day in range(6))
    ]
    numbers = put(store, *unsteady, like(rows, 9))
    assert findings(store, numbers[5]) == findings(store, numbers[6]) == {"no basis"}
    assert checks(store, numbers[6])[0]["like_runs"] == 0


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_exit_code_is_for_a_pipeline(tmp_path: Path, rows: Rows, capsys: pytest.CaptureFixture[str]) -> None:
    """24 for a regression, 25 if something could not be judged, 0 only if everything was."""
    path = tmp_path / "store.sqlite"
    with Store(path, create=True) as store:
        *_, good, bad = put(store, *(like(rows, day) for day in range(11)), like(rows, 11, 0.8))

    def code(*words: str) -> int:
        return main(["store", "regressions", "--store", str(path), *words])

    assert code("--run", str(good)) == 0
    assert "regression: 0, improvement: 0, unchanged: 6, no basis: 0" in capsys.readouterr().out
    assert code("--run", str(bad)) == RegressionFound.exit_code
    output = capsys.readouterr()
    assert "-20" in output.out
    assert "6 of 6 key figures regressed" in output.err
    assert code("--since", "2026-01-12", "--json") == RegressionFound.exit_code
    assert {check["finding"] for check in json.loads(capsys.readouterr().out)} == {"regression"}
    assert code("--run", "1") == RegressionUnknown.exit_code
    assert code("--test", "xsr") == RegressionUnknown.exit_code
    assert main(["store", "show", str(bad), "--store", str(path)]) == 0
    assert "Regressions and improvements" in capsys.readouterr().out


@pytest.mark.long
def test_runs_are_added_in_the_order_of_their_starts(runs: Path, tmp_path: Path) -> None:
    """So the judgements are the same whatever the folders are called."""
    path = tmp_path / "store.sqlite"
    assert main(["store", "add", str(runs), "--store", str(path)]) == 0
    with Store(path) as store:
        table = store.runs().columns
    assert list(table["id"]) == sorted(map(int, map(str, table["id"])), reverse=True)
    assert list(table["started"]) == sorted(map(str, table["started"]), reverse=True)
