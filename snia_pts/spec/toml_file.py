"""Read TOML files into typed values, validate them, and report all errors of a file at once in one format."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ..errors import SpecError
from ..files import read_regular
from ..text import suggestion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic_core import ErrorDetails

Kind = TypeVar("Kind")

SPECIFICATION = "The specification"
#: Maximum size of a file; hand-written files are smaller.
_MAX_BYTES = 1024 * 1024
_UNENCODABLE = "expected numbers with fewer digits, less deeply nested lists, and texts of valid characters"
#: What was expected, by pydantic's type of error; filled in with its context.
_EXPECTED = {
    "string_type": "a text",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "dataclass_type": "a table",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "greater_than": "a number greater than {gt}",
    "literal_error": "{expected}",
    "value_error": "{error}",
    **dict.fromkeys(("uuid_type", "uuid_parsing"), "a UUID"),
    "too_short": "at least one entry",
    "too_long": "at most {max_length} entries",
    **dict.fromkeys(("string_too_short", "string_too_long", "predicate_failed"), "a short line of printable letters"),
}
_MAX_VALUE_LENGTH = 80
_UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden")


class Mistakes(ValueError):
    """The errors of a table, one sentence each, with the key and what was expected.

    Any other ValueError from a table states only what was expected: ``a logo of at most 64 bytes``.
    """

    def __init__(self, *sentences: str) -> None:
        """Store the sentences; every sentence starts with a key of the table."""
        super().__init__("; ".join(sentences))
        self.sentences = sentences


def read_file(
    path: Path,
    kind: type[Kind],
    what: str = SPECIFICATION,
    *,
    remedy: str = SpecError.hint,
    on_open: Callable[[int], object] | None = None,
    on_read: Callable[[bytes], object] | None = None,
) -> Kind:
    """Read a TOML file and return it as a ``kind``.

    ``on_open`` is called with the owner of the file that is read, ``on_read`` with its content.  Raises SpecError,
    which lists all errors and calls the file ``what``.
    """
    value, mistakes = validate(kind, read_toml(path, what, remedy=remedy, on_open=on_open, on_read=on_read))
    if value is None:
        raise spec_error(str(path), mistakes, what, remedy=remedy)
    return value


def read_toml(
    path: Path,
    what: str = SPECIFICATION,
    *,
    remedy: str = SpecError.hint,
    on_open: Callable[[int], object] | None = None,
    on_read: Callable[[bytes], object] | None = None,
) -> dict[str, Any]:
    """Return the content of a TOML file; raises SpecError, which calls the file ``what``.  See ``read_file``."""
    try:
        content = read_regular(path, _MAX_BYTES, on_open)
        if on_read is not None:
            on_read(content)
        return tomllib.loads(content.decode("utf-8"))
    except FileNotFoundError:
        raise spec_error(str(path), ["no such file"], what, remedy="Check the path.") from None
    except OSError as error:
        raise spec_error(str(path), [f"not readable as TOML: {error.strerror}"], what, remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise spec_error(str(path), [f"not readable as TOML: {error}"], what, remedy=remedy) from None


def validate(kind: type[Kind], table: Mapping[str, Any]) -> tuple[Kind | None, list[str]]:
    """Return the validated content of a file and no errors, or None and all its errors."""
    try:
        text = json.dumps(table, ensure_ascii=False, default=lambda date: [str(date)])
        return _adapter(kind).validate_json(text, strict=True), []  # type: ignore[arg-type]  # a class is hashable
    except ValidationError as error:
        details = error.errors()
    except (ValueError, RecursionError):
        return None, [_UNENCODABLE]
    sentences = [sentence for detail in details if not _follows(detail) for sentence in _sentences(detail, kind)]
    unknown = [detail["loc"] for detail in details if detail["type"] in _UNKNOWN_KEY]
    remaining = json.loads(text)
    if _remove(remaining, unknown):  # unknown keys can hide other errors
        sentences += validate(kind, remaining)[1]
    return None, list(dict.fromkeys(sentences))


def _remove(table: Any, locations: Sequence[tuple[str | int, ...]]) -> bool:
    """Remove the entries at these locations; return whether any existed, because some locations are pydantic's own."""
    removed = False
    for *parents, key in locations:
        inner = table
        with suppress(KeyError, IndexError, TypeError):
            for part in parents:
                inner = inner[part]
            del inner[key]
            removed = True
    return removed


