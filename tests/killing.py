"""Kills simulated runs: truncates their journals as a crash might, and checks the results of resuming them."""

from __future__ import annotations

import dataclasses
import datetime
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from snia_pts.lab.simulated.laboratory import SimulatedLaboratory
from snia_pts.lab.simulated.preset import Preset, read_preset, simulated_dut
from snia_pts.model.measurement import Measurement, Outcome, Sample
from snia_pts.model.steps import Round, Step
from snia_pts.record.folder import RunFolder
from snia_pts.record.journal_reader import JournalReader
from snia_pts.record.replay import assess, inspect_run
from snia_pts.results.interruption import ResumePolicy
from snia_pts.results.result import RunFacts, TestResult
from snia_pts.results.target_deviations import target_deviations
from snia_pts.runner.session import resume, run
from snia_pts.spec.reader import read_specification
from tests import samples
from tests.procedure_runs import answered

BEGAN = datetime.datetime(2026, 11, 3, 12, tzinfo=datetime.UTC)
#: Every test of the standard, with few and short stimuli.
BRIEF: Mapping[str, Sequence[tuple[str, Any]]] = {
    "iops": [
        ("rounds.read_percents", [100, 65, 0]),
        ("rounds.block_sizes_kib", [1024, 64, 4]),
        ("rounds.point_seconds", 60),
        ("rounds.maximum", 16),
    ],
    "throughput": [("rounds.point_seconds", 5), ("rounds.maximum", 9)],
    "latency": [("rounds.point_seconds", 5), ("rounds.maximum", 9), ("histogram.seconds", 20)],
    "wsat": [("settling.stride_samples", 2), ("saturation.seconds", 1200), ("histogram.seconds", 20)],
    "hir": [
        ("settling.stride_samples", 1),
        ("wait_states.cycles", 2),
        ("wait_states.access_c_seconds", 20),
        ("conditioning.maximum", 6),
    ],
    "xsr": [],
    "composite": [
        ("settling.stride_samples", 1),
        ("conditioning.maximum", 5),
        ("demand.thread_counts", [32, 1]),
        ("demand.queue_depths", [32, 1]),
        ("demand.pre_write_seconds", 60),
        ("demand.point_seconds", 5),
        ("demand.maximum", 7),
        ("operating_points.pre_write_seconds", 60),
        ("operating_points.histogram_seconds", 10),
    ],
}
BRIEF = {**BRIEF, "dirth": BRIEF["composite"]}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An uninterrupted run: its facts, its journal, its steps with their outcomes, and its result."""

    facts: RunFacts
    journal: bytes
    performed: tuple[tuple[Step, tuple[Outcome, ...]], ...]
    result: TestResult


def preset() -> Preset:
    """Return a simulated drive with little noise."""
    return dataclasses.replace(read_preset("enterprise-nvme"), noise_percent=0.5)


def laboratory(facts: RunFacts, folder: RunFolder) -> SimulatedLaboratory:
    """Return a drive fresh out of the box, whose clock starts when the run started."""
    began = datetime.datetime.fromisoformat(facts.started)
    return SimulatedLaboratory(preset(), seed=facts.seed or 0, evidence=folder.evidence, started=began)


@cache
def specification_of(test: str) -> Any:
    """Return a brief specification of a test."""
    overrides = list(BRIEF[test])
    if test == "xsr":
        sequence = read_specification(test, "2.0.2", "enterprise").spec.groups.sequence  # type: ignore[attr-defined]
        brief = [
            {
                "name": group.name,
                "access": group.access,
                "read_percent": group.read_percent,
                "block_size_kib": group.block_size_bytes // 1024,
                "seconds": 300,
                "thread_count": group.thread_count,
                "queue_depth": group.queue_depth,
            }
            for group in sequence
        ]
        overrides = [("groups.sequence", brief)]
    return read_specification(test, "2.0.2", "enterprise", overrides=overrides)


def reference(test: str, place: Path) -> Reference:
    """Run a brief test to its end in the existing folder ``place``."""
    folder = RunFolder.create(place)
    specification = specification_of(test)
    device = simulated_dut("enterprise-nvme", preset())
    facts = dataclasses.replace(
        samples.run_facts(
            specification.spec,
            device=device,
            found=(*specification.deviations, *target_deviations(device, specification.spec)),
        ),
        started=BEGAN.isoformat(timespec="milliseconds"),
    )
    simulated = laboratory(facts, folder)
    result = run(facts, simulated.perform, folder, lambda _: None, now=simulated.now, durable=False)
    performed = tuple(answered(JournalReader(folder.journal)))
    return Reference(facts=facts, journal=folder.journal.read_bytes(), performed=performed, result=result)


def killed(before: Path, place: Path, journal: bytes) -> RunFolder:
    """Return the folder of a run as a crash leaves it: with this journal, and the evidence so far."""
    place.mkdir()
    shutil.copytree(before / "evidence", place / "evidence")
    folder = RunFolder(path=place)
    folder.journal.write_bytes(journal)
    samples.remove_later_evidence(folder)
    return folder


def resume_killed(folder: RunFolder, policy: ResumePolicy) -> TestResult:
    """Resume a run."""
    resume_plan = inspect_run(folder, policy)
    simulated = laboratory(resume_plan.facts, folder)
    return resume(
        resume_plan,
        simulated,
        folder,
        lambda _: None,
        command_line=("snia-pts", "resume"),
        now=simulated.now,
        durable=False,
    )


def require_consistent(link: Reference, folder: RunFolder, result: TestResult, data: bytes) -> None:
    """Require that a resumed run, whose journal had ``kept``, has lost nothing and contains nothing false.

    The outcomes of its steps are those of an uninterrupted run, whenever the run was killed.
    """
    journal = folder.journal.read_bytes()
    assert journal.startswith(whole_lines(data)), "an entry was lost"
    assert repr(assess(folder)) == repr(result)
    performed = [(step, outcomes) for step, outcomes in answered(JournalReader(folder.journal))]
    together = zip(performed, link.performed, strict=False)
    same = sum(1 for _ in _while_equal(together))
    # one round more than without the interruption: the whole run again
    if same < max(len(performed), len(link.performed)):
        once_more = laboratory(link.facts, RunFolder(path=folder.path))
        for step, outcomes in performed:
            assert [without_interruption(outcome) for outcome in outcomes] == list(once_more.perform(step)), step.label
        assert isinstance(performed[same][0], Round) or performed[same][0].label != link.performed[same][0].label
    for loop in result.loops:
        counts = {
            measurement.timing.interruptions for measured in loop.window_rounds for measurement in measured.measurements
        }
        assert len(counts) <= 1, "a measurement window reaches across an interruption"
    stops = [deviation for deviation in result.deviations if deviation.what == "interruption"]
    assert set(stops) == {interruption.deviation for interruption in result.interruptions}
    assert not (stops and result.conformant)


def _while_equal(together: Iterator[Any]) -> Iterator[None]:
    for (step, outcomes), (other, others) in together:
        if step != other or tuple(map(without_interruption, outcomes)) != others:
            return
        yield


def without_interruption(outcome: Outcome) -> Outcome:
    """Return an outcome as in a run without interruption."""
    if isinstance(outcome, Measurement):
        return dataclasses.replace(outcome, timing=dataclasses.replace(outcome.timing, interruptions=0))
    return dataclasses.replace(outcome, interruptions=0) if isinstance(outcome, Sample) else outcome


def whole_lines(journal: bytes) -> bytes:
    """Return a journal without an incomplete line at its end."""
    return journal[: journal.rfind(b"\n") + 1]


def kill_and_resume(link: Reference, home: Path, place: Path, seed: int, policy: ResumePolicy = "rule") -> int:
    """Kill a run at random, resume it, and perhaps repeat that; return how often it was killed.

    ``home`` is the folder of the uninterrupted run, ``place`` a new one.
    """
    chance = random.Random(seed)
    place.mkdir()
    first = len(link.journal.split(b"\n", 1)[0]) + 1  # the run had not started yet
    kept = link.journal[: chance.randint(first, len(link.journal) - 1)]
    kills = 0
    while True:
        kills += 1
        folder = killed(home, place / str(kills), kept)
        result = resume_killed(folder, policy)
        require_consistent(link, folder, result, kept)
        if chance.random() < 0.6 or kills == 3:
            return kills
        journal = folder.journal.read_bytes()
        kept = journal[: chance.randint(len(whole_lines(kept)), len(journal) - 1)]
