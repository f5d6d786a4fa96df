"""Makes hostile values from valid ones: extreme numbers, texts with markup, unexpected shapes.

Everything comes from one random.Random, so that the same seed gives the same input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0,
    1,
    -1,
    2,
    3,
    100,
    101,
    255,
    512,
    4096,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**18,
    10**18 + 1,
    10**30,
    10**400,
    0.0,
    -0.0,
    0.1,
    0.5,
    1.5,
    1e-9,
    1e-300,
    5e-324,
    1e18,
    1.1e18,
    1e300,
    1.7e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    True,
    False,
    None,
)

TEXTS = (
    "",
    " ",
    "\0",
    "\n",
    "\r\n",
    "\t",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\xa0",
    "\u2028",
    "\u202eevil\u202c",
    "\u200b",
    "\ufeff",
    "\ufffe",
    "\ud800",
    "\udcff",
    "\U0010ffff",
    "\u0661\u0662",
    "\xb2",
    "\u2460",
    "\uff11",
    "1e400",
    "0x10",
    "1_000",
    "-0",
    "NaN",
    "Infinity",
    "null",
    "9" * 4301,
    ".",
    "..",
    "/",
    "../../../../etc/passwd",
    "/dev/null",
    "..\\..",
    "~",
    "a/b",
    "%s%n",
    "{detail}",
    "{0.__class__}",
    "{{ 7*7 }}",
    "{% raw %}",
    "${HOME}",
    "$(id)",
    "`id`",
    "; rm -rf x",
    "'\"",
    "\\",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "]]>",
    "<!--",
    "-->",
    "&amp;",
    "&lt;",
    "&x;",
    "<?php ?>",
    "<para>",
    "<b>",
    "</b>",
    "<font size=99>",
    "<a href='file:///etc/passwd'>x</a>",
    "javascript:alert(1)",
    ".. raw:: html\n\n   <script>alert(1)</script>",
    ".. include:: /etc/passwd",
    ".. image:: http://example.org/x.png",
    ".. |x| replace:: y",
    "|x|",
    "`x <javascript:alert(1)>`_",
    "x_",
    "_x:",
    "[1]_",
    ":raw:`x`",
    "::",
    "====",
    "----",
    "* x",
    "1. x",
    ":x: y",
    "+--+",
    '","',
    "\n\n   .. include:: x\n",
    "###Page###",
    "###Total###",
    "$x^2$",
    r"\frac{",
    "$",
    "\\N{BULLET}",
    "e\u0301" * 40,
    "\u0915\u094d\u0937",
    "\U0001f600",
    "\u4e2d\u6587",
    "W" * 300,
    "x" * 70_000,
    "a" * 255,
    " x ",
    "x\0y",
    "x\ny",
    "x y",
    "sim:",
    "--",
    "-h",
    "=",
    "a=b",
    "a.b=c",
    "CON",
    "\u3000",
)

#: Bytes that start, end or break something in one of the formats.
TOKENS = (
    b"",
    b"\0",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\n",
    b"\r",
    b"\n}\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b'""',
    b"'",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b",",
    b":",
    b"=",
    b".",
    b"#",
    b"-",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b"nan",
    b"inf",
    b"0x1",
    b"9" * 4301,
    b"1" * 309,
    b"1.0e-400",
    b"<",
    b">",
    b"&",
    b"/>",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"<?xml version='1.1'?>",
    b"<?x y?>",
    b"&#0;",
    b"&#x110000;",
    b"&x;",
    b"&lol9;",
    b"<!DOCTYPE x [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
    b"<!DOCTYPE x SYSTEM 'http://127.0.0.1:9/x.dtd'>",
    b"<!DOCTYPE x [<!ENTITY % p SYSTEM 'file:///etc/passwd'> %p;]>",
    b"<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='/etc/passwd'/>",
    b"[[",
    b"]]",
    b"[a.b]",
    b"a.b.c = 1\n",
    b"'''",
    b'"""',
    b"1979-05-27T07:32:00Z",
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 3000,
    b"[" * 100_000,
    b"a = {" * 2000,
    b"a." * 3000,
    b"<a>" * 3000,
    b" - ",
    b" - ext4 /dev/sdx rw",
    b"\\040",
    b"\x1e",
)

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")
_ADDED = "added"


def mutated(rng: Random, value: Any, donors: Sequence[Any]) -> Any:
    """Return ``value`` with one to a few edits; parts of ``donors`` may come in.  No value is changed in place."""
    for _ in range(min(8, 1 + int(rng.expovariate(1.0)))):
        value = _edited(rng, value, rng.choice(donors))
    return value


def edited_at(value: Any, place: tuple[Any, ...], edit: Callable[[Any], Any]) -> Any:
    """Return ``value`` with the part at ``place``, a key or index for each level, edited."""
    if not place:
        return edit(value)
    key, *rest = place
    inner = edited_at(value[key], tuple(rest), edit)
    return {**value, key: inner} if isinstance(value, dict) else [*value[:key], inner, *value[key + 1 :]]


