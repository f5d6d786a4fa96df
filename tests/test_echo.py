"""An answer that fio gave to another job file is refused, by the options that fio repeats in it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from snia_pts.lab import fio
from snia_pts.lab.device.fio_name import fio_name
from snia_pts.model.steps import BlockShare, Stimulus, Zone
from tests.drives import MIB, filled
from tests.test_fio import SEED, stimulus

MIX = (BlockShare(size_bytes=512, percent=30), BlockShare(size_bytes=4096, percent=70))
SKEW = (Zone(access_percent=50, range_percent=5), Zone(access_percent=50, range_percent=95))
SHAPES: dict[str, dict[str, Any]] = {
    "random": {"thread_count": 2},
    "mix": {"read_percent": 65, "block_size_bytes": MIX, "skew": SKEW},
    "sequential": {"access": "SEQ", "thread_count": 3, "read_percent": 100},
    "passes": {"access": "SEQ", "thread_count": 2, "seconds": None, "passes": 1, "range_bytes": 4 * MIB + 512},
    "limit": {"limit_bytes": MIB},
    "ramp": {"ramp_seconds": 0.1},
}


def asked(shape: str) -> Stimulus:
    """Return a short stimulus of a shape."""
    return stimulus(**{"range_bytes": 4 * MIB, "seconds": 0.1, "queue_depth": 8, **SHAPES[shape]})


def answered(folder: Path, job_text: str) -> tuple[str, str]:
    """Return fio's answer to a job file, and the target's name as fio takes it, which has a colon."""
    filled(folder / "other.img", 8 * MIB)
    target, job = filled(folder / "a:b.img", 8 * MIB), folder / "job.fio"
    job.write_text(job_text, encoding="utf-8")
    name = fio_name(str(target))
    subprocess.run(fio.command(job), check=True, capture_output=True, env={**os.environ, fio.TARGET: name})
    return job.with_suffix(".json").read_text(), name


@pytest.mark.parametrize("io_engine", ["libaio", "io_uring"])
@pytest.mark.parametrize("shape", SHAPES)
def test_fio_repeats_what_it_was_asked(tmp_path: Path, shape: str, io_engine: fio.IoEngine) -> None:
    """Real fio repeats the options of each shape as the job file has them, and that is checked."""
    text = fio.job_file(asked(shape), str(tmp_path / "a:b.img"), io_engine, SEED)
    answer, name = answered(tmp_path, text)

    fio.require_echo(text, answer, name)
    repeated = json.loads(answer)["global options"]
    assert {"filename", "ioengine", "iodepth", "direct", "rw", "randseed"} <= repeated.keys()


OTHERS: dict[str, tuple[str, str]] = {
    "I/O engine": ("ioengine=libaio", "ioengine=null"),
    "depth": ("iodepth=8", "iodepth=1"),
    "seed": (f"randseed={SEED}", f"randseed={SEED + 1}"),
    "range": ("size=4194304", "size=2097152"),
    "place": ("offset=0", "offset=4096"),
    "cache": ("direct=1", "direct=0"),
    "time": ("runtime=100ms", "runtime=99ms"),
    "access": ("rw=randwrite", "rw=write"),
    "target": (f"filename=${{{fio.TARGET}}}", "filename={folder}/other.img"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_an_answer_to_another_job_is_refused(tmp_path: Path, other: str) -> None:
    """Real fio with one option changed: the first that differs is named, with both values, and the host is blamed."""
    text = fio.job_file(asked("random"), str(tmp_path / "a:b.img"), "libaio", SEED)
    ours, theirs = OTHERS[other][0], OTHERS[other][1].format(folder=tmp_path)
    assert ours in text
    answer, name = answered(tmp_path, text.replace(ours, theirs))

    with pytest.raises(fio.AnswerRejected) as refused:
        fio.require_echo(text, answer, name)
    assert refused.value.blame == "host"
    assert theirs in refused.value.reason


def test_an_answer_of_threads_that_changed_places_is_refused(tmp_path: Path) -> None:
    """Where each thread answers by itself, each is compared with its own section."""
    text = fio.job_file(asked("sequential"), str(tmp_path / "a:b.img"), "libaio", SEED)
    answer, name = answered(tmp_path, text)
    document = json.loads(answer)
    document["jobs"].reverse()

    fio.require_echo(text, answer, name)
    with pytest.raises(fio.AnswerRejected, match="belongs to another job: expected offset="):
        fio.require_echo(text, json.dumps(document), name)


def test_a_version_that_repeats_nothing_is_believed(tmp_path: Path) -> None:
    """Without what fio repeats there is nothing to compare."""
    text = fio.job_file(asked("random"), "/x.img", "libaio", SEED)

    fio.require_echo(text, json.dumps({"jobs": [{}]}))
