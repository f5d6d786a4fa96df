"""``python -m snia_pts``.  A Python that is too old to load the suite gets a sentence, not a traceback."""

import sys

from .errors import ToolMissing

OLDEST_PYTHON = (3, 11)

if sys.version_info < OLDEST_PYTHON:
    needed = ToolMissing(
        program=f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer (found: {sys.version.split()[0]})",
        hint="Install it, and the suite with it: scripts/setup does both on Debian and Ubuntu.",
    )
    sys.stderr.write(f"snia-pts: {needed}\n  {needed.hint}\n")
    sys.exit(needed.exit_code)

from .cli.main import console  # noqa: E402  # an older Python cannot read it

if __name__ == "__main__":
    console()
