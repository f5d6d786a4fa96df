"""Converts the arguments of the command line to the options of a run."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace

from ..errors import UsageError
from ..model.annotations import Annotations, read_annotations
from ..model.run_options import RunOptions
from ..runner.options import ResumeOptions
from ..spec.limits import read_limits
from ..units import parse_size, whole_number


def run_options(arguments: argparse.Namespace) -> RunOptions:
    """Return the options of a verb that runs a test; raises UsageError or SpecError."""
    if arguments.json and not arguments.plan:
        raise UsageError(detail="--json needs --plan.", hint="After a run, snia-pts assess RUN --json.")
    if arguments.side_by_side is not None and not arguments.detach:
        raise UsageError(detail="--side-by-side needs --detach.", hint="Omit it, or add --detach.")
    several = arguments.detach or len(arguments.targets) > 1
    return RunOptions(
        test=arguments.test,
        target=str(arguments.targets[0]),
        specification=None if arguments.spec is None else str(arguments.spec),
        test_class=arguments.test_class,
        pts=arguments.pts,
        overrides=tuple(arguments.set),
        size_bytes=None if arguments.size is None else parse_size(arguments.size),
        overwrite=arguments.overwrite,
        discard_data=arguments.discard_data,
        serial=None if several else arguments.serial,
        member_run=arguments.member_run,
        purge=arguments.purge,
        purge_command=arguments.purge_command,
        power_command=arguments.power_command,
        allow_unpurged=arguments.allow_unpurged,
        keep_write_cache=arguments.keep_write_cache,
        engine=arguments.engine,
        tune=arguments.tune,
        refill_buffers=arguments.refill_buffers,
        stall_seconds=arguments.stall_seconds,
        seed=None if arguments.seed is None else seed(arguments.seed),
        limits=read_limits(arguments.limits) if arguments.limits else (),
        limits_source=str(arguments.limits or "limits"),
        about=_about(arguments),
        formats=formats_of(arguments),
        assumed_mb_per_second=None if arguments.assume is None else _speed(arguments.assume),
        run_folder=arguments.run_dir,
        plugins=tuple(arguments.plugin),
    )


def resume_options(arguments: argparse.Namespace) -> ResumeOptions:
    """Return the options of ``resume``."""
    return ResumeOptions(
        policy=arguments.policy,
        target=None if arguments.target is None else str(arguments.target),
        serial=arguments.serial,
        overwrite=arguments.overwrite,
        discard_data=arguments.discard_data,
        purge_command=arguments.purge_command,
        power_command=arguments.power_command,
        plugins=tuple(arguments.plugin),
    )


def formats_of(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the formats of --to: empty for ``none``, None if it is not given."""
    if arguments.to is None:
        return None
    return tuple(dict.fromkeys(arguments.to.split(","))) if arguments.to != "none" else ()


def labels_of(words: Iterable[str]) -> dict[str, str]:
    """Return the values of --label by name; raises UsageError."""
    labels = dict(word.partition("=")[::2] for word in words)
    if not all(name and value for name, value in labels.items()):
        raise UsageError(detail="--label: expected NAME=VALUE.", hint="For example --label project=alpha.")
    return labels


def seed(text: str) -> int:
    """Return the value of --seed; raises UsageError."""
    number = whole_number(text)
    if number is None:
        raise UsageError(detail=f"--seed {text}: not a whole number below 2^63.", hint="For example --seed 4711.")
    return number


def _about(arguments: argparse.Namespace) -> Annotations:
    """Return the annotations of --about and --operator; raises SpecError."""
    about = read_annotations(arguments.about) if arguments.about else Annotations()
    return replace(about, operator=arguments.operator) if arguments.operator else about


def _speed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(detail=f"--assume {text}: not a speed in MB/s.", hint="For example --assume 500.") from None
