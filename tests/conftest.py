"""Settings of all tests: the effort of Hypothesis, and the markers that are not in setup.cfg."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from snia_pts.report.pages import Report

# The same inputs in every run, so that scripts/test has one result on every machine; dev and nightly try other ones.
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("dev", deadline=None)
settings.register_profile("nightly", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


#: Modules that compare times with those of a device or of fio: their tests run one after the other on an idle machine.
DEVICES = {
    "test_device_log",
    "test_device_log_of_runs",
    "test_host_share",
    "test_ratios",
}
#: Modules that also run fio, or that use threads or devices that the whole host sees: their tests may run side by side.
LIVELY = {
    "test_api_running",
    "test_array",
    "test_batch",
    "test_calibration",
    "test_cli",
    "test_collect",
    "test_content_state",
    "test_costs",
    "test_device",
    "test_devices_cli",
    "test_direct_io",
    "test_docs_equivalent_commands",
    "test_end_to_end",
    "test_end_to_end_of_all",
    "test_engine",
    "test_evidence",
    "test_examples",
    "test_faults",
    "test_fio_contract",
    "test_following",
    "test_guarding",
    "test_health_check",
    "test_inventory",
    "test_isolation",
    "test_job",
    "test_kernel_counters",
    "test_kills",
    "test_lab",
    "test_laboratory",
    "test_other_runs",
    "test_plan_cli",
    "test_planted",
    "test_plugins",
    "test_privilege",
    "test_process",
    "test_process_io",
    "test_profile_cli",
    "test_purge",
    "test_recomputation",
    "test_recomputation_of_profiles",
    "test_resuming",
    "test_resuming_elsewhere",
    "test_run_from_python",
    "test_run_state",
    "test_safety",
    "test_simulated_device",
    "test_swapped",
    "test_target_identity",
    "test_telemetry",
    "test_tuning",
    "test_verification",
    "test_watchdog",
}
#: The longest modules start first, so that none of them still runs when all other processes have ended.
LONGEST = {
    "test_bare",
    "test_batch",
    "test_demo",
    "test_docs_commands",
    "test_docs_equivalent_commands",
    "test_end_to_end",
    "test_end_to_end_of_all",
    "test_engine",
    "test_faults",
    "test_guest",
    "test_kills",
    "test_lab",
    "test_planted",
    "test_profile_cli",
    "test_recomputation",
    "test_recomputation_of_profiles",
    "test_report_pdf",
    "test_run_folders",
    "test_safety",
    "test_seeds",
    "test_simulated_device",
    "test_swapped",
    "test_target_identity",
    "test_tkperf",
    "test_verification",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest files to the start; mark the tests that run alone, are long, or may fail on a busy machine."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)
    tried = set[str]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if item.get_closest_marker("long_but_first") and function in tried:
            item.add_marker("long")
        if not item.get_closest_marker("long"):
            tried.add(function)
        if item.path.stem in DEVICES:
            item.add_marker("device")
        if item.path.stem in DEVICES | LIVELY:
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=3))


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers: scripts/test and tox run the linters themselves and omit these tests."""
    config.addinivalue_line("markers", "lint: runs ruff or mypy over the whole tree")
    config.addinivalue_line("markers", "device: compares times with those of a device; runs alone")


@pytest.fixture(scope="module")
def without_figures() -> Iterator[None]:
    """Leave the figures of reports empty, for tests that read only texts and tables: they take most of the time."""

    def draw(report: Report, forms: Sequence[str]) -> dict[str, dict[str, bytes]]:
        return {form: dict.fromkeys((figure.name for figure in report.figures), b"") for form in forms}

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr("snia_pts.report.figures.render.draw", draw)
        yield


#: A file in which both parts of scripts/test list what neither of them tested.
_NOT_TRIED = "SNIA_PTS_NOT_TRIED"
_left_out = pytest.StashKey[Counter[tuple[str, str]]]()


def _area(path: str) -> str:
    """Return the subject of a test file in words: ``report data`` for ``tests/test_report_data.py``."""
    return Path(path).stem.removeprefix("test_").replace("_", " ")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the long tests that were omitted."""
    for item in items:
        if "not long" in item.config.option.markexpr and item.get_closest_marker("long"):
            found = item.config.stash.setdefault(_left_out, Counter())
            found[_area(str(item.path)), "long tests (SNIA_PTS_LONG=1)"] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List what was not tested, area by area, with each reason and the number of tests."""
    if hasattr(config, "workerinput"):  # a worker: the main process has all reports
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
