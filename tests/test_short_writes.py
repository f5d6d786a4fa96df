"""A write that the kernel truncates without reporting an error is an error, and leaves no complete file."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_BYTES = 4096
#: Statements that write 6000 bytes to ``path``, or next to it.
WRITERS = {
    "new file": "files.create_file(path, CONTENT)",
    "file to append to": "files.open_to_append(path, new=True).write(CONTENT)",
    "replaced file": "files.replace_file(path, CONTENT)",
    "job file": "JobFiles(path, CONTENT.decode())",
    "answer": "JobFiles(path, 'job').write_answer(CONTENT)",
    "samples": "f = engine._compressed(path); f.__enter__().write(os.urandom(6000)); f.__exit__(None, None, None)",
    "process record": "process.run(['echo', 'x' * 6000], evidence=path, timeout_seconds=10)",
}
SCRIPT = """
import os, resource, sys
from pathlib import Path
from snia_pts import files
from snia_pts.lab.fio import engine
from snia_pts.lab.process import program as process
from snia_pts.lab.fio import JobFiles
CONTENT, path = b"x" * 6000, Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    {statement}
except OSError as error:
    sys.exit(error.errno)
"""


def exit_code(path: Path, writer: str, limit_bytes: int) -> int:
    """Return the error number with which a writer ended in a process that may make no file larger; 0 for none."""
    script = SCRIPT.format(statement=WRITERS[writer])
    return subprocess.run([sys.executable, "-c", script, path, str(limit_bytes)], check=False).returncode


@pytest.mark.long_but_first
@pytest.mark.parametrize("writer", WRITERS)
def test_a_short_write_raises(tmp_path: Path, writer: str) -> None:
    """At a file size limit the kernel writes the first 4096 of 6000 bytes and reports success; the writer raises."""
    assert exit_code(tmp_path / "short", writer, LIMIT_BYTES) == errno.EFBIG
    assert exit_code(tmp_path / "whole", writer, 1 << 20) == 0
