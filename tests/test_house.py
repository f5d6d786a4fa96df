"""The house keeps its order: who may import whom, who may touch the world, how large a thing may grow.

``docs/house.rst`` tells the reasons.  A room is a module of the package, or a folder in it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "snia_pts"

#: Rooms of one floor do not see each other; a floor sees all floors before it.
FLOORS = (
    {"__init__"},
    {"errors"},
    {"units", "files", "aside"},
    {"histogram", "vitals", "tomlfile", "raid", "told"},
    {"limits", "array"},
    {"spec", "dut", "testplatform", "health", "about"},
    {"steps", "specfile", "description"},
    {"profilefile"},
    {"measurement", "ceiling"},
    {"steadystate", "timeline", "hostlimit", "disturbances"},
    {"window", "demand", "recovery"},
    {"procedures", "interruption", "imported"},
    {"plan", "result"},
    {"folding", "keyfigures", "points"},
    {"comparison", "acceptance"},
    {"record", "lab"},
    {"report", "replay"},
    {"runner"},
    {"cli"},
    {"__main__"},
)

#: What a room does not see although it lies below.
NOT_SEEN = {
    "lab": {
        "steadystate", "timeline", "hostlimit", "disturbances", "window", "demand", "recovery", "procedures",
        "interruption", "plan", "result", "folding", "record", "report",
    },
    "record": {"lab", "report"},
    "report": {"lab", "record", "runner", "cli"},
}  # fmt: skip

PURE = {
    "errors", "units", "histogram", "vitals", "spec", "dut", "testplatform", "health", "steps", "measurement",
    "ceiling", "steadystate", "timeline", "hostlimit", "disturbances", "window", "demand", "recovery", "procedures",
    "interruption", "plan", "result", "folding", "raid", "array", "description", "told",
    "imported",
}  # fmt: skip
WORLD = {
    "os", "time", "random", "secrets", "subprocess", "socket", "threading", "multiprocessing", "shutil", "tempfile",
    "signal", "datetime", "sys", "io", "fcntl", "ctypes", "asyncio", "pathlib",
}  # fmt: skip
SPAWNING = {
    "system", "popen", "forkpty", "posix_spawn", "posix_spawnp", "execl", "execle", "execlp", "execlpe",
    "execv", "execve", "execvp", "execvpe", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp",
    "spawnvpe", "startfile",
}  # fmt: skip
NO_ROOMS = {"utils", "util", "helpers", "helper", "common", "misc", "supporting", "tools", "base", "core"}

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 45

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "data" not in path.relative_to(PACKAGE).parts)
NAMES = [str(path.relative_to(PACKAGE)) for path in FILES]


def each(*files: Path) -> pytest.MarkDecorator:
    """Run a test once for each of these files."""
    return pytest.mark.parametrize("path", files, ids=[str(path.relative_to(PACKAGE)) for path in files])


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room(path: Path) -> str:
    """Return the room of a file."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def floor(name: str) -> int:
    """Return the floor of a room, counted from below."""
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def imported(path: Path, tree: ast.AST | None = None) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every module or member that a file imports (or would, holding ``tree``)."""
    package = ["snia_pts", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(tree or tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = package[: len(package) - node.level + 1] if node.level else []
            origin = origin + (node.module.split(".") if node.module else [])
            yield from ((node.lineno, ".".join([*origin, alias.name])) for alias in node.names)


def rooms_seen(path: Path, tree: ast.AST | None = None) -> Iterator[tuple[int, str]]:
    """Yield line and room of every import from the suite itself."""
    for line, name in imported(path, tree):
        parts = name.split(".")
        if parts[0] == "snia_pts":
            known = len(parts) > 1 and any(parts[1] in rooms for rooms in FLOORS)
            yield line, parts[1] if known else "__init__"


def called(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


# -- rooms and floors -----------------------------------------------------------------------------------------------


def test_every_room_has_a_floor() -> None:
    """A new room is given its floor here, and a room that is gone is taken out."""
    planned = set().union(*FLOORS) - {"__init__", "__main__"}
    rooms = {room(path) for path in FILES} - {"__init__", "__main__"}

    assert rooms == planned


def test_rooms_have_nouns() -> None:
    """No module is a drawer for what has no home."""
    assert [name for name in NAMES if NO_ROOMS & {part.removesuffix(".py") for part in Path(name).parts}] == []


@each(*FILES)
def test_imports_go_down(path: Path) -> None:
    """A file imports only from floors below its own, or from its own room."""
    here = room(path)
    wrong = [
        f"line {line}: {here} imports {seen}"
        for line, seen in rooms_seen(path)
        if seen != here and (floor(seen) >= floor(here) or seen in NOT_SEEN.get(here, ()))
    ]

    assert wrong == []


@each(*(path for path in FILES if room(path) in PURE))
def test_pure_rooms_do_not_touch_the_world(path: Path) -> None:
    """What can be computed without a clock, a file, a program or chance cannot reach one."""
    assert [name for _, name in imported(path) if name.split(".")[0] in WORLD] == []


def test_one_module_starts_programs() -> None:
    """Only lab/process.py imports subprocess, and nothing starts programs in another way."""
    importers = {
        str(path.relative_to(PACKAGE))
        for path in FILES
        for _, name in imported(path)
        if name.split(".")[0] in ("subprocess", "multiprocessing", "pty")
    }
    spawners = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in FILES
        for line, name in [*called(tree_of(path)), *imported(path)]
        if name.split(".")[0] in ("os", "posix") and name.split(".")[-1] in SPAWNING
    ]

    assert importers == {"lab/process.py"}
    assert spawners == []


def test_one_module_copies_the_process() -> None:
    """Only aside.py forks, and only its copy leaves without the end that a process has: nobody else does either."""
    copiers = {
        (str(path.relative_to(PACKAGE)), name)
        for path in FILES
        for _, name in [*called(tree_of(path)), *imported(path)]
        if name in ("os.fork", "posix.fork", "os._exit", "posix._exit")
    }

    assert copiers == {("aside.py", "os.fork"), ("aside.py", "os._exit")}


@each(*(path for path in FILES if room(path) not in ("cli", "__main__")))
def test_only_the_cli_speaks_and_exits(path: Path) -> None:
    """print, input and exit are for the room that talks to people; everybody else returns, raises or tells an event."""
    speaking = {"print", "input", "exit", "quit", "breakpoint", "sys.exit", "SystemExit"}
    streams = {"sys.stdout", "sys.stderr", "sys.stdin", "sys.exit"}
    names = {name for _, name in [*called(tree_of(path)), *imported(path)]}
    named = {ast.unparse(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}

    assert names & (speaking | streams) == set()
    assert named & streams == set()


def test_the_plan_of_the_house_is_told() -> None:
    """docs/house.rst names the rooms of every floor, from the attic down."""
    text = (ROOT / "docs" / "house.rst").read_text(encoding="utf-8")
    table = text[text.index("\nroom ") : text.index("Beside the package")]
    cells = [line[:26] for line in table.splitlines()]
    named = [name for cell in cells for name in re.findall(r"``(\w+)``", cell)]

    assert [floor(name) for name in named] == sorted((floor(name) for name in named), reverse=True)
    assert set(named) == set().union(*FLOORS) - {"__init__", "__main__"}


# -- what no room does -----------------------------------------------------------------------------------------------


def silent(node: ast.ExceptHandler) -> bool:
    """Is this a handler that swallows its exception without doing anything?"""
    return all(isinstance(line, ast.Pass) or _is_ellipsis(line) for line in node.body)


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@each(*FILES)
def test_no_failure_is_swallowed(path: Path) -> None:
    """No bare except, and no handler that does nothing (contextlib.suppress names what may fail)."""
    handlers = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ExceptHandler)]

    assert [f"line {node.lineno}: bare except" for node in handlers if node.type is None] == []
    assert [f"line {node.lineno}: does nothing" for node in handlers if silent(node)] == []


@each(*FILES)
def test_no_hidden_state_and_no_code_from_data(path: Path) -> None:
    """No global statement, nothing is unpickled, evaluated or executed."""
    states = [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Global)]
    modules = {name.split(".")[0] for _, name in imported(path)}
    calls = {name for _, name in called(tree_of(path))}

    assert states == []
    assert modules & {"pickle", "marshal", "shelve", "dill", "cloudpickle"} == set()
    assert calls & {"eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec"} == set()


@each(*FILES)
def test_modules_are_small(path: Path) -> None:
    """A module fits in the head: 400 lines at most."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES


@each(*FILES)
def test_functions_are_small(path: Path) -> None:
    """A function fits on a screen: 45 lines at most, decorators and docstring included."""
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]

    assert [
        f"{node.name}: {lines} lines"
        for node in functions
        for lines in [(node.end_lineno or 0) - min([node.lineno, *(each.lineno for each in node.decorator_list)]) + 1]
        if lines > MAX_FUNCTION_LINES
    ] == []


@each(*FILES)
def test_modules_say_what_they_are(path: Path) -> None:
    """Every module that holds anything begins with a docstring."""
    assert not tree_of(path).body or ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("name", ["steadystate.py", "plan.py"])
def test_no_number_of_the_standard_in_the_arithmetic(name: str) -> None:
    """Number literals are 0, 1, 2, the 100 of percent, and 1000 under a name; the standard's stand in specs/."""
    tree = tree_of(PACKAGE / name)
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


# -- the checks check ------------------------------------------------------------------------------------------------


def test_relative_imports_are_resolved() -> None:
    """An import is known by its full name however it is written, so that no spelling slips through."""
    path = PACKAGE / "lab" / "invented.py"
    tree = ast.parse(
        "import os.path\nfrom .. import record\nfrom ..report import tables\nfrom .fio import Fio\n"
        "from snia_pts.folding import fold\nimport snia_pts\n"
    )

    assert [name for _, name in imported(path, tree)] == [
        "os.path", "snia_pts.record", "snia_pts.report.tables", "snia_pts.lab.fio.Fio", "snia_pts.folding.fold",
        "snia_pts",
    ]  # fmt: skip
    assert [seen for _, seen in rooms_seen(path, tree)] == ["record", "report", "lab", "folding", "__init__"]


# -- linters ---------------------------------------------------------------------------------------------------------


@pytest.mark.lint
@pytest.mark.parametrize(
    "command",
    [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]],
    ids=" ".join,
)
def test_linter_is_content(command: list[str]) -> None:
    """Style, format and types of the whole tree are in order."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


# -- scripts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scripts/setup", "scripts/test", "scripts/demo", ".ci/run"])
def test_scripts_can_be_run(name: str) -> None:
    """Each script may be executed and is free of syntax errors."""
    path = ROOT / name

    assert path.stat().st_mode & 0o111
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
