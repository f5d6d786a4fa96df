"""Settings of the whole test suite: how hard Hypothesis tries, and the markers that are not in setup.cfg."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, max_examples=200)
settings.register_profile("nightly", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Tell the markers: scripts/test and tox run the linters themselves and leave these tests out."""
    config.addinivalue_line("markers", "lint: runs ruff or mypy over the whole tree")
