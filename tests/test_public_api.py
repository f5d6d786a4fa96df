"""The public library: its names and signatures change only on purpose, and importing it costs little."""

from __future__ import annotations

import builtins
import doctest
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import snia_pts
from snia_pts import errors
from snia_pts.cli.main import main
from tests import samples
from tests.public_api import PATH, describe

#: The most CPU time that an import may take, without the start of Python.
_IMPORT_SECONDS = 0.03
_TIMES = 20


def run_python(program: str) -> str:
    """Run a program in a new process and return its output."""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_names_signatures_and_documentation_are_those_stored() -> None:
    """``python -m tests.public_api`` writes them after a deliberate change; CHANGES.rst informs users."""
    assert describe() == PATH.read_text(encoding="utf-8")


def paragraphs() -> Iterator[str]:
    """Yield the signature and the documentation of each public function, class, property and method."""
    yield from re.split(
        r"\n\s*\n(?= *(?:class )?\w+[(:])", PATH.read_text(encoding="utf-8").partition("module errors")[0]
    )


def test_every_name_is_documented() -> None:
    """There is a sentence below each signature."""
    undocumented = [name for name in snia_pts.__all__ if name != "__version__" and not getattr(snia_pts, name).__doc__]

    assert undocumented == []
    assert [text for text in paragraphs() if "\n" not in text.strip() and text.strip() != "__version__"] == []


def test_documented_errors_exist() -> None:
    """Every class after ``Raises`` is an error of the suite, or of Python."""
    raised = {
        name
        for sentence in re.findall(r"Raises\s+([^.]+)\.", PATH.read_text(encoding="utf-8"))
        for name in re.findall(r"\b[A-Z][A-Za-z]+\b", sentence)
        if name not in ("PTS", "RAID", "JSON", "Int64", "None")
    }

    assert [name for name in raised if not hasattr(errors, name) and not hasattr(builtins, name)] == []


def test_star_imports_all_names() -> None:
    """``from snia_pts import *`` and ``dir`` give the public names."""
    names = run_python("from snia_pts import *; print(*(name for name in dir() if name[:2] != '__'))").split()

    assert set(names) == set(snia_pts.__all__) - {"__version__"}
    assert set(snia_pts.__all__) <= set(dir(snia_pts))


def test_another_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="module 'snia_pts' has no attribute 'nothing'"):
        snia_pts.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_no_public_name_is_that_of_a_subpackage() -> None:
    """Importing ``snia_pts.report`` would replace a function of that name; ``errors`` is the module itself."""
    modules = run_python("import pkgutil, snia_pts; print(*(m.name for m in pkgutil.iter_modules(snia_pts.__path__)))")

    assert set(snia_pts.__all__) & set(modules.split()) == {"errors"}


def test_the_import_is_quick_and_loads_no_library() -> None:
    """It takes less than 30 ms, and loads neither numpy nor any other installed library, nor a module of the lab."""
    program = (
        "import sys, time; start = time.process_time(); import snia_pts; took = time.process_time() - start; "
        "print(took, *sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names), "
        "*(name for name in sys.modules if name.startswith('snia_pts.')))"
    )
    quickest = 1.0
    for _ in range(_TIMES):  # other processes take their share of the caches
        seconds, *modules = run_python(program).split()
        quickest = min(quickest, float(seconds))
        if quickest < _IMPORT_SECONDS:
            break

    assert quickest < _IMPORT_SECONDS
    assert {name for name in modules if name.startswith("snia_pts")} == {
        "snia_pts",
        "snia_pts.plugins",
        "snia_pts.registries",
    }
    assert not {"numpy", "scipy", "matplotlib", "pydantic", "lxml"} & set(modules)


def test_a_stored_run_needs_numpy_only_for_arrays() -> None:
    """Verdicts and figures of many runs are read without it."""
    program = "import sys, snia_pts; snia_pts.load; snia_pts.Table; print('numpy' in sys.modules)"

    assert run_python(program) == "False"


# -- documentation ----------------------------------------------------------------------------------------------------

_PAGE = Path(__file__).parent.parent / "docs" / "api.rst"


@pytest.mark.long
def test_the_examples_of_the_documentation_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands make the runs, and every example gives what the page says."""
    monkeypatch.chdir(tmp_path)
    page = _PAGE.read_text(encoding="utf-8")
    for command in re.findall(r"^    snia-pts (.+)$", page, re.MULTILINE):
        assert main([*shlex.split(command), "--to", "none"]) == 0
    failed, tried = doctest.testfile(
        str(_PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE, encoding="utf-8"
    )

    assert tried > 40
    assert failed == 0


@pytest.mark.long
def test_the_plot_of_the_documentation_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program plots the runs in a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    samples.store_run(tmp_path / "runs" / "a")
    page = _PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(r"^ {4}import matplotlib.*\n(?:(?: {4}.*)?\n)+", page, re.MULTILINE)
    run_python(textwrap.dedent(program))

    assert (tmp_path / "iops.png").read_bytes().startswith(b"\x89PNG")


def test_every_public_name_is_described() -> None:
    """docs/api.rst names all functions and classes."""
    page = _PAGE.read_text(encoding="utf-8")

    assert [name for name in snia_pts.__all__ if not re.search(rf"\b{name}\b", page)] == []
