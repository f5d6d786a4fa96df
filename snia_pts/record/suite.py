"""The folder of several tests: a run folder each, and ``suite.json``, the tests and their options."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from ..errors import NotResumable, RecordError, RunFolderError
from ..files import keep_folder_open, open_regular, read_regular, replace_file, require_private
from ..model.run_options import RunOptions
from ..spec import SPEC_TYPES
from .folder import RunFolder, make_new, unreadable
from .journal import WAIT, is_written, lock
from .journal_reader import JournalReader

_NAME = "suite.json"
_LONGEST_BYTES = 1024 * 1024


@cache
def _adapter() -> TypeAdapter[list[RunOptions]]:
    return TypeAdapter(list[RunOptions])


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFolder:
    """A suite folder: the requested tests in their order, and their options."""

    path: Path
    tests: tuple[str, ...]
    options: tuple[RunOptions, ...] = ()
    made: bool = False

    @classmethod
    def create(cls, path: Path, tests: Sequence[str], options: Sequence[RunOptions] = ()) -> SuiteFolder:
        """Make a new folder; an existing one is used only if it is empty.  Raises RunFolderError.

        ``options`` are those of each test, without what is never stored; runs of another tool have none.
        """
        place, made = make_new(path)
        stored = [replace(each.stored(), seed=each.seed) for each in options]
        document = {"format": 1, "tests": list(tests), "options": _adapter().dump_python(stored, mode="json")}
        asked = json.dumps(document, indent=1).encode() + b"\n"
        try:
            with keep_folder_open(place):
                replace_file(place / _NAME, asked)
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return cls(path=place, tests=tuple(tests), options=tuple(stored), made=made)

    @classmethod
    def existing(cls, path: Path) -> SuiteFolder | None:
        """Return the folder of all at ``path``; None when it is something else.

        Raises RecordError for a wrong one, and for one that holds the run of a test that suite.json does not list.
        """
        try:
            text = read_regular(path / _NAME, _LONGEST_BYTES).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise unreadable(path, error) from None
        except OSError as error:
            raise RecordError(path=path, reason=f"{_NAME}: {error.strerror}") from None
        except UnicodeError as error:
            raise RecordError(path=path, reason=f"{_NAME}: {error}") from None
        try:
            told = json.loads(text)
            tests = tuple(told["tests"]) if told["format"] == 1 else ()
            options = tuple(_adapter().validate_python(told["options"], strict=False))
        except (ValueError, KeyError, TypeError, RecursionError):
            tests, options = (), ()
        if not tests or len(set(map(str, tests))) != len(tests) or not {*map(str, tests)} <= SPEC_TYPES.keys():
            raise RecordError(path=path, reason=f"{_NAME} does not list valid tests", hint="")
        for test in sorted(SPEC_TYPES.keys() - set(tests)):
            if os.path.lexists(RunFolder(path=path / test).journal):
                raise RecordError(
                    path=path, reason=f"{_NAME} does not list the test {test}, whose run is there", hint=""
                )
        return cls(path=path.resolve(), tests=tests, options=options)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock suite.json while its tests run, also between two of them; raises NotResumable if another run has it."""
        with keep_folder_open(self.path), open_regular(self.path / _NAME) as file:
            require_private(self.path)
            try:
                lock(file.fileno())
            except BlockingIOError:
                raise NotResumable(path=self.path, reason="the run is still in progress", hint=WAIT) from None
            yield

    @property
    def in_progress(self) -> bool:
        """Whether a run has locked it."""
        return is_written(self.path / _NAME)

    @property
    def whole(self) -> RunFolder:
        """The suite folder as a run folder: a request to stop between two tests lies in it."""
        return RunFolder(path=self.path)

    def place(self, test: str) -> Path:
        """Return where a test's run folder is, or will be."""
        return self.path / test

    def run(self, test: str) -> RunFolder | None:
        """Return a test's run folder; None if it was not run.  Raises RecordError if it is a symlink or unreadable."""
        folder = RunFolder(path=self.place(test))
        if folder.path.is_symlink():
            raise RecordError(path=folder.path, reason="it is a symlink; each test needs its own folder", hint="")
        try:
            return folder if folder.begun else None
        except OSError as error:
            raise unreadable(folder.path, error) from None

    def recorded(self, test: str) -> RunFolder | None:
        """Return a test's run folder as ``run`` does; raises RecordError if its journal is that of another run."""
        folder = self.run(test)
        if folder is not None:
            facts = JournalReader(folder.journal).facts
            if facts.spec.test != test:
                raise RecordError(path=folder.path, reason=f"its journal is of the test {facts.spec.test}", hint="")
            for asked in self.options:
                if asked.test == test and asked.seed not in (None, facts.seed):
                    reason = f"its journal is of another run: expected seed {asked.seed}, got {facts.seed}"
                    raise RecordError(path=folder.path, reason=reason, hint="")
        return folder

    def discard(self) -> None:
        """Remove a suite folder that has no file but suite.json."""
        if not any(child.name != _NAME for child in self.path.iterdir()):
            (self.path / _NAME).unlink(missing_ok=True)
            if self.made:
                self.path.rmdir()
