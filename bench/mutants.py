"""Breaks the rules that matter, one at a time, and tells which breakage no test notices.

``python bench/mutants.py [steadystate ...] [--jobs 2]`` copies the project, changes one place of a module at a time (a
comparison, ``and`` for ``or``, a ``not`` taken away, a condition that never holds, a refusal that is not raised) and
runs the tests of that module, which must pass before.  A mutant is killed when a test fails.  Mutants that change
nothing anybody could see are listed in ``SAME`` with the reason.
"""

from __future__ import annotations

import argparse
import ast
import copy
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What is broken, and the tests that must notice.
RULES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "steadystate": ("snia_pts/steadystate.py", ("tests/test_steadystate.py", "tests/test_window.py")),
    "window": ("snia_pts/window.py", ("tests/test_window.py", "tests/test_resuming.py")),
    "interruption": ("snia_pts/interruption.py", ("tests/test_resuming.py",)),
    "fio": ("snia_pts/lab/fio.py", ("tests/test_fio.py",)),
    "guard": ("snia_pts/lab/guard.py", ("tests/test_safety.py",)),
    "safety": ("snia_pts/lab/safety.py", ("tests/test_safety.py",)),
}
#: Mutants that are the same program, by module and text, with the reason.
SAME: Mapping[tuple[str, str], str] = {}
_BESIDE: Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Give each mutant of a module: the line, what was changed, and the whole text."""
    tree = ast.parse(source)
    count = sum(1 for _ in ast.walk(tree))
    for place in range(count):
        for choice in range(2):
            changed = copy.deepcopy(tree)
            node = next(node for number, node in enumerate(ast.walk(changed)) if number == place)
            before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
            if _mutate(changed, node, choice):
                after = ast.unparse(node)
                what = f"{_short(before)} -> {_short(after)}"
                yield node.lineno, what, ast.unparse(ast.fix_missing_locations(changed))  # type: ignore[attr-defined]


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 70 else f"{line[:67]}..."


def _mutate(tree: ast.AST, node: ast.AST, choice: int) -> bool:
    """Change ``node`` in one of its ways; tells whether it has such a way."""
    if isinstance(node, ast.Compare):
        ways = _BESIDE.get(type(node.ops[0]), ())
        if choice < len(ways):
            node.ops[0] = ways[choice]()
            return True
    elif choice:
        return False
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
            if isinstance(value, list) and any(each is old for each in value):
                value[next(at for at, each in enumerate(value) if each is old)] = ast.copy_location(new, old)
                return True
    return False


def survives(job: tuple[str, str, tuple[str, ...], int, str, str]) -> tuple[str, int, str, bool]:
    """Run the tests of a module against a mutant of it, in a copy of the project; tell whether they all pass."""
    name, path, tests, line, what, text = job
    home = Path(os.environ["SNIA_PTS_MUTANTS"]) / str(os.getpid())
    if not home.exists():
        ignored = shutil.ignore_patterns(".venv", ".git", "runs", "__pycache__", ".hypothesis", ".mypy_cache")
        shutil.copytree(ROOT, home, symlinks=True, ignore=ignored)
    (home / path).write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(home), "HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not lint", *tests]
    try:
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, timeout=300, check=False)
        passed = done.returncode == 0
    except subprocess.TimeoutExpired:
        passed = False
    shutil.copyfile(ROOT / path, home / path)
    return name, line, what, passed


def main() -> int:
    """Run the bench; the exit code tells whether a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *RULES], help="all unless named")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    jobs, wholes = [], []
    for name in arguments.names or RULES:
        path, tests = RULES[name]
        source = (ROOT / path).read_text(encoding="utf-8")
        wholes.append((name, path, tests, 0, "nothing", source))
        jobs += [(name, path, tests, line, what, text) for line, what, text in mutants(source)]
    began, left, told = time.monotonic(), 0, {name: [0, 0] for name in RULES}
    with tempfile.TemporaryDirectory(prefix="snia-pts-mutants-") as home:
        os.environ["SNIA_PTS_MUTANTS"] = home
        with multiprocessing.Pool(arguments.jobs) as pool:
            for name, _, _, passed in pool.imap_unordered(survives, wholes):
                if not passed:
                    sys.exit(f"the tests of {name} fail without a mutant")
            for name, line, what, passed in pool.imap_unordered(survives, jobs):
                same = SAME.get((name, what)) if passed else None
                told[name][0] += 1
                told[name][1] += same is not None
                if passed and same is None:
                    left += 1
                    print(f"SURVIVED {RULES[name][0]}:{line}: {what}", flush=True)
    for name, (count, equal) in told.items():
        if count:
            print(f"{name}: {count} mutants, {equal} of them the same program")
    print(f"{len(jobs)} mutants in {time.monotonic() - began:.0f} s, {left} survived")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
