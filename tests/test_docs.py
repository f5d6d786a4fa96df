"""The documents say what is: options, exit codes and files are those of the program, and every page is valid RST."""

import argparse
import io
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from docutils.core import publish_doctree

from snia_pts import errors
from snia_pts.cli.parser import build_parser
from snia_pts.manual import generate
from snia_pts.profiles.fio_options import ALLOWED
from snia_pts.profiles.reader import builtin_profiles
from snia_pts.profiles.spec import Axis, ProfileSpec, Workload
from snia_pts.runner.events import Event
from snia_pts.runner.notifications import RunEnd
from snia_pts.spec import SPEC_TYPES
from snia_pts.spec.limits import Limit

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.rst"), *ROOT.glob("docs/*.rst")])
#: Pages with directives that only Sphinx has; ``test_the_site_is_built`` validates them.
SPHINX_PAGES = [
    page for page in PAGES if re.search(r"^\.\. (toctree|generate|auto\w+)::", page.read_text(), re.MULTILINE)
]


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


@pytest.mark.long_but_first
@pytest.mark.parametrize("page", [page for page in PAGES if page not in SPHINX_PAGES], ids=lambda page: page.name)
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
    if page.parent == ROOT / "docs":
        named = set(re.findall(r"``([\w-]+\.rst)``", text)) - {"report.rst", "summary.rst"}  # files of a run
        targets += [page.parent / name for name in named]

    assert [str(target) for target in targets if not target.exists()] == []


@pytest.mark.parametrize("option", sorted(set(options())))
def test_every_option_is_documented(option: str) -> None:
    """Some page says what an option does, beside the list that is made from the parser."""
    assert any(f"``{option}" in page.read_text() for page in PAGES if page.parent == ROOT / "docs")


def test_every_verb_is_documented_and_helps() -> None:
    """docs/usage.rst tells of every verb, which describes itself, and each of its options has a help text."""
    text = (ROOT / "docs" / "usage.rst").read_text()
    for verb, parser in subparsers().items():
        assert f"snia-pts {verb} " in text
        assert parser.format_help()
        assert parser.description
        values = (action for action in parser._actions if not isinstance(action, argparse._SubParsersAction))
        assert [action.option_strings for action in values if not action.help] == []


def test_the_reference_has_every_option_and_key() -> None:
    """The lists that are made from the code have every option of every verb, and every key of every specification."""
    command_line, keys = generate.command_line(), generate.specification_keys()
    missing = [option for option in options() if not re.search(rf"^``.*{option}\b.*``$", command_line, re.MULTILINE)]
    assert set(missing) <= {"-v", "--verbose", "--version"}

    for kind in SPEC_TYPES.values():
        spec_keys = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
        sections = {name: hint for name, hint in spec_keys.items() if is_dataclass(hint)}
        expected = [f"``{name}.{field.name}``" for name, hint in sections.items() for field in fields(hint)]
        assert [key for key in expected if key not in keys] == []


def test_every_event_and_the_end_of_a_run_are_documented() -> None:
    """The table of events and the reference have every type; the page of plugins names every field of a RunEnd."""
    names = {kind.__name__ for kind in get_args(Event)}
    table = (ROOT / "docs/running-from-python.rst").read_text()
    end = (ROOT / "docs/plugins.rst").read_text().split("A ``RunEnd`` has")[1].split("::")[0]

    assert set(re.findall("autoclass:: (.+)", generate.event_types())) == names
    assert {name for name in names if not re.search(rf"^``{name}``", table, re.MULTILINE)} == set()
    assert {field.name for field in fields(RunEnd) if f"``{field.name}``" not in end} == set()


def test_every_exit_code_is_documented() -> None:
    """The table of exit codes has each code of the program, with a meaning."""
    classes: list[type[errors.SniaPtsError]] = [errors.SniaPtsError, *errors.SniaPtsError.__subclasses__()]
    rows = re.findall(r"^   \* - (\d+)\n     - .*\n     - (.+)", generate.exit_codes(), re.MULTILINE)

    assert {int(code) for code, _ in rows} == {0} | {error.exit_code for error in classes}


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
