"""Fills the registries with the features beside the standard; nothing else names these packages."""

from __future__ import annotations

from . import registries


def register() -> None:
    """Add every feature to the registries.  Imports none of them."""
    _profiles()
    _arrays()
    _tkperf()


def _profiles() -> None:
    registries.SPECS["profile"] = "snia_pts.profiles.spec:ProfileSpec"
    registries.PROCEDURES["profile"] = "snia_pts.profiles.procedure:profile"
    registries.NAMED_POINTS["profile"] = "snia_pts.profiles.procedure:points"
    registries.READERS["profile"] = "snia_pts.profiles.options:specification"
    registries.COMMAND_WORDS["profile"] = "snia_pts.profiles.options:command_words"
    registries.REPORTS["profile"] = "snia_pts.profiles.report.parts"
    registries.VERBS["profile"] = "snia_pts.profiles.verbs:add_profile"


def _arrays() -> None:
    registries.TARGETS["array:"] = "snia_pts.arrays.setup:ArraySetup"
    registries.SETTINGS["array"] = "snia_pts.arrays.lab.controller:find"
    registries.VERBS["raid-estimate"] = "snia_pts.arrays.verbs:add_raid_estimate"


def _tkperf() -> None:
    registries.IMPORTERS["tkperf"] = "snia_pts.tkperf.reader:steps_of"
    registries.VERBS["import"] = "snia_pts.tkperf.verbs:add_import"
    registries.VERBS["export"] = "snia_pts.tkperf.verbs:add_export"
