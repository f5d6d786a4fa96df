"""The command line: every failure a sentence, a remedy and a code of its own, and the target untouched."""

import errno
import json
import os
import re
import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snia_pts.cli.argument_parser import DOCUMENTATION
from snia_pts.cli.commands.run import show_run
from snia_pts.cli.main import _replace_unencodable, main
from snia_pts.cli.parser import TESTS, TestVerb
from snia_pts.cli.text.formatting import json_text
from snia_pts.cli.text.result import _table_lines, result_json, result_lines
from snia_pts.errors import Interrupted
from snia_pts.lab.simulated.preset import PRESETS
from snia_pts.model.time_series import TimeLine
from snia_pts.record.folder import RunFolder
from snia_pts.report.pages import Prose
from snia_pts.report.registry import build
from snia_pts.report.tables import Column, Table, number_columns
from snia_pts.runner.run import FinishedRun
from tests import samples
from tests.strategies import sample

CONTENT = b"somebody's data" * 300_000


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Run a command line that fails; return its code and its message, which is a sentence and a remedy."""
    code = main(argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("snia-pts: ")
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) >= 2, "no remedy"
    return code, err


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        ((), 2, "required"),
        (("fly",), 2, "'fly': expected one of devices, check, host"),
        (("iosp", "x.img"), 2, "Did you mean iops?"),
        (("profile", "rnu", "etcd-fsync", "x"), 2, "Did you mean run?"),
        (("iops", "x.img", "--siez", "1G"), 2, "Did you mean --size? See snia-pts iops --help."),
        (("iops", "x.img", "--max-round=7"), 2, "Did you mean --max-rounds?"),
        (("iops", "x.img", "--range", "1G"), 2, "Unrecognized arguments: --range 1G.\n  See snia-pts iops --help."),
        (("all", "--max-rounds", "7"), 2, "--set iops.rounds.maximum=7, --set throughput.rounds.maximum=7"),
        (("iops", "nvme0n1"), 6, "Did you mean /dev/nvme0n1?"),
        (("iops", "sdzz", "--size", "1G"), 6, "Did you mean /dev/sdzz?"),
        (("iops", "x.img", "--size", ""), 2, "'' is not a size"),
        (("all", "x.img", "--size", "1G", "--max-rounds", "7"), 2, "--set iops.rounds.maximum=7, --set throughput.ro"),
        (
            ("all", "x.img", "--size", "1G", "--stimulus=oltp"),
            2,
            "Each test has its own: --set wsat.stimulus.name=oltp.",
        ),
        (("iops",), 2, "TARGET"),
        (("iops", "x.img", "--size", "1G", "--colour", "red"), 2, "--colour red.\n  See snia-pts iops --help."),
        (("profile", "run", "etcd-fsync", "x", "--colour"), 2, "--colour.\n  See snia-pts profile run --help."),
        (("--colour", "devices"), 2, "--colour.\n  See snia-pts --help."),
        (("iops", "x.img", "--size", "1G", "--class", "toy"), 2, "--class: 'toy': expected one of enterprise, client"),
        (("iops", "x.img", "--size", "1G", "--engine", "iouring"), 2, "Did you mean io_uring?"),
        (("iops", "x.img", "--size", "huge"), 2, "huge"),
        (("iops", "x.img", "--size", "-1G"), 2, "'-1G' is not a size"),
        (("profile", "run", "etcd-fsync", "x.img", "--range", "-.5G"), 2, "'-.5G' is not a size"),
        (("iops", "x.img", "--size", "1G", "--pts", "3.0"), 2, "2.0.2"),
        (("iops", "x.img", "--size", "1G", "--engine", "warp"), 2, "warp"),
        (("iops", "x.img", "--size", "1G", "--seed", "-1"), 2, "-1"),
        (("iops", "x.img", "--size", "1G", "--seed", "\N{SUPERSCRIPT TWO}"), 2, "not a whole number"),
        (("iops", "x.img", "--size", "1G", "--seed", "9" * 5000), 2, "not a whole number"),
        (("iops", "sim:hdd", "--operator", "\udcff"), 2, r"'\udcff' is not valid UTF-8"),
        (("iops", "x.img", "--size", "1G", "--set", "rounds"), 2, "KEY=VALUE"),
        (("iops", "x.img", "--size", "1G", "--plan", "--assume", "fast"), 2, "fast"),
        (("wsat", "x.img", "--size", "1G", "--plan", "--assume", "1e300"), 2, "not a speed"),
        (("wsat", "x.img", "--size", "1G", "--plan", "--assume", "1e-300"), 2, "not a speed"),
        (("iops", "x.img", "--size", "1G", "--set", "rounds.maximum=0"), 3, "rounds.maximum"),
        (("iops", "x.img", "--size", "1G", "--set", "round.maximum=9"), 3, "did you mean rounds.maximum?"),
        (("all", "x.img", "--size", "1G", "--set", "iops.round.maximum=9"), 3, "did you mean rounds.maximum?"),
        (("all", "x.img", "--size", "1G", "--set", "iosp.rounds.maximum=9"), 2, "Did you mean iops?"),
        (("iops", "x.img", "--size", "1G", "--thread-count", "many"), 3, "setup.thread_count: 'many'"),
        (("iops", "x.img", "--size", "1G", "--max-rounds", "3"), 3, "window_rounds"),
        (("iops", "x.img", "--size", "1G", "--spec", "none.toml"), 3, "none.toml"),
        (("iops", "x.img"), 6, "with snia-pts devices. For a test file give its size, for example --size"),
        (("host", "x.img"), 6, "does not exist.\n  Check the name with snia-pts devices.\n"),
        (("iops", "/dev/nvme77n1", "--size", "1G"), 6, "does not exist"),
        (("iops", "none/x.img", "--size", "1M"), 6, "none"),
        (
            ("iops", ".", "--size", "1G"),
            10,
            "it is a directory. Nothing was written to it.\n  Name a drive or a file; to test in a directory",
        ),
        (("wsat", "."), 10, "to test in a directory, use snia-pts profile run NAME ."),
        (("iops", "/dev/null"), 10, "neither"),
        (("iops", "x.img", "--size", "100K"), 10, "less than one block"),
        (("hir", "x.img", "--size", "1G", "--point-seconds", "1"), 2, "--point-seconds"),
        (("xsr", "x.img", "--size", "1G", "--thread-count", "1"), 2, "--thread-count"),
        (("iops", "x.img", "--size", "1G", "--stimulus", "oltp"), 2, "--stimulus"),
        (("wsat", "x.img", "--size", "1G", "--stimulus", "gaming"), 3, "write-intensive, oltp, vod"),
        (("dirth", "x.img", "--size", "1G", "--max-rounds", "3"), 3, "demand.maximum"),
        (("tp", "x.img", "--size", "100K"), 10, "less than one block"),
        (("ecw", "x.img"), 6, "does not exist"),
        (("all", "x.img", "--size", "1G", "--set", "rounds.maximum=5"), 2, "TEST.KEY=VALUE"),
        (
            ("all", "x.img", "--size", "1G", "--set", "xsr.groups.sample_seconds=5"),
            2,
            "iops, throughput, latency, wsat",
        ),
        (("all", "x.img", "--size", "1G", "--set", "iops"), 2, "TEST.KEY=VALUE"),
        (("all", "x.img", "--size", "1G", "--set", "wsat.rounds.maximum=5"), 3, "wsat-2.0.2.toml"),
        (("all", "x.img", "--size", "1G", "--spec", "x.toml"), 2, "--spec"),
        (("all", "x.img", "--size", "1G", "--json"), 2, "--plan"),
        (("all", "x.img", "--size", "100K"), 10, "IOPS test:"),
        (("iops", "x.img", "--size", "100000T"), 10, "free space"),
        (("iops", "x.img", "--size", "1G", "--purge", "magic"), 10, "punch-hole"),
    ],
)
def test_bad_input_is_refused(argv: tuple[str, ...], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mistake has its code and names what is wrong; a run that was refused leaves no run folder."""
    got, err = refused(capsys, *argv)

    assert got == code
    assert text in err
    assert not list(Path().glob("runs/*"))
    assert not Path("x.img").exists()


