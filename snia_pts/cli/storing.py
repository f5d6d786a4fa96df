"""Adds a run to a store of results when it ends, also one that failed or was stopped.

A failure to store a run does not affect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import registries
from ..errors import SniaPtsError, missing_library
from ..runner.events import Event, FolderCreated, OnEvent
from .text.lines import print_lines, say


@contextmanager
def stored_on_exit(url: str | None, on_event: OnEvent) -> Iterator[OnEvent]:
    """Add the run of the block to the store ``url`` when it ends; yield the receiver of its events.

    Nothing is added without a URL, or for a run without a folder.  Raises UsageError for an invalid URL and
    LibraryMissing before the run.
    """
    if url is None:
        yield on_event
        return
    try:
        add: Callable[[Path], str] = registries.load(registries.STORES, "store")(url)
    except ModuleNotFoundError as error:
        raise missing_library(error) from None
    folders: list[Path] = []

    def remember_folder(event: Event) -> None:
        if isinstance(event, FolderCreated):
            folders.append(event.folder.path)
        on_event(event)

    try:
        yield remember_folder
    finally:
        for folder in filter(Path.exists, folders):
            _add(folder, add)


def _add(folder: Path, add: Callable[[Path], str]) -> None:
    """Add the runs in a folder and print how many; print a failure, which is not a failure of the run."""
    try:
        print_lines([f"store:      {add(folder)}"])
    except KeyboardInterrupt:
        _say_failure("interrupted.")
    except SniaPtsError as error:
        _say_failure(f"{error} {error.full_hint}".strip())
    except Exception as error:  # noqa: BLE001  # no failure of the store may hide the result
        _say_failure(f"{type(error).__name__}: {error}.")


def _say_failure(reason: str) -> None:
    say(f"The run was not stored: {reason}")
