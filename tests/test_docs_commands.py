"""Every command, file and Python example of the documents works as they show it."""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from snia_pts.cli.main import main
from snia_pts.cli.notifications.config import MailFile
from snia_pts.cli.parser import TESTS, build_parser
from snia_pts.fleet.campaign import Campaign
from snia_pts.fleet.configuration import AgentFile
from snia_pts.model.annotations import AnnotationsFile
from snia_pts.model.array import Layout
from snia_pts.profiles.reader import read_profile
from snia_pts.spec.limits import LimitsFile
from snia_pts.spec.toml_file import validate
from snia_pts.units import NARROW_NBSP

from .test_docs import PAGES, ROOT, SPHINX_PAGES

#: A drive of the documents, and the simulated drive that the tests use instead.
DRIVES = {"/dev/nvme0n1": "sim:enterprise-nvme", "/dev/sda": "sim:enterprise-sata"}
CHECKER, OPTIONS = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PLAIN_PAGES = [page for page in PAGES if page not in SPHINX_PAGES]
SESSIONS = [page for page in PLAIN_PAGES if re.search(r"^ +\$ ", page.read_text(), re.MULTILINE)]
#: Pages whose Python needs nothing but the package; tests/test_public_api.py runs that of api.rst.
PYTHON_PAGES = [page for page in PLAIN_PAGES if page not in SESSIONS and page.name != "api.rst"]
PROFILES = ("profiles.rst", "write-profile.rst")
#: The type of the TOML files that a page shows.
FILES: dict[str, type] = {
    "annotations.rst": AnnotationsFile,
    "array.rst": Layout,
    "fleet.rst": AgentFile,
    "limits.rst": LimitsFile,
    "mail.rst": MailFile,
    "raid.rst": AnnotationsFile,
}
#: Verbs of tests, and of those that take their options.
PLANNABLE = {*TESTS, *(alias for test in TESTS.values() for alias in test.aliases), "all"}


@cache
def blocks(page: Path) -> tuple[tuple[str, str], ...]:
    """Return each literal block of a page, and each block of Python with its output, with the paragraph before it."""
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    document = publish_doctree(page.read_text(), source_path=str(page))
    for block in document.findall(nodes.TextElement):
        if isinstance(block, nodes.literal_block | nodes.doctest_block):
            before = block.previous_sibling()
            yield (before.rawsource if isinstance(before, nodes.paragraph) else "", block.astext())


def commands(block: str) -> Iterator[str]:
    """Yield the commands of a block without output, ``snia-pts VERB ...``, without remarks and redirections."""
    for line in block.replace("\\\n", " ").splitlines():
        if match := re.match(r"(?:sudo )?(?:\.venv/bin/)?snia-pts (?![A-Z:])(.*)", line):
            yield re.split(r" {3,}(?=[a-z#])| {2,}#| +&& | > (?=[~/])", match[1])[0].replace(" ...", "")


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page that are in blocks without output."""
    return [command for _, block in blocks(page) if "$ " not in block for command in commands(block)]


@pytest.mark.long_but_first
@pytest.mark.parametrize("page", PLAIN_PAGES, ids=attrgetter("name"))
def test_commands_are_accepted(page: Path) -> None:
    """The parser accepts a command; a test with these options has a plan for a simulated drive."""
    for command in commands_of(page):
        accept(command)


@cache
def accept(command: str) -> None:
    """Parse a command, and make the plan of a test."""
    arguments = shlex.split(command.replace("VALUE", "1"))
    build_parser().parse_args(arguments)
    if arguments[0] in PLANNABLE and not any(word.startswith(("sim:", "array:")) for word in arguments):
        assert main([*planned(arguments)]) == 0


def planned(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments with a simulated target, without what only a real one or a file of the operator has."""
    yield from (arguments[0], "sim:enterprise-nvme", "--plan")
    without_value = {"--tune", "--plan", "--discard-data", "--overwrite", "--advanced", "--detach"}
    kept = {"--set", "--class", "--pts", "--point-seconds", "--max-rounds", "--advanced"}
    words = iter(arguments[1:])
    for word in words:
        if word.startswith("--"):
            value = () if word in without_value else (next(words),)
            if word in kept:
                yield from (word, *value)


