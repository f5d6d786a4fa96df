"""Forms of input: how a valid one is split into parts, and how changed parts are written again."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any
from xml.etree import ElementTree

from tests.strategies import toml_document

from .mutation import edited_at, mutated, mutated_bytes

#: The separator of the files of an input that consists of several files.
FILE_END = b"\x1e"
_MARKUP = re.compile(rb'"[^"]*"|<[^\s>"]*|[^\s=<>"]+=|/?>|[^<>"]+|.', re.DOTALL)
#: How many inputs are edited as bytes alone, and how many of the others as bytes too.
_BYTES_ALONE, _BYTES_TOO = 0.3, 0.1
#: What is repeated again and again is cut here.
_LARGEST_BYTES = 1 << 20
#: How many of the inputs that are edited as values are edited at ``place``.
_IN_PLACE = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """``parts`` splits a valid input into tables, lists, texts and numbers; ``whole`` writes any such value.

    For most inputs ``place`` leads to a part whose change leaves the rest valid.
    """

    parts: Callable[[bytes], Any]
    whole: Callable[[Any], bytes]
    place: Callable[[Random, Any], tuple[Any, ...]] | None = None

    def hostile(self, rng: Random, corpus: tuple[bytes, ...], first: bytes | None = None) -> bytes:
        """Return an input made of ``first``, or of one of the ``corpus``, with pieces of others."""
        data = rng.choice(corpus) if first is None else first
        if rng.random() < _BYTES_ALONE:
            return mutated_bytes(rng, data, corpus)
        taken = _taken_apart(self, data) if first is None else self.parts(first)
        donors = (taken, _taken_apart(self, rng.choice(corpus)))
        place = self.place(rng, taken) if self.place and rng.random() < _IN_PLACE else ()
        try:
            made = self.whole(edited_at(taken, place, lambda inner: mutated(rng, inner, donors)))
        except (ValueError, TypeError, AttributeError, RecursionError):  # what this form cannot say
            return mutated_bytes(rng, data, corpus)
        made = made[:_LARGEST_BYTES]
        return mutated_bytes(rng, made, corpus) if not place and rng.random() < _BYTES_TOO else made


@cache
def _taken_apart(form: Form, data: bytes) -> Any:
    return form.parts(data)


def encoded(text: str) -> bytes:
    """Return any text as bytes, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json(value: Any) -> bytes:
    """Write characters unchanged if possible, otherwise escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _texts(value: Any) -> list[bytes]:
    return [encoded(item if isinstance(item, str) else repr(item)) for item in _listed(value)]


def _answers(data: bytes) -> list[Any]:
    return [json.loads(answer[answer.index(b"{") :] + b"\n}") for answer in data.split(b"\n}\n")[:-1]]


def _element(element: ElementTree.Element) -> dict[str, Any]:
    if len(element):
        return {"tag": element.tag, "holds": [_element(item) for item in element]}
    return {"tag": element.tag, "json": json.loads(element.text or "null")}


def _written(value: dict[str, Any]) -> bytes:
    """Write an element; raises AttributeError, TypeError or ValueError for a value that is not one."""
    tag = encoded(str(value["tag"])) if "tag" in value else b"x"
    children = b"".join(_written(item) for item in value.get("holds", ()))
    text = json.dumps(value["json"]).replace("&", "&amp;").replace("<", "&lt;") if "json" in value else ""
    return b"<%b>%b%b</%b>" % (tag, children, encoded(text), tag)


def _split(separator: bytes) -> Form:
    return Form(
        parts=lambda data: [part.decode("utf-8", "surrogateescape") for part in data.split(separator)],
        whole=lambda value: separator.join(_texts(value)),
    )


JSON = Form(parts=json.loads, whole=_json)


def _in_an_entry(rng: Random, entries: list[Any]) -> tuple[Any, ...]:
    """Lead to an outcome, or to the facts of the run without its specification: the steps are unchanged."""
    outcomes = [place for place, entry in enumerate(entries) if "outcome" in entry]
    if outcomes and rng.random() < 0.7:
        return (rng.choice(outcomes), "outcome")
    return (0, "facts", rng.choice([name for name in entries[0]["facts"] if name not in ("spec", "test_class")]))


JSON_LINES = Form(
    parts=lambda data: [json.loads(line) for line in data.splitlines()],
    whole=lambda value: b"".join(_json(entry) + b"\n" for entry in _listed(value)),
)
ENTRIES = Form(parts=JSON_LINES.parts, whole=JSON_LINES.whole, place=_in_an_entry)
#: Consecutive documents, each with its closing brace on a separate line, as fio writes them.
ANSWERS = Form(
    parts=_answers,
    whole=lambda value: b"".join(b"%b\n" % json.dumps(answer, indent=1).encode() for answer in _listed(value)),
)
TOML = Form(parts=lambda data: tomllib.loads(data.decode()), whole=lambda value: encoded(toml_document(value)))
MARKUP = Form(
    parts=lambda data: [part.decode() for part in _MARKUP.findall(data)], whole=lambda value: b"".join(_texts(value))
)
#: Elements whose texts are JSON, as TKperf writes them.
ELEMENTS = Form(
    parts=lambda data: _element(ElementTree.fromstring(data)),  # noqa: S314  # ours
    whole=lambda value: _written(value),
)
LINES = _split(b"\n")
WORDS = _split(b"\0")
FILES = _split(FILE_END)
