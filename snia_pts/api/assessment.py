"""Judges a stored run again, and compares its files with its journal."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import RecordError
from ..model.annotations import read_annotations
from ..record.archive import opened
from ..record.folder import RunFolder
from ..record.locks import WAIT
from ..record.result_xml import differences, result_xml
from ..results.limit_checks import notify_if_unlimited
from ..results.result import TestResult
from ..runner.plugins import load_plugins
from ..runner.verification import check_evidence, require_evidence
from ..spec.limits import read_limits
from .run import Run, load

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """A run judged from its journal, and the agreement of its other files with the journal.

    ``differences`` has a sentence for each difference of ``result.xml`` or the evidence; a run with any must not be
    trusted.  ``unjournaled`` are the names of evidence files that a run left that did not finish.
    """

    run: Run
    differences: tuple[str, ...]
    unjournaled: tuple[str, ...]

    @property
    def limits_met(self) -> bool:
        """Whether every limit of the run is met; without limits, they are."""
        return all(judgement.met for judgement in self.run.limits)


def assess(
    path: str | os.PathLike[str], *, limits: str | os.PathLike[str] | None = None, plugins: Sequence[str] = ()
) -> Assessment:
    """Judge the stored run at ``path`` from its journal, and compare all its other files with the journal.

    ``limits`` is the path of a file of limits, instead of those of the run.  ``plugins`` are loaded first: without that
    of the purge method, the purge's command is not checked.  Raises RecordError if the journal cannot be read, and
    SpecError for mistakes in the limits.
    """
    load_plugins(plugins)
    override = overriding(limits)
    assessment = assess_run(load(path))
    run = assessment.run
    return replace(assessment, run=replace(run, result=override(run.result)))


def assess_run(run: Run) -> Assessment:
    """Return the assessment of a run that was loaded; raises RecordError."""
    with opened(run.path) as folder:
        evidence = check_evidence(folder, run.result)
        stored = stored_differences(folder, result_xml(run.result))
    return Assessment(run=run, differences=(*evidence.differences, *stored), unjournaled=evidence.unjournaled)


def overriding(
    limits: str | os.PathLike[str] | None,
    about: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = _LOGGER.warning,
) -> Callable[[TestResult], TestResult]:
    """Return a function that gives a result the limits and annotations of files; None keeps those of the run.

    ``tell`` gets a notice if none of the limits applies to the test.  Raises SpecError with the mistakes in a file.
    """
    changed, source = None, ""
    if limits is not None:
        digest = hashlib.sha256()
        changed = read_limits(Path(limits), digest.update)
        source = f"{Path(limits).name} (SHA-256 {digest.hexdigest()})"
    annotations = read_annotations(Path(about)) if about is not None else None

    def override(result: TestResult) -> TestResult:
        facts = result.facts
        notify_if_unlimited(changed or (), str(limits), facts.spec.test, tell)
        facts = replace(facts, limits=facts.limits if changed is None else changed, about=annotations or facts.about)
        return replace(result, facts=facts, limits_source=source)

    return override


def stored_differences(folder: RunFolder, expected: bytes) -> tuple[str, ...]:
    """Return how result.xml differs from the ``expected`` one, which the journal gives; an invalid one differs too."""
    try:
        if folder.result.is_symlink():
            return (f"{folder.result.name} is a symlink",)
        return differences(folder.result, expected) if folder.result.exists() else ()
    except RecordError as unreadable:
        return (str(unreadable),)


def require_trusted(run: Run) -> None:
    """Raise RecordError if a stored run is in progress, or if its evidence differs from its journal."""
    if not run.stored:
        return
    if run.result.running:
        raise RecordError(path=run.path, reason="the run is still in progress", hint=WAIT)
    with opened(run.path) as folder:
        require_evidence(folder, run.result)
