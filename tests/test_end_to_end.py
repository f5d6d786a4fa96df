"""The whole line, as a user drives it: real fio on a file and on a loop device, stopped and killed."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.drives import loop_device

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
#: The shortest run that there is: version 1.1 tracks one point.
SMALL = (
    "--pts", "1.1", "--point-seconds", "0.1", "--set", "steady_state.window_rounds=2", "--max-rounds", "2",
    "--set", "rounds.read_percents=[100, 0]", "--set", "rounds.block_sizes_kib=[64, 4]",
)  # fmt: skip


def snia_pts(folder: Path, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the command line in ``folder``."""
    done = subprocess.run(
        command(*argv), capture_output=True, text=True, check=False,
        cwd=folder, stdin=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def command(*argv: str) -> list[str]:
    """Return the command line of this checkout."""
    return [sys.executable, "-m", "snia_pts", *argv]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of the whole matrix on a file, in ``run``."""
    folder = tmp_path_factory.mktemp("whole")
    size = ("--size", "64M", "--point-seconds", "0.1", "--max-rounds", "2", "--set", "steady_state.window_rounds=2")
    done = snia_pts(folder, "iops", "drive.img", *size, "--run-dir", "run", "--seed", "4711")
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


def test_all_56_cells_are_what_fio_counted(place: Path) -> None:
    """An independent script finds WIPC, 2 x 56 measurements and each cell equal to fio's JSON in evidence/."""
    script = [sys.executable, "-I", str(ROOT / "tests" / "check_cells.py"), str(place / "run")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)

    assert done.stdout == "113 measurements and 56 points agree\n"
    assert done.returncode == 0


def test_the_independent_script_can_say_no(place: Path, tmp_path: Path) -> None:
    """The script that checks the cells notices a forged number."""
    (tmp_path / "evidence").symlink_to(place / "run" / "evidence")
    forged = (place / "run" / "result.xml").read_text().replace(' iops="', ' iops="1', 1)
    forged = forged[: forged.rindex(' iops="')] + forged[forged.rindex(' iops="') :].replace(' iops="', ' iops="1')
    (tmp_path / "result.xml").write_text(forged)

    script = [sys.executable, "-I", str(ROOT / "tests" / "check_cells.py"), str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "stored" in done.stdout


def test_xmllint_accepts_the_result(place: Path) -> None:
    """xmllint finds result.xml valid against specs/result.xsd."""
    schema = str(ROOT / "specs" / "result.xsd")
    try:
        done = subprocess.run(
            ["xmllint", "--noout", "--schema", schema, str(place / "run" / "result.xml")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("xmllint is not installed (libxml2-utils)")

    assert done.returncode == 0, done.stderr


def test_assess_gives_identical_numbers(place: Path) -> None:
    """Judged again from the stored run, every number is the same, and the same as in result.xml."""
    told = json.loads(snia_pts(place, "assess", "run", "--json").stdout)
    stored = (place / "run" / "result.xml").read_text()

    assert told["differs_from_journal"] == []
    (loop,) = told["loops"]
    assert len(loop["points"]) == 56
    for point in loop["points"]:
        assert f' iops="{repr(point["iops"]).removesuffix(".0")}"' in stored
    assert snia_pts(place, "assess", "run").stdout.splitlines()[:8] == (place / "stdout").read_text().splitlines()[:8]


def test_the_report_made_again_is_the_same(place: Path) -> None:
    """The report of the stored run, made again, is identical to the last byte."""
    names = ("report.rst", "report.pdf", "report.html", "result.xml")
    before = {name: (place / "run" / name).read_bytes() for name in names}

    snia_pts(place, "report", "run")

    assert {name: (place / "run" / name).read_bytes() for name in names} == before
    assert before["report.pdf"].startswith(b"%PDF-")


def test_the_shortening_is_said(place: Path) -> None:
    """A shortened run on a file says each of its deviations, in what it prints and in the report."""
    for text in ((place / "stdout").read_text(), (place / "run" / "report.rst").read_text()):
        for told in (
            "rounds.point_seconds",
            "rounds.maximum",
            "steady_state.window_rounds",
            "device under test",
            "purge",
        ):
            assert told in text


def test_progress_in_a_pipe_is_lines(place: Path) -> None:
    """Progress goes to standard error, as plain lines where that is no terminal."""
    text = (place / "stderr").read_text()

    assert "\r" not in text
    assert "Purge: purged by punch-hole (proven on 64 blocks)" in text
    assert "round 2 of at most 2" in text


def test_preconditioning_is_exact_and_every_point_has_its_seed(place: Path) -> None:
    """WIPC wrote exactly twice the capacity; no two stimuli share a seed; the job files are there to repeat."""
    journal = [json.loads(line)["entry"] for line in (place / "run" / "journal.jsonl").read_text().splitlines()]
    measured = [entry["outcome"] for entry in journal if entry["kind"] == "came" and "seed" in entry["outcome"]]

    assert measured[0]["write"]["transferred_bytes"] == 2 * 64 * 1024 * 1024
    assert len({point["seed"] for point in measured}) == len(measured) == 1 + 2 * 56
    assert min(point["seed"] for point in measured) > 1 << 60
    for point in measured:
        job = (place / "run" / "evidence" / f"{point['evidence']}.fio").read_text()
        assert f"randseed={point['seed']}" in job


def test_gaps_are_recorded(place: Path) -> None:
    """The suite's own time, and the device's idle time, before each point but the first are in the journal."""
    journal = [json.loads(line)["entry"] for line in (place / "run" / "journal.jsonl").read_text().splitlines()]
    gaps = [entry["outcome"]["clocking"] for entry in journal if entry["kind"] == "came" and "seed" in entry["outcome"]]

    assert gaps[0]["own_gap_us"] is None
    assert all(0 < gap["own_gap_us"] < 1e6 and 0 < gap["idle_gap_ms"] < 5000 for gap in gaps[1:])


def test_our_own_file_is_used_again_without_a_question(place: Path) -> None:
    """The file that the suite made is taken again; one that it did not make needs --overwrite, which suffices."""
    snia_pts(place, "iops", "drive.img", *SMALL, "--run-dir", "again")
    (place / "other.img").write_bytes(b"x" * (8 << 20))

    assert snia_pts(place, "iops", "other.img", *SMALL, "--run-dir", "no", check=False).returncode == 8
    snia_pts(place, "iops", "other.img", *SMALL, "--overwrite", "--run-dir", "yes")
    assert (place / "yes" / "report.pdf").exists()
    assert not (place / "no").exists()


#: Every test in seconds: what is long is short, what is repeated comes twice, and steady is what two rounds say.
SETTLE = ("settling.window_rounds=2", "settling.sample_seconds=1", "settling.stride_samples=1")
LOOP = ("steady_state.window_rounds=2", "rounds.point_seconds=0.1", "rounds.maximum=2")
TWO_BY_TWO = (
    *SETTLE, "conditioning.maximum=2", "conditioning.thread_count=2", "conditioning.queue_depth=2",
    "demand.thread_counts=[2, 1]", "demand.queue_depths=[2, 1]", "demand.pre_write_seconds=1",
    "demand.point_seconds=0.2", "demand.maximum=2", "steady_state.window_rounds=2",
    'steady_state.tracked=[{metric = "iops", thread_count = 2, queue_depth = 2}]',
    "operating_points.pre_write_seconds=1", "operating_points.histogram_seconds=0.5",
)  # fmt: skip
GROUP = '{{name="AG {}", access="{}", read_percent=0, block_size_kib={}, seconds=2, thread_count=1, queue_depth=32}}'
GROUPS = ", ".join(GROUP.format(*told) for told in ((1, "SEQ", 1024), (2, "RND", 8), (3, "SEQ", 1024)))
SHORT = {
    "iops": (*LOOP, "rounds.read_percents=[100, 65, 0]", "rounds.block_sizes_kib=[1024, 64, 4]"),
    "throughput": LOOP,
    "latency": (*LOOP, "histogram.seconds=0.5"),
    "wsat": (*SETTLE, "saturation.seconds=3", "saturation.capacities=1000", "histogram.seconds=0.5"),
    "hir": (
        *SETTLE, "conditioning.maximum=2", "wait_states.cycles=2", "wait_states.access_a_seconds=0.3",
        "wait_states.idle_seconds=[0.3, 0.6]", "wait_states.access_c_seconds=2",
        "wait_states.access_c_sample_seconds=1",
    ),
    "xsr": ("groups.sample_seconds=1", f"groups.sequence=[{GROUPS}]"),
    "composite": TWO_BY_TWO,
    "dirth": TWO_BY_TWO,
}  # fmt: skip


def shortened(test: str, prefix: str = "") -> list[str]:
    """Return the options that make a test short."""
    return [word for setting in SHORT[test] for word in ("--set", prefix + setting)]


@pytest.fixture(scope="module")
def all_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of all eight tests on a file, in ``run``."""
    folder = tmp_path_factory.mktemp("all")
    settings = [word for test in SHORT for word in shortened(test, f"{test}.")]
    done = snia_pts(
        folder, "all", "drive.img", "--advanced", "--size", "64M", *settings, "--run-dir", "run", "--seed", "4711"
    )
    (folder / "stdout").write_text(done.stdout)
    (folder / "stderr").write_text(done.stderr)
    return folder


@pytest.mark.long
def test_all_tests_run_and_are_judged_again(all_tests: Path) -> None:
    """Every test of the standard runs on real fio; from its journal alone come the same result and the same verdict."""
    told = json.loads(snia_pts(all_tests, "assess", "run", "--json").stdout)

    assert [each["test"] for each in told["tests"]] == list(SHORT)
    for each in told["tests"]:
        assert each["ending"] == "finished"
        assert each["differs_from_journal"] == []
        assert each["written_bytes"] > 0
        assert [deviation["what"] for deviation in each["deviations"]]
    assert "8 of 8 tests finished" in (all_tests / "stdout").read_text()


@pytest.mark.long
@pytest.mark.parametrize("test", SHORT)
def test_every_test_is_what_fio_counted(test: str, all_tests: Path) -> None:
    """An independent script finds every measurement of every test, and every point's means, equal to fio's JSON."""
    script = [sys.executable, "-I", str(ROOT / "tests" / "check_cells.py"), str(all_tests / "run" / test)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)

    assert done.stdout.endswith("points agree\n"), done.stdout
    assert not done.stdout.startswith("0 ")


@pytest.mark.long
def test_samples_add_up_to_the_whole(all_tests: Path) -> None:
    """The samples of a stretch hold all the I/Os and bytes that fio counted of it, and all its time."""
    for test in ("wsat", "hir", "xsr", "dirth"):
        lines = json.loads(snia_pts(all_tests, "assess", f"run/{test}", "--json").stdout)["time_lines"]
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
    asked = {float(gap.get("asked_seconds", "")): gap for gap in root.findall("gaps") if gap.get("asked_seconds")}

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
    """Each test has its report, and the summary names each of them; one that is gone is told when it is made again."""
    run = all_tests / "run"
    text = (run / "summary.rst").read_text()
    for test in SHORT:
        assert (run / test / "report.pdf").read_bytes().startswith(b"%PDF-")
        assert f"{test}/report.pdf" in text
    for extra in list(SHORT)[1:]:
        (run / extra).rename(all_tests / extra)
    try:
        snia_pts(all_tests, "report", "run")
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
    snia_pts(tmp_path, verb, "drive.img", *size, *settings, "--run-dir", "run")

    told = json.loads(snia_pts(tmp_path, "assess", "run", "--json").stdout)
    assert told["revision"] == f"PTS-C {pts}"
    assert {point["range_bytes"] for loop in told["loops"] for point in loop["points"]} == {share * (32 << 20)}


@pytest.mark.long
def test_a_pattern_of_the_operators_choice(tmp_path: Path) -> None:
    """Write saturation with another pattern runs that, and its end is still followed by 4 KiB random writes."""
    snia_pts(
        tmp_path, "wsat", "drive.img", "--size", "32M", "--stimulus", "oltp", *shortened("wsat"), "--run-dir", "run"
    )

    told = json.loads(snia_pts(tmp_path, "assess", "run", "--json").stdout)
    stimulus, histogram = told["time_lines"]
    assert (stimulus["read_percent"], stimulus["block_size_bytes"]) == (65, 8192)
    assert (histogram["read_percent"], histogram["block_size_bytes"]) == (0, 4096)


@pytest.mark.long
@pytest.mark.root
def test_all_tests_on_a_loop_device_are_confirmed_once(tmp_path: Path) -> None:
    """A device is confirmed once for all; what was not confirmed leaves neither folder nor change."""
    settings = [word for test in ("iops", "throughput", "latency", "wsat") for word in shortened(test, f"{test}.")]
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        refused = snia_pts(tmp_path, "all", str(device), *settings, "--run-dir", "no", check=False)
        done = snia_pts(tmp_path, "all", str(device), *settings, "--serial", Path(device).name, "--run-dir", "run")

    assert refused.returncode == 9
    assert not (tmp_path / "no").exists()
    assert "4 of 4 tests finished" in done.stdout
    assert "blkdiscard" in (tmp_path / "run" / "summary.rst").read_text()


def remove_the_target(_child: subprocess.Popen[str], folder: Path) -> None:
    """Take the file away from under a run."""
    (folder / "drive.img").unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    ("stop", "code", "ending"),
    [
        (lambda child, _: child.send_signal(signal.SIGTERM), 130, "interrupted"),
        (remove_the_target, 13, "host failed"),
    ],
    ids=["SIGTERM", "failure"],
)
def test_stopping_one_test_stops_all(
    stop: Callable[[subprocess.Popen[str], Path], None], code: int, ending: str, tmp_path: Path
) -> None:
    """Stopped or failed in the second test, no more is run; what was run is kept, and the summary says what was not."""
    settings = ["--set", "throughput.rounds.point_seconds=5", *shortened("iops", "iops.")]
    argv = command("all", "drive.img", "--size", "16M", *settings, "--run-dir", "run")
    with subprocess.Popen(
        argv, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=ENVIRONMENT,
    ) as child:  # fmt: skip
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
    assert not (tmp_path / "run" / "latency").exists()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run on a file that has begun its rounds."""
    argv = command("iops", "drive.img", "--size", "16M", "--point-seconds", "20", "--run-dir", "run")
    with subprocess.Popen(
        argv, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as child:
        deadline = time.monotonic() + 180
        while "00002-" not in " ".join(fio_of(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield child
        child.kill()


def fio_of(folder: Path) -> list[str]:
    """Return the command lines of the fio processes that work for a run in ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("fio") and any(word.startswith(f"{folder}/") for word in words):
            found.append(" ".join(words))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_keeps_what_was_measured(
    number: signal.Signals, running: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Ctrl-C, SIGTERM and SIGHUP end fio and the run with code 130; what was measured is kept and can be reported."""
    running.send_signal(number)
    _, err = running.communicate(timeout=30)

    assert running.returncode == 130
    assert "Stopped by the operator in step Round 1" in err
    assert "Traceback" not in err
    assert fio_of(tmp_path) == []
    told = snia_pts(tmp_path, "assess", "run").stdout
    assert "INCOMPLETE (interrupted)" in told
    snia_pts(tmp_path, "report", "run")
    assert "INCOMPLETE" in (tmp_path / "run" / "report.rst").read_text()


def test_nohup_keeps_its_promise(tmp_path: Path) -> None:
    """A run started with SIGHUP ignored, as nohup does, goes on when the terminal is gone."""
    argv = command("iops", "drive.img", "--size", "16M", *SMALL, "--run-dir", "run")
    with subprocess.Popen(
        ["nohup", *argv], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as child:  # fmt: skip
        while not (tmp_path / "run" / "journal.jsonl").exists():
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGHUP)
        child.communicate(timeout=120)

    assert child.returncode == 0


def test_a_killed_run_leaves_no_fio_and_a_readable_record(running: subprocess.Popen[str], tmp_path: Path) -> None:
    """After SIGKILL of the suite no fio goes on writing, and the journal tells what was measured."""
    running.kill()
    running.wait()
    for _ in range(100):
        if not fio_of(tmp_path):
            break
        time.sleep(0.1)

    assert fio_of(tmp_path) == []
    assert "INCOMPLETE (unfinished)" in snia_pts(tmp_path, "assess", "run").stdout


@pytest.mark.root
def test_a_loop_device_from_purge_to_report(tmp_path: Path) -> None:
    """On a loop device the purge is a real blkdiscard, proven by reading back, and all of it is reported."""
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        name = Path(device).name
        refused = snia_pts(tmp_path, "iops", str(device), *SMALL, "--run-dir", "no", check=False)
        wrong = snia_pts(tmp_path, "iops", str(device), *SMALL, "--serial", "other", "--run-dir", "no", check=False)
        done = snia_pts(tmp_path, "iops", str(device), *SMALL, "--serial", name, "--run-dir", "run")

    assert refused.returncode == 9
    assert wrong.returncode == 9
    assert f"--serial {name}" in refused.stderr
    assert not (tmp_path / "no").exists()
    assert "purge: blkdiscard" in done.stdout
    assert "blkdiscard (proven on 64 blocks)" in (tmp_path / "run" / "report.rst").read_text()
    assert (tmp_path / "run" / "evidence" / "00000-purge.process.json").exists()


@pytest.mark.root
def test_a_mounted_device_is_refused_untouched(tmp_path: Path) -> None:
    """A mounted loop device is refused with its mount point, and the file on it is as it was."""
    with loop_device(tmp_path / "loop.img", 32 << 20) as device:
        subprocess.run(["mkfs.ext4", "-q", str(device)], check=True, capture_output=True)
        (tmp_path / "mnt").mkdir()
        subprocess.run(["mount", str(device), str(tmp_path / "mnt")], check=True)
        try:
            (tmp_path / "mnt" / "data").write_text("precious")
            done = snia_pts(tmp_path, "iops", str(device), "--serial", Path(device).name, check=False)
            assert (tmp_path / "mnt" / "data").read_text() == "precious"
        finally:
            subprocess.run(["umount", str(tmp_path / "mnt")], check=True)

    assert done.returncode == 7
    assert f"mounted on {tmp_path / 'mnt'}" in done.stderr
