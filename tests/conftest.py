"""Settings of the whole test suite: how hard Hypothesis tries, and the markers that are not in setup.cfg."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("nightly", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


#: Their tests look at what happens when: one after the other, with the machine for themselves.
DEVICES = {
    "test_calibration",
    "test_device_log",
    "test_device_log_of_runs",
    "test_engine",
    "test_fio_contract",
    "test_kills",
    "test_process",
    "test_ratios",
    "test_simulated_device",
    "test_watchdog",
}
#: Theirs let fio run too, or make devices and files that the whole host sees, side by side.
LIVELY = {
    "test_array",
    "test_cli",
    "test_device",
    "test_end_to_end",
    "test_end_to_end_of_all",
    "test_evidence",
    "test_guarding",
    "test_inventory",
    "test_isolation",
    "test_laboratory",
    "test_plan_cli",
    "test_planted",
    "test_privilege",
    "test_profile_cli",
    "test_purge",
    "test_recomputation",
    "test_recomputation_of_profiles",
    "test_resuming",
    "test_resuming_elsewhere",
    "test_safety",
    "test_swapped",
    "test_target_identity",
    "test_telemetry",
    "test_tuning",
    "test_verification",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that must not run side by side, and those that a machine spoils that stands still for a moment."""
    for item in items:
        if item.path.stem in DEVICES:
            item.add_marker("device")
        if item.path.stem in DEVICES | LIVELY:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=3))


def pytest_configure(config: pytest.Config) -> None:
    """Tell the markers: scripts/test and tox run the linters themselves and leave these tests out."""
    config.addinivalue_line("markers", "lint: runs ruff or mypy over the whole tree")
    config.addinivalue_line("markers", "device: measures a device, or when something happens; runs alone")


#: A file by which the halves of scripts/test list together what none of them tried.
_NOT_TRIED = "SNIA_PTS_NOT_TRIED"
_left_out = pytest.StashKey[Counter[tuple[str, str]]]()


def _area(path: str) -> str:
    """Return what a test file is about, as a person says it: ``report data`` for ``tests/test_report_data.py``."""
    return Path(path).stem.removeprefix("test_").replace("_", " ")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the long tests that were left out for their length."""
    for item in items:
        if "not long" in item.config.option.markexpr and item.get_closest_marker("long"):
            found = item.config.stash.setdefault(_left_out, Counter())
            found[_area(str(item.path)), "long tests (SNIA_PTS_LONG=1)"] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List what was not tried here, area by area, each with its reasons, and how many tests that are."""
    if hasattr(config, "workerinput"):  # one of several processes: that which began them has all reports
        return
    found = config.stash.get(_left_out, Counter())
    for report in terminalreporter.stats.get("skipped", ()):
        reason = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
        found[_area(report.nodeid.partition("::")[0]), reason] += 1
    lines = {f"  {area}: {reason} ({count} test{'s' * (count > 1)})" for (area, reason), count in found.items()}
    if place := os.environ.get(_NOT_TRIED):
        lines |= set(Path(place).read_text(encoding="utf-8").splitlines())
        Path(place).write_text("\n".join(sorted(lines)), encoding="utf-8")
    if lines:
        terminalreporter.section("not tried here")
        for line in sorted(lines):
            terminalreporter.line(line)
