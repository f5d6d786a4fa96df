"""The verb ``profile``: lists and shows workload profiles."""

from __future__ import annotations

import argparse
import sys

from ...spec.profile_reader import builtin_profiles, profile_path, read_profile


def show_all(_arguments: argparse.Namespace) -> int:
    """List the profiles of the suite."""
    specs = [read_profile(name).spec for name in builtin_profiles()]
    width = max(len(spec.name) for spec in specs)
    for spec in specs:
        print(f"{spec.name:<{width}}  {spec.title}")
    print("\nsnia-pts profile show NAME prints a profile; run a copy of it by its path.")
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Check a profile and print its file."""
    read_profile(arguments.name)
    sys.stdout.write(profile_path(arguments.name).read_text(encoding="utf-8"))
    return 0
