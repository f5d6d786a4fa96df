"""The key figures of a test are known before it runs: limits on others are refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snia_pts.cli.main import main
from snia_pts.model.dut import AssumedSpeed
from snia_pts.procedures.estimator import Assumptions
from snia_pts.profiles.reader import builtin_profiles
from snia_pts.results.key_figures import key_figures
from snia_pts.results.limit_checks import limit_mistakes, measurable_figures
from snia_pts.results.result import TestResult
from snia_pts.spec.limits import Limit
from tests import profiles, samples
from tests.strategies import TESTS

LIMIT = """
[[limit]]
test = "{}"
metric = "iops"
at = "{}"
unit = "{}"
minimum = 1
"""


def names(result: TestResult, speed: float = 500) -> dict[str, str]:
    """Return the expected names of the test of a result, with their units."""
    supposed = Assumptions(speed=AssumedSpeed.constant(speed), overhead_seconds=0.3)
    return dict(measurable_figures(result.facts.spec, result.facts.dut, supposed))


def limits_file(*entries: tuple[str, str, str]) -> str:
    """Write a file of limits on IOPS: of which test, where, and in which unit."""
    Path("limits.toml").write_text("format = 1\n" + "".join(LIMIT.format(*entry) for entry in entries))
    return "limits.toml"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", TESTS)
def test_every_number_of_a_test_is_expected(test: str) -> None:
    """Every name and unit, steady or not."""
    for steady in (True, False):
        result = samples.result_of(test, steady=steady)
        assert {figure.name: figure.unit for figure in key_figures(result)}.items() <= names(result).items()


@pytest.mark.parametrize("speed", [1e-3, 1e9])
def test_the_assumed_speed_does_not_matter(speed: float) -> None:
    """A drive that writes everything before the first window by its assumed speed may still have a window."""
    result = samples.result_of("wsat")
    assert "iops at stimulus, measurement window" in (known := names(result, speed))
    assert {figure.name for figure in key_figures(result)} <= known.keys()


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", builtin_profiles())
def test_every_number_of_a_profile_is_expected(name: str) -> None:
    """Including synchronizing calls and percentiles, which exist only with enough I/Os."""
    result = profiles.result(profiles.shipped(name), sync_us=100.0)
    known = names(result)
    assert {figure.name: figure.unit for figure in key_figures(result)}.items() <= known.items()
    assert ("sync_99_percent_ms at fdatasync" in known) == name.startswith("etcd-")


def test_numbers_that_only_some_runs_have_are_expected() -> None:
    """A percentile that is missing for few I/Os exists for a faster drive."""
    result = samples.result_of("iops")
    name = "response_99.999_percent_ms at RND 1024 KiB 0/100"
    assert name not in {figure.name for figure in key_figures(result)}
    assert names(result)[name] == "ms"


# -- limits -----------------------------------------------------------------------------------------------------------


def limit(**changes: Any) -> Limit:
    return Limit(**{"test": "iops", "metric": "iops", "at": "a", "unit": "IOPS", "minimum": 1.0, **changes})


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        ({"at": "b"}, ["limit 1: 'iops at b': expected a number of the test iops, such as 'iops at a'"]),
        ({"metric": "speed", "at": "else"}, ["limit 1: 'speed at else': expected a number of the test iops"]),
        ({"unit": "kIOPS"}, ["limit 1.unit: 'kIOPS': expected 'IOPS' for 'iops at a'"]),
        (
            {"at": "b", "unit": "kIOPS"},
            ["limit 1: 'iops at b': expected a number of the test iops, such as 'iops at a' in IOPS"],
        ),
        ({"test": "hir"}, []),
        ({"test": "xsr"}, ["limit 1.test: 'xsr': expected a test that is run, iops, hir"]),
    ],
)
def test_a_limit_that_cannot_be_met_is_a_mistake(changes: dict[str, Any], lines: list[str]) -> None:
    """The message has its position, its text and a suggestion; for a single test, limits on other tests are ignored."""
    known = {"iops": {"iops at a": "IOPS"}, "hir": {"iops at a": "IOPS"}}
    assert list(limit_mistakes([limit(**changes)], known)) == lines
    if changes.get("test"):
        assert list(limit_mistakes([limit(**changes)], {"iops": known["iops"]})) == []


@pytest.mark.long
@pytest.mark.parametrize("plan", [("--plan",), ("--progress", "none", "--run-dir", "run")])
@pytest.mark.parametrize("verb", ["iops", "all"])
def test_an_impossible_limit_is_reported_before_the_first_purge(
    verb: str, plan: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run and its plan end at once, with the exit code of a mistake in the file, and create nothing."""
    file = limits_file(("iops", "RND 4KiB 0/100", "IOPS"))
    assert main([verb, "sim:enterprise-nvme", "--limits", file, *plan]) == 3
    message = capsys.readouterr().err
    assert message.startswith("snia-pts: The file limits.toml has 1 mistake:\n  limit 1: 'iops at RND 4KiB")
    assert "as 'iops at RND 4 KiB 0/100'" in message
    assert not Path("run").exists()


