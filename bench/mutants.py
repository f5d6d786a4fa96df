"""Mutation tests of the modules that decide: which mutants does no test notice?

``python bench/mutants.py [steadystate ...] [--jobs 2]`` copies the project, changes one place of it at a time (a
comparison, ``and`` for ``or``, a ``not`` removed, a condition that is always false, an exception that is not raised)
and runs the tests of that module, which must pass without a mutant.  A mutant is killed when a test fails.  Equivalent
mutants are listed in ``EQUIVALENT`` with the reason.

mutmut and cosmic-ray have no mutation that removes a ``raise``, and none limited to some functions of a module, with
tests of its own for each module.
"""

from __future__ import annotations

import argparse
import ast
import copy
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A module to mutate, and the arguments of pytest for its tests, the fast ones first.

    ``within`` names the functions and classes to mutate; all if empty.
    """

    path: str
    tests: tuple[str, ...]
    within: tuple[str, ...] = ()


_SAFETY = ("tests/test_guarding.py", "tests/test_inventory.py")
#: The libraries are already imported, so that pytest cannot rewrite their assertions.
_PYTEST_OPTIONS = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-m",
    "not lint and not long",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
RULES: Mapping[str, Rule] = {
    "steadystate": Rule(
        path="snia_pts/analysis/steady_state.py", tests=("tests/test_steadystate.py", "tests/test_window.py")
    ),
    "window": Rule(path="snia_pts/analysis/window.py", tests=("tests/test_window.py",)),
    "interruption": Rule(path="snia_pts/results/interruption.py", tests=("tests/test_interruption.py",)),
    "hostlimit": Rule(path="snia_pts/analysis/host_limit.py", tests=("tests/test_hostlimit.py",)),
    "journal_reader": Rule(path="snia_pts/record/journal_reader.py", tests=("tests/test_journal.py",)),
    **{
        name: Rule(
            path=f"snia_pts/lab/fio/{name}.py",
            tests=(
                "tests/test_acceptance.py",
                "tests/test_fio.py",
                "tests/test_false_answers.py",
                "-k",
                "not junk and not changed and not real and not share and not spoiled and not sequential "
                "and not smuggled",
            ),
        )
        for name in ("answer", "acceptance")
    },
    "process": Rule(path="snia_pts/lab/process/program.py", tests=("tests/test_process.py",)),
    "refusals": Rule(path="snia_pts/lab/device/refusals.py", tests=_SAFETY),
    "contents": Rule(path="snia_pts/lab/device/contents.py", tests=_SAFETY),
    "usage": Rule(path="snia_pts/lab/device/usage.py", tests=_SAFETY),
    **{
        name: Rule(path=f"snia_pts/lab/device/{name}.py", tests=(*_SAFETY, "tests/test_target_identity.py"))
        for name in ("storage", "processes", "exclusive_access")
    },
    "filetarget": Rule(path="snia_pts/lab/device/file_target.py", tests=("tests/test_safety.py",)),
    "target_claim": Rule(
        path="snia_pts/lab/device/target_claim.py", tests=("tests/test_safety.py", "tests/test_purge.py")
    ),
    **{
        f"purge.{name}": Rule(path=f"snia_pts/lab/purge/{name}.py", tests=tests)
        for name, tests in {
            "ata": ("tests/purge/test_ata.py",),
            "nvme": ("tests/purge/test_nvme.py",),
            "scsi": ("tests/purge/test_scsi.py", "tests/test_purge.py"),
            "choice": ("tests/test_purge.py", "tests/purge"),
            "method": ("tests/test_purge.py", "tests/purge"),
            "generic": ("tests/test_purge.py", "tests/purge"),
            "proof": ("tests/test_purge.py", "tests/purge"),
            "purger": ("tests/test_purge.py", "tests/purge"),
        }.items()
    },
}
#: Equivalent mutants, by module and text, with the reason.
EQUIVALENT: Mapping[tuple[str, str], str] = {
    **dict.fromkeys(
        (
            ("interruption", "if rule is None or most is None: -> if False:"),
            ("interruption", "rule is None or most is None -> rule is None and most is None"),
        ),
        "a test has both or neither, and one without rounds is never in the midst of one",
    ),
    ("contents", "place < until -> place <= until"): "nothing is read once more",
    ("usage", "table and table not in seen -> table or table not in seen"): "a table seen again tells nothing new",
    ("usage", "len(fields) < 5 -> len(fields) <= 5"): "the kernel writes six fields or more",
    ("window", "first > 1 -> first >= 1"): "the number before the first is that of the last, which is none below it",
}
_REPLACEMENTS: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_MUTATED_NODES = (ast.Compare, ast.BoolOp, ast.If, ast.IfExp, ast.While, ast.Raise, ast.UnaryOp)
#: A mutant whose tests hang is killed.
_TIMEOUT_SECONDS = 300


def mutants(source: str, within: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the mutants of a module: line, description of the change, and source."""
    tree = ast.parse(source)
    for place, node in enumerate(ast.walk(tree)):
        if not isinstance(node, _MUTATED_NODES) or not _is_within(tree, node, within):
            continue
        for choice in range(2 * len(node.ops) if isinstance(node, ast.Compare) else 1):
            changed = copy.deepcopy(tree)
            same = next(item for number, item in enumerate(ast.walk(changed)) if number == place)
            before = ast.unparse(node)
            if _mutate(changed, same, choice):
                what = f"{_short(before)} -> {_short(ast.unparse(same))}"
                yield node.lineno, what, ast.unparse(ast.fix_missing_locations(changed))


