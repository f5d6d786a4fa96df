"""The process of a job: runs a test by an order, and hands its folder and its error to the process that started it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from .. import errors
from ..errors import HostFailed, SniaPtsError, stop_error
from ..lab.process.detached import close_order
from ..model.run_options import RunOptions
from ..runner.events import CalibrationStarted, Event, FolderCreated, RunStarted
from ..runner.options import ResumeOptions
from ..runner.signals import stopped_by_signals
from .running import resume, run

#: The descriptors besides the standard streams: a pipe for the path of the run folder, and a file for the outcome.
FOLDER_DESCRIPTOR, OUTCOME_DESCRIPTOR = 3, 4
#: The outcome of a run that finished; otherwise it is an error as JSON.
FINISHED = b"finished"


def main(order: Mapping[str, Any]) -> None:
    """Run or resume a test; writes FINISHED, or the error as JSON, to OUTCOME_DESCRIPTOR."""
    for descriptor in (FOLDER_DESCRIPTOR, OUTCOME_DESCRIPTOR):
        os.set_inheritable(descriptor, False)
    close_order()
    try:
        with stopped_by_signals():
            _run(order)
        os.write(OUTCOME_DESCRIPTOR, FINISHED)
    except SniaPtsError as error:
        _write_error(error)
    except KeyboardInterrupt as stop:
        _write_error(stop_error(stop))
    except OSError as error:
        reason = error.strerror or str(error)
        _write_error(HostFailed(step="running", what=str(error.filename or "a file"), reason=reason))


def _run(order: Mapping[str, Any]) -> None:
    starter = _Starter()
    if order["path"] is None:
        run(TypeAdapter(RunOptions).validate_python(order["options"]), starter.on_event)
    else:
        resume(order["path"], TypeAdapter(ResumeOptions).validate_python(order["options"]), starter.on_event)


class _Starter:
    """Writes the path of the run folder once the target is claimed and confirmed: when the test is about to start."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def on_event(self, event: Event) -> None:
        """Receive an event of the run."""
        if isinstance(event, FolderCreated):
            self._folder = event.folder.path
        elif isinstance(event, CalibrationStarted | RunStarted) and self._folder is not None:
            with suppress(BrokenPipeError):  # the process that started this one has ended
                os.write(FOLDER_DESCRIPTOR, os.fsencode(self._folder))
            os.close(FOLDER_DESCRIPTOR)
            self._folder = None


def _write_error(error: SniaPtsError) -> None:
    os.write(OUTCOME_DESCRIPTOR, error_as_json(error))
    raise SystemExit(error.exit_code)


def error_as_json(error: SniaPtsError) -> bytes:
    """Return an error with all its fields and notes as JSON."""
    fields = {name: _encoded(value) for name, value in vars(error).items()}
    return json.dumps({"class": type(error).__name__, "fields": fields}).encode()


def error_from_json(text: bytes) -> SniaPtsError:
    """Return the error that ``error_as_json`` wrote."""
    document = json.loads(text)
    kind: type[SniaPtsError] = getattr(errors, document["class"])
    error = kind.__new__(kind)
    vars(error).update({name: _decoded(value) for name, value in document["fields"].items()})
    return error


def _encoded(value: object) -> object:
    return {"path": str(value)} if isinstance(value, Path) else value


def _decoded(value: object) -> object:
    return Path(value["path"]) if isinstance(value, dict) else value