def spec_error(
    path: str, mistakes: Sequence[str], what: str = SPECIFICATION, *, remedy: str = SpecError.hint
) -> SpecError:
    """Return an error that lists all mistakes of a file and calls the file ``what``."""
    return SpecError(
        what=what,
        path=path,
        count=f"{len(mistakes)} mistake{'s' * (len(mistakes) != 1)}",
        mistakes="\n".join(f"  {line}" for line in mistakes),
        hint=remedy,
    )


@cache
def _adapter(kind: type[Kind]) -> TypeAdapter[Kind]:
    return TypeAdapter(kind)


def _follows(detail: ErrorDetails) -> bool:
    """Return whether a list is reported as too short only because its entries are invalid."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _sentences(detail: ErrorDetails, kind: type) -> Iterator[str]:
    """Yield an error of pydantic as sentences: key, value, what was expected."""
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, Mistakes):
        yield from (f"{_key(detail['loc'])}.{sentence}".removeprefix(".") for sentence in error.sentences)
    else:
        yield _sentence(detail, kind)


def _key(location: Sequence[str | int]) -> str:
    """Return the path of an entry, ``limit 1.minimum``; entries of a list are numbered from 1."""
    return "".join(f" {part + 1}" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _keys(kind: type, table: Sequence[str | int]) -> Iterator[str]:
    """Yield the keys of the table at a path in a ``kind``, if its types declare them."""
    kinds = list(_dataclasses(kind))
    for part in table:
        if isinstance(part, str):
            kinds = [member for parent in kinds for member in _dataclasses(get_type_hints(parent).get(part))]
    yield from (field.name for table_kind in kinds for field in fields(table_kind))


def _is_list_of_tables(kind: type, location: Sequence[str | int]) -> bool:
    """Return whether the entry is a list of tables at the top of a file: ``[[limit]]``."""
    declared = get_type_hints(kind).get(str(location[0])) if len(location) == 1 else None
    return get_origin(declared) is tuple and any(_dataclasses(declared))


def _dataclasses(kind: Any) -> Iterator[type[DataclassInstance]]:
    """Yield the type if it is a dataclass, and the dataclasses among its type arguments."""
    if is_dataclass(kind) and isinstance(kind, type):
        yield kind
    for argument in get_args(kind):
        yield from _dataclasses(argument)


def _sentence(detail: ErrorDetails, kind: type) -> str:
    location = detail["loc"][:-2] if detail["loc"][-1:] == ("[key]",) else detail["loc"]
    key = _key(location)
    if detail["type"] in ("json_invalid", "string_unicode"):
        return _UNENCODABLE
    value = detail["input"]
    if detail["type"] == "missing":
        tables = f"; expected one or more [[{key}]] tables" if _is_list_of_tables(kind, location) else " key"
        return f"{key}: missing{tables}"
    if isinstance(value, dict) and _is_list_of_tables(kind, location):
        return f"{key}: expected [[{key}]] tables, got [{key}]"
    if detail["type"] in _UNKNOWN_KEY:
        return f"{key}: unknown key; {suggestion(str(location[-1]), _keys(kind, location[:-1]))}".rstrip("; ")
    template = _EXPECTED.get(detail["type"])
    context = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value  # 0, not 0.0
        for name, value in detail.get("ctx", {}).items()
    }
    expected = template.format(**context) if template else detail["msg"].removeprefix("Input should be ")
    if isinstance(value, dict) or detail["type"] in ("too_short", "too_long"):
        return f"{key}: expected {expected}".removeprefix(":").strip()
    return f"{key}: {_shown(value)}: expected {expected}".removeprefix(":").strip()


def _shown(value: Any) -> str:
    """Return a value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"[:_MAX_VALUE_LENGTH]
    return repr(value[:_MAX_VALUE_LENGTH]) if isinstance(value, str) else repr(value)[:_MAX_VALUE_LENGTH]
