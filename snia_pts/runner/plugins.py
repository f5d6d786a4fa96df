"""Loads the plugins that the operator names; a plugin that only a run folder names is never loaded.

A plugin is Python code that runs with the rights of the suite, often root's.  So its files must be as safe from other
users as the run folder, and they are executed from the bytes that were checked and digested, never from a cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .. import registries
from ..errors import UsageError
from ..files import read_regular
from ..lab.purge import AUTO, METHODS, NONE, Method
from ..model.plugin import Plugin
from ..model.run_options import COMMAND, RunOptions
from ..report import DATA_OUTPUTS, OUTPUTS
from ..spec import Deviation
from ..trusted_paths import tampering_risk
from ..units import MIB

_MAX_BYTES = 16 * MIB
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_HINT = "docs/plugins.rst describes plugins."
#: The registries that a plugin may add to, with the name of an entry.
_EXTENSIBLE = {
    "PURGE_METHODS": "purge method",
    "OUTPUTS": "report format",
    "NOTIFICATIONS": "notification",
    "PROFILE_FOLDERS": "folder of profiles",
}
#: The names that no plugin can add, by registry.
_RESERVED = {"PURGE_METHODS": {AUTO, NONE, COMMAND, *METHODS}, "OUTPUTS": {"none", *OUTPUTS, *DATA_OUTPUTS}}
#: The type of the object of an entry; None for a function.
_TYPES: dict[str, type | None] = {"PURGE_METHODS": Method, "PROFILE_FOLDERS": Path}
#: The plugins that this process has loaded, by module.
_loaded: dict[str, Plugin] = {}


def load_plugins(names: Iterable[str]) -> tuple[Plugin, ...]:
    """Load the plugins that the operator named, each once: a module, or the path of a ``.py`` file.

    Raises UsageError for a plugin that does not exist, that other users can change, or that adds invalid entries.
    """
    return tuple(_load(name) for name in dict.fromkeys(names))


def plugins_of(options: RunOptions) -> tuple[Plugin, ...]:
    """Load the plugins of a run and return them.

    Raises UsageError, also for a purge method of a plugin that the options do not name, but an earlier run did.
    """
    plugins = load_plugins(options.plugins)
    if options.purge in registries.PURGE_METHODS and not plugin_deviations(options.purge, plugins):
        detail = f"--purge {options.purge}: this is a method of a plugin."
        raise UsageError(detail=detail, hint="Name the plugin with --plugin.")
    return plugins


def plugin_deviations(purge: str, plugins: Iterable[Plugin]) -> tuple[Deviation, ...]:
    """Return a deviation for each plugin that takes part in measuring: the one whose method ``purge`` is."""
    part = f"purge method {purge}"
    return tuple(
        Deviation(
            what="plugin",
            standard="none",
            actual=f"{part} of the plugin {plugin.name}, SHA-256 {plugin.sha256}",
            clause="PTS chapter 3, Purge",
        )
        for plugin in plugins
        if part in plugin.parts
    )


def missing_purge(method: str, recorded: Iterable[Plugin], given: Iterable[Plugin]) -> Plugin | None:
    """Return the plugin of a run to which its purge ``method`` belongs, if the ``given`` plugins do not have it."""
    part = f"purge method {method}"
    if any(part in plugin.parts for plugin in given):
        return None
    return next((plugin for plugin in recorded if part in plugin.parts), None)


def missing_parts(
    recorded: Iterable[Plugin],
    given: Iterable[Plugin],
    kinds: tuple[str, ...] = ("purge method", "report format", "notification"),
) -> Iterator[str]:
    """Yield a sentence for each plugin of a run of whose parts of these kinds the ``given`` plugins lack one."""
    present = {part for plugin in given for part in plugin.parts}
    for plugin in recorded:
        if absent := [part for part in plugin.parts if part not in present and part.startswith(kinds)]:
            parts = ", ".join(absent)
            yield f"The run used the plugin {plugin.name}, which is not given (missing: {parts}); --plugin gives it."


def plugin_changes(recorded: Iterable[Plugin], given: Iterable[Plugin]) -> Iterator[str]:
    """Yield a sentence for each plugin of a run whose code has changed, or which is missing."""
    present = {part: plugin for plugin in given for part in plugin.parts}
    for plugin in recorded:
        current = next((present[part] for part in plugin.parts if part in present), None)
        if current is None or current.sha256 != plugin.sha256:
            digest = f"SHA-256 {current.sha256}" if current else "none"
            yield f"plugin {plugin.name}: {digest}, was SHA-256 {plugin.sha256}"


def describe_failure(error: BaseException, path: str | os.PathLike[str]) -> str:
    """Return the type and the text of an error, with the last line in the file ``path`` of a plugin that led to it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == os.fspath(path)]
    return f"{type(error).__name__}: {error}" + (f" in {os.fspath(path)}, line {lines[-1]}" if lines else "")


