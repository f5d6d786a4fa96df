"""The folder of several tests: a run folder each, and ``suite.json``, the tests and their options."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, repeat
from pathlib import Path

from pydantic import TypeAdapter

from .. import registries
from ..errors import NotResumable, RecordError, RunFolderError
from ..files import create, is_unmoved, keep_folder_open, open_regular, read_regular, remove, remove_folder
from ..model.run_options import RunOptions
from ..spec import SPEC_TYPES
from .folder import RunFolder, create_folder, require_alone, unreadable
from .journal_reader import JournalReader
from .locks import WAIT, is_locked, lock

_NAME = "suite.json"
_MAX_BYTES = 1024 * 1024
_PROFILE_NAME = re.compile("[a-z0-9-]{1,40}")


@cache
def _adapter() -> TypeAdapter[list[RunOptions]]:
    return TypeAdapter(list[RunOptions])


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFolder:
    """A suite folder: the names of the requested tests in their order, and their options.

    The name of a test is that of its run folder; that of a profile is the profile's.
    """

    path: Path
    tests: tuple[str, ...]
    options: tuple[RunOptions, ...] = ()
    created: bool = False

    @classmethod
    def create(cls, path: Path, tests: Sequence[str], options: Sequence[RunOptions] = ()) -> SuiteFolder:
        """Create a folder, or use an empty one.  Raises RunFolderError.

        ``options`` are those of each test; options that are never stored are removed.  Imported runs have none.
        """
        folder, created = create_folder(path)
        stored = [replace(test_options.stored(), seed=test_options.seed) for test_options in options]
        document = {"format": 1, "tests": list(tests), "options": _adapter().dump_python(stored, mode="json")}
        text = json.dumps(document, indent=1).encode() + b"\n"
        try:
            with keep_folder_open(folder), create(folder / _NAME) as file, ExitStack() as undo:
                undo.callback(remove, folder / _NAME)
                require_alone(folder, _NAME)
                file.write(text)
                os.fsync(file.fileno())
                undo.pop_all()
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return cls(path=folder, tests=tuple(tests), options=tuple(stored), created=created)

    @classmethod
    def existing(cls, path: Path) -> SuiteFolder | None:
        """Return the suite folder at ``path``; None if it is not a suite folder.

        Raises RecordError if it is invalid, or contains the run of a test that suite.json does not list.
        """
        try:
            text = read_regular(path / _NAME, _MAX_BYTES).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise unreadable(path, error) from None
        except OSError as error:
            raise RecordError(path=path, reason=f"{_NAME}: {error.strerror}") from None
        except UnicodeError as error:
            raise RecordError(path=path, reason=f"{_NAME}: {error}") from None
        try:
            document = json.loads(text)
            tests = tuple(document["tests"]) if document["format"] == 1 else ()
            options = tuple(_adapter().validate_python(document["options"], strict=False))
        except (ValueError, KeyError, TypeError, RecursionError):
            tests, options = (), ()
        valid = all(map(_is_name, tests, chain(options, repeat(None))))
        if not tests or len(set(map(str, tests))) != len(tests) or not valid:
            raise RecordError(path=path, reason=f"{_NAME} does not list valid tests", hint="")
        for test in sorted(SPEC_TYPES.keys() - set(tests)):
            if os.path.lexists(RunFolder(path=path / test).journal):
                raise RecordError(
                    path=path, reason=f"{_NAME} does not list the test {test}, but its run is in the folder", hint=""
                )
        return cls(path=path.resolve(), tests=tests, options=options)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock suite.json while its tests run, also between tests; raises NotResumable if another run has locked it."""
        with keep_folder_open(self.path), open_regular(self.path / _NAME) as file:
            try:
                lock(file.fileno())
            except BlockingIOError:
                raise NotResumable(path=self.path, reason="the run is still in progress", hint=WAIT) from None
            yield

    @property
    def in_progress(self) -> bool:
        """Whether a run has locked suite.json.  Raises RecordError if it cannot be read."""
        path = self.path / _NAME
        try:
            return is_locked(path)
        except OSError as error:
            raise unreadable(path, error) from None

    @property
    def as_run_folder(self) -> RunFolder:
        """The suite folder as a run folder, for the file that requests a stop between two tests."""
        return RunFolder(path=self.path)

    def run_path(self, test: str) -> Path:
        """Return the path of a test's run folder, which may not exist yet."""
        return self.path / test

    def run_folder(self, test: str) -> RunFolder | None:
        """Return a test's run folder; None if the test was not run.

        Raises RecordError if it is a symlink or unreadable, or has results but no journal with a complete line.
        """
        folder = RunFolder(path=self.run_path(test))
        if folder.path.is_symlink():
            raise RecordError(path=folder.path, reason="it is a symlink; each test needs its own folder", hint="")
        try:
            if folder.has_started:
                return folder
            is_damaged = folder.has_results
        except OSError as error:
            raise unreadable(folder.path, error) from None
        if is_damaged:
            reason = "it has results of a run, but no journal.jsonl with a complete first line"
            raise RecordError(path=folder.path, reason=reason, hint="Restore the journal from a backup.")
        return None

    def verified_run_folder(self, test: str) -> RunFolder | None:
        """Return a test's run folder like ``run_folder``; raises RecordError if its journal is that of another run."""
        folder = self.run_folder(test)
        if folder is not None:
            facts = JournalReader(folder.journal).facts
            if facts.spec.name != test:
                raise RecordError(path=folder.path, reason=f"its journal is of the test {facts.spec.name}", hint="")
            options = dict(zip(self.tests, self.options, strict=False)).get(test)
            seed = options.seed if options else None
            if facts.seed != seed:  # an imported run has none
                expected, got = ("no seed" if item is None else f"seed {item}" for item in (seed, facts.seed))
                reason = f"its journal is of another run: expected {expected}, got {got}"
                raise RecordError(path=folder.path, reason=reason, hint="")
        return folder

    def runs(self) -> tuple[RunFolder, ...]:
        """Return the run folders of the tests that were run, each verified; raises RecordError if there is none."""
        runs = tuple(run for test in self.tests if (run := self.verified_run_folder(test)))
        if not runs:
            raise RecordError(path=self.path, reason="none of its tests was run")
        return runs

    def discard(self) -> None:
        """Remove a suite folder that contains only suite.json and a log, unless it was moved."""
        removable = (self.path / _NAME, self.as_run_folder.log)
        with suppress(OSError, RunFolderError):  # a folder with other files remains
            with keep_folder_open(self.path):
                if not is_unmoved(self.path) or not all(child in removable for child in self.path.iterdir()):
                    return
                for path in removable:
                    remove(path)
            if self.created:
                remove_folder(self.path)


