"""The rules of docs/architecture.rst that import-linter and ruff (setup.cfg, ruff.toml) cannot express."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "snia_pts"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Calls that write by a path.
WRITING = {
    "write_text",
    "write_bytes",
    "mkdir",
    "makedirs",
    "touch",
    "rename",
    "renames",
    "symlink_to",
    "hardlink_to",
    "copyfile",
    "copy2",
    "copytree",
    "move",
    "NamedTemporaryFile",
    "mkstemp",
}


def write_calls(tree: ast.AST) -> Iterator[str]:
    """Yield the name of each call that makes, opens for write_calls or renames a file or folder by its path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "O_CREAT":
            yield node.attr
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        method = isinstance(node.func, ast.Attribute)
        place = 0 if method else 1  # of the mode: path.open(mode), open(path, mode)
        modes = [*node.args[place : place + 1], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        writes = any(isinstance(mode, ast.Constant) and set("wax+") & set(str(mode.value)) for mode in modes)
        if (method and name in WRITING) or (name == "open" and writes):
            yield name


def test_one_module_writes_to_run_folders() -> None:
    """Only files.py and trusted_paths.py create files of a run folder or open them for writing, by descriptors."""
    writers = {
        (str(path.relative_to(PACKAGE)), name)
        for path in FILES
        for name in write_calls(ast.parse(path.read_text("utf-8")))
    }

    assert {writer for writer in writers if writer[0] not in ("files.py", "trusted_paths.py")} == {
        ("cli/main.py", "open"),  # /dev/null
        ("api/bundle.py", "copytree"),  # into a temporary folder
        ("arrays/lab/mdadm.py", "write_text"),  # the kernel's settings, in /proc and /sys
        ("lab/settings/write_cache.py", "write_text"),
        ("lab/host/configurator.py", "write_bytes"),
        ("lab/host/tuning/__init__.py", "open"),
        ("lab/device/file_target.py", "O_CREAT"),  # the target
        ("lab/settings/state_dir.py", "mkdir"),  # /var/lib/snia-pts
    }


@pytest.mark.parametrize("name", ["analysis/steady_state.py", "procedures/estimator.py"])
def test_no_number_of_the_standard_in_the_arithmetic(name: str) -> None:
    """Number literals are 0, 1, 2, 100 for percent, and 1000 as a named constant; the standard's are in specs/."""
    tree = ast.parse((PACKAGE / name).read_text("utf-8"))
    named = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)]
    numbers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
    ]

    assert numbers
    assert [
        f"line {node.lineno}: {node.value!r}"
        for node in numbers
        if node.value not in (0, 1, 2, 100) and not (node.value == 1000 and node in named)
    ] == []


def test_the_architecture_names_every_package() -> None:
    """docs/architecture.rst has a line for each package and module at the root, and for nothing else."""
    text = (ROOT / "docs" / "architecture.rst").read_text(encoding="utf-8")
    table = text[text.index("\npackage ") : text.index("\nHow data flows")]
    named = {name for line in table.splitlines() for name in re.findall(r"``(\w+)``", line[:26])}

    there = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == there - {"__pycache__", "__init__", "__main__", "data"}


# -- linters ---------------------------------------------------------------------------------------------------------


@pytest.mark.lint
@pytest.mark.parametrize(
    "command",
    [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"], ["lint-imports"]],
    ids=" ".join,
)
def test_linter_finds_nothing(command: list[str]) -> None:
    """Style, format and types of the whole tree are in order."""
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


# -- what a run loads ------------------------------------------------------------------------------------------------


def test_report_libraries_are_not_loaded_during_a_test() -> None:
    """A run loads neither tables nor figures of reports, nor the libraries that draw and typeset them."""
    program = "import sys; import snia_pts.cli.main, snia_pts.cli.commands.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    late = {
        "matplotlib",
        "numpy",
        "docutils",
        "rst2pdf",
        "lxml",
        "snia_pts.report.registry",
        "snia_pts.report.formats.rst",
    }

    assert late.intersection(loaded) == set()
    assert "xml.etree.ElementTree" in loaded  # the end of a run needs it


@pytest.mark.long
def test_the_agent_of_a_lab_loads_nothing_that_only_its_runs_need() -> None:
    """It attaches to its runs within seconds of its start, so it loads no reports, no laboratories and no numpy."""
    program = (
        "import sys; from snia_pts.fleet import agent_commands, drive_facts; "
        "assert drive_facts.target_facts('sim:enterprise-nvme'); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    late = (
        "numpy",
        "matplotlib",
        "snia_pts.report",
        "snia_pts.batch",
        "snia_pts.runner.run",
        "snia_pts.lab.laboratory",
    )

    assert set(late).intersection(loaded) == set()
    assert "snia_pts.fleet.agent" in loaded


# -- scripts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["scripts/setup", "scripts/test", "scripts/docs", "scripts/demo", "scripts/samples", "scripts/bare", ".ci/run"],
)
def test_scripts_can_be_run(name: str) -> None:
    """Each script may be executed and is free of syntax errors."""
    path = ROOT / name

    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