def test_a_file_of_somebody_else_is_refused_untouched(capsys: pytest.CaptureFixture[str]) -> None:
    """A file the suite did not make is refused with the remedy, and not a byte of it changes."""
    Path("data.img").write_bytes(CONTENT)

    for size in ((), ("--size", "1M")):
        code, err = refused(capsys, "iops", "data.img", *size)
        assert code == 8
        assert "--overwrite" in err
        assert Path("data.img").read_bytes() == CONTENT


def test_a_run_folder_that_cannot_be_made_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A run folder that is taken, or lies where none can be, is refused before the target is made."""
    Path("taken").mkdir()
    Path("taken/report.pdf").write_text("precious")

    for place in ("taken", "taken/report.pdf/run", "/proc/run"):
        code, err = refused(capsys, "iops", "x.img", "--size", "8M", "--run-dir", place)
        assert code == 5
        assert "--run-dir" in err
    assert Path("taken/report.pdf").read_text() == "precious"
    assert not Path("x.img").exists()


def test_a_missing_fio_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fio the package to install is named, and nothing is made."""
    from snia_pts.lab.process import program as process

    process.find.cache_clear()
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)

    code, err = refused(capsys, "iops", "x.img", "--size", "8M")
    process.find.cache_clear()

    assert code == 4
    assert "apt install fio" in err
    assert not Path("x.img").exists()


