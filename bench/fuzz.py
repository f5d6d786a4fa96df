"""Feeds hostile input to every parser of the suite (``tests/fuzzing``), and tells what came of it.

``python bench/fuzz.py [TARGET ...] [--inputs 100000] [--seed 1] [--workers N]`` tries so many inputs a target, side by
side, and prints a line a target: inputs, results, refusals by their class, escapes (any other exception, more time or
memory than allowed, a crash), inputs per second, and the CPU seconds of the slowest.  The same seed gives the same
inputs; ``--only NUMBER`` tries a single one again and prints it.

``--guided`` lets atheris (``pip install atheris``) choose the inputs by the code they reach.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))

if TYPE_CHECKING:
    from tests.fuzzing.running import Tally

#: Inputs that a process tries before a new one takes over, so that what one leaves behind does not grow.
_CHUNK = 5000
#: A process that tells of no new input for so long is taken for hung.
_PATIENCE_SECONDS = 300
_MEMORY = Path("/dev/shm")  # noqa: S108  # the parsers' files are small and many


def work(name: str, seed: int, first: int, last: int, told: Any, at: Any) -> None:
    """Try the inputs from ``first`` up to ``last`` in this process, and tell what came of them."""
    from tests.fuzzing.running import sweep

    def note(number: int) -> None:
        at.value = number

    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        told.send(sweep(name, seed, range(first, last), Path(folder), note))


def chunk(name: str, seed: int, first: int, last: int) -> Tally:
    """Try inputs in a process of its own, again from behind each that ends the process."""
    from tests.fuzzing.running import Escape, Tally, hostile

    tally = Tally()
    context = multiprocessing.get_context("spawn")
    while first < last:
        here, there = context.Pipe(duplex=False)
        at = context.Value("q", first)
        process = context.Process(target=work, args=(name, seed, first, last, there, at))
        process.start()
        there.close()
        reason = _watched(process, here, at)
        try:
            if not reason:
                tally.join(here.recv())
                process.join()
                return tally
        except EOFError:
            process.join()
            reason = f"the process died ({process.exitcode})"
        number = at.value
        escape = Escape(number=number, data=hostile(name, seed, number), told=reason)
        tally.join(Tally(escapes={reason: escape}))
        tally.outcomes["escape"] += 1
        tally.outcomes["not told"] += number - first
        first = number + 1
    return tally


def _watched(process: Any, here: Any, at: Any) -> str:
    """Wait for a process; return why it gave no answer, if it gave none."""
    number, since = at.value, time.monotonic()
    while not here.poll(1.0):
        if at.value != number:
            number, since = at.value, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_SECONDS:
            process.kill()
            process.join()
            return f"no answer for {_PATIENCE_SECONDS} s"
    return ""


def tried(name: str, seed: int, inputs: int, workers: int) -> tuple[Tally, float]:
    """Return what came of a target's inputs, and how many seconds it took."""
    from tests.fuzzing.running import Tally

    began, tally = time.monotonic(), Tally()
    size = max(1, min(_CHUNK, -(-inputs // workers)))
    with ThreadPoolExecutor(workers) as pool:
        starts = range(0, inputs, size)
        for found in pool.map(lambda first: chunk(name, seed, first, min(inputs, first + size)), starts):
            tally.join(found)
    return tally, time.monotonic() - began


def line(name: str, tally: Tally, seconds: float) -> str:
    """Return a target's line of the table."""
    outcomes = dict(tally.outcomes)
    results, escapes = outcomes.pop("result", 0), outcomes.pop("escape", 0)
    inputs = results + escapes + sum(outcomes.values())
    refused = ", ".join(f"{kind} {count}" for kind, count in sorted(outcomes.items())) or "none"
    rate = inputs / seconds if seconds else 0.0
    return f"{name:10} {inputs:8} {results:8} {escapes:7} {rate:9.0f} {tally.slowest_seconds:8.2f}  {refused}"


def escaped(tally: Tally) -> Iterator[str]:
    """Tell each place where something escaped, with an input to try again."""
    for place, escape in tally.escapes.items():
        yield f"  {place}: {escape.times} inputs, for example --only {escape.number}: {escape.data[:200]!r}"
        yield from (f"    {text[:160]}" for text in escape.told.strip().splitlines()[-16:])


def only(name: str, seed: int, number: int) -> None:
    """Try one input again, and show it."""
    from tests.fuzzing.running import hostile, sweep

    print(hostile(name, seed, number))
    with tempfile.TemporaryDirectory() as folder:
        tally = sweep(name, seed, range(number, number + 1), Path(folder))
    print(line(name, tally, tally.slowest_seconds))
    print("\n".join(escaped(tally)))


# -- guided by coverage -----------------------------------------------------------------------------------------------


def guided(name: str, seed: int, inputs: int) -> tuple[Tally, float, str]:
    """Let atheris choose the inputs, in a process of its own; return what came of them, and what it says itself."""
    from tests.fuzzing.running import Escape, Tally

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        argv = [sys.executable, __file__, name, "--guide", str(told), "--inputs", str(inputs), "--seed", str(seed)]
        finished = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        seconds = time.monotonic() - began
        if not told.exists():
            raise SystemExit(f"atheris told nothing: {finished.stderr[-2000:]}")
        found = json.loads(told.read_text(encoding="utf-8"))
    tally = Tally()
    tally.outcomes.update(found["outcomes"])
    tally.slowest_seconds = found["slowest_seconds"]
    for place, (text, data, times) in found["escapes"].items():
        tally.escapes[place] = Escape(number=0, data=bytes.fromhex(data), told=text, times=times)
    covered = [text for text in finished.stderr.splitlines() if " cov: " in text]
    return tally, seconds, covered[-1].strip() if covered else finished.stderr[-200:]


def guide(name: str, seed: int, inputs: int, told: Path) -> None:
    """Be the process that atheris guides; it never returns."""
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["snia_pts", "tomllib"]):
        from tests.fuzzing.running import MEMORY_BYTES, Tally, attempt, limited_memory
        from tests.fuzzing.targets import TARGETS
    target, tally = TARGETS[name], Tally()
    corpus = target.corpus()
    seeds = Path(tempfile.mkdtemp(dir=told.parent))
    for number, data in enumerate(corpus):
        (seeds / str(number)).write_bytes(data)
    folder = Path(tempfile.mkdtemp(dir=told.parent))

    def one(data: bytes) -> None:
        attempt(target, data, folder, tally)
        done = sum(tally.outcomes.values())
        if done >= inputs or done % 1000 == 0 or (data and tally.escapes and not done % 10):
            _tell(tally, told)
        if done >= inputs:
            os._exit(0)  # libFuzzer counts otherwise

    def mutate(data: bytes, most: int, number: int) -> bytes:
        rng = Random(f"{seed}/{number}")
        try:
            made = target.form.hostile(rng, corpus, first=bytes(data))
        except Exception:  # noqa: BLE001  # what was made before is not always of the form
            made = atheris.Mutate(data, most)
        return bytes(made)[:most]

    with limited_memory(MEMORY_BYTES):
        options = ["-max_len=262144", "-rss_limit_mb=0", "-timeout=600", f"-seed={seed}", str(seeds)]
        atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
        atheris.Fuzz()


def _tell(tally: Tally, told: Path) -> None:
    found = {
        "outcomes": tally.outcomes,
        "slowest_seconds": tally.slowest_seconds,
        "escapes": {place: (each.told, each.data.hex(), each.times) for place, each in tally.escapes.items()},
    }
    told.write_text(json.dumps(found), encoding="utf-8")


def main() -> None:
    """Try inputs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", metavar="TARGET", nargs="*")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", metavar="NUMBER", type=int)
    parser.add_argument("--guided", action="store_true")
    parser.add_argument("--guide", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.guide:
        guide(arguments.targets[0], arguments.seed, arguments.inputs, arguments.guide)
    from tests.fuzzing.targets import TARGETS

    names: Sequence[str] = arguments.targets or tuple(TARGETS)
    if unknown := set(names) - TARGETS.keys():
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    print(
        f"{'target':10} {'inputs':>8} {'results':>8} {'escapes':>7} {'inputs/s':>9} {'slowest':>8}  refusals",
        flush=True,
    )
    failed = False
    for name in names:
        if arguments.only is not None:
            only(name, arguments.seed, arguments.only)
            continue
        said = ""
        if arguments.guided:
            tally, seconds, said = guided(name, arguments.seed, arguments.inputs)
        else:
            tally, seconds = tried(name, arguments.seed, arguments.inputs, arguments.workers)
        print(line(name, tally, seconds), *escaped(tally), *([f"  {said}"] if said else []), sep="\n", flush=True)
        failed = failed or bool(tally.escapes)
    sys.exit(failed)


if __name__ == "__main__":
    main()
