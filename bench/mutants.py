"""Mutation tests of the modules that decide: which mutants do the tests not notice?

``python bench/mutants.py [analysis/steady_state ...] [--jobs 2]`` runs cosmic-ray on each module, in a copy of the
project, with the tests of the module, which must pass without a mutant. It prints the mutants that survive, and how
many there were. Equivalent mutants are listed in ``EQUIVALENT`` with the reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FIO_TESTS = (
    "tests/test_acceptance.py tests/test_fio.py tests/test_false_answers.py"
    " -k 'not junk and not changed and not real and not share and not spoiled and not sequential and not smuggled'"
)
_TARGET_TESTS = "tests/test_guarding.py tests/test_inventory.py"
_PURGE_TESTS = "tests/test_purge.py tests/purge"
#: Modules below ``snia_pts``, with the arguments of pytest for their tests, the fast ones first.
MODULES: Mapping[str, str] = {
    "analysis/steady_state": "tests/test_steadystate.py tests/test_window.py",
    "analysis/window": "tests/test_window.py",
    "analysis/host_limit": "tests/test_hostlimit.py",
    "results/interruption": "tests/test_interruption.py",
    "record/journal_reader": "tests/test_journal.py",
    "lab/fio/answer": _FIO_TESTS,
    "lab/fio/acceptance": _FIO_TESTS,
    "lab/process/program": "tests/test_process.py",
    "lab/device/refusals": _TARGET_TESTS,
    "lab/device/contents": _TARGET_TESTS,
    "lab/device/usage": _TARGET_TESTS,
    "lab/device/storage": f"{_TARGET_TESTS} tests/test_target_identity.py",
    "lab/device/processes": f"{_TARGET_TESTS} tests/test_target_identity.py",
    "lab/device/exclusive_access": f"{_TARGET_TESTS} tests/test_target_identity.py",
    "lab/device/file_target": "tests/test_safety.py",
    "lab/device/target_claim": "tests/test_safety.py tests/test_purge.py",
    "lab/purge/ata": "tests/purge/test_ata.py",
    "lab/purge/nvme": "tests/purge/test_nvme.py",
    "lab/purge/scsi": "tests/purge/test_scsi.py tests/test_purge.py",
    "lab/purge/choice": _PURGE_TESTS,
    "lab/purge/method": _PURGE_TESTS,
    "lab/purge/generic": _PURGE_TESTS,
    "lab/purge/proof": _PURGE_TESTS,
    "lab/purge/purger": _PURGE_TESTS,
}
#: Equivalent mutants, by module and changed line, with the reason.
EQUIVALENT: Mapping[tuple[str, str], str] = {
    (
        "analysis/steady_state",
        "numerator = sum((offset * value for offset, value in zip(offsets, values, strict=False)), Fraction())",
    ): "there is an offset for each value",
    ("results/interruption", "if rule is None and limit is None:"): "a test has both or neither",
    ("results/interruption", "return True"): "a test without rounds is never interrupted among them",
    ("lab/device/usage", "if table or table not in visited:"): "a table that was visited adds nothing",
}
#: Each comparison and arithmetic operator has the mutants that tests are likely to miss; ``|`` is mostly in types.
_EXCLUDED_OPERATORS = (
    r"core/ReplaceComparisonOperator_(?!(Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt|Eq_NotEq|NotEq_Eq"
    r"|Is_IsNot|IsNot_Is)$)",
    r"core/ReplaceBinaryOperator_(?!(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_FloorDiv|Pow_Mul|LShift_RShift"
    r"|RShift_LShift|BitAnd_BitOr)$)",
    r"core/ReplaceUnaryOperator_(?!Delete_Not$)",
    r"core/(RemoveDecorator|Variable)",
)
#: Decorators, and signatures with a ``*``, which is mutated like a multiplication.
_NOT_MUTATED = re.compile(r"\s*@|.*\*, \w+:")
#: A mutant whose tests take longer is killed.
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The mutants of a module: how many were tested, how many are equivalent, and the diffs of the survivors."""

    name: str
    count: int
    equivalent: int
    survivors: list[str] = field(default_factory=list)


