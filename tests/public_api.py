"""The public names of the library with their signatures and documentation, as text.

``python -m tests.public_api`` writes them to ``tests/public_api.txt``, which changes only on purpose.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import snia_pts
from snia_pts.analysis.steady_state import SteadyState
from snia_pts.analysis.window import Window
from snia_pts.api.arithmetic import RaidEstimate
from snia_pts.api.check import Reading
from snia_pts.api.run import Determination
from snia_pts.lab.inventory import ListedDevice
from snia_pts.model.dut import Dut
from snia_pts.model.histogram import Histogram
from snia_pts.model.test_platform import HostSetting, TestPlatform
from snia_pts.report.comparison_summary import Entry
from snia_pts.results.comparison import ComparedFigure, ContextDifference, Difference
from snia_pts.results.key_figures import KeyFigure
from snia_pts.results.limit_checks import Judgement
from snia_pts.results.result import RunWarning
from snia_pts.spec import Deviation
from snia_pts.spec.limits import Limit

PATH = Path(__file__).with_suffix(".txt")
#: The values that the public functions and properties return.
VALUES = (
    ComparedFigure,
    ContextDifference,
    Determination,
    Deviation,
    Difference,
    Dut,
    Entry,
    Histogram,
    HostSetting,
    Judgement,
    KeyFigure,
    Limit,
    ListedDevice,
    RaidEstimate,
    Reading,
    RunWarning,
    SteadyState,
    TestPlatform,
    Window,
)


def describe() -> str:
    """Return a paragraph for each public name, in their order, and a line for each value."""
    names = (line for name in snia_pts.__all__ for line in _paragraph(name, getattr(snia_pts, name)))
    values = (f"class {value.__name__}{_signature(value)}" for value in VALUES)
    return "".join(f"{line.rstrip()}\n" for line in (*names, *values))


def _paragraph(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}"
        for error in members(value):
            yield from ("", *_class(error.__name__, error, level=1))
    elif isinstance(value, type):
        yield from _class(name, value, level=0)
    elif callable(value):
        yield from _function(name, value, level=0)
    else:
        yield name
    yield ""


def members(module: ModuleType) -> list[type]:
    """Return the classes that a module defines, by name."""
    classes = (value for value in vars(module).values() if isinstance(value, type))
    return sorted((value for value in classes if value.__module__ == module.__name__), key=lambda value: value.__name__)


def _class(name: str, value: type, level: int) -> Iterator[str]:
    indent = "    " * level
    signature = _signature(value) if is_dataclass(value) else ""
    yield f"{indent}class {name}{signature}"
    yield from _documentation(value, level + 1)
    for key, member in public_members(value):
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        yield ""
        if inspect.isfunction(member):
            yield from _function(key, member, level + 1)
        else:
            function = getattr(member, "fget", None) or member.func
            yield f"{indent}    {key}: {inspect.signature(function).return_annotation}"
            yield from _documentation(member, level + 2)


def public_members(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented attributes, properties and methods that a class defines, by name."""
    for key, member in sorted(vars(value).items()):
        described = inspect.isfunction(getattr(member, "__func__", member)) or hasattr(member, "__get__")
        if not key.startswith("_") and described and not inspect.ismemberdescriptor(member):
            yield key, member


def _function(name: str, value: Any, level: int) -> Iterator[str]:
    yield f"{'    ' * level}{name}{_signature(value)}"
    yield from _documentation(value, level + 1)


def _signature(value: Any) -> str:
    """Return a signature, with the names of functions that are defaults."""
    return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(value)))


def _documentation(value: Any, level: int) -> Iterator[str]:
    yield from ("    " * level + line for line in (inspect.getdoc(value) or "").splitlines())


if __name__ == "__main__":
    PATH.write_text(describe(), encoding="utf-8")