def test_all_mistakes_of_a_specification_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A specification file with three mistakes gets three lines, each with file, key, value and what was expected."""
    good = (Path(__file__).parent.parent / "specs" / "iops-2.0.2.toml").read_text()
    Path("mine.toml").write_text(
        good.replace("maximum = { value = 25", 'maximum = { value = "25"')
        .replace("point_seconds = { value = 60", "point_seconds = { value = -1")
        .replace("window_rounds", "window_round")
    )

    code, err = refused(capsys, "iops", "x.img", "--size", "1G", "--spec", "mine.toml")

    assert code == 3
    for expected in ("rounds.maximum: '25'", "rounds.point_seconds: -1", "steady_state.window_round", "mine.toml"):
        assert expected in err


@pytest.mark.parametrize("verb", ["iops", "all"])
def test_what_a_drive_is_called_commands_no_terminal(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Escape sequences, and signs that turn text around, are shown as such: none hides which drive is meant."""
    preset = (PRESETS / "hdd.toml").read_text(encoding="utf-8")
    named = r'model = "\u001b[2K\rgood \u202eevird\u0007\u009b1A"'
    Path("odd.toml").write_text(re.sub(r"model = .*", lambda _: named, preset), encoding="utf-8")

    assert main([verb, "sim:./odd.toml", "--plan"]) == 0
    assert "\ufffd[2K\ufffdgood \ufffdevird\ufffd\ufffd1A" in capsys.readouterr().out
    code, message = refused(capsys, verb, "sim:./odd.toml", "--plan", "--set", "\x1b[2J\x9b")
    assert (code, "\ufffd[2J\ufffd" in message, "\x1b" in message) == (2, True, False)


def test_the_plan_touches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """--plan says steps, shortest and longest time and bytes, and makes neither target nor folder."""
    assert main(["iops", "drive.img", "--size", "1G", "--plan"]) == 0

    out = capsys.readouterr().out
    for expected in ("Purge", "WIPC SEQ 128 KiB", "5 rounds, 4 h 40 min", "25 rounds, 23 h 2", "2.147 GB"):
        assert expected in out
    assert list(Path().iterdir()) == []


