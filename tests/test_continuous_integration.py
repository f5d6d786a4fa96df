"""The description of continuous integration for a public forge runs what ``.ci/run`` runs."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def test_a_forge_runs_the_same_as_everybody() -> None:
    """The only command is .ci/run, without arguments and variables, which everybody can run in a fresh clone."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    checkout, run = job["steps"]

    assert checkout["uses"].startswith("actions/checkout@")
    assert run == {"run": ".ci/run"}
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert {"env", "container", "defaults", "strategy"}.isdisjoint({*workflow, *job})
    assert workflow["permissions"] == {"contents": "read"}
