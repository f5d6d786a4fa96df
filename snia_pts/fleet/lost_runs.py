"""What becomes of a lost run, whose process was started, is gone and left no end.  A table, without a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .request import OnLost

#: How far a lost run came.  ``kept``: the rule of ``resume`` keeps its steps.  ``begins again``: the rule would begin
#: again at a purge.  ``finished``: only its report may be missing.
Progress = Literal["not begun", "kept", "begins again", "finished", "unreadable"]
#: What to do: resume the run, hold its drive until a person decides, or resume the run at its last purge.
Decision = Literal["resume", "hold", "from-purge"]
#: How often a run is resumed without a person.
MAX_RESUMES = 3

_DECISIONS: Mapping[Progress, Mapping[OnLost, Decision]] = {
    "not begun": {"resume": "resume", "hold": "hold", "from-purge": "resume"},
    "kept": {"resume": "resume", "hold": "hold", "from-purge": "resume"},
    "begins again": {"resume": "hold", "hold": "hold", "from-purge": "from-purge"},
    "finished": {"resume": "resume", "hold": "resume", "from-purge": "resume"},
    "unreadable": {"resume": "hold", "hold": "hold", "from-purge": "hold"},
}


def decide(progress: Progress, on_lost: OnLost, resumes: int) -> Decision:
    """Return what becomes of a lost run that was resumed this often."""
    return _DECISIONS[progress][on_lost] if resumes < MAX_RESUMES else "hold"
