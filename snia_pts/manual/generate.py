"""The parts of the reference that are made from the code: command line, exit codes, keys of TOML files.

Each public function returns reStructuredText.  The directive ``.. generate:: NAME`` in a page is replaced with its
result (docs/conf.py, ``pages``).
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MultipleOf

import snia_pts

from .. import errors, plugins
from ..cli.notifications.config import MailFile
from ..cli.parser import TESTS, build_parser
from ..fleet.configuration import AgentFile
from ..lab.simulated.preset import Preset
from ..model.annotations import AnnotationsFile
from ..model.array import Layout
from ..profiles.spec import ProfileSpec
from ..spec import SPEC_TYPES, Group, Pattern, Tracked
from ..spec.definitions import Definitions
from ..spec.limits import LimitsFile
from ..spec.reader import format_value, read_specification, versions
from ..units import counted

plugins.register()

_WIDTH = 100_000  # of argparse's lines: one line each
#: The fields of a specification that identify it; they are no numbers.
_IDENTITY = ("test", "title", "subtitle", "pts", "publication", "revision")


# The command line


def command_line() -> str:
    """Return the option reference: one section for all tests, and one per other verb."""
    verbs = verb_parsers(build_parser())
    tests = {name: verbs.pop(name) for name in TESTS}
    common = frozenset.intersection(*(frozenset(_options(test)) for test in tests.values()))
    names = ", ".join(TESTS)
    lines = [*_heading(names, "-"), *_test_section(tests)]
    for name, parser in verbs.items():
        lines += [*_heading(name, "-"), *_verb_section(name, parser, common)]
    return "\n".join(lines)


def verb_parsers(parser: argparse.ArgumentParser, prefix: str = "") -> dict[str, argparse.ArgumentParser]:
    """Return the parsers by verb, without aliases; a verb with subcommands is replaced with its subcommands."""
    verbs: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            first_names = {id(inner): name for name, inner in reversed(action.choices.items())}
            for inner_id, name in reversed(first_names.items()):
                inner = next(one for one in action.choices.values() if id(one) == inner_id)
                verbs |= verb_parsers(inner, f"{prefix}{name} ") or {f"{prefix}{name}": inner}
    return verbs


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield every option with its help."""
    for action in _own_actions(parser._actions):
        if action.option_strings:
            yield _invocation(parser, action), _help(parser, action)


def _own_actions(actions: Iterable[argparse.Action]) -> Iterator[argparse.Action]:
    """Yield all actions except ``--help`` and ``--verbose``, which every verb has."""
    yield from (action for action in actions if not {"--help", "--verbose"} & set(action.option_strings))


