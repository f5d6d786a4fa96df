"""Fills the registries with the features beside the standard; nothing else names these packages."""

from __future__ import annotations

from . import registries


def register() -> None:
    """Add every feature to the registries.  Imports none of them."""
    _tkperf()


def _tkperf() -> None:
    registries.IMPORTERS["tkperf"] = "snia_pts.tkperf.reader:steps_of"
    registries.VERBS["import"] = "snia_pts.tkperf.verbs:add_import"
    registries.VERBS["export"] = "snia_pts.tkperf.verbs:add_export"
