"""Settings of the whole test suite: how hard Hypothesis tries, and the markers that are not in setup.cfg."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None)
settings.register_profile("nightly", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


#: Their tests look at what happens when: one after the other, with the machine for themselves.
DEVICES = {
    "test_calibration", "test_engine", "test_fio_contract", "test_kills", "test_process", "test_ratios",
    "test_simulated_device", "test_watchdog",
}  # fmt: skip
#: Theirs let fio run too, side by side.
LIVELY = {
    "test_cli", "test_end_to_end", "test_end_to_end_of_all", "test_laboratory", "test_privilege", "test_profile_cli",
    "test_telemetry",
}  # fmt: skip


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
