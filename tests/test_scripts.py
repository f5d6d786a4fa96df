"""The scripts print help without set-up, refuse unknown options, and say what they do."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    """Return a tree with the scripts only, in which set-up and Python do nothing."""
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
@pytest.mark.parametrize("name", ["bare", "deb", "deb-trial", "demo", "docs", "release", "samples", "test"])
def test_help_needs_no_set_up(tree: Path, name: str, option: str) -> None:
    """A script prints its usage, and neither sets up nor runs anything."""
    done = run(tree, name, option)

    assert (done.returncode, done.stderr) == (0, "")
    assert f"  scripts/{name}" in done.stdout
    assert "called" not in done.stdout
    assert "#" not in done.stdout


def test_the_demo_refuses_unknown_options(tree: Path) -> None:
    """An unknown option ends the demo before set-up starts."""
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


def test_the_site_is_built_with_warnings_as_errors(tree: Path) -> None:
    """Set-up installs what the site needs; Sphinx gets the options, and fails on a warning."""
    done = run(tree, "docs", "-E")

    first, second, last = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert first == "called setup --docs"
    assert second.startswith("called python -m sphinx ")
    assert "--fail-on-warning" in second
    assert second.endswith(" -E docs build/docs")
    assert last == "docs: build/docs/index.html"


def test_checks_announce_each_step(tree: Path) -> None:
    """A line precedes style, imports, types and each part of the tests."""
    done = run(tree, "test")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    for tool in ("ruff", "pytest"):
        first = next(number for number, line in enumerate(lines) if line.startswith(f"called python -m {tool}"))
        assert lines[first - 1].startswith("test: ")
    assert "test: checking who imports whom with import-linter" in lines
    assert "test: checking types with mypy, and running the tests that share the machine" in lines


def test_checks_keep_bytecode(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests write bytecode files even if the environment forbids them: each process then compiles nothing."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tree / ".venv" / "bin" / "python").write_text('#!/bin/sh\necho "bytecode ${PYTHONDONTWRITEBYTECODE-written}"\n')
    done = run(tree, "test")

    assert done.returncode == 0
    assert {line for line in done.stdout.splitlines() if line.startswith("bytecode")} == {"bytecode written"}


def test_a_broken_import_contract_ends_the_checks(tree: Path) -> None:
    """The output of import-linter is shown, and no test runs."""
    (tree / ".venv" / "bin" / "lint-imports").write_text("#!/bin/sh\necho 'Contract BROKEN'\nexit 1\n")
    done = run(tree, "test")

    assert done.returncode == 1
    assert "Contract BROKEN" in done.stdout
    assert "pytest" not in done.stdout


@pytest.mark.parametrize("tests", [0, 1])
def test_a_wrong_type_is_shown_after_the_tests(tree: Path, tests: int) -> None:
    """mypy runs beside the second part of the tests; its findings are not lost, whatever these tests say."""
    program = f'case "$*" in *mypy*) echo "Incompatible types" >&2; exit 1 ;; *"not device"*) exit {tests} ;; esac'
    (tree / ".venv" / "bin" / "python").write_text(f"#!/bin/sh\n{program}\n")
    done = run(tree, "test")

    assert done.returncode == 1
    assert done.stdout.endswith("Incompatible types\n")


@pytest.mark.parametrize(
    "argv", [(), ("bookworm",), ("-x", "bookworm", "true"), ("../..", "true"), ("bookworm", "true")]
)
def test_a_bare_system_that_cannot_be_made_has_its_own_exit_code(tree: Path, argv: tuple[str, ...]) -> None:
    """Wrong arguments, no root or no git clone: one message, and exit code 125, which no command returns."""
    done = run(tree, "bare", *argv)

    assert (done.returncode, done.stdout) == (125, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("scripts/bare: ")
