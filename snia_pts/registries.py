"""The open registries: what features beside the standard add to the core, by the name under which the core finds it.

They are plain dicts, which ``plugins`` fills.  A value is ``module:object``; the module is imported when the core first
needs the object, so that no command loads a feature that it does not use.
"""

from __future__ import annotations

import pkgutil
from typing import Any

#: The type of the specification of each test beside the standard, a ``spec.base.Spec``, by its ``test``.
SPECS: dict[str, str] = {}
#: Its procedure: a function of the specification and the device.
PROCEDURES: dict[str, str] = {}
#: If its rounds are repeats, a function of both that returns its ``procedures.NamedPoint`` in order of a repeat.
NAMED_POINTS: dict[str, str] = {}
#: A function of ``RunOptions`` that reads its specification.
READERS: dict[str, str] = {}
#: A function of ``RunOptions`` that returns the words of a command line: those before the target, those of overrides.
COMMAND_WORDS: dict[str, str] = {}
#: The module of its report, a ``report.registry.FurtherTestPages``.
REPORTS: dict[str, str] = {}
#: A function for each verb; it takes the ``add_parser`` of the command line and adds the verb's parser.
VERBS: dict[str, str] = {}
#: The class of the setup of each kind of target, a ``runner.target.TargetKind``, by the prefix of the target's name,
#: with its colon.
TARGETS: dict[str, str] = {}
#: A function for each kind of setting that a run may have changed on its host: returns the ``Setting`` at a place below
#: the root of the file system, so that it can be restored; None if the suite does not change it.
SETTINGS: dict[str, str] = {}
#: A function for each importer of other tools' files, by ``Imported.importer``: reads the copy of an imported file at a
#: path again, and returns the steps of the run with these facts, each with its outcomes.
IMPORTERS: dict[str, str] = {}


def load(registry: dict[str, str], name: str) -> Any:
    """Return the object that a registry has under a name; raises KeyError if it has none."""
    return pkgutil.resolve_name(registry[name])
