"""The program shows its own documentation, specifications and simulated drives, also without the source tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.parser import TESTS
from snia_pts.lab.simulated.preset import preset_names
from snia_pts.manual.pages import page_paths
from snia_pts.spec.reader import versions
from tests import messages

ROOT = Path(__file__).parent.parent


def output(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return what a command line prints; it must succeed."""
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_every_page_that_a_message_names_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """``snia-pts docs`` accepts the name of a page as the hints and help texts write it."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "snia_pts").rglob("*.py"))
    texts = (messages.PATH.read_text(encoding="utf-8"), *sources)
    named = {name for text in texts for name in re.findall(r"\bdocs/[a-z][\w-]+\.rst\b", text)} - {"docs/page.rst"}
    assert {"docs/purge.rst", "docs/fleet.rst", "docs/mail.rst"} <= named

    for name in sorted(named):
        assert output(capsys, "docs", name).startswith((ROOT / name).read_text(encoding="utf-8").partition("\n")[0])


def test_the_list_has_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a page, one line for each."""
    lines = output(capsys, "docs").splitlines()

    assert [line.split()[0] for line in lines[:-2]] == list(page_paths())
    assert re.search(r"^purge +Purge$", "\n".join(lines), re.MULTILINE)


@pytest.mark.parametrize("name", ["api-reference", "cli", "exit-codes", "running-from-python", "toml"])
def test_lists_made_from_the_code_are_filled_in(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No directive or role of Sphinx remains in a page."""
    assert re.findall(r"^\.\. (?:generate|auto\w+|currentmodule)::.*|:class:", output(capsys, "docs", name)) == []


def test_the_reference_of_the_library_has_signatures_and_docstrings(capsys: pytest.CaptureFixture[str]) -> None:
    """In the place of each directive of Sphinx is what it documents."""
    text = output(capsys, "docs", "api-reference")

    assert re.search(r"^load\(path.*\n    \w", text, re.MULTILINE)
    assert re.search(r"^RunOptions\n    \w", text, re.MULTILINE)


def test_a_page_is_shown_in_a_pager_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pager gets the whole page; nothing is printed beside it."""
    shown: list[str] = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("pydoc.pager", shown.append)

    assert output(capsys, "docs", "purge") == ""
    assert shown == [(ROOT / "docs" / "purge.rst").read_text(encoding="utf-8")]


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", TESTS)
def test_specifications_are_printed_as_they_are(test: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each version of each test is a TOML file of that test and version."""
    for version in versions(test):
        shown = tomllib.loads(output(capsys, "spec", "show", test, "--pts", version))
        assert (shown["test"], shown["pts"]) == (test, version)
    assert re.search(rf"^{test} +2.0.2, 1.1 ", output(capsys, "spec", "list"), re.MULTILINE)


def test_simulated_drives_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each preset is in the list with its model, and is printed as TOML by its name or its target."""
    listing = output(capsys, "sim", "list")
    for name in preset_names():
        model = tomllib.loads(output(capsys, "sim", "show", f"sim:{name}"))["drive"]["model"]
        assert re.search(rf"^{name} +{re.escape(model)}, ", listing, re.MULTILINE)


@pytest.mark.parametrize(
    ("argv", "detail", "hint"),
    [
        (["docs", "purg"], "'purg' is not a page of the documentation.", "did you mean purge?"),
        (["docs", "../README"], "'../README' is not a page of the documentation.", "snia-pts docs lists all pages."),
        (["spec", "show", "iop"], "'iop' is not a test of the standard.", "did you mean iops?"),
        (
            ["spec", "show", "iops", "--pts", "3"],
            "'3' is not a version of this test.",
            "snia-pts spec list lists them.",
        ),
        (["sim", "show", "hd"], "'hd' is not a preset of a simulated drive.", "did you mean hdd?"),
    ],
)
def test_unknown_names_are_refused(argv: list[str], detail: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence with the name, and a hint with the nearest one or the list."""
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert detail in error
    assert hint in error
