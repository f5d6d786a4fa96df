"""Fills the registries with the features that are not part of the standard; no other module imports these packages."""

from __future__ import annotations

from . import registries

#: The extra of snia-pts that installs a library which only a feature needs, by the library's name.
EXTRAS = {
    "alembic": "store",
    "fastapi": "web",
    "procrastinate": "lab",
    "psycopg": "postgresql",
    "shtab": "completion",
    "sqlalchemy": "store",
    "uvicorn": "web",
}


def register() -> None:
    """Add every feature to the registries.  Imports none of them."""
    _profiles()
    _arrays()
    _importers()
    _store()
    _fleet()
    _web()
    _manual()


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


def _importers() -> None:
    registries.VERBS["import"] = "snia_pts.importer.verbs:add_import"
    registries.IMPORTERS["fio"] = "snia_pts.fio_results.importer"
    registries.IMPORTERS["tkperf"] = "snia_pts.tkperf.importer"
    registries.SPECS["fio"] = "snia_pts.fio_results.spec:FioSpec"
    registries.NAMED_POINTS["fio"] = "snia_pts.profiles.procedure:points"
    registries.REPORTS["fio"] = "snia_pts.fio_results.report"
    registries.PUBLIC_NAMES["read_fio"] = "snia_pts.fio_results.api:read_fio"
    registries.VERBS["export"] = "snia_pts.tkperf.verbs:add_export"


def _store() -> None:
    registries.STORES["store"] = "snia_pts.store.commands:storing_in"
    registries.VERBS["store"] = "snia_pts.store.verbs:add_store"
    registries.PUBLIC_NAMES["Store"] = "snia_pts.store.store:Store"


def _fleet() -> None:
    registries.VERBS["lab"] = "snia_pts.fleet.verbs:add_lab"
    registries.VERBS["agent"] = "snia_pts.fleet.verbs:add_agent"


def _manual() -> None:
    registries.VERBS["docs"] = "snia_pts.manual.verbs:add_docs"
    registries.VERBS["spec"] = "snia_pts.manual.verbs:add_spec"
    registries.VERBS["completion"] = "snia_pts.manual.verbs:add_completion"
    registries.VERBS["sim"] = "snia_pts.manual.verbs:add_sim"


def _web() -> None:
    registries.VERBS["serve"] = "snia_pts.web.verbs:add_serve"
    registries.VERBS["metrics"] = "snia_pts.web.monitoring_verbs:add_metrics"
    registries.VERBS["watch"] = "snia_pts.web.monitoring_verbs:add_watch"
    registries.VERBS["access"] = "snia_pts.web.access_verbs:add_access"
