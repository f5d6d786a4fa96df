"""Limits on a test's figures: the file, the judgement, and where every output shows them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from snia_pts.api.assessment import overriding
from snia_pts.cli.main import main
from snia_pts.errors import LimitsMissed, SpecError
from snia_pts.model.run_options import RunOptions
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.result_xml import result_xml
from snia_pts.record.suite import SuiteFolder
from snia_pts.report import registry as building
from snia_pts.report.formats import junit, rst
from snia_pts.report.pages import Prose
from snia_pts.report.sections.summary import limit_text, margin_text, value_text
from snia_pts.results.key_figures import key_figures
from snia_pts.results.limit_checks import Judgement, judgements, require_met, untested_judgements
from snia_pts.results.result import TestResult
from snia_pts.spec import SPEC_TYPES
from snia_pts.spec.limits import Limit, StandardTest, read_limits
from tests import samples

AT = "RND 4 KiB 0/100"
FILE = f"""
format = 1

[[limit]]
test = "iops"
metric = "iops"
at = "{AT}"
unit = "IOPS"
minimum = 7500

[[limit]]
test = "latency"
metric = "maximum_response_ms"
at = "histogram"
unit = "ms"
maximum = 500
tolerance_percent = 10
"""


def limit(**changes: Any) -> Limit:
    expected = {"test": "iops", "metric": "iops", "at": AT, "unit": "IOPS", "minimum": 7500.0}
    return Limit(**{**expected, **changes})


def with_limits(result: TestResult, *limits: Limit) -> TestResult:
    return dataclasses.replace(result, facts=dataclasses.replace(result.facts, limits=limits))


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_read(tmp_path: Path) -> None:
    """Each limit has its test, metric, place and unit, and a bound."""
    (tmp_path / "limits.toml").write_text(FILE)
    first, second = read_limits(tmp_path / "limits.toml")
    assert first == limit()
    assert (second.maximum, second.minimum, second.tolerance_percent) == (500, None, 10)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("format = 2\nlimit = []", ["format: 2: expected 1", "limit: expected at least one entry"]),
        (FILE.replace("format = 1", f"format = {10**20}"), [f"format: {10**20}: expected a smaller number"]),
        (FILE.replace("minimum = 7500", ""), ["limit 1: expected minimum, maximum, or both"]),
        (FILE.replace("minimum = 7500", "minimum = 5\nmaximum = 4"), ["a minimum that is no more than the maximum"]),
        (FILE.replace("minimum = 7500", 'minimum = "7500"'), ["limit 1.minimum: '7500': expected a number"]),
        (FILE.replace("minimum = 7500", "minimum = nan"), ["limit 1.minimum"]),
        ("format = 1", ["has 1 mistake", "limit: missing; expected one or more [[limit]] tables"]),
        ('format = 1\n[limit]\ntest = "iops"', ["has 1 mistake", "limit: expected [[limit]] tables, got [limit]"]),
        (
            FILE.replace("minimum = 7500", "minimum = true\nmaximum = [true]\nmax = 1"),
            [
                "has 3 mistakes",
                "limit 1.minimum: true: expected a",
                "limit 1.maximum: [true]: expected a",
                "limit 1.max: ",
            ],
        ),
        (FILE.replace("unit =", "units ="), ["limit 1.unit: missing key", "limit 2.units: unknown key"]),
        (FILE.replace('test = "iops"', 'test = "tpcc"'), ["limit 1.test: 'tpcc': expected 'iops'"]),
        (FILE + "tolerance_percent = 7", ["not readable as TOML"]),
        (
            FILE.replace("minimum = 7500", "min = 7500"),
            ["has 2 mistakes", "limit 1.min: unknown key", "limit 1: expected minimum, maximum, or both"],
        ),
        (
            FILE + FILE.partition("format = 1")[2],
            [
                "has 2 mistakes",
                f"limit 3.minimum: expected no second minimum of 'iops at {AT}'",
                "limit 4.maximum",
            ],
        ),
        (None, ["no such file"]),
    ],
)
def test_every_mistake_of_a_file_is_reported(text: str | None, lines: list[str], tmp_path: Path) -> None:
    """Each mistake has the key, the value and what was expected."""
    if text is not None:
        (tmp_path / "limits.toml").write_text(text)
    with pytest.raises(SpecError) as raised:
        read_limits(tmp_path / "limits.toml")
    for words in lines:
        assert words in str(raised.value)


def test_a_bound_may_have_a_tolerance_of_its_own(tmp_path: Path) -> None:
    """The minimum and the maximum of a number may be separate limits."""
    again = FILE.partition("format = 1")[2].replace("minimum = 7500", "maximum = 9e9")
    (tmp_path / "limits.toml").write_text(FILE + again.replace("maximum = 500", "minimum = 0"))
    assert len(read_limits(tmp_path / "limits.toml")) == 4


# -- the judgement ----------------------------------------------------------------------------------------------------


@given(bound=st.integers(1, 10**6), tolerance=st.integers(0, 100), value=st.integers(0, 2 * 10**6))
def test_bounds_are_as_exact_as_integers(bound: int, tolerance: int, value: int) -> None:
    """A value on the bound meets it, and the tolerance is a share of the bound; integers confirm both."""
    least, most = (
        limit(minimum=bound, tolerance_percent=tolerance),
        limit(minimum=None, maximum=bound, tolerance_percent=tolerance),
    )
    if 100 * value != bound * (100 - tolerance):
        assert least.is_met_by(value) == (100 * value > bound * (100 - tolerance))
    if 100 * value != bound * (100 + tolerance):
        assert most.is_met_by(value) == (100 * value < bound * (100 + tolerance))
    assert limit(minimum=bound, maximum=bound).is_met_by(bound)


@given(bound=st.integers(1, 10**6), tolerance=st.integers(0, 1000))
@example(bound=3, tolerance=100)
def test_a_decimal_value_on_its_bound_meets_it(bound: int, tolerance: int) -> None:
    """0.33 is at most 0.3 + 10 %, although binary fractions of 0.3 and 0.1 give less."""
    widened, narrowed = (float(f"{bound * (1000 + sign * tolerance)}e-4") for sign in (1, -1))
    most = limit(minimum=None, maximum=float(f"{bound}e-1"), tolerance_percent=tolerance / 10)
    least = limit(minimum=float(f"{bound}e-1"), tolerance_percent=tolerance / 10)
    assert most.is_met_by(widened)
    assert not most.is_met_by(math.nextafter(widened, math.inf))
    assert least.is_met_by(narrowed)
    assert not least.is_met_by(math.nextafter(narrowed, -math.inf))


@pytest.mark.parametrize(
    ("changes", "steady", "reason"),
    [
        ({}, True, ""),
        ({"minimum": 1e6}, True, "below 1 000 000 IOPS"),
        ({"minimum": 1e6, "tolerance_percent": 5}, True, "below 950 000 IOPS"),
        ({"minimum": None, "maximum": 1.0, "tolerance_percent": 50}, True, "above 1.500 IOPS"),
        ({"at": "RND 4 KiB 1/99"}, True, "it was not measured"),
        ({"unit": "kIOPS"}, True, "it is measured in IOPS"),
        ({}, False, "steady state was not achieved"),
    ],
)
def test_a_limit_is_met_or_has_a_reason(changes: dict[str, Any], steady: bool, reason: str) -> None:
    """What was not measured, in another unit, or not at steady state, meets no limit."""
    result = with_limits(samples.result_of("iops", steady=steady), limit(**changes))
    (judgement,) = judgements(result)
    shown = judgement.shown_reason.replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert (judgement.met, shown) == (not reason, reason)
    if reason:
        with pytest.raises(LimitsMissed, match=f"1 of 1 limits not met: .*: {judgement.shown_reason}"):
            require_met([judgement])
    else:
        require_met([judgement])


def test_files_have_the_reason_of_earlier_versions() -> None:
    """A stored result.xml of a missed limit still agrees with its journal."""
    result = with_limits(samples.iops_result(), limit(minimum=1e6), limit(minimum=None, maximum=1.0))
    reasons = [element.get("reason") for element in etree.fromstring(result_xml(result)).iterfind("limit")]
    assert reasons == ["less than the minimum", "more than the maximum"]


def saturated(steady: bool) -> TestResult:
    """Return a write saturation that ended in steady state, or after five judged samples without."""
    lenient = [(f"settling.{name}_excursion_percent", 100) for name in ("data", "slope")]
    result = samples.result_of("wsat", overrides=lenient if steady else [("saturation.seconds", 121 * 60)])
    assert result.steady == steady
    return result


def test_a_saturation_without_steady_state_has_no_figure_of_its_window() -> None:
    """The stimulus includes the fresh drive: figures are of its end, and of the whole stimulus under separate names."""
    unsteady, steady = (
        {figure.name: figure.value for figure in key_figures(saturated(item)) if figure.metric == "iops"}
        for item in (False, True)
    )
    window = "iops at stimulus, measurement window"
    assert set(steady) - set(unsteady) == {window}
    assert "iops at stimulus" not in steady

    line = saturated(False).time_line("stimulus")
    assert line is not None
    assert unsteady["iops at end of the stimulus"] == pytest.approx(sum(line.write_ios[-31:]) / (31 * 60))
    assert unsteady["iops at whole stimulus, from FOB on"] == pytest.approx(sum(line.write_ios) / (121 * 60))
    assert unsteady["iops at end of the stimulus"] < 0.9 * unsteady["iops at whole stimulus, from FOB on"]


@pytest.mark.parametrize("test", ["iops", "hir", "wsat", "xsr"])
@pytest.mark.parametrize("steady", [False, True])
def test_only_a_figure_that_requires_steady_state_is_steady_or_not(test: str, steady: bool) -> None:
    """The end of a write saturation is neither, nor is a workload that the test measures without such a rule."""
    result = saturated(steady) if test == "wsat" else samples.result_of(test, steady=steady)
    stated = {figure.at: figure.steady for figure in key_figures(result)}
    assert stated.pop("the whole test") is None
    if test == "wsat":
        assert stated.pop("stimulus, measurement window", None) is (True if steady else None)
    assert set(stated.values()) == ({None} if test in ("wsat", "xsr") else {steady})


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("end of the stimulus", ""),
        ("stimulus, measurement window", "it was not measured; steady state was not achieved"),
        ("stimulus", "it was not measured; steady state was not achieved"),
    ],
)
def test_a_saturation_without_steady_state_meets_no_limit_on_its_window(at: str, reason: str) -> None:
    """The end may meet a limit; the metric that averaged over the fresh drive no longer exists."""
    (judgement,) = judgements(with_limits(saturated(False), limit(test="wsat", at=at, minimum=1.0)))
    assert (judgement.met, judgement.reason) == (not reason, reason)


@pytest.mark.long
@pytest.mark.parametrize("test", ["hir", "composite", "dirth"])
def test_preconditioning_that_was_too_short_meets_no_limit(test: str) -> None:
    """A window with too few fills is not steady, however level it is; nor are the points that follow it."""
    met = {}
    for fills in (0.0, 1024.0):
        result = samples.result_of(test, overrides=[("settling.minimum_fills", fills)])
        figures = [figure for figure in key_figures(result) if figure.metric == "iops"]
        judged = with_limits(
            result, *(limit(test=test, at=figure.name.partition(" at ")[2], minimum=0.0) for figure in figures)
        )
        met[fills] = {judgement.met for judgement in judgements(judged)}
        assert any("measurement window" in figure.name for figure in figures)
    assert met == {0.0: {True}, 1024.0: {False}}


def test_limits_of_other_tests_are_ignored() -> None:
    """One file serves all tests of a drive."""
    assert judgements(with_limits(samples.iops_result(), limit(test="latency"))) == ()


# -- where it is reported ---------------------------------------------------------------------------------------------


def test_report_result_and_junit_have_every_limit() -> None:
    """The first page, result.xml and JUnit have each limit with its value; a missed one is a failure."""
    result = with_limits(samples.iops_result(), limit(), limit(minimum=1e6))
    value = next(figure.value for figure in key_figures(result) if figure.name == f"iops at {AT}")
    text = rst.render(building.build(result))
    root = etree.fromstring(result_xml(result))
    suite = etree.fromstring(junit.make(result)).find("testsuite")
    assert suite is not None

    assert "Limits\\: 1 of 2 NOT MET" in text or "Limits: 1 of 2 NOT MET" in text
    assert [element.get("met") for element in root.iterfind("limit")] == ["true", "false"]
    assert float(root.find("limit").get("value")) == value  # type: ignore[union-attr, arg-type]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "1")
    (failure,) = suite.iterfind("testcase/failure")
    assert "below 1\N{NARROW NO-BREAK SPACE}000\N{NARROW NO-BREAK SPACE}000 IOPS, measured 7" in failure.get(
        "message", ""
    )


def test_the_report_names_the_source_of_its_limits(tmp_path: Path) -> None:
    """Limits of the run are in its journal; a file that replaces them has its digest."""
    result = with_limits(samples.iops_result(), limit())
    words = ("snia-pts", "iops", "x", "--limits", "a/first.toml")
    named = dataclasses.replace(result, facts=dataclasses.replace(result.facts, command_line=words))
    second = tmp_path / "second.toml"
    second.write_text(FILE)
    digest = hashlib.sha256(FILE.encode()).hexdigest()

    for shown, source in (
        (result, "as stored in the journal of the run."),
        (named, "first.toml, as stored in the journal of the run."),
        (overriding(second)(named), f"second.toml (SHA-256 {digest}), given for this report."),
    ):
        page = building.build(shown).pages[0]
        assert any(f"Limits: {source} Margin" in block.text for block in page.blocks if isinstance(block, Prose))


def test_junit_reports_a_run_that_is_incomplete_or_unsteady() -> None:
    """Both are failures even without a limit; hostile names stay text."""
    device = samples.dut(model='<evil a="b">\x01')
    result = samples.result_of("iops", stop_after=100, ending="interrupted", ending_detail="Ctrl-C", device=device)
    suite = etree.fromstring(junit.make(result)).find("testsuite")
    assert suite is not None
    assert suite.get("name", "").startswith('IOPS <evil a="b">')
    assert [case.get("name") for case in suite.iterfind("testcase") if case.find("failure") is not None] == [
        "the run finishes",
        "steady state is achieved",
    ]


@pytest.mark.long
def test_a_run_is_checked_against_its_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run stores its limits, and its exit code shows whether they are met; assess accepts others."""
    place, good, bad = tmp_path / "run", tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(FILE.replace("minimum = 7500", "minimum = 1").replace('test = "iops"', 'test = "latency"'))
    bad.write_text(FILE.replace("maximum = 500", "maximum = 1e-6"))
    brief = ("--set", "rounds.point_seconds=1", "--set", "rounds.maximum=5", "--progress", "none")

    assert main(["latency", "sim:enterprise-nvme", "--limits", str(bad), "--run-dir", str(place), *brief]) == 19
    output = capsys.readouterr()
    assert "1 of 1 limits not met: maximum_response_ms at histogram: above 0.0000011 ms" in output.err
    assert "NOT MET, above 0.0000011 ms" in output.out
    assert (place / "report.pdf").is_file()
    bad.unlink()

    capsys.readouterr()
    assert main(["assess", str(place)]) == LimitsMissed.exit_code
    assert "The test is finished" in capsys.readouterr().err
    assert main(["assess", str(place), "--limits", str(good)]) == 0
    other = tmp_path / "other.toml"
    other.write_text(FILE.partition('[[limit]]\ntest = "latency"')[0])
    assert capsys.readouterr().err == ""
    for verb in (["assess"], ["report", "--to", "none"]):
        assert main([verb[0], str(place), *verb[1:], "--limits", str(other)]) == 0
        assert "other.toml has no limits for latency, only for iops; they are not checked." in capsys.readouterr().err
    assert main(["assess", str(place), "--json"]) == LimitsMissed.exit_code
    (document,) = json.loads(capsys.readouterr().out)["limits"]
    assert (document["maximum"], document["met"]) == (1e-6, False)
    assert main(["report", str(place), "--to", "junit", "--limits", str(good)]) == 0
    left = f"perhaps out of date: report.rst, report.pdf, report.html, report.xlsx in {place};"
    assert f"{left} --to rst,pdf,html,xlsx updates" in capsys.readouterr().err
    assert 'failures="0"' in (place / "report.junit.xml").read_text()
    assert main(["latency", "sim:enterprise-nvme", "--limits", str(bad), "--run-dir", str(tmp_path / "no")]) == 3
    assert not (tmp_path / "no").exists()


