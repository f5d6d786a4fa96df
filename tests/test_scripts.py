"""The scripts help at once, refuse what they do not know, and say what they do."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    """A tree with the scripts alone, where set-up and Python do nothing."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for name in ("scripts/setup", ".venv/bin/python", ".venv/bin/lint-imports"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "called {path.name} $*"\n')
        path.chmod(0o755)
    return tmp_path


def run(tree: Path, name: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the tree and return how it ended."""
    command = [str(tree / "scripts" / name), *argv]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", ["bare", "demo", "test"])
def test_help_needs_no_set_up(tree: Path, name: str, option: str) -> None:
    """A script tells how it is called, and neither sets up nor runs anything for that."""
    done = run(tree, name, option)

    assert (done.returncode, done.stderr) == (0, "")
    assert f"scripts/{name} " in done.stdout
    assert "called" not in done.stdout
    assert "#" not in done.stdout


def test_the_demo_refuses_what_is_no_option(tree: Path) -> None:
    """A word that is no option ends the demo before set-up begins."""
    done = run(tree, "demo", "client")

    assert (done.returncode, done.stdout) == (2, "")
    assert "client" in done.stderr


def test_the_demo_passes_options_on(tree: Path) -> None:
    """Options reach both runs of the demo."""
    done = run(tree, "demo", "--class", "client")

    assert done.returncode == 0
    calls = [line for line in done.stdout.splitlines() if line.startswith("called python")]
    assert len(calls) == 2
    assert all(call.endswith(" --class client") for call in calls)


def test_checks_say_what_they_check(tree: Path) -> None:
    """Before style, imports, types and each part of the tests a line says what comes."""
    done = run(tree, "test")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    for tool in ("ruff", "mypy", "pytest"):
        first = next(number for number, line in enumerate(lines) if line.startswith(f"called python -m {tool}"))
        assert lines[first - 1].startswith("test: ")
    assert "test: checking who imports whom with import-linter" in lines


def test_a_broken_import_contract_ends_the_checks(tree: Path) -> None:
    """What import-linter found is shown, and no test runs."""
    (tree / ".venv" / "bin" / "lint-imports").write_text("#!/bin/sh\necho 'Contract BROKEN'\nexit 1\n")
    done = run(tree, "test")

    assert done.returncode == 1
    assert "Contract BROKEN" in done.stdout
    assert "pytest" not in done.stdout


@pytest.mark.parametrize(
    "argv", [(), ("bookworm",), ("-x", "bookworm", "true"), ("../..", "true"), ("bookworm", "true")]
)
def test_a_bare_system_that_cannot_be_made_has_its_own_exit_code(tree: Path, argv: tuple[str, ...]) -> None:
    """Wrong arguments, no root or no git clone: one sentence, and 125, which no command that was run gives."""
    done = run(tree, "bare", *argv)

    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("scripts/bare: ")
