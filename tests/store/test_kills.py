"""An ingester that is killed anywhere leaves a store in which the next ingestion ends in the same tables."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from snia_pts.store.store import Store
from tests.run_folders.make import RUNS
from tests.store.killed import clean_seconds, content_by_name, kill_until_done
from tests.store.test_store import cut_before_resumption

#: At least so many kills, most of which hit an ingestion of about a second.
_KILLS = 10


@pytest.fixture
def folders(runs: Path, tmp_path: Path) -> list[Path]:
    """Runs, one of which was resumed: first its folder before that, so that its rows are replaced."""
    before = tmp_path / "before"
    shutil.copytree(runs / "interrupted", before)
    cut_before_resumption(before)
    return [before, *(runs / name for name in RUNS if name not in ("array", "drive", "imported"))]


@pytest.mark.long
def test_killed_ingestions_end_in_the_tables_of_a_clean_one(
    url: str, empty: Callable[[], None], folders: list[Path]
) -> None:
    """From an empty store, whose tables are made, to the last run, wherever the kills were."""
    seconds = clean_seconds(url, folders)
    with Store(url) as store:
        expected = content_by_name(store)
    assert len(expected["run"]) == len(folders) - 1
    source, killed = random.Random(4711), 0
    while killed < _KILLS:
        empty()
        killed += kill_until_done(url, folders, source, 1.1 * seconds)
        with Store(url) as store:
            assert content_by_name(store) == expected