@pytest.mark.long_but_first
@pytest.mark.parametrize("pts", ["2.0.2", "1.1"])
@pytest.mark.parametrize("verb", [name for test, verb in TESTS.items() for name in (test, *verb.aliases)])
def test_every_verb_plans(verb: str, pts: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every test, by each of its names, has a plan of a few lines, shortest and longest, and touches nothing."""
    for test_class in ("enterprise", "client"):
        assert main([verb, "drive.img", "--size", "1G", "--pts", pts, "--class", test_class, "--plan"]) == 0

        out = capsys.readouterr().out
        assert "shortest: " in out
        assert "longest: " in out
        assert " fills)" in out
        assert len(out.splitlines()) < 45
    assert list(Path().iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(("test", "verb"), TESTS.items())
def test_short_options_are_keys_of_the_test(test: str, verb: TestVerb, capsys: pytest.CaptureFixture[str]) -> None:
    """Each short option of a verb changes just the key it stands for, in each version and each class."""
    values = {"--stimulus": "composite", "--max-rounds": "9", "--point-seconds": "7.5"}
    for option, key in verb.shortcuts.items():
        for pts, test_class in (("2.0.2", "enterprise"), ("1.1", "client")):
            argv = [test, "drive.img", "--size", "1G", "--pts", pts, "--class", test_class, "--plan", "--json"]
            if main([*argv, option, values.get(option, "3")]) == 3:
                assert (option, pts) == ("--stimulus", "1.1")  # which has one pattern
                continue
            plain = json.loads(capsys.readouterr().out)
            assert main([*argv, "--set", f"{key}={values.get(option, '3')}"]) == 0
            assert json.loads(capsys.readouterr().out) == plain


@pytest.mark.long
def test_the_plan_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    """all --plan has a line a test and their sum; --advanced has all eight, in the order of the chapters."""
    assert main(["all", "drive.img", "--size", "1G", "--plan", "--json"]) == 0
    basic = json.loads(capsys.readouterr().out)
    assert main(["all", "drive.img", "--size", "1G", "--plan", "--json", "--advanced"]) == 0
    advanced = json.loads(capsys.readouterr().out)
    assert main(["all", "drive.img", "--size", "1G", "--plan", "--advanced"]) == 0
    out = capsys.readouterr().out

    assert [plan["test"] for plan in basic["tests"]] == ["iops", "throughput", "latency", "wsat"]
    assert [plan["test"] for plan in advanced["tests"]] == list(TESTS)
    for document in (basic, advanced):
        for course in ("shortest", "longest"):
            for name in ("seconds", "written_bytes", "drive_fills"):
                assert document[course][name] == pytest.approx(sum(plan[course][name] for plan in document["tests"]))
    assert "Cross Stimulus Recovery" in out
    assert "total" in out
    assert list(Path().iterdir()) == []


def test_thousands_of_steps_are_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A plan groups steps that come again, and no step is lost: 1800 writes and 1800 idle times."""
    assert main(["hir", "drive.img", "--size", "1G", "--plan", "--json"]) == 0

    course = json.loads(capsys.readouterr().out)["shortest"]
    assert sum(step["step_count"] for step in course["steps"] if "Idle" in step["label"]) == 1800
    assert sum(step["step_count"] for step in course["steps"] if "access A" in step["label"]) == 1800
    assert sum(step["seconds"] for step in course["steps"]) == pytest.approx(course["seconds"])
    assert len(course["steps"]) < 20


def test_the_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """--plan --json is one JSON document with exact numbers and the deviations."""
    assert main(["iops", "drive.img", "--size", "1G", "--plan", "--json", "--max-rounds", "7"]) == 0

    plan = json.loads(capsys.readouterr().out)
    assert plan["shortest"]["rounds"] == 5
    assert plan["longest"]["rounds"] == 7
    assert plan["shortest"]["steps"][1]["written_bytes"] == 2 << 30
    whats = [deviation["what"] for deviation in plan["deviations"]]
    assert whats == ["rounds.maximum", "device under test", "write cache", "purge"]


@pytest.mark.parametrize("verb", ["assess", "compare", "export", "report", "resume", "status", "stop", "host"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "no such folder.\n  Name the folder of a run"),
        ("file", "it is not a folder.\n  Name the folder of a run"),
        ("file/x", "no such folder.\n  Name the folder of a run"),
        ("empty", "Name the folder of a run"),
    ],
)
def test_what_is_no_run_is_told(verb: str, name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every verb of stored runs says in one sentence what is wrong with a place, and what to name."""
    Path("file").write_text("no run")
    Path("empty").mkdir()
    more = {"compare": ["other"], "export": ["--to", "tkperf"]}.get(verb, [])
    if (verb, name) == ("host", "empty"):
        return
    code, err = refused(capsys, verb, *(["--restore"] if verb == "host" else []), name, *more)

    assert code == 14
    assert any(f"snia-pts: The stored run {path} cannot be read: " in err for path in (name, Path(name).resolve()))
    assert text in err
    assert len(err.splitlines()) == 2


@pytest.fixture
def stored(tmp_path: Path) -> RunFolder:
    """A stored run of an IOPS test."""
    return samples.store_run(tmp_path / "run", rounds=5)


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("throughput", ("1024 KiB: 5 complete rounds", "128 KiB: 5 complete rounds", "Throughput (MB/s), over", "SEQ")),
        (
            "latency",
            (
                "Average response time 4 KiB 0/100: steady",
                "Average response time (ms), weighted by I/O count, over",
                "65/35",
            ),
        ),
        ("wsat", ("COMPLETE: 6 h 00 min elapsed", "Stimulus: 12 samples judged", "Ended by", "drive fills")),
        ("hir", ("Preconditioning: 13 samples judged", "Wait State 10", "Return to", "baseline")),
        ("xsr", ("AG 2: RND 8 KiB 0/100", "Recovery time", "Peak ART")),
        ("composite", ("Max IOPS", "TC 32", "QD 32", "T32Q32: steady", "50 % of the accesses")),
        (
            "dirth",
            (
                "Max IOPS",
                "Mid IOPS",
                "Min IOPS",
                "Operating points, rounds",
                "IOPS, over the window; TC down, QD across",
            ),
        ),
    ],
)
def test_assess_tells_what_a_test_found(
    test: str,
    wanted: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of every test, assess tells verdict, determinations and the figures the test is run for; JSON is valid too."""
    fewer = (("wait_states.cycles", 10),) if test == "hir" else ()
    folder = samples.store_run(tmp_path / "run", test, overrides=fewer)

    assert main(["assess", str(folder.path)]) == 0
    out = capsys.readouterr().out
    assert main(["assess", str(folder.path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)

    for text in (*wanted, "all evidence agree with the journal", "the standard: a solid state drive, raw"):
        assert text in out
    assert output["test"] == test
    assert output["differs_from_journal"] == []
    assert output["time_lines"]


@pytest.mark.long_but_first
@pytest.mark.parametrize("test", ["iops", "hir", "dirth"])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_a_stopped_run_can_be_told(test: str, count: int) -> None:
    """With any number of outcomes, a result has lines, and JSON without a figure that is NaN."""
    result = samples.result_of(test, ending="interrupted", ending_detail="Stopped.", stop_after=count)

    assert "INCOMPLETE (interrupted)" in "\n".join(result_lines(result))
    assert json.loads(json_text(result_json(result, ())))["ending"] == "interrupted"


@pytest.mark.parametrize(("seconds", "iops", "mb_per_second"), [(0.099, None, None), (0.1, 1000, 4.096)])
def test_a_line_too_short_for_a_rate_has_none(seconds: float, iops: float | None, mb_per_second: float | None) -> None:
    """The engine's clock resolves 1 ms: a time line of less than 100 ms has null for IOPS and MB/s."""
    result = samples.result_of("wsat")
    line = TimeLine(phase="stimulus", part="", stimulus=result.time_lines[0].stimulus)
    ios = {"read_ios": 0, "write_ios": 100, "read_bytes": 0, "write_bytes": 409_600}
    line.add_sample(sample(number=1, ended_seconds=seconds, seconds=seconds, **ios))
    (time_line,) = json.loads(json_text(result_json(replace(result, time_lines=(line,)), ())))["time_lines"]

    assert (time_line["iops"], time_line["mb_per_second"]) == (pytest.approx(iops), pytest.approx(mb_per_second))
    assert time_line["io_seconds"] == seconds


def test_assess_needs_no_device(stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """assess judges a stored run again, and says that result.xml agrees."""
    assert main(["assess", str(stored.path)]) == 0

    out = capsys.readouterr().out
    for expected in ("STEADY STATE", "5 complete rounds", "rounds 1 - 5", "best fit", "agree with the journal"):
        assert expected in out


def test_a_simulated_run_begins_with_what_its_report_states() -> None:
    """That no drive was tested, the verdict with its rounds and the number of deviations are above all numbers."""
    found = samples.deviations(3)
    result = samples.iops_result(device=samples.dut(kind="simulated"), found=found)
    assert len(result.deviations) >= 3
    _, *statements, empty = list(result_lines(result))[:5]
    assert statements == [
        "SIMULATED: no drive was tested. All numbers come from a model.",
        "STEADY STATE in rounds 3 - 7",
        f"NOT PTS conformant: {len(result.deviations)} deviations",
    ]
    assert empty == ""


@pytest.mark.parametrize(
    ("kind", "model", "statement"),
    [
        ("file", "file x.img", "A FILE WAS TESTED, NOT A DRIVE"),
        ("loop device", "loop device on /x.img", "A LOOP DEVICE WAS TESTED, NOT A DRIVE"),
        ("virtual device", "virtual device zram0", "A RAM DISK WAS TESTED, NOT A DRIVE"),
        ("virtual device", "RAID raid0", ""),
        ("drive", "EXAMPLE", ""),
    ],
)
def test_a_target_that_is_no_drive_is_stated_first(kind: str, model: str, statement: str) -> None:
    """The terminal and the report state it above the verdict; an array of drives is none of these."""
    result = samples.iops_result(device=samples.dut(kind=kind, model=model))
    terminal = list(result_lines(result))[1]
    first = next(block for block in build(result).pages[0].blocks if isinstance(block, Prose))
    expected = statement or "STEADY STATE in rounds 3 - 7"
    assert (terminal, first.text) == (expected, expected)
    assert (first.kind == "bad") is bool(statement)


def test_excursions_and_the_best_fit_are_those_of_the_report() -> None:
    """The terminal has the digits, thousands and units of the page with the determination."""
    result = samples.iops_result()
    lines = "\n".join(result_lines(result))
    tables = [block for page in build(result).pages for block in page.blocks if isinstance(block, Table)]
    determinations = [table for table in tables if table.title == "Steady State Determination Data"]
    assert len(determinations) == 3
    for table in determinations:
        rows = {row[0]: row[1:] for row in table.rows}
        assert f"    mean of the rounds {rows['Average'][0]} IOPS\n" in lines
        for name in ("data", "slope"):
            value, percent, _ = rows[f"Measured {name} excursion"]
            allowed = rows[f"Allowed maximum {name} excursion"][0]
            assert f"    {name} excursion {value} IOPS ({percent} %), allowed {allowed} IOPS\n" in lines
        (fit,) = (cells[0] for name, cells in rows.items() if name.startswith("Least squares line"))
        assert f"    best fit {fit} IOPS (R: round)\n" in lines


def test_headings_are_wrapped_in_their_columns() -> None:
    """At 80 columns no line of the key figures is wrapped a second time, and each column has its heading."""
    lines = list(result_lines(samples.iops_result(), 80))
    start = lines.index("Key figures of the measurement window")
    shown = lines[start : lines.index("", start)]
    assert max(map(len, shown)) <= 80
    above, heads = shown[-6:-4]
    assert above.endswith("Steady")
    assert heads.startswith("  Point ")
    assert [line[above.index("Steady") :] for line in shown[-4:]] == ["yes", "yes", "yes", "n/a"]


def test_a_table_that_is_too_wide_is_in_parts() -> None:
    """Each part fits the width and has the names of the rows; together they have every column once."""
    heads = ("Point", *(f"Metric-{number}-(ms)" for number in range(9)))
    rows = tuple((f"RND {size} KiB", *(str(1000 * number + size) for number in range(9))) for size in (4, 8))
    block = Table(
        kind="numbers", columns=(Column(heading="Point"), *number_columns(dict.fromkeys(heads[1:], 9))), rows=rows
    )
    lines = list(_table_lines(block, 60))
    assert max(map(len, lines)) <= 60
    parts = [part.splitlines() for part in "\n".join(lines).split("\n\n")]
    assert len(parts) == 3
    for line, cells in enumerate((heads, *rows)):
        shown = [re.split(" {2,}", part[line].strip()) for part in parts]
        assert [cell for _, *others in shown for cell in others] == list(cells[1:])
        assert {first for first, *_ in shown} == {cells[0]}


def test_assess_tells_a_forged_result(stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A result.xml whose verdict or number was changed is reported, with both values."""
    stored.result.write_bytes(stored.result.read_bytes().replace(b'steady="true"', b'steady="false"', 1))

    assert main(["assess", str(stored.path)]) == 14

    out = capsys.readouterr().out
    assert "Stored files differ from the journal:" in out
    assert "stored true, expected" not in out
    assert "stored false, expected true" in out


def test_assess_tells_forged_and_missing_evidence(stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Evidence that was changed or deleted is named, with the exit code of an untrustworthy run folder."""
    first, second = sorted(stored.evidence.glob("*.json"))[:2]
    first.write_text("forged")
    second.unlink()

    assert main(["assess", str(stored.path)]) == 14

    out = capsys.readouterr().out
    assert f"{first.name}: its SHA-256 differs from the one in the journal" in out
    assert f"{second.name}: the file is missing" in out


@pytest.mark.long
def test_a_missing_result_is_made_again(stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """report makes result.xml from the journal where it is gone, byte for byte, if there is to be no more than that."""
    before = stored.result.read_bytes()
    stored.result.unlink()

    assert main(["assess", str(stored.path)]) == 0
    assert "There is no result.xml" in capsys.readouterr().out
    assert main(["report", str(stored.path), "--to", "none"]) == 0

    assert stored.result.read_bytes() == before
    assert capsys.readouterr().err == ""


def test_a_suite_that_was_replaced_meanwhile_is_told(
    stored: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can no longer be loaded, as after an upgrade beneath a running test, is a sentence with a remedy."""

    def write(*_: object) -> None:
        raise ImportError("cannot import name 'sums'", name="snia_pts.report.formats.xlsx")

    monkeypatch.setattr("snia_pts.api.report.write", write)

    assert main(["report", str(stored.path), "--to", "xlsx"]) == 13
    message = capsys.readouterr().err
    assert "failed in step loading a part of the suite (snia_pts.report.formats.xlsx)" in message
    assert "Install it again; the run folder has all results." in message


def test_a_report_that_cannot_be_written_is_told(
    stored: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the run folder takes no file, report names the folder, with the code of a report that was not made."""

    def refuse(*how: Any) -> str:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(secrets, "token_hex", refuse)

    assert main(["report", str(stored.path)]) == 15
    assert f"{stored.path}: Read-only file system" in capsys.readouterr().err


def test_assess_as_json(stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """assess --json is one JSON document with the matrix and the determinations."""
    assert main(["assess", str(stored.path), "--json"]) == 0

    output = json.loads(capsys.readouterr().out)
    assert output["steady"] is True
    (loop,) = output["loops"]
    assert len(loop["points"]) == 56
    assert len(loop["determinations"]) == 3
    assert loop["window"] == [1, 2, 3, 4, 5]
    assert output["differs_from_journal"] == []


@pytest.mark.parametrize("junk", [b"", b"\x00" * 100, b'{"crc32":"00000000","entry":{}}\n'])
def test_a_damaged_journal_is_told(junk: bytes, stored: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal that is none gives a sentence."""
    stored.journal.write_bytes(junk)

    for verb in ("assess", "report"):
        assert refused(capsys, verb, str(stored.path))[0] == 14


@pytest.mark.long
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=5))
def test_any_words_give_a_code(words: list[str]) -> None:
    """Whatever is typed after --plan, the answer is an exit code, never an exception."""
    assume(not {"-h", "--help"} & set(words))

    for verb in ("iops", "all"):
        assert main([verb, "--plan", *words]) in (0, 2, 3, 6, 10)


def snia_pts(*argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process."""
    return subprocess.run(
        [sys.executable, "-m", "snia_pts", *argv],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **environment},
    )


def test_the_help_imports_nothing_heavy() -> None:
    """--help names the verbs, and answers without numpy, pydantic, lxml or matplotlib."""
    code = (
        "import sys; from snia_pts.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([name for name in {'numpy', 'pydantic', 'lxml', 'matplotlib'} & set(sys.modules)])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)

    assert done.stdout.splitlines()[-1] == "[]"
    assert "iops" in done.stdout


@pytest.mark.parametrize("verb", [(), ("iops",), ("profile", "run")])
def test_the_help_says_where_the_documentation_is(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The help names pages of docs/; every help ends with the place of that folder."""
    with pytest.raises(SystemExit):
        main([*verb, "--help"])

    assert " ".join(DOCUMENTATION.split()) in " ".join(capsys.readouterr().out.split())


@pytest.mark.long
def test_output_without_unicode_is_plain(stored: RunFolder) -> None:
    """Where the terminal knows ASCII only, numbers have a plain space."""
    done = snia_pts("assess", str(stored.path), PYTHONIOENCODING="ascii")

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "?" not in done.stdout


def test_units_and_marks_have_names_without_unicode() -> None:
    """The characters of tables and units are words or letters of ASCII; any other character is ?."""
    _replace_unencodable()
    units = "\N{EN DASH} 44 \N{DEGREE SIGN}C, 5 \N{MICRO SIGN}s"
    shown = f"{units}, \N{DOUBLE DAGGER} 1\N{NARROW NO-BREAK SPACE}024 \N{SNOWMAN}"
    assert shown.encode("ascii", "plain") == b"- 44 deg C, 5 us, # 1 024 ?"


@pytest.mark.long
def test_a_reader_that_leaves_is_no_failure(stored: RunFolder) -> None:
    """snia-pts assess RUN | head -1 ends quietly."""
    command = f"{sys.executable} -m snia_pts assess {stored.path} | head -1"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, env=environment)

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_a_stop_while_the_result_is_printed_says_that_the_run_is_complete(
    stored: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the folder, and not a step of the test."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("snia_pts.cli.text.result.result_lines", stop)
    finished = FinishedRun(folder=stored, result=samples.result_of("iops", rounds=5), reports={})
    with pytest.raises(Interrupted) as error:
        show_run(finished)
    assert (error.value.step, error.value.what) == ("printing the result", stored.path)
    assert "complete" in error.value.hint
