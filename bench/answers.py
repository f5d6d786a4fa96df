"""Real points of every shape: fio's true answers must be accepted, and false ones made from them rejected.

``python bench/answers.py [--points 400] [--seed 1] [--folder DIR]`` (root) lets fio run short points of random shapes
on a loop device in memory and on a file in DIR: both I/O engines, 1 to 8 threads, queue depths up to 64, mixes of reads
and writes and of sizes, by time, by passes and by a limit, with a ramp, with calls of fsync and fdatasync, and with
samples. Every kind of false answer of ``tests/false_answers.py`` is made from each answer, if the side to be changed
has at least ten I/Os. Prints which true answers were rejected, and which false ones accepted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from snia_pts.lab import fio
from snia_pts.lab.fio.engine import FioEngine
from snia_pts.lab.fio.probe import IO_ENGINES
from snia_pts.model.measurement import Measurement
from snia_pts.model.steps import BlockShare, ContinuousStimulus, Stimulus, Zone
from tests.drives import MIB, filled, loop_device
from tests.false_answers import FALSE, accepted, false_answer, side_of

_RANGE = 32 * MIB
#: With a single I/O, minimum, mean and maximum of the response time are equal.
_FEWEST_IOS = 10
_MIX = (
    BlockShare(size_bytes=512, percent=4),
    BlockShare(size_bytes=4096, percent=67),
    BlockShare(size_bytes=65536, percent=29),
)
_SKEW = (Zone(access_percent=50, range_percent=5), Zone(access_percent=50, range_percent=95))


def drawn(dice: random.Random) -> ContinuousStimulus:
    """Return a point of a random shape, which may have samples."""
    access = dice.choice(("RND", "SEQ"))
    facts: dict[str, Any] = {
        "access": access,
        "read_percent": dice.choice((0, 0, 5, 50, 65, 95, 100, 100)),
        "block_size_bytes": dice.choice((512, 4096, 4096, 8192, 65536, MIB)),
        "thread_count": dice.choice((1, 1, 2, 3, 8)),
        "queue_depth": dice.choice((1, 1, 4, 16, 64)),
        "range_offset_bytes": 0,
        "range_bytes": _RANGE - 512 * dice.choice((0, 0, 3)),
    }
    match dice.choice(("time", "time", "time", "mix", "limit", "passes", "ramp", "sync", "waiting", "samples")):
        case "mix":
            facts.update(seconds=0.3, block_size_bytes=_MIX, access="RND", skew=dice.choice(((), _SKEW)))
        case "limit":
            facts.update(seconds=0.5, limit_bytes=dice.randrange(1, 64) * MIB)
        case "passes":
            facts.update(passes=dice.choice((1, 2)), access="SEQ")
            facts["block_size_bytes"] = max(4096, facts["block_size_bytes"])
        case "ramp":
            facts.update(seconds=0.3, ramp_seconds=dice.choice((0.1, 0.3)))
        case "sync":
            waiting = dice.choice(((), (("ioengine", "psync"),)))
            facts.update(options=(dice.choice((("fsync", "1"), ("fdatasync", "4"))), *waiting))
            facts.update(range_bytes=4 * MIB, block_size_bytes=dice.choice((4096, 65536)))
            amount = dice.choice(({"seconds": 0.3}, {"seconds": 5.0, "limit_bytes": 10 * MIB}, {"passes": 2}))
            facts.update(amount, access="SEQ" if "passes" in amount else access)
        case "waiting":
            facts.update(seconds=0.3, options=(("ioengine", "psync"),))
        case "samples":
            stimulus = Stimulus(**facts, seconds=0.6)
            return ContinuousStimulus(phase="stimulus", stimulus=stimulus, sample_seconds=0.1)
        case _:
            facts.update(seconds=dice.choice((0.1, 0.3, 1.0)))
    return ContinuousStimulus(phase="stimulus", stimulus=Stimulus(**facts))


def main() -> int:
    """Run the benchmark; the exit code is 1 if an answer was wrongly accepted or rejected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    wrong, kinds = Counter[str](), Counter[str]()
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as place,
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
    ):
        image = filled(Path(memory) / "loop.img", _RANGE)
        with loop_device(image) as device:
            targets = (str(device), str(filled(Path(place) / "file.img", _RANGE)))
            for number, point in enumerate(points(arguments, targets, Path(place))):
                refused, offered, accepted_kinds = point
                kinds["honest"] += 1
                kinds["refused"] += bool(refused)
                kinds["false"] += offered
                wrong.update(accepted_kinds)
                if refused or accepted_kinds:
                    print(f"point {number}: refused: {refused}, accepted: {', '.join(accepted_kinds)}", flush=True)
    print(f"honest answers {kinds['honest']}, refused {kinds['refused']}")
    print(f"false answers {kinds['false']} of {len(FALSE)} kinds, accepted {wrong.total()} {dict(wrong)}")
    return int(bool(kinds["refused"] or wrong))


def points(
    arguments: argparse.Namespace, targets: tuple[str, str], place: Path
) -> Iterator[tuple[str, int, list[str]]]:
    """Measure points; yield why each was rejected, the number of false answers made from it, and the accepted ones."""
    dice = random.Random(arguments.seed)
    for number in range(arguments.points):
        evidence = place / f"{number}"
        evidence.mkdir()
        step, io_engine = drawn(dice), dice.choice(IO_ENGINES)
        engine = FioEngine(targets[number % 2], evidence, seed=number + 1, io_engine=io_engine)
        try:
            (measured,) = (item for item in engine.measure_continuous(step) if isinstance(item, Measurement))
        except fio.AnswerRejected as refusal:
            yield f"{step.stimulus} on {io_engine}: {refusal.reason}", 0, []
            continue
        answer, job = ((evidence / f"{measured.evidence}.{suffix}").read_text() for suffix in ("json", "fio"))
        changed_ios = side_of(json.loads(answer[answer.index("{") :]))["total_ios"]
        kinds = FALSE if changed_ios >= _FEWEST_IOS else ()
        yield "", len(kinds), [kind for kind in kinds if accepted(step.stimulus, job, false_answer(answer, kind))]


if __name__ == "__main__":
    sys.exit(main())
