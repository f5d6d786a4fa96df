"""The folder of several tests: a run folder each, and ``suite.json``, which says which tests were asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import NotResumable, RecordError, RunFolderError
from ..files import read_regular, replace_file
from ..spec import SPEC_TYPES
from .folder import RunFolder, require_empty, unreadable
from .journal import WAIT, is_written, lock
from .recorded import Recorded

_NAME = "suite.json"
_LONGEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFolder:
    """The folder of all: the tests that were asked for, in their order."""

    path: Path
    tests: tuple[str, ...]
    made: bool = False

    @classmethod
    def create(cls, path: Path, tests: Sequence[str]) -> SuiteFolder:
        """Make a new folder; an existing one is taken only if it is empty.  Raises RunFolderError."""
        made = not path.exists()
        try:
            require_empty(path)
            path.mkdir(parents=True, exist_ok=True)
            replace_file(path / _NAME, json.dumps({"format": 1, "tests": list(tests)}, indent=1).encode() + b"\n")
        except RunFolderError:
            raise
        except OSError as error:
            raise RunFolderError(path=path, reason=error.strerror or str(error)) from None
        return cls(path=path.resolve(), tests=tuple(tests), made=made)

    @classmethod
    def existing(cls, path: Path) -> SuiteFolder | None:
        """Return the folder of all at ``path``; None when it is something else.  Raises RecordError for a wrong one."""
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
        except (ValueError, KeyError, TypeError, RecursionError):
            tests = ()
        if not tests or len(set(map(str, tests))) != len(tests) or not {*map(str, tests)} <= SPEC_TYPES.keys():
            raise RecordError(path=path, reason=f"{_NAME} does not say which tests were asked for", hint="")
        return cls(path=path.resolve(), tests=tests)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Tell others that its tests go on, also between two of them; raises NotResumable when others hold it."""
        with (self.path / _NAME).open("rb") as file:
            try:
                lock(file.fileno())
            except BlockingIOError:
                raise NotResumable(path=self.path, reason="it still goes on", hint=WAIT) from None
            yield

    @property
    def goes_on(self) -> bool:
        """Whether somebody holds it."""
        return is_written(self.path / _NAME)

    @property
    def whole(self) -> RunFolder:
        """The folder itself, in which word is left between two tests."""
        return RunFolder(path=self.path)

    def place(self, test: str) -> Path:
        """Return where a test's run folder is, or will be."""
        return self.path / test

    def run(self, test: str) -> RunFolder | None:
        """Return a test's run folder; None when it was not run.  Raises RecordError for a link, or a locked one."""
        folder = RunFolder(path=self.place(test))
        if folder.path.is_symlink():
            raise RecordError(path=folder.path, reason="it is a link, and each test has its own folder here", hint="")
        try:
            return folder if folder.begun else None
        except OSError as error:
            raise unreadable(folder.path, error) from None

    def recorded(self, test: str) -> RunFolder | None:
        """As ``run``; raises RecordError also where the folder's journal is that of another test."""
        folder = self.run(test)
        if folder is not None:
            found = Recorded(folder.journal).facts.spec.test
            if found != test:
                raise RecordError(path=folder.path, reason=f"its journal is that of the test {found}", hint="")
        return folder

    def discard(self) -> None:
        """Remove a folder in which no test began, and nothing else is."""
        if not any(child.name != _NAME for child in self.path.iterdir()):
            (self.path / _NAME).unlink(missing_ok=True)
            if self.made:
                self.path.rmdir()
