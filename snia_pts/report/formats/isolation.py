"""Isolates reports from configuration files of docutils, rst2pdf, reportlab and matplotlib.

These libraries read configuration from the current folder and below HOME, and some of it names files to write, or is
Python code.  Both folders may belong to another user: after ``su``, after ``sudo -E``, or in a world-writable folder.
"""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...errors import ReportError
from ...temporary import temporary_folder
from ...trusted_paths import tampering_risk

#: Held by the thread that changes the environment and the current folder, so that it restores what it found.
_LOCK = threading.RLock()
#: Environment variables with paths of configuration, data or caches.
_PATH_VARIABLES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "MATPLOTLIBRC", "PLOTLY_DIR")


@contextmanager
def isolated() -> Iterator[None]:
    """Make HOME and the current folder of this process an empty temporary folder, until the end of the block.

    Another thread that makes a report waits.  A library that reads configuration on import must first be imported in
    such a block.  Raises ReportError if the temporary folder cannot be created.
    """
    with _LOCK, ExitStack() as stack:
        cache = _font_cache()
        try:
            folder = str(stack.enter_context(temporary_folder()))
        except OSError as error:
            raise ReportError(reason=f"cannot create a temporary folder: {error.strerror}") from None
        reportlab_variables = [name for name in os.environ if name.startswith("RL_") or name == "EVAL_DEBUG"]
        variables = dict.fromkeys([*_PATH_VARIABLES, *reportlab_variables]) | {
            "HOME": folder,
            "DOCUTILSCONFIG": "",  # no files at all, not even /etc/docutils.conf
            "MPLCONFIGDIR": str(cache or Path(folder, "matplotlib")),
        }
        with _environment(variables), _current_folder(folder):
            yield


def _font_cache() -> Path | None:
    """Return a folder for matplotlib's list of fonts that nobody else may change; None if there is none.

    It is MPLCONFIGDIR, or in the user's cache according to the password database, because HOME may be another user's.
    matplotlib creates it.
    """
    try:
        default = Path(pwd.getpwuid(os.geteuid()).pw_dir, ".cache", "snia-pts", "matplotlib")
        folder = Path(os.environ.get("MPLCONFIGDIR") or default).absolute()
        existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        usable = os.access(existing, os.W_OK | os.X_OK, effective_ids=True) and not tampering_risk(existing)
    except (OSError, KeyError):
        return None
    return folder.resolve() if usable else None


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _current_folder(folder: str) -> Iterator[None]:
    """Change the current folder, and return to the same one at the end, even if it was renamed."""
    try:
        before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it may not be searched, so nothing in it can be read
        yield
        return
    try:
        os.chdir(folder)
        yield
    finally:
        os.fchdir(before)
        os.close(before)
