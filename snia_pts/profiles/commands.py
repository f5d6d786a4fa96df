"""The verb ``profile``: lists, shows and runs workload profiles."""

from __future__ import annotations

import argparse
import sys

from ..runner.plugins import load_plugins
from .reader import profile_path, profile_paths, read_profile
from .spec import AXIS


def show_all(arguments: argparse.Namespace) -> int:
    """List the profiles of the suite and of its plugins."""
    load_plugins(arguments.plugin)
    specs = [read_profile(str(path)).spec for path in profile_paths(arguments.plugin).values()]
    width = max(len(spec.name) for spec in specs)
    for spec in specs:
        print(f"{spec.name:<{width}}  {spec.title}")
    print("\nsnia-pts profile show NAME prints a profile; run a copy of it by its path.")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Check a profile and print its file."""
    load_plugins(arguments.plugin)
    read_profile(arguments.name, plugins=arguments.plugin)
    sys.stdout.write(profile_path(arguments.name, arguments.plugin).read_text(encoding="utf-8"))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Run, or plan, a profile on a drive, a file, or in a directory; its own options become overrides."""
    from ..cli.commands.run import run_or_plan  # ``list`` and ``show`` need none of it
    from ..cli.options import run_options

    overrides = [
        f"{key}={value}"
        for key in ("repeats", "seconds", "ramp_seconds", "range")
        if (value := getattr(arguments, key)) is not None
    ]
    arguments.spec, arguments.test = arguments.name, "profile"
    arguments.set = [*overrides, *(f"{AXIS}{text}" for text in arguments.axis)]
    return run_or_plan(run_options(arguments), arguments)
