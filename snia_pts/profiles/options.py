"""The options of a profile's run in its own terms: ``repeats``, ``seconds``, ``axis.KEY``; and as a command line."""

from __future__ import annotations

from ..model.run_options import RunOptions
from ..spec.reader import Specification
from .reader import Changes, read_profile
from .spec import AXIS


def specification(options: RunOptions) -> Specification:
    """Return the specification of the profile that the options name; raises UsageError or SpecError."""
    return read_profile(options.specification or "", Changes.parse(options.overrides), options.plugins)


def command_words(options: RunOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of ``profile run`` before the target, and those of the overrides."""
    overrides = (word for override in options.overrides for word in _option(override))
    return ("profile", "run", options.specification or ""), tuple(overrides)


def _option(override: str) -> tuple[str, str]:
    """Return the option of ``profile run`` for an override: ``--axis KEY=VALUES``, ``--repeats N``."""
    key, _, value = override.partition("=")
    axis = key.removeprefix(AXIS)
    return ("--axis", f"{axis}={value}") if axis != key else (f"--{key.replace('_', '-')}", value)
