"""The verbs ``watch`` (show live values in a terminal until the runs end) and ``metrics`` (write them to a file)."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ..batch.folder import BatchFolder
from ..cli.text.lines import print_lines, say
from ..cli.text.progress import choose_mode
from ..errors import HostFailed, RecordError
from ..files import replace_file, shell_quoted
from ..record.folder import RunFolder
from ..record.suite import SuiteFolder, is_run
from ..units import counted
from .folder_source import FolderSource, require_folder
from .live_text import EventLines, block, cut, row
from .model import RunView

_PAUSE_SECONDS = 1.0


def watch(arguments: argparse.Namespace) -> int:
    """Show the values of runs until all have ended, or until Ctrl-C, which does not stop the runs.

    The exit code is that of RecordError if a run cannot be read.
    """
    watched = _WatchedRuns(arguments.runs)
    view = _Screen() if choose_mode("auto", sys.stdout) == "line" else _Lines()
    try:
        while watched.read():
            view.show(watched.runs)
            time.sleep(_PAUSE_SECONDS)
        view.show(watched.runs)
    except KeyboardInterrupt:
        say("Watching has ended; the runs continue.")
    for path in () if watched.runs else arguments.runs:
        say(f"No run is in progress in {path}; snia-pts status {shell_quoted(path)} lists the others.")
    return RecordError.exit_code if any(run.state == "unreadable" for run in watched.runs.values()) else 0


class _WatchedRuns:
    """The watched runs by folder.

    They are all runs of a run, suite or batch path; for any other folder only the runs in progress.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._sources = {path: FolderSource(path) for path in paths}
        self.runs: dict[str, RunView] = {}

    def read(self) -> bool:
        """Read all runs; return whether any is in progress, or more will start.

        Raises RecordError if there is no run at a path.
        """
        # Check this first: a run that starts before its suite ends must not be missed.
        more = any(map(_has_more, self._sources))
        found: dict[str, RunView] = {}
        for path, source in self._sources.items():
            runs = source.snapshot().runs
            if not runs and not more:
                RunFolder.existing(path)  # raises RecordError, with the reason
            shows_ended = is_run(path) or BatchFolder.existing(path) is not None
            for run in reversed(runs):
                if shows_ended or run.in_progress or run.folder in self.runs:
                    found[run.folder] = run
        self.runs = {folder: found[folder] for folder in (*self.runs, *found) if folder in found}
        return more or any(run.in_progress for run in self.runs.values())


def _has_more(path: Path) -> bool:
    """Return whether the process of a suite or batch is not done; it may start another run."""
    if (batch := BatchFolder.existing(path)) is not None:
        return batch.is_starting or any(map(batch.is_alive, batch.drives))
    suite = SuiteFolder.existing(path)
    return suite is not None and suite.in_progress


def _now() -> datetime:
    return datetime.now().astimezone()


def _shell_path(folder: str) -> str:
    """Return the path of a run for a shell command in the current folder."""
    path, here = Path(folder), Path.cwd()
    return shell_quoted(path.relative_to(here) if path.is_relative_to(here) else path)


class _Lines:
    """Prints a line for each event."""

    def __init__(self) -> None:
        self._events: dict[str, EventLines] = {}

    def show(self, runs: Mapping[str, RunView]) -> None:
        """Print what is new."""
        for folder, run in runs.items():
            events = self._events.setdefault(folder, EventLines(_shell_path(folder)))
            print_lines(events.new_lines(run, _now()))


class _Screen:
    """Redraws the values of all runs in place: moves the cursor up, and writes each line again."""

    def __init__(self) -> None:
        self._height, self._size = 0, shutil.get_terminal_size()

    def show(self, runs: Mapping[str, RunView]) -> None:
        """Redraw the values in place; if the terminal was resized, draw them below the old ones."""
        size = shutil.get_terminal_size()
        if size != self._size:
            self._height, self._size = 0, size
        width = max(20, size.columns - 1)  # a full line would wrap
        lines = [cut(line, width) for line in fitted_lines(runs, size.lines - 1, _now())]
        blank = [" " * width] * max(0, self._height - len(lines))
        up = f"\x1b[{self._height}A" if self._height else ""
        self._height = max(self._height, len(lines))
        text = up + "".join(f"\r{line}\n" for line in (*lines, *blank))
        stream = sys.stdout
        stream.flush()
        stream.buffer.write(text.encode(stream.encoding, stream.errors or "replace"))
        stream.buffer.flush()


def fitted_lines(runs: Mapping[str, RunView], height: int, now: datetime) -> list[str]:
    """Return a block per run, or a line per run if the blocks do not fit into ``height`` lines.

    If these do not fit either, return as many lines as fit and the number of omitted runs.
    """
    states = [run.state for run in runs.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    title = f"{now:%a %d %b %H:%M:%S}  {counted(len(runs), 'run')}{f': {counts}' if counts else ''}"
    blocks = [line for folder, run in runs.items() for line in ("", *block(_shell_path(folder), run, now))]
    if 1 + len(blocks) <= height:
        return [title, *blocks]
    width = max(len(Path(folder).name) for folder in runs)
    ordered = sorted(runs.items(), key=lambda item: not item[1].in_progress)
    rows = [row(Path(folder).name.ljust(width), run, now) for folder, run in ordered]
    if 1 + len(rows) > height:
        shown = max(0, height - 2)
        rows = [*rows[:shown], f"and {counted(len(rows) - shown, 'more run')}"]
    return [title, *rows]


def metrics(arguments: argparse.Namespace) -> int:
    """Write the metrics of the runs in a folder to a file, which is replaced atomically."""
    from .metrics import exposition

    require_folder(arguments.folder)
    content = exposition(FolderSource(arguments.folder).snapshot())
    try:
        replace_file(arguments.to, content, durable=False)
        arguments.to.chmod(0o644)  # node_exporter runs as another user and must be able to read it
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "Give --to a file in an existing folder that you may write to."
        raise HostFailed(step="writing the metrics", what=arguments.to, reason=reason, hint=hint) from None
    return 0
