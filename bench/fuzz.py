"""Feeds hostile input to every parser of the suite (``tests/fuzzing``), and counts the outcomes.

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

#: Inputs per process, so that leftovers of one input do not accumulate.
_CHUNK = 5000
#: A process without a new input for this long is hung.
_HANG_SECONDS = 300
_MEMORY = Path("/dev/shm")  # noqa: S108  # the parsers' files are small and many


def work(name: str, seed: int, first: int, last: int, told: Any, at: Any) -> None:
    """Try the inputs from ``first`` up to ``last`` in this process, and send the tally."""
    from tests.fuzzing.running import sweep

    def note(number: int) -> None:
        at.value = number

    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        told.send(sweep(name, seed, range(first, last), Path(folder), note))


def chunk(name: str, seed: int, first: int, last: int) -> Tally:
    """Try inputs in a child process; if an input ends it, continue after that input in a new one."""
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
    """Wait for a process; return the reason if it has no answer, else an empty text."""
    number, since = at.value, time.monotonic()
    while not here.poll(1.0):
        if at.value != number:
            number, since = at.value, time.monotonic()
        elif time.monotonic() - since > _HANG_SECONDS:
            process.kill()
            process.join()
            return f"no answer for {_HANG_SECONDS} s"
    return ""


def tried(name: str, seed: int, inputs: int, workers: int) -> tuple[Tally, float]:
    """Return the tally of a target's inputs, and the seconds it took."""
    from tests.fuzzing.running import Tally

    began, tally = time.monotonic(), Tally()
    size = max(1, min(_CHUNK, -(-inputs // workers)))
    with ThreadPoolExecutor(workers) as pool:
        starts = range(0, inputs, size)
        for part in pool.map(lambda first: chunk(name, seed, first, min(inputs, first + size)), starts):
            tally.join(part)
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
    """Yield each place of an escape, with an input that reproduces it."""
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
    """Let atheris choose the inputs, in a child process; return the tally, the seconds, and its own summary."""
    from tests.fuzzing.running import Escape, Tally

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        argv = [sys.executable, __file__, name, "--guide", str(answer), "--inputs", str(inputs), "--seed", str(seed)]
        finished = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        seconds = time.monotonic() - began
        if not answer.exists():
            raise SystemExit(f"atheris told nothing: {finished.stderr[-2000:]}")
        document = json.loads(answer.read_text(encoding="utf-8"))
    tally = Tally()
    tally.outcomes.update(document["outcomes"])
    tally.slowest_seconds = document["slowest_seconds"]
    for place, (text, data, times) in document["escapes"].items():
        tally.escapes[place] = Escape(number=0, data=bytes.fromhex(data), told=text, times=times)
    covered = [text for text in finished.stderr.splitlines() if " cov: " in text]
    return tally, seconds, covered[-1].strip() if covered else finished.stderr[-200:]


def guide(name: str, seed: int, inputs: int, told: Path) -> None:
    """Run the process that atheris guides; does not return."""
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
            mutated = target.form.hostile(rng, corpus, first=bytes(data))
        except Exception:  # noqa: BLE001  # what was made before is not always of the form
            mutated = atheris.Mutate(data, most)
        return bytes(mutated)[:most]

    with limited_memory(MEMORY_BYTES):
        options = ["-max_len=262144", "-rss_limit_mb=0", "-timeout=600", f"-seed={seed}", str(seeds)]
        atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
        atheris.Fuzz()


def _tell(tally: Tally, told: Path) -> None:
    document = {
        "outcomes": tally.outcomes,
        "slowest_seconds": tally.slowest_seconds,
        "escapes": {place: (escape.told, escape.data.hex(), escape.times) for place, escape in tally.escapes.items()},
    }
    told.write_text(json.dumps(document), encoding="utf-8")


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
        notes = ""
        if arguments.guided:
            tally, seconds, notes = guided(name, arguments.seed, arguments.inputs)
        else:
            tally, seconds = tried(name, arguments.seed, arguments.inputs, arguments.workers)
        print(line(name, tally, seconds), *escaped(tally), *([f"  {notes}"] if notes else []), sep="\n", flush=True)
        failed = failed or bool(tally.escapes)
    sys.exit(failed)


if __name__ == "__main__":
    main()
