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


@pytest.mark.long_but_first
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


@pytest.mark.long_but_first
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


def real_echo(tmp_path: Path, shape: str = "random") -> tuple[str, str, dict[str, Any]]:
    """Return a job file, the target's name and fio's answer."""
    text = fio.job_file(asked(shape), str(tmp_path / "a:b.img"), "libaio", SEED)
    answer, name = answered(tmp_path, text)
    return text, name, json.loads(answer)


@pytest.mark.long_but_first
@pytest.mark.parametrize("option", ["filename", "direct", "ioengine", "iodepth", "rw", "randseed"])
def test_an_answer_without_an_important_option_is_refused(tmp_path: Path, option: str) -> None:
    """fio echoes these always, and by this name, even if their values are not compared."""
    text, name, document = real_echo(tmp_path)
    del document["global options"][option]

    for uncompared in (set(), {option}):
        with pytest.raises(fio.AnswerRejected, match=f"expected {option}=.*, got none"):
            fio.require_echo(text, json.dumps(document), name, uncompared)


@pytest.mark.long_but_first
@pytest.mark.parametrize("value", [8, 8.0, [8], " 8", "08", "8.0", "+8", None])
def test_an_option_is_echoed_as_written(tmp_path: Path, value: object) -> None:
    """fio echoes texts, not numbers; another notation of the same number is not the option of the job file."""
    text, name, document = real_echo(tmp_path)
    assert document["global options"]["iodepth"] == "8"
    document["global options"]["iodepth"] = value
    with pytest.raises(fio.AnswerRejected, match=r"expected iodepth=8, got iodepth="):
        fio.require_echo(text, json.dumps(document), name)


def test_an_answer_without_options_is_refused() -> None:
    """An answer that echoes nothing may be that of any job."""
    text = fio.job_file(asked("random"), "/x.img", "libaio", SEED)
    with pytest.raises(fio.AnswerRejected, match="got none"):
        fio.require_echo(text, json.dumps({"jobs": [{}]}))


@pytest.mark.long_but_first
@pytest.mark.parametrize("place", ["global options", "job options"])
@pytest.mark.parametrize("option", ["buffered=1", "rate=1m", "direct=0"])
def test_an_option_that_the_job_does_not_have_is_refused(tmp_path: Path, option: str, place: str) -> None:
    """Another option changes the I/O; one of a job comes before one of all jobs."""
    text, name, document = real_echo(tmp_path)
    key, value = option.split("=")
    (document if place == "global options" else document["jobs"][0])[place][key] = value
    with pytest.raises(fio.AnswerRejected, match=f"expected .*, got .*{option}"):
        fio.require_echo(text, json.dumps(document), name)


@pytest.mark.long_but_first
@pytest.mark.parametrize("missing", ["norandommap", "thread", "time_based", "runtime", "group_reporting"])
def test_another_option_does_not_replace_a_missing_one(tmp_path: Path, missing: str) -> None:
    """fio echoes each option of the job file: a missing one is refused, with and without another in its place."""
    text, name, document = real_echo(tmp_path)
    del document["global options"][missing]
    for _ in range(2):
        with pytest.raises(fio.AnswerRejected, match=f"expected {missing}=.*, got none"):
            fio.require_echo(text, json.dumps(document), name)
        document["global options"]["buffered"] = "1"


def test_an_option_may_have_its_other_name(tmp_path: Path) -> None:
    """fio echoes blockalign as ba, with the same value; another option in its place is refused."""
    text, name, document = real_echo(tmp_path, "mix")
    fio.require_echo(text, json.dumps(document), name)
    assert "ba" in document["jobs"][0]["job options"]

    options = document["jobs"][0]["job options"]
    value = options.pop("ba")
    for other, reason in (({"ba": "1"}, "got blockalign=1"), ({"rate": "1m"}, "got none"), ({}, "got none")):
        document["jobs"][0]["job options"] = {**options, **other}
        with pytest.raises(fio.AnswerRejected, match=f"expected blockalign={value}, {reason}"):
            fio.require_echo(text, json.dumps(document), name)


def test_an_option_of_a_stimulus_may_have_another_name(tmp_path: Path) -> None:
    """fio echoes fill_fs as fill_device; for each option of the stimulus one unknown option is accepted."""
    text, name, document = real_echo(tmp_path)
    text = text.replace("thread=1", "thread=1\nfill_fs=1")
    document["global options"]["fill_device"] = "1"
    fio.require_echo(text, json.dumps(document), name, {"fill_fs"})
    with pytest.raises(fio.AnswerRejected, match="expected fill_fs=1, got none"):
        fio.require_echo(text, json.dumps(document), name)
    document["global options"]["rate"] = "1m"
    with pytest.raises(fio.AnswerRejected, match="expected no other option, got fill_device=1, rate=1m"):
        fio.require_echo(text, json.dumps(document), name, {"fill_fs"})