def mutate(name: str, folder: Path) -> Outcome:
    """Run cosmic-ray on a module in a copy of the project below ``folder``."""
    ignored = shutil.ignore_patterns(".venv", ".git", "runs", "build", "__pycache__", ".hypothesis", ".*_cache")
    copy = Path(shutil.copytree(ROOT, folder / name.replace("/", "."), symlinks=True, ignore=ignored))
    (copy / "mutants.toml").write_text(_config(name), encoding="utf-8")
    _run(copy, "cosmic_ray.cli", "baseline", "mutants.toml")
    _run(copy, "cosmic_ray.cli", "init", "mutants.toml", "session")
    _run(copy, "cosmic_ray.tools.filters.operators_filter", "session", "mutants.toml")
    _run(copy, "cosmic_ray.tools.filters.line_filter", "session", "--config", "mutants.toml")
    _run(copy, "cosmic_ray.cli", "exec", "mutants.toml", "session")
    dump = map(json.loads, _run(copy, "cosmic_ray.cli", "dump", "session").splitlines())
    results = [result for _, result in dump if result["worker_outcome"] != "skipped"]
    survivors = [result["diff"] for result in results if result["test_outcome"] == "survived"]
    different = [diff for diff in survivors if (name, _changed_line(diff)) not in EQUIVALENT]
    return Outcome(name=name, count=len(results), equivalent=len(survivors) - len(different), survivors=different)


def _config(name: str) -> str:
    path = f"snia_pts/{name}.py"
    limit = f"timeout --kill-after=5 {2 * _TIMEOUT_SECONDS}"  # also if this program is killed before a mutant ends
    pytest = f"{limit} {sys.executable} -m pytest -x -q --reruns 0 -p no:cacheprovider -m 'not long' {MODULES[name]}"
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    mutated = [str(number) for number, line in enumerate(lines, 1) if not _NOT_MUTATED.match(line)]
    return f"""[cosmic-ray]
module-path = "{path}"
timeout = {_TIMEOUT_SECONDS}.0
excluded-modules = []
test-command = {json.dumps(pytest)}
distributor.name = "local"
filters.operators-filter.exclude-operators = {json.dumps(_EXCLUDED_OPERATORS)}
filters.line-filter.lines = {{ "{path}" = {json.dumps(mutated)} }}
"""


def _run(copy: Path, module: str, *arguments: str) -> str:
    """Run a command of cosmic-ray in a copy, with the package of the copy; exit with its output if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "HYPOTHESIS_PROFILE": "ci", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed in {copy}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _changed_line(diff: str) -> str:
    """Return the line that a mutant has in place of the original one."""
    return " ".join(re.findall(r"^\+(?!\+\+)\s*(.*)$", diff, re.MULTILINE))


def main() -> int:
    """Test the mutants; the exit code is 1 if a mutant survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = f"all unless named: {', '.join(MODULES)}"
    parser.add_argument("names", nargs="*", choices=[[], *MODULES], metavar="module", help=listed)
    parser.add_argument("--jobs", type=int, default=2, help="modules that are tested at the same time")
    arguments = parser.parse_args()
    if importlib.util.find_spec("cosmic_ray") is None:
        sys.exit("cosmic-ray is not installed; install it: .venv/bin/python -m pip install --editable '.[bench]'")
    with tempfile.TemporaryDirectory(prefix="snia-pts-mutants-") as home, ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(partial(mutate, folder=Path(home)), arguments.names or MODULES))
    for outcome in outcomes:
        print(*outcome.survivors, sep="\n\n")
    print(f"{'':26} {'mutants':>7} {'equivalent':>10} {'survived':>8}")
    for outcome in outcomes:
        print(f"{outcome.name:26} {outcome.count:7} {outcome.equivalent:10} {len(outcome.survivors):8}")
    return 1 if any(outcome.survivors for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