@pytest.mark.long
def test_limits_on_other_tests_are_no_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    """One file may have limits for all tests; ``all`` must run each test that the file names."""
    file = limits_file(("iops", "RND 4 KiB 0/100", "IOPS"), ("dirth", "Max IOPS point", "IOPS"))
    for verb in ("iops", "latency", "dirth"):
        assert main([verb, "sim:enterprise-nvme", "--limits", file, "--plan"]) == 0
    assert main(["all", "sim:enterprise-nvme", "--limits", file, "--plan", "--advanced"]) == 0
    assert main(["all", "sim:enterprise-nvme", "--limits", file, "--plan"]) == 3
    assert "limit 2.test: 'dirth': expected a test that is run" in capsys.readouterr().err


def test_a_limit_on_a_time_that_fio_does_not_measure_has_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """With gtod_reduce, fio has no response times; limits on IOPS are accepted."""
    profile = (
        'format = 1\ntitle = "T"\ndescription = "D"\nsource = "S"\n[[workload]]\nname = "write"\naccess = "RND"\n'
        'read_percent = 0\nblock_size = "4 KiB"\nseconds = 1\nfio = {{ gtod_reduce = 1 }}\n'
        '[[limit]]\nmetric = "{}"\nat = "write"\nunit = "{}"\nmaximum = 1e9\n'
    )
    words = ("profile", "run", "./own.toml", ".", "--size", "16M", "--plan")
    Path("own.toml").write_text(profile.format("iops", "IOPS"))
    assert main(words) == 0
    Path("own.toml").write_text(profile.format("response_average_ms", "ms"))
    assert main(words) == 3
    assert "'response_average_ms at write': this point has no response times (gtod_reduce)" in capsys.readouterr().err


def test_the_own_limits_of_a_profile_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """A limit on a missing point is a mistake, unless the command line changes the points."""
    workload = 'access = "RND"\nread_percent = 0\nblock_size = "4 KiB"\nseconds = 1\n'
    own = '[[limit]]\nmetric = "iops"\nat = "write, Q8"\nunit = "IOPS"\nminimum = 1\n'
    axis = '[[axis]]\nkey = "queue_depth"\nvalues = [1, {}]\n'
    head = 'format = 1\ntitle = "T"\ndescription = "D"\nsource = "S"\n[[workload]]\nname = "write"\n'
    words = ("profile", "run", "./own.toml", "sim:enterprise-nvme", "--plan")

    Path("own.toml").write_text(head + workload + axis.format(8) + own)
    assert main(words) == 0
    assert main([*words, "--axis", "queue_depth=1,4"]) == 0
    Path("own.toml").write_text(head + workload + axis.format(4) + own)
    assert main(words) == 3
    message = capsys.readouterr().err
    assert "limit 1: 'iops at write, Q8': expected a number of the test profile" in message
