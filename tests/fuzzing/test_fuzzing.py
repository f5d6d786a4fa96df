"""Every parser of the suite takes hostile input.

Hypothesis draws the inputs, the same ones every time.  ``HYPOTHESIS_PROFILE=nightly`` tries fifty times as many, and
``--hypothesis-show-statistics`` lists how many were refused, and with which error.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from . import corpora
from .chain import chained
from .forms import TOML, WORDS
from .resource_limits import MEMORY_BYTES, TooSlow, limited_memory, limited_time
from .targets import SLOW, TARGETS, Target

#: The same inputs every time.
REPEATABLE = settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck))


def attempt(target: Target, data: bytes, folder: Path) -> str:
    """Return ``result``, or the class of the refusal; raises any other exception, and warnings."""
    with limited_memory(MEMORY_BYTES), limited_time(target.seconds), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            target.parse(data, folder)
        except target.refusals as refusal:
            return type(refusal).__name__
    return "result"


@pytest.mark.long_but_first
@pytest.mark.parametrize("name", TARGETS)
def test_an_unchanged_input_is_accepted(name: str, tmp_path: Path) -> None:
    """A refusal of a mutated input is due to the mutation."""
    assert attempt(TARGETS[name], TARGETS[name].corpus()[0], tmp_path) == "result"


def check_hostile_input(name: str, rng: Random, folder: Path) -> None:
    """Check that an input gives a result or a refusal.

    It must not end in another exception, exceed time or memory, become more than text, or leave files elsewhere.
    """
    target = TARGETS[name]
    event(attempt(target, target.form.hostile(rng, target.corpus()), folder))


@pytest.mark.long_but_first
@REPEATABLE
@given(rng=st.randoms(use_true_random=True))
@pytest.mark.parametrize("name", sorted(TARGETS.keys() - SLOW))
def test_a_parser_takes_hostile_input(name: str, rng: Random, tmp_path: Path) -> None:
    """Each input gives a result or a refusal."""
    check_hostile_input(name, rng, tmp_path)


@pytest.mark.long
@settings(REPEATABLE, max_examples=REPEATABLE.max_examples // 20)
@given(rng=st.randoms(use_true_random=True))
@pytest.mark.parametrize("name", sorted(SLOW))
def test_a_report_takes_hostile_texts(name: str, rng: Random, tmp_path: Path) -> None:
    """Each text gives a report that holds it as text."""
    check_hostile_input(name, rng, tmp_path)


@pytest.mark.long
def test_an_unchanged_input_survives_its_form() -> None:
    """The parts of a form, written again, have the same parts."""
    for form, corpus in ((TOML, corpora.specifications()), (WORDS, corpora.command_lines())):
        for data in corpus:
            assert form.parts(form.whole(form.parts(data))) == form.parts(data)
    for journal, entries in zip(corpora.journals(), corpora.entries(), strict=True):
        assert chained(entries) == journal


@pytest.mark.parametrize(
    ("parse", "error"),
    [
        (lambda data, _: time.sleep(5), TooSlow),
        (lambda data, _: all(map(str, itertools.count())), TooSlow),
        (lambda data, _: [0] * 10**10, MemoryError),
        (lambda data, _: warnings.warn("x", stacklevel=1), UserWarning),
    ],
    ids=["waiting", "time", "memory", "warning"],
)
def test_limits(parse: Callable[[bytes, Path], object], error: type[BaseException], tmp_path: Path) -> None:
    """Exceeded time, exceeded memory and a warning are errors."""
    target = Target(form=WORDS, corpus=corpora.sizes, parse=parse, seconds=0.05)
    with pytest.raises(error):
        attempt(target, b"x", tmp_path)
