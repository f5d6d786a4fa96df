"""The verb ``bundle``: packs a run for a report of a fault."""

from __future__ import annotations

import argparse

from ...api.bundle import bundle
from ...errors import HostFailed
from ...record.archive import SUFFIX
from ...units import counted
from ..text.lines import print_lines


def bundle_run(arguments: argparse.Namespace) -> int:
    """Write the bundle of a run, and print its name and what is not in it."""
    name = "masked" if arguments.mask else arguments.run.resolve().name.removesuffix(SUFFIX)  # it may have the model
    to = arguments.to or f"{name}-bundle{SUFFIX}"
    try:
        made = bundle(arguments.run, to, masked=arguments.mask)
    except OSError as error:
        hint = "Choose another name with --to."
        raise HostFailed(step="Bundle", what=to, reason=error.strerror or str(error), hint=hint) from None
    print_lines([f"bundle: {made.path}", f"SHA-256: {made.sha256}"])
    if made.removed:
        print_lines([f"not in it: {counted(len(made.removed), 'file')}, such as reports (host.json lists them)"])
    if arguments.mask:
        print_lines(["Look at its texts before you send it: names that the run does not know are not masked."])
    return 0
