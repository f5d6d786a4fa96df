"""The documents say what is: options, exit codes and files are those of the program, and every page is valid RST."""

import argparse
import io
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from docutils.core import publish_doctree

from snia_pts import errors
from snia_pts.cli.parser import build_parser
from snia_pts.profiles.fio_options import ALLOWED
from snia_pts.profiles.reader import builtin_profiles
from snia_pts.profiles.spec import Axis, ProfileSpec, Workload
from snia_pts.spec.limits import Limit

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.rst"), *ROOT.glob("docs/*.rst")])


def subparsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each verb."""
    actions = build_parser()._actions
    (verbs,) = (action for action in actions if isinstance(action, argparse._SubParsersAction))
    return dict(verbs.choices)


def options() -> Iterator[str]:
    """Every option of every verb."""
    for parser in subparsers().values():
        for action in parser._actions:
            yield from (option for option in action.option_strings if option not in ("-h", "--help"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_valid(page: Path) -> None:
    """docutils has nothing to say about a page."""
    complaints = io.StringIO()
    publish_doctree(page.read_text(), source_path=str(page), settings_overrides={"warning_stream": complaints})

    assert complaints.getvalue() == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every file that a page links to, shows, or names below docs/, specs/, bench/ and tests/ exists."""
    text = page.read_text()
    targets = [page.parent / target for target in re.findall(r"<([\w./-]+\.rst)>`_", text)]
    targets += [page.parent / target for target in re.findall(r"\.\. image:: (\S+)", text)]
    targets += [ROOT / target for target in re.findall(r"``((?:docs|specs|bench|tests|scripts)/[\w./-]+)``", text)]

    assert [str(target) for target in targets if not target.exists()] == []


@pytest.mark.parametrize("option", sorted(set(options())))
def test_every_option_is_documented(option: str) -> None:
    """docs/usage.rst tells of every option."""
    assert f"``{option}" in (ROOT / "docs" / "usage.rst").read_text()


def test_every_verb_is_documented_and_helps() -> None:
    """docs/usage.rst tells of every verb, which describes itself, and each of its options has a help text."""
    text = (ROOT / "docs" / "usage.rst").read_text()
    for verb, parser in subparsers().items():
        assert f"snia-pts {verb} " in text
        assert parser.format_help()
        assert parser.description
        values = (action for action in parser._actions if not isinstance(action, argparse._SubParsersAction))
        assert [action.option_strings for action in values if not action.help] == []


def test_exit_codes_are_those_of_the_errors() -> None:
    """docs/usage.rst lists just the codes that the program has."""
    text = (ROOT / "docs" / "usage.rst").read_text().partition("Exit codes")[2]
    told = {int(code) for code in re.findall(r"^(\d+) {2,}\w", text, re.MULTILINE)}
    classes: list[type[errors.SniaPtsError]] = [errors.SniaPtsError, *errors.SniaPtsError.__subclasses__()]

    assert told == {0} | {error.exit_code for error in classes}


def test_profiles_tell_every_option_of_fio() -> None:
    """The page on profiles lists just those options that a profile may set, and every key and shipped profile."""
    text = (ROOT / "docs/profiles.rst").read_text()
    listed = text.split("Options of fio\n---")[1].split("Values have")[0]
    assert sorted(re.findall(r"``(\w+)``", listed)) == sorted(ALLOWED)
    keys = {field.name for kind in (ProfileSpec, Workload, Axis, Limit) for field in fields(kind)} - {"test"}
    assert [key for key in keys if f"``{key}``" not in text and f"[[{key}]]" not in text] == []
    assert [name for name in builtin_profiles() if f"``{name}``" not in text] == []


TERMS = (
    "Purge, WIPC, WDPC, Round, Measurement Window, ActiveRange, Tracked Variable, TC, QD, Total OIO, ART, MRT, "
    "Five nines, FOB, Steady state, Excursions, TGBW, Operating point, Candidate, Deviation, Setting, Warning, "
    "Host-limited, Evidence, Journal, End, Recovered, Dwell, Trend, Consistency, Idle gap"
)


@pytest.mark.parametrize("term", TERMS.split(", "))
def test_the_glossary_has_each_term_once(term: str) -> None:
    """A term of the standard or of the suite is explained in one place, in a sentence or two, in alphabetical order."""
    parts = (ROOT / "docs/glossary.rst").read_text().split("\n----")
    entries = [re.findall(r"^(\w.*)\n((?:    .+\n?)+)", part, re.MULTILINE) for part in parts]
    found = [text for part in entries for name, text in part if re.match(rf"{re.escape(term)}\b(?! \w)", name)]

    assert len(found) == 1
    assert found[0].count(".\n") <= 2
    for part in entries:
        assert [name.lower() for name, _ in part] == sorted(name.lower() for name, _ in part)
