"""The verb ``profile``: workloads beside the standard, listed, shown and run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TypeVar

from ..errors import TargetUnfit, UsageError
from ..profilefile import Changes, parse_axis, profile_path, read_profile, shipped
from ..spec import ProfileSpec
from ..units import parse_size
from .benches import is_directory, scratch_name
from .running import run_specification

Number = TypeVar("Number", int, float)


def show_all(_arguments: argparse.Namespace) -> int:
    """List the profiles that come with the suite."""
    specs = [spec for name in shipped() if isinstance(spec := read_profile(name).spec, ProfileSpec)]
    wide = max(len(spec.name) for spec in specs)
    for spec in specs:
        print(f"{spec.name:<{wide}}  {spec.title}")
    print("\nsnia-pts profile show NAME prints one; a copy of it may be run by its path.")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Print a profile as it stands in its file, once it is checked."""
    read_profile(arguments.name)
    sys.stdout.write(profile_path(arguments.name).read_text(encoding="utf-8"))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Run, or plan, a profile on a drive, a file, or in a directory."""
    specification = read_profile(arguments.name, _changes(arguments))
    spec = specification.spec
    if not isinstance(spec, ProfileSpec):
        raise TypeError(spec.test)
    arguments.test = spec.name
    arguments.required = spec.limit
    if is_directory(arguments.target):
        _use_directory(spec, arguments)
    return run_specification(specification, arguments)


def _use_directory(spec: ProfileSpec, arguments: argparse.Namespace) -> None:
    """Let a run use a file of its own in the directory that is its target; raises UsageError where it has no bound."""
    directory: Path = arguments.target
    if arguments.size is None:
        sizes = [workload.range_bytes for workload, _ in spec.cases()]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            raise UsageError(
                detail=f"{spec.name} goes over its whole target, and {directory} is a directory.",
                hint="Give --size, how large a file it may make there.",
            )
        arguments.size = str(max(known))
    path = directory / scratch_name(spec)
    if path.is_symlink():
        reason = "it is a link, and in a directory a run makes a file of its own"
        raise TargetUnfit(path=path, reason=reason, hint="Remove the link, or choose another directory.")
    arguments.scratch = arguments.target = path


def _changes(arguments: argparse.Namespace) -> Changes:
    if arguments.range is not None:
        parse_size(arguments.range)
    return Changes(
        repeats=_number("--repeats", arguments.repeats, int),
        seconds=_number("--seconds", arguments.seconds, float),
        ramp_seconds=_number("--ramp-seconds", arguments.ramp_seconds, float),
        range=arguments.range,
        axes=tuple(map(parse_axis, arguments.axis)),
    )


def _number(option: str, text: str | None, kind: type[Number]) -> Number | None:
    """Return what an option says, if it is given; raises UsageError where it is no number."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise UsageError(detail=f"{option} {text}: not a number.", hint=f"For example {option} 3.") from None
