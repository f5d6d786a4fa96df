"""The marker of tests that boot a virtual machine."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Tell the marker."""
    config.addinivalue_line("markers", "guest: boots a virtual machine (skipped with the reason where there is none)")
