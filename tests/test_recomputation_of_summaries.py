"""The summary of all tests once more, by the second implementation, from the records of its runs."""

from __future__ import annotations

import datetime
import math
import subprocess
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from tests import tkperf_files
from tests.recomputation.printed import Expected, check, in_decimal_unit, labelled, printed_tables, text
from tests.recomputation.record import column, facts, performed, samples
from tests.recomputation.summaries import key_figures

_SETTINGS = (
    *(f"{test}.rounds.point_seconds=5" for test in ("iops", "throughput", "latency")),
    "hir.wait_states.cycles=20",
    *(f"{test}.demand.thread_counts=[32, 6, 1]" for test in ("composite", "dirth")),
)

#: The access of the one workload of each profile, and its further values.
_PROFILES = {
    "random-zones": ("RND", "zones = 4"),
    "sequential-zones": ("SEQ", "zones = 5"),
    "depths": ("RND", 'range = "1 GiB"\n[[axis]]\nkey = "queue_depth"\nvalues = [1, 2, 8]'),
}
_PROFILE = """
format = 1
title = "{title}"
description = "Short."
source = "a test"
[[workload]]
name = "reads"
access = "{access}"
read_percent = 100
block_size = "64 KiB"
seconds = 5
{values}
"""

pytestmark = pytest.mark.usefixtures("without_figures")


@pytest.fixture(scope="module", params=["imported", "profiles", pytest.param("simulated", marks=pytest.mark.long)])
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tests of a simulated drive, those of a file of TKperf, and three profiles, with their summary as text."""
    folder: Path = tmp_path_factory.mktemp("suite")
    run, options = folder / "run", ("--run-dir", str(folder / "run"), "--to", "csv,rst")
    if request.param == "imported":
        (folder / "f.xml").write_bytes(tkperf_files.ssd())
        assert main(["import", str(folder / "f.xml"), *options]) == 0
        return run
    if request.param == "profiles":
        for name, (access, values) in _PROFILES.items():
            (folder / f"{name}.toml").write_text(_PROFILE.format(title=name, access=access, values=values))
        paths = ",".join(str(folder / f"{name}.toml") for name in _PROFILES)
        sim = ("sim:hdd", "--seed", "20261125", "--progress", "none")
        assert main(["profile", "run", paths, *sim, *options]) == 0
        return run
    changed = [word for setting in _SETTINGS for word in ("--set", setting)]
    words = ("all", "sim:enterprise-nvme", "--advanced", "--seed", "20261125", "--progress", "none")
    assert main([*words, *options, *changed]) == 0
    return run


def written(run: Path) -> float:
    """Return the bytes that a run wrote; nan for an imported run without amounts."""
    about = facts(run)
    if about["dut.kind"] != "imported":
        return float(column(performed(run), "write_bytes").sum())
    kept = samples(run, "", "stimulus")
    return float(column(kept, "write_bytes").sum()) if kept else math.nan


def seconds(run: Path) -> float:
    started, finished = (datetime.datetime.fromisoformat(facts(run)[key]) for key in ("started", "finished"))
    return (finished - started).total_seconds()


def test_the_summary_of_all_tests_is_that_of_their_records(suite: Path) -> None:
    """Key figures, durations and amounts of each test and of all together, within half of the last digit."""
    tests, figures, together = (table for table in printed_tables(suite, "summary.rst") if table.title in _TABLES)
    runs = {facts(journal.parent)["title"]: journal.parent for journal in suite.glob("*/journal.jsonl")}
    assert len(tests.body) == len(runs) > 1
    virtual = " (virtual)" * (facts(next(iter(runs.values())))["dut.kind"] == "simulated")
    for row in tests.body:
        cells = dict(zip(tests.heading, row, strict=True))
        run = runs[cells["Test"]]
        capacity = float(facts(run)["dut.capacity_bytes"])
        amount, unit = in_decimal_unit(written(run))
        check(cells["Written"], "n/a" if math.isnan(amount) else text(f"{{}} {unit}", amount))
        check(cells["Drive fills"], written(run) / capacity)
        if facts(run)["dut.kind"] != "imported":
            check(cells[f"Duration{virtual}"], text("{time}", seconds(run)))
    phrases = [phrase for row in tests.body for phrase in key_figures(runs[row[0]])]
    for (_, shown), phrase in zip(figures.body, phrases, strict=True):
        check(shown, phrase)
    assert [row[0] for row in figures.body if row[0]] == [row[0] for row in tests.body if key_figures(runs[row[0]])]
    imported = any(facts(run)["dut.kind"] == "imported" for run in runs.values())
    total = sum(map(written, runs.values()))
    duration = "\N{EN DASH}" if imported else text(f"{{time}}{virtual}", sum(map(seconds, runs.values())))
    size, unit = in_decimal_unit(total)
    all_written = text(f"{{}} {unit}, {{}} x user capacity", size, total / capacity)
    expected: dict[str, Expected] = {
        "Duration": duration,
        "Data written, all tests": "not reported" if math.isnan(total) else all_written,
        "User capacity": None,
        "Report id": None,
    }
    for printed, recomputed in zip(together.body, labelled(together, expected), strict=True):
        for cell, value in zip(printed, recomputed, strict=True):
            check(cell, value)


def test_the_summary_has_an_id_that_a_reader_can_check(suite: Path) -> None:
    """It is the start of what the printed command prints, and covers the journal of each test."""
    (together,) = (table for table in printed_tables(suite, "summary.rst") if table.title == "All tests together")
    (cell,) = (row[1] for row in together.body if row[0] == "Report id")
    sentence = (
        ". To check it, run this command in the folder of the summary; the first 16 digits of its output are the "
        "report id: "
    )
    identity, _, command = cell.partition(sentence)
    output = subprocess.run(["sh", "-c", command], cwd=suite, check=True, capture_output=True, text=True).stdout
    assert len(identity) == 16
    assert output.startswith(identity)
    assert all(f"{journal.parent.name}/journal.jsonl" in command for journal in suite.glob("*/journal.jsonl"))
    assert f'"Report id:", "{identity}"' in " ".join((suite / "summary.rst").read_text().split())


_TABLES = ("Tests", "Key figures", "All tests together")
