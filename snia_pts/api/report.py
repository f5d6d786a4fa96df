"""Writes the report of a stored run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import ReportError, UsageError
from ..files import replace_file
from ..record.archive import is_archive
from ..record.folder import RunFolder, writable_path
from ..record.journal import prevent_resume
from ..record.replay import assess as assess_folder
from ..record.result_xml import result_xml
from ..report import DEFAULT_FORMATS, write
from ..results.result import TestResult
from ..runner.report_formats import require_formats
from ..runner.verification import require_evidence
from .assessment import overriding, require_trusted, stored_differences
from .run import Run, RunOrPath, load

_LOGGER = logging.getLogger(__name__)


def write_report(
    run: RunOrPath,
    *,
    formats: Sequence[str] = DEFAULT_FORMATS,
    folder: str | os.PathLike[str] | None = None,
    limits: str | os.PathLike[str] | None = None,
    about: str | os.PathLike[str] | None = None,
    plugins: Sequence[str] = (),
) -> dict[str, Path]:
    """Write the report of a stored run, and return its files by format (of ``csv``, the folder of tables).

    The files are written into ``folder``, or else into the run's own folder, where result.xml is recreated, too.  A run
    of ``read_fio``, and an archive, has no folder of its own.
    Formats are ``rst``, ``pdf``, ``html``, ``xlsx``, ``csv``, ``json``, ``junit``, ``ocp`` and ``interactive``, and
    those of ``plugins``.
    ``limits`` and ``about`` are paths of files that replace the limits and the annotations of the run.  Raises
    UsageError for an unknown format, RecordError if the run cannot be read, is in progress, or differs from its
    evidence, and ReportError if a file cannot be written.
    """
    known = require_formats(tuple(formats), plugins)
    override = overriding(limits, about)
    if folder is None:
        _require_folder(run)
        return recreate_report(RunFolder.existing(writable_path(_stored_path(run))), known, override, _warn)
    loaded = run if isinstance(run, Run) and not run.stored else load(_stored_path(run))
    require_trusted(loaded)
    return write(override(loaded.result), Path(folder), known)


def _stored_path(run: RunOrPath) -> Path:
    """Return the path of a run's folder; raises UsageError if it has none."""
    if not isinstance(run, Run):
        return Path(run)
    if not run.stored:
        raise UsageError(detail=f"The run of {run.path} has no folder.", hint="Give the folder of the report.")
    return run.path


def _require_folder(run: RunOrPath) -> None:
    """Raise UsageError if a run is an archive, which stays as it is."""
    if is_archive(path := _stored_path(run)):
        raise UsageError(detail=f"The run {path} is an archive.", hint="Give another folder for its report.")


def _warn(stored_differences: tuple[str, ...]) -> None:
    for difference in stored_differences:
        _LOGGER.warning("result.xml is recreated, because it differs from the journal: %s", difference)


def recreate_report(
    folder: RunFolder,
    formats: Sequence[str],
    override: Callable[[TestResult], TestResult],
    tell: Callable[[tuple[str, ...]], None],
) -> dict[str, Path]:
    """Recreate result.xml and the report of a run in its folder; return the files by format.

    ``override`` replaces limits and annotations; ``tell`` gets the differences of the old result.xml from the journal.
    Raises RecordError and ReportError.
    """
    with prevent_resume(folder.path, folder.journal):
        result = assess_folder(folder)
        require_evidence(folder, result)
        document = result_xml(result)
        tell(stored_differences(folder, document))
        with folder.opened(), naming_folder(folder.path):
            replace_file(folder.result, document)
            return write(override(result), folder.path, formats)


@contextmanager
def naming_folder(folder: Path) -> Iterator[None]:
    """Convert an OSError to a ReportError that names the folder."""
    try:
        yield
    except OSError as error:
        remedy = "The result is safe; make the report as a user who may write there."
        hint = remedy if isinstance(error, PermissionError) else ReportError.hint
        raise ReportError(reason=f"{folder}: {error.strerror or error}", hint=hint) from None