def _edited(rng: Random, value: Any, donor: Any) -> Any:
    """Descend at random, in parallel in the donor, and edit the value found there."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        if rng.random() < 0.1:
            return _table_edited(rng, value, donor)
        key = rng.choice(list(value))
        theirs = donor.get(key, donor) if isinstance(donor, dict) else donor
        return {**value, key: _edited(rng, value[key], theirs)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        if rng.random() < 0.15:
            return _list_edited(rng, value, donor)
        place = rng.randrange(len(value))
        theirs = rng.choice(donor) if isinstance(donor, list) and donor else donor
        return [*value[:place], _edited(rng, value[place], theirs), *value[place + 1 :]]
    if isinstance(value, str):
        return _text_edited(rng, value, donor)
    return _replaced(rng, value, donor)


def _table_edited(rng: Random, table: dict[Any, Any], donor: Any) -> dict[Any, Any]:
    key = rng.choice(list(table))
    rest = {name: item for name, item in table.items() if name != key}
    edits: tuple[Callable[[], dict[Any, Any]], ...] = (
        lambda: rest,
        lambda: {**rest, rng.choice(TEXTS): table[key]},
        lambda: {**table, rng.choice((_ADDED, rng.choice(TEXTS))): _anything(rng)},
        lambda: {**table, key: table[rng.choice(list(table))]},
        lambda: {**table, **donor} if isinstance(donor, dict) else rest,
    )
    return rng.choice(edits)()


def _list_edited(rng: Random, items: list[Any], donor: Any) -> list[Any]:
    place, other = rng.randrange(len(items)), rng.randrange(len(items))
    low, high = min(place, other), max(place, other)
    gift = rng.choice(donor) if isinstance(donor, list) and donor else donor
    edits: tuple[Callable[[], list[Any]], ...] = (
        lambda: [*items[:place], *items[place + 1 :]],
        lambda: [*items[:low], *items[high:]],
        lambda: [*items[:place], items[place], *items[place:]],
        lambda: [*items[:low], items[high], *items[low + 1 : high], items[low], *items[high + 1 :]],
        lambda: [*items[:place], items[other], *items[place + 1 :]],
        lambda: [*items[:place], gift, *items[place:]],
        lambda: [*items, *items],
        list,
        lambda: items[:place] + [items[place]] * rng.choice((100, 1000) if rng.random() < 0.05 else (3, 10)),
    )
    return rng.choice(edits)()


def _text_edited(rng: Random, text: str, donor: Any) -> Any:
    kind = rng.random()
    numbers = list(_NUMBER.finditer(text)) if kind < 0.4 else []
    if numbers:
        found = rng.choice(numbers)
        return f"{text[: found.start()]}{_nudged(rng, found[0])}{text[found.end() :]}"
    if kind < 0.5:
        return rng.choice(TEXTS)
    place, other = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
    if kind < 0.65:
        return text[:place] + rng.choice(TEXTS) + text[place:]
    if kind < 0.75:
        return text[:place] + text[other:]
    if kind < 0.85:
        return text[:place] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) + text[other:]
    if kind < 0.9:
        return text[:other] + text[place:]
    return _replaced(rng, text, donor)


def _nudged(rng: Random, number: str) -> str:
    if rng.random() < 0.5:
        return str(rng.choice(NUMBERS))
    value = float(number) if re.search(r"[.eE]", number) else int(number)
    return str(_near(rng, value))


def _near(rng: Random, value: float) -> Any:
    """Return a number near ``value``, or of another magnitude."""
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.6:
        return rng.choice(
            (value + 1, value - 1, -value, 2 * value, value // 2, value * 10**9, value + rng.randrange(99))
        )
    try:
        return value * rng.choice((0.5, 2.0, 1.001, -1.0, 1e-12, 1e12, 1e250)) + rng.choice((0, 0, 0.5))
    except OverflowError:
        return 0


def _replaced(rng: Random, value: Any, donor: Any) -> Any:
    if isinstance(value, int | float) and rng.random() < 0.5:
        return _near(rng, value)
    return rng.choice((_anything(rng), donor, [value], {_ADDED: value}, str(value)[:10_000], rng.choice(NUMBERS)))


def _anything(rng: Random) -> Any:
    return rng.choice((rng.choice(NUMBERS), rng.choice(TEXTS), [], {}, [[]], [rng.choice(NUMBERS)] * 3))


def mutated_bytes(rng: Random, data: bytes, donors: Sequence[bytes]) -> bytes:
    """Return ``data`` with one to a few edits of bytes, tokens and lines."""
    for _ in range(min(8, 1 + int(rng.expovariate(0.7)))):
        data = rng.choice(_BYTE_EDITS)(rng, data, rng.choice(donors))
    return data


def _byte_changed(rng: Random, data: bytes, donor: bytes) -> bytes:
    place = rng.randint(0, len(data))
    byte = data[place] ^ (1 << rng.randrange(8)) if place < len(data) and rng.random() < 0.5 else rng.randrange(256)
    return data[:place] + bytes([byte]) + data[place + 1 :]


def _token_put(rng: Random, data: bytes, donor: bytes) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.choice(TOKENS) + data[place + rng.choice((0, 0, rng.randint(1, 16))) :]


def _cut(rng: Random, data: bytes, donor: bytes) -> bytes:
    place, other = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    return data[:place] + data[rng.choice((place + rng.randint(1, 16), other, len(data))) :]


def _repeated(rng: Random, data: bytes, donor: bytes) -> bytes:
    place = rng.randint(0, len(data))
    return data[: place + rng.randint(1, 16)] + data[place:]


def _spliced(rng: Random, data: bytes, donor: bytes) -> bytes:
    place, start = rng.randint(0, len(data)), rng.randint(0, len(donor))
    if rng.random() < 0.5:
        return data[:place] + donor[start:]
    return data[:place] + donor[start : start + rng.randint(1, 200)] + data[place:]


def _line_moved(rng: Random, data: bytes, donor: bytes) -> bytes:
    """Take a line away, repeat it, or put it last."""
    place = rng.randint(0, len(data))
    start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place) + 1 or len(data)
    text = data[start:end]
    return rng.choice((data[:start] + data[end:], data[:end] + text + data[end:], data[:start] + data[end:] + text))


_BYTE_EDITS = (_byte_changed, _byte_changed, _token_put, _token_put, _cut, _repeated, _spliced, _line_moved)