def _load(name: str) -> Plugin:
    module = registries.plugin_module(name)
    path = _find(name)
    if plugin := _loaded.get(module):
        if plugin.path != str(path.resolve()):
            raise _invalid(name, f"{plugin.path} is loaded under the same name")
        return plugin
    files = _read_files(name, path)
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    parts = _register(name, _import(name, module, path, files[path]))
    plugin = _loaded[module] = Plugin(name=name, path=str(path.resolve()), sha256=digest, parts=parts)
    return plugin


def _find(name: str) -> Path:
    """Return the file of a plugin, or the ``__init__.py`` of one that is a package; executes nothing."""
    if "/" in name or name.endswith(".py"):
        return Path(name).absolute()  # not resolved: a symlink on the way may be another user's
    if not name.isidentifier():
        raise _invalid(name, "not the name of a module, nor the path of a .py file")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        hint = f"Python searches the folders in sys.path, such as PYTHONPATH. Give a file by its path: ./{name}.py."
        raise _invalid(name, "there is no such Python module", hint)
    return Path(spec.origin).absolute()


def _read_files(name: str, path: Path) -> dict[Path, bytes]:
    """Return the source files of a plugin, in order; raises UsageError if other users could change one of them."""
    package = path.parent if path.name == "__init__.py" else None
    try:
        for place in sorted(package.rglob("*")) if package else (path,):
            if risk := tampering_risk(place):
                reason = f"root would run it, and {risk}"
                raise _invalid(name, reason, "Let only root and the user who called sudo change it.")
        sources = sorted(package.rglob("*.py")) if package else [path]
        return {source: read_regular(source, _MAX_BYTES) for source in sources}
    except OSError as error:
        raise _invalid(name, f"cannot open {error.filename or path}: {error.strerror or error}") from None


class _CheckedSource(SourceFileLoader):
    """Imports a module from bytes that were read before."""

    def __init__(self, module: str, path: Path, source: bytes) -> None:
        super().__init__(module, str(path))
        self._source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the name is that of the base class
        """Return the code of the module."""
        return self.source_to_code(self._source, self.path)


def _import(name: str, module_name: str, path: Path, source: bytes) -> ModuleType:
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        module_name, path, loader=_CheckedSource(module_name, path, source), submodule_search_locations=folders
    )
    if spec is None or spec.loader is None:
        raise _invalid(name, "Python cannot load it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # where registries.load finds it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise _invalid(name, describe_failure(error, path)) from error
    return module


def _register(name: str, module: ModuleType) -> tuple[str, ...]:
    """Call ``register`` of a plugin; return the parts that it added.  If they are invalid, none of them stays."""
    before = {key: dict(entries) for key, entries in vars(registries).items() if key.isupper()}
    try:
        _call(name, module)
        parts = tuple(_parts(name, module, before))
        if not parts:
            raise _invalid(name, "register(registries) adds nothing")
    except UsageError:
        for key, entries in before.items():
            vars(registries)[key].clear()
            vars(registries)[key].update(entries)
        raise
    return parts


def _call(name: str, module: ModuleType) -> None:
    register = getattr(module, "register", None)
    if not callable(register):
        raise _invalid(name, "it has no function register(registries)")
    try:
        register(registries)
    except Exception as error:
        raise _invalid(name, f"register: {describe_failure(error, str(module.__file__))}") from error


def _parts(name: str, module: ModuleType, before: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield each part that was added since ``before``; raises UsageError for an invalid one."""
    for registry, entries in before.items():
        after = vars(registries)[registry]
        if registry not in _EXTENSIBLE and after != entries:
            raise _invalid(name, f"it adds to {registry}, and plugins add to {', '.join(_EXTENSIBLE)}")
        is_replaced = any(after.get(key) != value for key, value in entries.items())
        if is_replaced or after.keys() & _RESERVED.get(registry, set()):
            raise _invalid(name, f"it replaces an entry of {registry}")
        for key in after.keys() - entries.keys():
            what = f"{_EXTENSIBLE[registry]} {key}"
            if not _NAME.fullmatch(key):
                raise _invalid(name, f"{what}: expected a name of a-z, 0-9 and -")
            _require_type(name, what, module, after[key], _TYPES.get(registry))
            yield what


def _require_type(name: str, what: str, module: ModuleType, reference: Any, expected: type | None) -> None:
    if not isinstance(reference, str) or not reference.startswith(f"{module.__name__}:"):
        raise _invalid(name, f'{what}: expected the text f"{{__name__}}:OBJECT", got {reference!r}')
    try:
        value = pkgutil.resolve_name(reference)
    except (AttributeError, ImportError, ValueError):
        raise _invalid(name, f"{what}: it has no {reference.partition(':')[2]!r}") from None
    if not (callable(value) if expected is None else isinstance(value, expected)):
        kind = "a function" if expected is None else f"a {expected.__name__}"
        raise _invalid(name, f"{what}: expected {kind}, got {type(value).__name__}")


def _invalid(name: str, reason: str, hint: str = _HINT) -> UsageError:
    return UsageError(detail=f"--plugin {name}: {reason}.", hint=hint)
