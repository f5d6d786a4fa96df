"""All tests of the standard on real fio, in seconds: what each measures, several together, and what stops them."""

from __future__ import annotations

import json
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pypdf
import pytest

from tests.command_line import ENVIRONMENT, assessed, checked, command, fio_of, snia_pts
from tests.drives import loop_device

#: Every test in seconds: what is long is short, what is repeated comes twice, and steady is what two rounds say.
SETTLE = ("settling.window_rounds=2", "settling.sample_seconds=0.5", "settling.stride_samples=1")
#: A matrix for version 1.1, which tracks one point.
TINY = ("rounds.read_percents=[100, 0]", "rounds.block_sizes_kib=[64, 4]")
LOOP = ("steady_state.window_rounds=2", "rounds.point_seconds=0.1", "rounds.maximum=2")
TWO_BY_TWO = (
    *SETTLE,
    "conditioning.maximum=2",
    "conditioning.thread_count=2",
    "conditioning.queue_depth=2",
    "demand.thread_counts=[2, 1]",
    "demand.queue_depths=[2, 1]",
    "demand.pre_write_seconds=0.5",
    "demand.point_seconds=0.1",
    "demand.maximum=2",
    "steady_state.window_rounds=2",
    'steady_state.tracked=[{metric = "iops", thread_count = 2, queue_depth = 2}]',
    "operating_points.pre_write_seconds=0.5",
    "operating_points.histogram_seconds=0.3",
)
GROUP = '{{name="AG {}", access="{}", read_percent=0, block_size_kib={}, seconds=1, thread_count=1, queue_depth=32}}'
GROUPS = ", ".join(GROUP.format(*values) for values in ((1, "SEQ", 1024), (2, "RND", 8), (3, "SEQ", 1024)))
SHORT = {
    "iops": (*LOOP, "rounds.read_percents=[100, 65, 0]", "rounds.block_sizes_kib=[1024, 64, 4]"),
    "throughput": LOOP,
    "latency": (*LOOP, "histogram.seconds=0.5"),
    "wsat": (*SETTLE, "saturation.seconds=1.5", "saturation.capacities=1000", "histogram.seconds=0.5"),
    "hir": (
        *SETTLE,
        "conditioning.maximum=2",
        "wait_states.cycles=2",
        "wait_states.access_a_seconds=0.3",
        "wait_states.idle_seconds=[0.3, 0.6]",
        "wait_states.access_c_seconds=1",
        "wait_states.access_c_sample_seconds=0.5",
    ),
    "xsr": ("groups.sample_seconds=0.5", f"groups.sequence=[{GROUPS}]"),
    "composite": TWO_BY_TWO,
    "dirth": TWO_BY_TWO,
}


def shortened(test: str, prefix: str = "") -> list[str]:
    """Return the options that make a test short."""
    return [word for setting in SHORT[test] for word in ("--set", prefix + setting)]


