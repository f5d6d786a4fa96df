"""The verb ``profile``: lists, shows and runs workload profiles."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ..errors import UsageError
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
    """Run, or plan, profiles on a drive, a file, or one in a directory; their own options become overrides."""
    from ..cli.commands.run import run_or_plan, run_or_plan_all  # ``list`` and ``show`` need none of it
    from ..cli.options import run_options
    from ..runner.options import derive_seed, new_seed

    overrides = [
        f"{key}={value}"
        for key in ("repeats", "seconds", "ramp_seconds", "range")
        if (value := getattr(arguments, key)) is not None
    ]
    names = arguments.name.split(",")
    arguments.spec, arguments.test = names[0], "profile"
    arguments.set = [*overrides, *(f"{AXIS}{text}" for text in arguments.axis)]
    options = run_options(arguments)
    if len(names) == 1:
        return run_or_plan(options, arguments)
    if options.limits:
        detail = "--limits is for one profile: the points of each have names of their own."
        raise UsageError(detail=detail, hint="Run them one by one, or put limits in the profiles.")
    seed = new_seed() if options.seed is None else options.seed
    each = [replace(options, specification=_absolute(name), seed=derive_seed(seed, name)) for name in names]
    return run_or_plan_all(each, arguments)


def _absolute(name: str) -> str:
    """Return a profile's name, or the absolute path of its file: the run may be resumed in another folder."""
    return str(Path(name).absolute()) if "/" in name or name.endswith(".toml") else name