@pytest.mark.long
def test_limits_of_a_stopped_run_are_not_called_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a stopped run or an incomplete suite, the hint is to look at its status."""
    place, suite = tmp_path / "run", tmp_path / "all"
    brief = ("--set", "rounds.point_seconds=1", "--set", "rounds.maximum=5", "--progress", "none", "--to", "none")
    (tmp_path / "limits.toml").write_text(FILE.replace("minimum = 7500", "minimum = 1e12"))
    assert main(["iops", "sim:enterprise-nvme", "--run-dir", str(place), *brief]) == 0
    options = RunOptions(
        test="iops", target="sim:enterprise-nvme", seed=JournalReader(place / "journal.jsonl").facts.seed
    )
    SuiteFolder.create(suite, ("iops", "wsat"), (options,))
    shutil.copytree(place, suite / "iops")
    journal = place / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    (place / "result.xml").unlink()
    capsys.readouterr()

    for folder in (place, suite):
        assert main(["assess", str(folder), "--limits", str(tmp_path / "limits.toml")]) == LimitsMissed.exit_code
        output = capsys.readouterr().err
        assert f"The run is not finished; snia-pts status {folder} shows its state." in output
        assert "done" not in output


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda: samples.result_of("latency"), ""),
        (lambda: samples.result_of("latency", steady=False), "steady state was not achieved"),
        (lambda: samples.result_of("latency", ending="device failed"), "the run did not finish"),
    ],
)
def test_figures_after_an_unsteady_loop_meet_no_limit(result: Any, reason: str) -> None:
    """A histogram after rounds that were never steady, or of an interrupted run, is not used."""
    wanted = limit(test="latency", metric="maximum_response_ms", at="histogram", unit="ms", minimum=0.0)
    (judgement,) = judgements(with_limits(result(), wanted))
    assert (judgement.met, judgement.reason) == (not reason, reason)


def test_a_limit_on_a_test_that_was_not_run_is_not_met() -> None:
    """In a folder of several tests, a limit on a missing test has not been shown to be met."""
    (outcome,) = untested_judgements([limit(), limit(test="hir")], ["iops"])
    assert (outcome.limit.test, outcome.met, outcome.reason) == ("hir", False, "hir was not run")


def test_limits_exist_for_every_test() -> None:
    """A limit may be on any existing test or profile, and on no other."""
    assert set(get_args(StandardTest)) == {*SPEC_TYPES}


def test_an_error_names_the_kind_of_file(tmp_path: Path) -> None:
    """The file is not called a specification, and the remedy is its own."""
    (tmp_path / "limits.toml").write_text("format = 1")
    with pytest.raises(SpecError, match=r"The file of limits .* has 1 mistake") as raised:
        read_limits(tmp_path / "limits.toml")
    assert "docs/limits.rst" in raised.value.hint


@example(bound=1.0, percent=0.0, which="minimum", steps=-1)
@given(
    st.floats(1e-3, 1e7),
    st.sampled_from((0.0, 0.1, 5.0)),
    st.sampled_from(("minimum", "maximum")),
    st.integers(-20, 20),
)
def test_a_missed_limit_is_printed_apart_from_its_value(bound: float, percent: float, which: str, steps: int) -> None:
    """However close a value is to the effective bound, both are printed differently, in the order of their size."""
    bounded = limit(**{"tolerance_percent": percent, "minimum": None, which: bound})
    effective = bounded.lower_bound if which == "minimum" else bounded.upper_bound
    value = effective * (1 + steps * 1e-7)
    words = limit_text(bounded, value).replace("\N{NARROW NO-BREAK SPACE}", "").replace("(", "").split()
    printed_bound = float(words[4] if percent else words[2])
    printed_value = float(value_text(bounded, value).replace("\N{NARROW NO-BREAK SPACE}", "").split()[0])

    assert (printed_value < printed_bound, printed_value > printed_bound) == (value < effective, value > effective)


@pytest.mark.parametrize(
    ("bounds", "value", "shown"),
    [
        ({"minimum": 200.0}, 250.0, "+25.0"),
        ({"minimum": 200.0, "tolerance_percent": 50}, 150.0, "+50.0"),
        ({"maximum": 200.0}, 250.0, "-25.0"),
        ({"minimum": 100.0, "maximum": 200.0}, 190.0, "+5.0"),
        ({"minimum": 1e6}, 1e6 - 1, "-0.0001"),
        ({"minimum": 200.0}, 200.0, "+0.0"),
        ({"maximum": 200.0}, 200.0, "+0.0"),
        ({"maximum": 0.0}, 1.0, "n/a"),
        ({"minimum": 200.0}, None, "n/a"),
    ],
)
def test_a_margin_has_the_sign_of_its_verdict(bounds: dict[str, Any], value: float | None, shown: str) -> None:
    """It is the distance from the nearest bound with its tolerance, and never rounded to zero."""
    limit = Limit(test="iops", metric="iops", at="x", unit="IOPS", **bounds)
    met = value is not None and limit.is_met_by(value)
    assert margin_text(Judgement(limit=limit, value=value, met=met, reason="")) == shown