def _is_within(tree: ast.Module, node: ast.expr | ast.stmt, within: Sequence[str]) -> bool:
    """Return whether a node is in one of the named functions or classes; True if none is named."""
    named = [
        item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef | ast.ClassDef) and item.name in within
    ]
    return not within or any(item.lineno <= node.lineno <= (item.end_lineno or 0) for item in named)


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 70 else f"{line[:67]}..."


def _mutate(tree: ast.AST, node: ast.AST, choice: int) -> bool:
    """Apply mutation number ``choice`` to ``node``; return whether there is one."""
    if isinstance(node, ast.Compare):
        place, way = divmod(choice, 2)
        ways = _REPLACEMENTS.get(type(node.ops[place]), ())
        if way < len(ways):
            node.ops[place] = ways[way]()
            return True
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return True
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.Constant(value=False)
        return True
    elif isinstance(node, ast.Raise) and node.exc is not None:
        return _replace(tree, node, ast.Pass())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _replace(tree, node, node.operand)
    return False


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> bool:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, ast.copy_location(new, old))
                return True
            if isinstance(value, list) and any(item is old for item in value):
                value[next(at for at, entry in enumerate(value) if entry is old)] = ast.copy_location(new, old)
                return True
    return False


def survives(job: tuple[str, int, str, str]) -> tuple[str, int, str, str]:
    """Run the tests of a rule against a mutant of it, in a copy of the project; return the failure, empty if none."""
    name, line, what, text = job
    rule, home = RULES[name], Path(os.environ["SNIA_PTS_MUTANTS"]) / str(os.getpid())
    if not home.exists():
        ignored = shutil.ignore_patterns(".venv", ".git", "runs", "__pycache__", ".hypothesis", ".mypy_cache")
        shutil.copytree(ROOT, home, symlinks=True, ignore=ignored)
    whole = (home / rule.path).read_bytes()
    (home / rule.path).write_text(text, encoding="utf-8")
    try:
        return name, line, what, _failure(home, rule.tests)
    finally:
        (home / rule.path).write_bytes(whole)


def _failure(home: Path, tests: Sequence[str]) -> str:
    """Run tests in a child process that has imported the libraries; return the output if one fails."""
    output_file = home / "said.txt"
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        output = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
            os.dup2(descriptor, number)
        os.chdir(home)
        os.environ.update(PYTHONPATH=str(home), HYPOTHESIS_PROFILE="ci", PYTHONDONTWRITEBYTECODE="1")
        sys.path.insert(0, str(home))
        sys.dont_write_bytecode = True
        code = 1
        try:
            code = pytest.main([*_PYTEST_OPTIONS, *tests])
        finally:
            os._exit(code)
    until = time.monotonic() + _TIMEOUT_SECONDS
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"no end within {_TIMEOUT_SECONDS} s"
        time.sleep(0.02)
    return output_file.read_text(errors="replace")[-2000:] or "it died" if ended[1] else ""


def main() -> int:
    """Run the benchmark; the exit code is 1 if a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *RULES], help="all unless named")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    jobs, wholes = [], []
    for name in arguments.names or RULES:
        source = (ROOT / RULES[name].path).read_text(encoding="utf-8")
        wholes.append((name, 0, "nothing", source))
        jobs += [(name, *mutant) for mutant in mutants(source, RULES[name].within)]
    for library in ("hypothesis.strategies", "lxml.etree", "pydantic", "_pytest.assertion"):
        import_module(library)
    began, left, told = time.monotonic(), 0, {name: [0, 0, 0] for name in RULES}
    with tempfile.TemporaryDirectory(prefix="snia-pts-mutants-") as home:
        os.environ["SNIA_PTS_MUTANTS"] = home
        with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
            for name, _, _, failure in pool.imap_unordered(survives, wholes):
                if failure:
                    sys.exit(f"the tests of {name} fail without a mutant: {failure}")
            for name, line, what, failure in pool.imap_unordered(survives, jobs):
                same = not failure and (name, what) in EQUIVALENT
                survived = not failure and not same
                told[name][0] += 1
                told[name][1] += same
                told[name][2] += survived
                if survived:
                    left += 1
                    print(f"SURVIVED {RULES[name].path}:{line}: {what}", flush=True)
    print(f"{'':14} {'mutants':>7} {'equivalent':>10} {'survived':>8}")
    for name, (count, equal, alive) in told.items():
        if count:
            print(f"{name:14} {count:7} {equal:10} {alive:8}")
    print(f"{len(jobs)} mutants in {time.monotonic() - began:.0f} s, {left} survived")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
