"""The registries: the objects that features which are not part of the standard add to the core, by name.

They are plain dicts, which ``plugins`` fills.  A value is ``module:object``; the module is imported when the core first
needs the object, so that no command loads a feature that it does not use.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable
from typing import Any

# SPECS to REPORTS have the parts of each test that is not part of the standard, by the test's name.
#: The type of the specification, a ``spec.base.Spec``.
SPECS: dict[str, str] = {}
#: The procedure: a function of the specification and the device.
PROCEDURES: dict[str, str] = {}
#: If rounds are repeats, a function of the specification and the device that returns the ``procedures.NamedPoint`` in
#: order of a repeat.
NAMED_POINTS: dict[str, str] = {}
#: A function of ``RunOptions`` that reads the specification.
READERS: dict[str, str] = {}
#: A function of ``RunOptions`` that returns the words of a command line: those before the target, those of overrides.
COMMAND_WORDS: dict[str, str] = {}
#: The module of the report, a ``report.registry.FurtherTestPages``.
REPORTS: dict[str, str] = {}
#: A function for each verb; it takes the ``add_parser`` of the command line and adds the verb's parser.
VERBS: dict[str, str] = {}
#: The class of the setup of each kind of target, a ``runner.target.TargetKind``, by the prefix of the target's name,
#: with its colon.
TARGETS: dict[str, str] = {}
#: A function for each kind of setting that a run may have changed on its host: returns the ``Setting`` at a place below
#: the root of the file system, so that it can be restored; None if the suite does not change it.
SETTINGS: dict[str, str] = {}
#: The module of each importer of other tools' files, an ``importer.runs.Importer``, by ``Imported.importer``.
IMPORTERS: dict[str, str] = {}
#: The public names of the package ``snia_pts`` in addition to those of its own.
PUBLIC_NAMES: dict[str, str] = {}
#: A purge method, a ``lab.purge.Method``, by its name, the value of ``--purge``.  ``auto`` never chooses one.
PURGE_METHODS: dict[str, str] = {}
#: A function for each additional report format: returns the content of the file ``report.FORMAT`` of a ``TestResult``.
OUTPUTS: dict[str, str] = {}
#: A function for each notification: is called with a ``runner.notifications.RunEnd`` when a run has ended.
NOTIFICATIONS: dict[str, str] = {}
#: A function of the URL of a store, which returns a function that adds the runs in a folder to it.
STORES: dict[str, str] = {}
#: The ``Path`` of a folder of profiles, by a name for it.
PROFILE_FOLDERS: dict[str, str] = {}


def plugin_module(plugin: str) -> str:
    """Return the name of the module of a plugin, which the operator named by its module or the path of its file."""
    stem = plugin.rpartition("/")[2].removesuffix(".py")
    return f"snia_pts_plugin_{re.sub(r'[^A-Za-z0-9_]', '_', stem)}"


def added_by(plugins: Iterable[str], registry: dict[str, str]) -> dict[str, str]:
    """Return the entries of a registry that these plugins added."""
    modules = set(map(plugin_module, plugins))
    return {name: reference for name, reference in registry.items() if reference.partition(":")[0] in modules}


def load(registry: dict[str, str], name: str) -> Any:
    """Return the object that a registry has under a name; raises KeyError if it has none."""
    return pkgutil.resolve_name(registry[name])
