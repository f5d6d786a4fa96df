"""What becomes of a lost run: a table without a clock."""

from __future__ import annotations

from typing import get_args

import pytest

from snia_pts.fleet.lost_runs import MAX_RESUMES, Decision, Progress, decide
from snia_pts.fleet.request import OnLost


@pytest.mark.parametrize(
    ("progress", "resume", "hold", "from_purge"),
    [
        ("not begun", "resume", "hold", "resume"),
        ("kept", "resume", "hold", "resume"),
        ("begins again", "hold", "hold", "from-purge"),
        ("finished", "resume", "resume", "resume"),
        ("unreadable", "hold", "hold", "hold"),
    ],
)
def test_a_lost_run_is_resumed_only_where_nothing_begins_again_unless_asked(
    progress: Progress, resume: Decision, hold: Decision, from_purge: Decision
) -> None:
    """A run that would begin again at a purge waits for a person, unless its request says otherwise."""
    assert [decide(progress, on_lost, 0) for on_lost in get_args(OnLost)] == [resume, hold, from_purge]


def test_the_table_is_complete_and_ends_after_three_resumes() -> None:
    """Every state and request has a decision; after the third resume it is always to hold."""
    for progress in get_args(Progress):
        for on_lost in get_args(OnLost):
            decisions = [decide(progress, on_lost, resumes) for resumes in range(MAX_RESUMES + 2)]
            assert decisions[:MAX_RESUMES] == [decisions[0]] * 3
            assert decisions[MAX_RESUMES:] == ["hold", "hold"]
