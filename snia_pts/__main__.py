"""``python -m snia_pts``.  A Python that is too old to load the suite gets a message, not a traceback."""

import sys

OLDEST_PYTHON = (3, 11)

if sys.version_info < OLDEST_PYTHON:
    sys.stderr.write(
        f"snia-pts: Python {'.'.join(map(str, OLDEST_PYTHON))} or newer (found: {sys.version.split()[0]}) is needed.\n"
        "  Install it, and the suite with it: scripts/setup does both on Debian and Ubuntu.\n"
    )
    sys.exit(4)  # as ToolMissing, which an older Python cannot load

from .cli.main import console  # noqa: E402  # an older Python cannot read it

if __name__ == "__main__":
    console()
