"""The verb ``profile``: workloads beside the standard, listed and shown."""

from __future__ import annotations

import argparse
import sys

from ...spec import ProfileSpec
from ...spec.profile_reader import profile_path, read_profile, shipped


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