def _is_name(name: object, options: RunOptions | None) -> bool:
    """Return whether a run of a suite can have this name: that of a test of the standard, or of a profile.

    Imported runs have no options.
    """
    is_profile = options is None or options.test in registries.SPECS
    return str(name) in SPEC_TYPES or (is_profile and _PROFILE_NAME.fullmatch(str(name)) is not None)


def is_run(path: Path, *, unstarted: bool = False) -> bool:
    """Return whether ``path`` is the folder of a run or a suite; also True if this user may not look into it.

    With ``unstarted`` a run that has not reached its first step counts, too.
    """
    try:
        if unstarted and RunFolder(path=path).is_unstarted:  # before the journal, which may be created meanwhile
            return True
        return any((path / name).is_file() for name in ("journal.jsonl", _NAME))
    except PermissionError:
        return True


def child_folders(path: Path) -> list[Path]:
    """Return what is in a folder, by name; raises RecordError if it cannot be listed."""
    try:
        return sorted(path.iterdir())
    except OSError as error:
        raise unreadable(path, error) from None


def running_folders(path: Path) -> list[RunFolder]:
    """Return the folders at ``path`` that take a request to stop: of the run in progress, or of a suite between two.

    Raises RecordError.
    """
    suite = SuiteFolder.existing(path)
    paths = map(suite.run_path, suite.tests) if suite else (path,)
    running = [folder for run_path in paths if (folder := RunFolder(path=run_path)).is_running]
    if suite and not running and suite.in_progress:
        return [suite.as_run_folder]
    return running


def has_begun(path: Path) -> bool:
    """Whether a test of the run or suite at ``path`` has begun: a journal has its start entry.  Raises RecordError."""
    suite = SuiteFolder.existing(path)
    if suite:
        return any(suite.run_folder(test) for test in suite.tests)
    try:
        return RunFolder(path=path).has_started
    except OSError as error:
        raise unreadable(path, error) from None