@pytest.fixture(scope="module")
def all_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of all eight tests on a file, in ``run``."""
    folder = tmp_path_factory.mktemp("all")
    settings = [word for test in SHORT for word in shortened(test, f"{test}.")]
    done = snia_pts(
        folder,
        "all",
        "drive.img",
        "--advanced",
        "--size",
        "64M",
        *settings,
        "--to",
        "pdf",
        "--run-dir",
        "run",
        "--seed",
        "4711",
    )
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


@pytest.mark.long
def test_all_tests_run_and_are_judged_again(all_tests: Path) -> None:
    """Every test of the standard runs on real fio; from its journal alone come the same result and the same verdict."""
    assessment = assessed(all_tests / "run")

    assert [item["test"] for item in assessment["tests"]] == list(SHORT)
    for test in assessment["tests"]:
        assert test["ending"] == "finished"
        assert test["differs_from_journal"] == []
        assert test["written_bytes"] > 0
        assert [deviation["what"] for deviation in test["deviations"]]
    assert "8 of 8 tests finished" in (all_tests / "stdout").read_text()


@pytest.mark.long
@pytest.mark.parametrize("test", SHORT)
def test_every_test_is_what_fio_counted(test: str, all_tests: Path) -> None:
    """An independent script finds every measurement of every test, and every point's means, equal to fio's JSON."""
    done = checked(all_tests / "run" / test)

    assert done.stdout.endswith("points agree\n"), done.stdout
    assert not done.stdout.startswith("0 ")


@pytest.mark.long
def test_samples_add_up_to_the_whole(all_tests: Path) -> None:
    """The samples of a stretch hold all the I/Os and bytes that fio counted of it, and all its time."""
    for test in ("wsat", "hir", "xsr", "dirth"):
        lines = assessed(all_tests / "run" / test)["time_lines"]
        root = ElementTree.parse(all_tests / "run" / test / "result.xml").getroot()  # noqa: S314 - our own file
        for line, element in zip(lines, root.findall("time_line"), strict=True):
            wholes = element.findall("measurement")
            for column, name in (("write_ios", "write_ios"), ("write_bytes", "write_bytes"), ("read_ios", "read_ios")):
                sampled = sum(map(float, (element.findtext(f"samples/{column}") or "").split()))
                assert sampled == sum(int(whole.get(name, "")) for whole in wholes), (test, line["phase"], column)
            runtime = sum(
                max(int(whole.get("read_runtime_ms", "")), int(whole.get("write_runtime_ms", ""))) for whole in wholes
            )
            assert line["io_seconds"] == pytest.approx(runtime / 1000, rel=0.02)


@pytest.mark.long
def test_idle_times_are_kept(all_tests: Path) -> None:
    """The drive was left alone for about as long as asked, before each write that follows an idle time."""
    root = ElementTree.parse(all_tests / "run" / "hir" / "result.xml").getroot()  # noqa: S314 - our own file
    asked = {
        float(gap.get("requested_seconds", "")): gap for gap in root.findall("gaps") if gap.get("requested_seconds")
    }

    assert sorted(asked) == [0.3, 0.6]
    for seconds, gap in asked.items():
        assert int(gap.get("count", "")) == 2
        assert float(gap.get("median_ms", "")) >= 1000 * seconds - 100


@pytest.mark.long
def test_each_test_purges_and_has_its_own_seed(all_tests: Path) -> None:
    """Each test begins with a purge of its own, and has a seed of its own."""
    seeds = set()
    for test in SHORT:
        lines = (all_tests / "run" / test / "journal.jsonl").read_text().splitlines()
        journal = [json.loads(line)["entry"] for line in lines[:3]]
        seeds.add(journal[0]["facts"]["seed"])
        assert journal[1]["step"]["kind"] == "purge"
        assert journal[2]["outcome"]["survivors"] == 0
        assert journal[0]["facts"]["command_line"][-2:] == ["--seed", "4711"]
    assert len(seeds) == len(SHORT)


@pytest.mark.long
def test_all_reports_and_the_summary_are_there(all_tests: Path) -> None:
    """Each test has its report, which the summary names; if it is made again, it names a missing one."""
    run = all_tests / "run"
    text = "".join(page.extract_text() for page in pypdf.PdfReader(run / "summary.pdf").pages)
    for test in SHORT:
        assert (run / test / "report.pdf").read_bytes().startswith(b"%PDF-")
        assert f"{test}/report.pdf" in text
    for extra in list(SHORT)[1:]:
        (run / extra).rename(all_tests / extra)
    try:
        snia_pts(all_tests, "report", "run", "--to", "rst")
        assert "NOT RUN: Throughput, Latency" in (run / "summary.rst").read_text()
    finally:
        for extra in list(SHORT)[1:]:
            (all_tests / extra).rename(run / extra)


@pytest.mark.long
@pytest.mark.parametrize(("verb", "pts", "share"), [("tp", "1.1", 1), ("cbw", "2.0.2", 0.75)])
def test_a_client_drive_of_either_version(verb: str, pts: str, share: float, tmp_path: Path) -> None:
    """A test of the client class, by its short name, uses as much of the range as its version says."""
    size = ("--size", "32M", "--class", "client", "--pts", pts)
    settings = shortened("throughput" if verb == "tp" else "composite")
    snia_pts(tmp_path, verb, "drive.img", *size, *settings, "--to", "none", "--run-dir", "run")

    assessment = assessed(tmp_path / "run")
    assert assessment["revision"] == f"PTS-C {pts}"
    assert {point["range_bytes"] for loop in assessment["loops"] for point in loop["points"]} == {share * (32 << 20)}


@pytest.mark.long
def test_a_pattern_of_the_operators_choice(tmp_path: Path) -> None:
    """Write saturation with another pattern runs that, and its end is still followed by 4 KiB random writes."""
    settings = ("--size", "32M", "--stimulus", "oltp", *shortened("wsat"))
    snia_pts(tmp_path, "wsat", "drive.img", *settings, "--to", "none", "--run-dir", "run")

    stimulus, histogram = assessed(tmp_path / "run")["time_lines"]
    assert (stimulus["read_percent"], stimulus["block_size_bytes"]) == (65, 8192)
    assert (histogram["read_percent"], histogram["block_size_bytes"]) == (0, 4096)


@pytest.mark.long
@pytest.mark.root
def test_all_tests_on_a_loop_device_are_confirmed_once(tmp_path: Path) -> None:
    """A device is confirmed once for all; what was not confirmed leaves neither folder nor change."""
    settings = ["--to", "none"]
    settings += [word for test in ("iops", "throughput", "latency", "wsat") for word in shortened(test, f"{test}.")]
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        refused = snia_pts(tmp_path, "all", str(device), *settings, "--run-dir", "no", check=False)
        done = snia_pts(tmp_path, "all", str(device), *settings, "--serial", Path(device).name, "--run-dir", "run")

    assert refused.returncode == 9
    assert not (tmp_path / "no").exists()
    assert "4 of 4 tests finished" in done.stdout
    assessment = assessed(tmp_path / "run")["tests"]
    assert len(assessment) == 4
    assert all("blkdiscard" in str(item) for item in assessment)


def remove_the_target(_child: subprocess.Popen[str], folder: Path) -> None:
    """Take the file away from under a run."""
    (folder / "drive.img").unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    ("stop", "code", "ending", "to"),
    [
        (lambda child, _: child.send_signal(signal.SIGTERM), 130, "interrupted", ()),
        (remove_the_target, 13, "host failed", ("--to", "rst")),
    ],
    ids=["SIGTERM", "failure"],
)
def test_stopping_one_test_stops_all(
    stop: Callable[[subprocess.Popen[str], Path], None], code: int, ending: str, to: tuple[str, ...], tmp_path: Path
) -> None:
    """Stopped or failed in the second test, no more is run; what was run has its report, in all formats unless fewer
    are asked for, and the summary says what was not run."""
    settings = ["--pts", "1.1", "--set", "throughput.rounds.point_seconds=5", *to]
    settings += [word for setting in (*LOOP, *TINY) for word in ("--set", f"iops.{setting}")]
    argv = command("all", "drive.img", "--size", "16M", *settings, "--run-dir", "run")
    with subprocess.Popen(
        argv,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as child:
        while "throughput/evidence/00002-" not in " ".join(fio_of(tmp_path)):
            assert child.poll() is None
            time.sleep(0.1)
        stop(child, tmp_path)
        _, err = child.communicate(timeout=60)

    assert child.returncode == code
    assert fio_of(tmp_path) == []
    assert "Not run: latency, wsat." in err
    assert "Traceback" not in err
    summary = (tmp_path / "run" / "summary.rst").read_text()
    assert f"Throughput {ending}" in summary
    assert "NOT RUN: Latency, Write Saturation" in summary
    for name in ("rst",) if to else ("rst", "pdf", "html", "xlsx"):
        assert (tmp_path / "run" / "iops" / f"report.{name}").stat().st_size
        assert name == "xlsx" or (tmp_path / "run" / f"summary.{name}").stat().st_size
    assert not (tmp_path / "run" / "latency").exists()