def test_the_trial_of_all_tests_under_pts_1_1_is_the_one_without_histograms(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/usage.rst says which keys to omit: with them the trial is refused, without them it has a plan."""
    (trial,) = [line for line in commands_of(ROOT / "docs" / "usage.rst") if line.startswith("all trial.img ")]
    verb, target, plan, *settings = planned(shlex.split(trial))
    shared = (verb, target, plan, "--pts", "1.1")
    assert main([*shared, *settings]) == 3
    assert "histogram" in capsys.readouterr().err
    keys = [key for key in settings if key != "--set" and "histogram" not in key]
    assert len(keys) == len(settings) / 2 - 2
    assert main([*shared, *(word for key in keys for word in ("--set", key))]) == 0


class Session:
    """A folder in which the commands of a page run, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Give the folder what a checkout has, and a ``snia-pts`` on the PATH."""
        (folder / "specs").symlink_to(ROOT / "specs")
        programs = folder.parent / "bin"
        programs.mkdir()
        for name, words in {"snia-pts": "-m snia_pts", "python": ""}.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
            program.chmod(0o755)
        self.folder = folder
        self.status, self.errors = 0, ""
        self.names: dict[str, object] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "112",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, command: str) -> str:
        """Run a command of the documents; return its output.

        A simulated drive takes the place of a real one, without the options that only a real one has.
        """
        for drive, simulated in DRIVES.items():
            if drive in command:
                command = re.sub(r" --(serial|purge) \S+", "", command.replace(drive, simulated))
        if command == "echo $?":
            return f"{self.status}\n"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        self.status, self.errors = done.returncode, done.stderr
        return done.stdout.replace(NARROW_NBSP, " ")

    def run_python(self, block: str) -> None:
        """Run the Python of a block after that of the blocks before it, and compare what it prints."""
        test = doctest.DocTestParser().get_doctest(block, self.names, "Python", None, None)
        runner = doctest.DocTestRunner(optionflags=OPTIONS)
        report = io.StringIO()
        runner.run(test, out=report.write, clear_globs=False)
        self.names = test.globs
        assert runner.failures == 0, report.getvalue()


def examples(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with ``$``, and the output that the block shows."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield command, f"{output.rstrip()}\n" if output.strip() else ""


@pytest.mark.long
@pytest.mark.parametrize("page", SESSIONS, ids=attrgetter("name"))
def test_sessions_give_the_output_they_show(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a page shows by name are written; its commands and its Python give the output that it shows."""
    folder = tmp_path / "session"
    folder.mkdir()
    monkeypatch.chdir(folder)
    session = Session(folder)
    for before, block in blocks(page):
        if named := re.search(r"``([\w-]+\.(?:toml|py))``\s*:*$", before):
            (folder / named[1]).write_text(block + "\n")
        for command, shown in examples(block):
            output = session.run(command)
            example = doctest.Example(command, shown)
            difference = CHECKER.output_difference(example, output, OPTIONS)
            assert CHECKER.check_output(shown, output, OPTIONS), f"{difference}{session.errors}"
        if block.startswith(">>> "):
            session.run_python(block)


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=attrgetter("name"))
def test_python_examples_are_true(page: Path) -> None:
    """Each ``>>>`` of a page gives what the page shows."""
    failures, _ = doctest.testfile(str(page), module_relative=False, optionflags=OPTIONS)

    assert failures == 0


@pytest.mark.parametrize(
    "page",
    [page for page in PLAIN_PAGES if re.search(r"^ +format = 1", page.read_text(), re.MULTILINE)],
    ids=attrgetter("name"),
)
def test_files_are_valid(page: Path, tmp_path: Path) -> None:
    """Each TOML file that a page shows is one that the suite accepts."""
    files = [block for _, block in blocks(page) if block.startswith("format = 1")]
    assert files
    for file in files:
        if page.name in PROFILES:
            (tmp_path / "example.toml").write_text(file)
            assert read_profile(str(tmp_path / "example.toml")).deviations == ()
        else:
            kind = Campaign if "[[test]]" in file else FILES[page.name]
            assert validate(kind, tomllib.loads(file))[1] == []


@pytest.mark.long
def test_the_site_is_built(tmp_path: Path) -> None:
    """Sphinx builds every page without a warning; each link within the site leads to a page and a place that exist."""
    pytest.importorskip("sphinx", reason="sphinx is not installed (scripts/setup --docs)")
    pytest.importorskip("furo", reason="furo is not installed (scripts/setup --docs)")
    words = ["--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            *words,
            "-d",
            str(tmp_path / "doctrees"),
            str(ROOT / "docs"),
            str(tmp_path / "site"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    texts = {path.name: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    broken = [
        f"{name}: {link}"
        for name, text in texts.items()
        for link in re.findall(r'(?:href|src)="([^"]+)"', text)
        if not reaches(link, name, texts, tmp_path / "site")
    ]
    assert broken == []
    assert "The test: <" in texts["api-reference.html"], "the text before a colon of a property is not its type"


def reaches(link: str, name: str, texts: dict[str, str], site: Path) -> bool:
    """Return whether a link of the page ``name`` leads to something in the site."""
    path, _, anchor = link.partition("#")
    path = path.partition("?")[0] or name
    if re.match(r"[a-z]+:", path):
        return path == "https://github.com/pradyunsg/furo"  # the theme's author, in the footer
    if path not in texts:
        return (site / path).exists()
    return not anchor or f'id="{anchor}"' in texts[path]
