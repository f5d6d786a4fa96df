"""``python -m snia_pts``."""

from .cli.main import console

console()
