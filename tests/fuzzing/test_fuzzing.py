"""Every parser of the suite takes hostile input: a short version of ``bench/fuzz.py``, the same inputs every time."""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from snia_pts.errors import UsageError
from snia_pts.units import parse_size

from . import corpora
from .chain import chained
from .forms import TOML, WORDS
from .running import MEMORY_BYTES, Tally, attempt, hostile, limited_memory, sweep
from .targets import TARGETS, Target

SEED = 1


def told(tally: Tally) -> str:
    """Return what escaped, in words."""
    return "\n".join(f"{place}: input {escape.number}: {escape.told}" for place, escape in tally.escapes.items())


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_gives_a_result_or_a_sentence(name: str, tmp_path: Path) -> None:
    """No input ends in another exception, takes long or much memory, becomes more than text, or leaves files about.

    A valid one, which comes first, is taken: what is refused later is refused for what was changed.
    """
    valid = len(TARGETS[name].corpus())

    assert sweep(name, SEED, [0], tmp_path).outcomes == {"result": 1}
    tally = sweep(name, SEED, range(valid, valid + TARGETS[name].short), tmp_path)

    assert not tally.escapes, told(tally)
    assert sum(tally.outcomes.values()) == TARGETS[name].short


def test_inputs_are_the_same_every_time() -> None:
    """An input is known by target, seed and number alone, and others are other inputs."""
    again = [hostile("suite", SEED, number) for number in range(50)]

    assert [hostile("suite", SEED, number) for number in reversed(range(50))] == again[::-1]
    assert len({*again, *(hostile("suite", 2, number) for number in range(50))}) > 60


def test_a_valid_input_survives_its_form() -> None:
    """What a form takes apart and writes again is taken as before."""
    for form, corpus in ((TOML, corpora.specifications()), (WORDS, corpora.command_lines())):
        for data in corpus:
            assert form.parts(form.whole(form.parts(data))) == form.parts(data)
    for journal, entries in zip(corpora.journals(), corpora.entries(), strict=True):
        assert chained(entries) == journal


@pytest.mark.parametrize(
    ("parse", "outcome"),
    [
        (lambda data, _: None, "result"),
        (lambda data, _: parse_size("x"), "UsageError"),
        (lambda data, _: 1 // 0, "escape"),
        (lambda data, _: sys.exit(3), "escape"),
        (lambda data, _: time.sleep(5), "escape"),
        (lambda data, _: all(map(str, itertools.count())), "escape"),
        (lambda data, _: [0] * 10**10, "escape"),
        (lambda data, _: warnings.warn("x", stacklevel=1), "escape"),
    ],
    ids=["result", "refusal", "exception", "exit", "waiting", "time", "memory", "warning"],
)
def test_what_counts_as_an_escape(parse: Callable[[bytes, Path], object], outcome: str, tmp_path: Path) -> None:
    """Anything but a result or a refusal is an escape: exceptions, exits, warnings, too much time or memory."""
    target = Target(form=WORDS, corpus=corpora.sizes, parse=parse, refusals=(UsageError,), seconds=0.05)
    tally = Tally()
    with limited_memory(MEMORY_BYTES):
        attempt(target, b"x", tmp_path, tally)

    assert dict(tally.outcomes) == {outcome: 1}
    assert bool(tally.escapes) == (outcome == "escape")
