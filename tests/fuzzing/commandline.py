"""Whole command lines, of the verbs that touch no device."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from snia_pts.cli.main import main
from snia_pts.errors import SniaPtsError
from snia_pts.record.folder import RunFolder

from . import corpora

#: Verbs without ``--plan``; all others get it first, with any other arguments.
_STORED = {"assess", "report"}
_COMMANDS = re.compile("[^\n\r\t -~\xa0-\u200d\u2010-\u2029\u202f-\u2065\u206a-\U0010ffff]")


@dataclass(kw_only=True, eq=False)
class CommandFailed(SniaPtsError):
    """The command line ended with a sentence and an exit code."""

    message = "exit code {code}"
    code: int


def argv(data: bytes, folder: Path) -> None:
    """Run a command line; a refusal is a message with an exit code, never a traceback."""
    words = [os.fsdecode(word) for word in data.split(b"\0")]
    if words[0] not in _STORED:
        words.insert(1, "--plan")
    _prepare(folder)
    outputs = [io.BytesIO(), io.BytesIO()]
    streams = [io.TextIOWrapper(line, "utf-8") for line in outputs]
    with chdir(folder), redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            code = main(words)
        except SystemExit as end:  # --help and --version
            code = int(end.code or 0)
            if code:
                raise AssertionError(f"argparse ended with {code}") from end
        for stream in streams:
            stream.flush()
    if _COMMANDS.search("".join(item.getvalue().decode() for item in outputs)):
        raise AssertionError("a command to the terminal")
    if code:
        if not any(entry.getvalue() for entry in outputs) or b"Traceback" in outputs[1].getvalue():
            raise AssertionError("an exit code without a sentence")
        raise CommandFailed(code=code)


def _prepare(folder: Path) -> None:
    """Lay out what the command lines name: stored runs, a specification, a drive."""
    if (folder / "own.toml").exists():
        return
    corpora.stored("xsr", RunFolder.create(folder / "run"))
    (folder / "suite").mkdir()
    corpora.stored("throughput", RunFolder.create(folder / "suite/throughput"))
    (folder / "suite/suite.json").write_text(json.dumps(corpora.suite_document(("iops", "throughput"))))
    (folder / "own.toml").write_bytes(corpora.specifications()[-1])
    (folder / "drive.toml").write_bytes(corpora.presets()[0])