def _test_section(tests: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    """Yield the section of all tests; an option that only some tests have lists those tests."""
    first = next(iter(tests.values()))
    yield from ("::", "", "    snia-pts TEST TARGET [OPTION...]", "", f"{_escape(first.description or '')}", "")
    for name, test in TESTS.items():
        aliases = "".join(f", ``{alias}``" for alias in test.aliases)
        yield from (f"``{name}``{aliases}", f"    {_escape(test.help)}", "")
    groups: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for name, parser in tests.items():
        for group in parser._action_groups:
            for action in _own_actions(group._group_actions):
                entries = groups.setdefault(group.title or "", {})
                # Keys of the specification, in brackets, differ between tests.
                text = re.sub(r" \([a-z_]+\.[a-z_]+\)$", "", _help(parser, action))
                entries.setdefault(_invocation(parser, action), (text, []))[1].append(name)
    for title, entries in groups.items():
        yield from (f".. rubric:: {title.capitalize()}", "")
        for invocation, (text, names) in entries.items():
            only = "" if len(names) == len(tests) else f"; for {', '.join(names)}"
            yield from (f"``{invocation}``", f"    {_escape(text)}{only}", "")


def _verb_section(name: str, parser: argparse.ArgumentParser, common: frozenset[tuple[str, str]]) -> Iterator[str]:
    """Yield the section of a verb; a verb that runs tests refers to their options."""
    own = set(_options(parser))
    shared = common if len(common & own) > len(common) / 2 else frozenset()
    usage = _usage(parser) if not shared else f"snia-pts {name} {_positional(parser)} [OPTION...]"
    yield from ("::", "", f"    {usage}", "", _escape(parser.description or ""), "")
    for action in _own_actions(parser._actions):
        invocation, text = _invocation(parser, action), _help(parser, action)
        if (invocation, text) not in shared:
            yield from (f"``{invocation}``", f"    {_escape(text)}", "")
    if shared:
        missing = [f"``{option}``" for option, text in sorted(shared - own)]
        yield from (f"All other options are those of the tests{', except ' * bool(missing)}{', '.join(missing)}.", "")


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=_WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip().replace(" [-h] [-v]", "")


def _positional(parser: argparse.ArgumentParser) -> str:
    return " ".join(str(action.metavar) for action in parser._actions if not action.option_strings)


def _invocation(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._format_action_invocation(action)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


# Exit codes


def exit_codes() -> str:
    """Return the table of exit codes: code, class of the error, meaning, and the usual remedy."""
    rows = [("0", "", "Done. *Steady state not achieved* is a result, and no failure.", "")]
    for error in sorted(_error_classes(errors.SniaPtsError), key=lambda error: error.exit_code):
        hint = re.sub(r"\{(\w+)\}", lambda field: field[1].upper(), error.hint)
        meaning = _escape(_summary(error)).replace("\n", " ")
        rows.append((str(error.exit_code), f":class:`~snia_pts.errors.{error.__name__}`", meaning, _escape(hint)))
    return "\n".join(
        _table(("Code", "Error", "Meaning", "What to do, if no other hint is given"), rows, (6, 18, 38, 38))
    )


def _error_classes(base: type[errors.SniaPtsError]) -> Iterator[type[errors.SniaPtsError]]:
    yield base
    for error in base.__subclasses__():
        if error.__module__ == errors.__name__:
            yield from _error_classes(error)


# Keys of TOML files


def specification_keys() -> str:
    """Return a section per test, listing each key with its accepted values and its value in each PTS version."""
    lines: list[str] = []
    for test, kind in SPEC_TYPES.items():
        lines += [*_heading(test, "~"), *_specification(test, kind)]
    lines += _heading("Tables in lists", "~")
    for name, table in (("tracked", Tracked), ("sequence", Group), ("patterns", Pattern)):
        lines += _tables(table, name)
    return "\n".join(lines)


def definition_keys() -> str:
    """Return the keys of specs/suite-definitions.toml."""
    return "\n".join(_tables(Definitions))


def profile_keys() -> str:
    """Return the keys of a profile except ``format``.

    The key ``test`` of limits is omitted, because a profile's limits apply to the profile itself.
    """
    return "\n".join(_tables(ProfileSpec, omitted=("test",)))


def limit_keys() -> str:
    """Return the keys of a file of limits."""
    return "\n".join(_tables(LimitsFile))


def annotation_keys() -> str:
    """Return the keys of a file of annotations."""
    return "\n".join(_tables(AnnotationsFile))


def mail_keys() -> str:
    """Return the keys of a mail configuration."""
    return "\n".join(_tables(MailFile))


def agent_keys() -> str:
    """Return the keys of the configuration of an agent."""
    return "\n".join(_tables(AgentFile))


def array_keys() -> str:
    """Return the keys of an array."""
    return "\n".join(_tables(Layout))


def drive_keys() -> str:
    """Return the keys of a simulated drive."""
    return "\n".join(_tables(Preset))


def _specification(test: str, kind: type) -> Iterator[str]:
    """Yield the table of a test's keys, with the values of each version.

    Two values ``a / b`` are those of the classes enterprise and client.
    """
    specs_by_version = [
        [read_specification(test, version, test_class).spec for test_class in ("enterprise", "client")]
        for version in versions(test)
    ]
    rows = []
    for section, section_kind in get_type_hints(kind).items():
        if section in _IDENTITY or section.startswith("_") or not (members := _dataclasses(section_kind)):
            continue
        if get_origin(_bare_type(section_kind)) is tuple:  # a list of tables
            rows.append(
                (
                    f"``{section}``",
                    "a list of tables",
                    *(_table_names(class_specs, section) for class_specs in specs_by_version),
                )
            )
            continue
        for field in fields(members[0]):
            key = f"{section}.{field.name}"
            accepted = _accepted(get_type_hints(members[0], include_extras=True)[field.name])
            rows.append(
                (f"``{key}``", accepted, *(_format_values(class_specs, key) for class_specs in specs_by_version))
            )
    yield from _table(("Key", "Accepted", *(f"PTS {version}" for version in versions(test))), rows, (30, 30, 20, 20))


def _format_values(class_specs: Sequence[object], key: str) -> str:
    """Return the values of a key in the classes enterprise and client; a single value if both are equal."""
    texts = []
    for spec in class_specs:
        section, name = key.split(".")
        table = getattr(spec, section)
        value = getattr(table, name) if table is not None else None
        if isinstance(value, tuple) and is_dataclass(next(iter(value), None)):
            texts.append(counted(len(value), "table"))
        else:
            texts.append(format_value(value, key))
    return _escape(" / ".join(dict.fromkeys(texts)))


def _table_names(class_specs: Sequence[object], section: str) -> str:
    """Return the names of the tables in a list."""
    return ", ".join(table.name for table in getattr(class_specs[0], section))


def _tables(kind: type, name: str = "", omitted: Sequence[str] = ()) -> Iterator[str]:
    """Yield a list-table of the keys of a dataclass, then one for each nested TOML table.

    ``name`` is the TOML header.
    """
    hints = get_type_hints(kind, include_extras=True)
    rows, inner = [], []
    for field in fields(kind):
        if field.name in omitted:
            continue
        hint = hints[field.name]
        members = _dataclasses(hint)
        if members and not name.startswith("[["):
            in_table = name and not name.startswith("[")
            is_list = get_origin(_bare_type(hint)) is tuple
            header = field.name if in_table else f"[[{field.name}]]" if is_list else f"[{field.name}]"
            inner.append((header, members[0]))
            continue
        rows.append((f"``{field.name}``", _accepted(hint), _default(field)))
    if name:
        yield from (f"``{name}``", "")
        if kind.__doc__:
            yield from (*inspect.cleandoc(kind.__doc__).splitlines(), "")
    if rows:
        yield from _table(("Key", "Accepted", "Default"), rows, (30, 50, 20))
    for header, member in inner:
        yield from _tables(member, header, omitted)


def _default(field: Field[Any]) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    default = field.default if field.default is not MISSING else None
    if default is None or default in ("", ()):
        return "none"
    if is_dataclass(default):
        return "see its own table"
    return _escape(str(default).lower() if isinstance(default, bool) else format_value(default))


def _bare_type(hint: Any) -> Any:
    """Return a type without its constraints and without None."""
    if hasattr(hint, "__metadata__"):
        return _bare_type(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _bare_type(kinds[0]) if len(kinds) == 1 else hint
    return hint


def _dataclasses(hint: Any) -> list[type]:
    """Return the dataclasses in a type."""
    plain = _bare_type(hint)
    if isinstance(plain, type) and is_dataclass(plain):
        return [plain]
    return [kind for argument in get_args(plain) for kind in _dataclasses(argument)]


_NAMES = {int: "a whole number", float: "a number", str: "a text", Path: "a path", bool: "``true`` or ``false``"}


def _accepted(hint: Any) -> str:
    """Return which values a key accepts, in words."""
    constraints = [*_constraints(hint)]
    plain, origin = _bare_type(hint), get_origin(_bare_type(hint))
    if origin is Literal:
        *others, last = (f"``{value}``" if value != "" else "none" for value in get_args(plain))
        return f"{', '.join(others)} or {last}" if others else last
    if origin is tuple:
        return f"a list; each item is {_accepted(get_args(plain)[0])}"
    if origin in (Union, UnionType):
        return " or ".join(_accepted(kind) for kind in get_args(plain))
    if origin is not None:
        return "a table"
    if is_dataclass(plain):
        return "a table"
    return " ".join([_NAMES.get(plain, "a value"), *_bounds(constraints)])


def _constraints(hint: Any) -> Iterator[Any]:
    """Yield the constraints of a type, including those of ``X`` in ``X | None``."""
    if get_origin(hint) in (Union, UnionType):
        for kind in get_args(hint):
            yield from _constraints(kind)
    elif hasattr(hint, "__metadata__"):
        yield from hint.__metadata__
        yield from _constraints(get_args(hint)[0])


def _bounds(constraints: Iterable[Any]) -> Iterator[str]:
    bounds: dict[type, Any] = {type(constraint): constraint for constraint in constraints}
    low, high = bounds.get(Ge), bounds.get(Le)
    if low and high:
        yield f"from {_number(low.ge)} to {_number(high.le)}"
    elif low:
        yield f"of at least {_number(low.ge)}"
    if above := bounds.get(Gt):
        yield f"greater than {_number(above.gt)}"
    if high and not low:
        yield f"and at most {_number(high.le)}" if above else f"of at most {_number(high.le)}"
    if below := bounds.get(Lt):
        yield f"and less than {_number(below.lt)}"
    if multiple := bounds.get(MultipleOf):
        yield f"in steps of {_number(multiple.multiple_of)}"
    if length := bounds.get(MaxLen):
        yield f"of at most {length.max_length} characters"


def _number(value: Any) -> str:
    return f"{value:.15g}"


# The public names of the package


def public_names() -> str:
    """Return a directive of Sphinx for every public name of ``snia_pts``: functions, then classes."""
    objects = {name: getattr(snia_pts, name) for name in snia_pts.__all__}
    lines = [".. currentmodule:: snia_pts", "", *_heading("Functions", "-")]
    lines += [f".. autofunction:: {name}\n" for name, value in objects.items() if inspect.isfunction(value)]
    lines += _heading("Classes", "-")
    lines += [f".. autoclass:: {name}\n   :members:\n" for name, value in objects.items() if inspect.isclass(value)]
    return "\n".join(lines)


def event_types() -> str:
    """Return a directive of Sphinx for the type of every event."""
    names = (kind.__name__ for kind in get_args(snia_pts.events.Event))
    return "\n".join([".. currentmodule:: snia_pts.events", "", *(f".. autoclass:: {name}\n" for name in names)])


# reStructuredText


def _heading(title: str, underline: str) -> list[str]:
    return [title, underline * len(title), ""]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Yield a table as a list-table."""
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths[: len(header)]))}", "")
    for row in (header, *rows):
        for number, cell in enumerate(row):
            yield f"   {'*' if number == 0 else ' '} - {cell}"
    yield ""


def _summary(kind: type) -> str:
    """Return the first paragraph of a docstring."""
    return inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]


def with_page_names(text: str) -> str:
    """Replace ``docs/page.rst`` with the literal ``page.rst``, which docs/conf.py turns into a link."""
    return re.sub(r"`*docs/([\w-]+\.rst)`*", r"``\1``", text)


def _escape(text: str) -> str:
    """Escape a text for reStructuredText; options and addresses become literals, and page names become links."""
    text = re.sub(r"(?<![\w`-])(--[a-z][a-z-]*|https?://[\w.:/-]*\w)", r"``\1``", with_page_names(text))
    literals = re.split(r"(``.+?``)", text)
    return "".join(part if part.startswith("``") else re.sub(r"([\\*`|_])", r"\\\1", part) for part in literals)
