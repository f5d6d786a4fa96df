"""Every printed number once more, from the engine's answers alone: a second implementation, in numpy.

None of the suite's arithmetic is used. The tables of data are compared with the evidence to the last bit that floating
point leaves; every figure of every table of a report is recomputed (``tests/recomputation``), and the printed figure
may differ from it by half of its last digit.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snia_pts.cli.main import main
from snia_pts.lab.simulated import laboratory
from snia_pts.model.measurement import Sample
from snia_pts.record.folder import RunFolder
from snia_pts.spec import SPEC_TYPES
from tests.command_line import assessed
from tests.recomputation import host, percentiles
from tests.recomputation.key_figures import key_figures
from tests.recomputation.record import (
    Row,
    answers,
    column,
    continuous_phase,
    determination,
    facts,
    is_sampled,
    journal,
    measurements,
    parameter,
    per_second,
    percentile,
    rate,
    response_times,
    rows,
    running_totals,
    sampled_rows,
    series,
    slug,
    total,
    values,
    window_of,
    window_rounds,
)
from tests.recomputation.sentences import (
    check_header,
    check_host_notes,
    check_sentences,
    check_spans,
    required_host_notes,
    required_sentences,
    windows,
)
from tests.recomputation.tables import check_cells, unknown_tables
from tests.samples import remove_later_evidence
from tests.test_end_to_end_of_all import shortened
from tests.test_run_folders import unpacked

pytestmark = [pytest.mark.usefixtures("without_figures"), pytest.mark.long_but_first]

#: What shortens the simulated runs; the real ones are shortened like those of the end-to-end tests.
_SHORT = {
    **dict.fromkeys(("iops", "throughput", "latency"), ("rounds.point_seconds=5", "rounds.maximum=7")),
    "hir": ("wait_states.cycles=60",),
    "composite": ("demand.thread_counts=[32, 6, 1]",),
    "wsat": ("saturation.seconds=21600",),
}
#: Simulated runs by class, version of the standard and drive; a hard disk is too slow to be filled or to meet a limit.
_ALWAYS = {
    "iops": (("enterprise", "1.1", "enterprise-sas"), ("client", "1.1", "client-qlc")),
    "throughput": (("enterprise", "2.0.2", "enterprise-nvme"), ("client", "1.1", "client-qlc")),
    "latency": (("client", "2.0.2", "hdd"), ("enterprise", "1.1", "optane")),
    "wsat": (
        ("enterprise", "1.1", "enterprise-sata"),
        ("enterprise", "2.0.2", "enterprise-nvme-sensors"),
        ("client", "1.1", "client-qlc"),
        ("client", "2.0.2", "hdd"),
    ),
    "hir": (("client", "2.0.2", "hdd"), ("enterprise", "1.1", "enterprise-sata")),
    "xsr": (("client", "2.0.2", "client-qlc"), ("enterprise", "2.0.2", "enterprise-nvme-sensors")),
    "composite": (("client", "1.1", "client-qlc"),),
    "dirth": (("client", "2.0.2", "hdd"), ("enterprise", "1.1", "enterprise-sata")),
}
#: The same in the long tests, for the tests whose reports the version or the class changes.
_LONG = {
    **dict.fromkeys(("iops", "throughput", "latency", "hir"), (("client", "2.0.2", "client-qlc"),)),
    "xsr": (("enterprise", "1.1", "enterprise-nvme"),),
    **dict.fromkeys(("composite", "dirth"), (("enterprise", "2.0.2", "enterprise-nvme"),)),
    "wsat": (("client", "2.0.2", "client-qlc"),),
}
#: Tests that may have no continuous stimulus with samples.
_WITHOUT_SAMPLES = ("iops", "throughput", "latency", "profile")
#: Tests whose real runs are long enough for the host's ceiling.
_CALIBRATED = ("iops", "throughput")
#: A simulated run of write saturation that ends at steady state, before the drive was written four times.
_STEADY = ("saturation.seconds=36000", "saturation.capacities=100")
_TESTS = sorted(set(SPEC_TYPES) - {"profile"})
_RUNS = [
    *(
        pytest.param((*how, f"sim:{drive}", test), id="-".join((test, *how, drive)), marks=marks)
        for runs, marks in ((_ALWAYS, ()), (_LONG, pytest.mark.long))
        for test in _TESTS
        for *how, drive in runs[test]
    ),
    pytest.param(("enterprise", "2.0.2", "steady", "wsat"), id="steady-wsat"),
    pytest.param(("enterprise", "2.0.2", "stored", "wsat"), id="stored-wsat"),
    pytest.param(("enterprise", "2.0.2", "late", "wsat"), id="late-wsat"),
    pytest.param(("enterprise", "2.0.2", "interrupted", "iops"), id="interrupted-iops"),
    pytest.param(("enterprise", "1.1", "interrupted", "wsat"), id="interrupted-wsat"),
    *(
        pytest.param(("enterprise", "2.0.2", "real", test), id=f"real-{test}", marks=pytest.mark.long)
        for test in _TESTS
    ),
]


@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of each test, simulated and, shortened, with fio on a file, with their tables and reports as text."""
    test_class, pts, kind, test = request.param
    folder: Path = tmp_path_factory.mktemp("recomputation") / kind.removeprefix("sim:") / test
    folder.parent.mkdir()
    if kind == "stored":  # a run of fio on a loop device, with the kernel's counters
        unpacked("drive", folder.parent).rename(folder)
        assert main(["report", str(folder), "--to", "csv,rst,json,ocp"]) == 0
        return folder
    changed = _STEADY if kind in ("steady", "late") else _SHORT.get(test, ())
    settings = [part for setting in changed for part in ("--set", setting)]
    target = ["sim:enterprise-nvme" if kind in ("steady", "interrupted", "late") else kind]
    if kind == "interrupted":
        settings += ["--max-rounds", "14"] if test == "iops" else []
    if kind == "real":
        settings = [setting.replace("cycles=2", "cycles=3") for setting in shortened(test)]  # median and mean differ
        target = [str(folder.parent / "drive.img"), "--size", "64M"]
        if test in _CALIBRATED:  # the host is calibrated before a run that is planned to be long
            target += ["--assume", "0.01"]
    options = ("--run-dir", str(folder), "--seed", "20261123", "--to", "csv,rst,json,ocp", "--progress", "none")
    with pytest.MonkeyPatch.context() as patches:
        if kind == "late":
            patches.setattr(laboratory, "_sample", late_sample)
        assert main([test, *target, "--class", test_class, "--pts", pts, *options, *settings]) == 0
    if kind == "interrupted":
        interrupt(folder)
    return folder


def late_sample(*facts: Any, make: Callable[..., Sample] = laboratory._sample) -> Sample:
    """Return a sample of a host that was suspended during the third round, which therefore does not count."""
    made = make(*facts)
    return replace(made, seconds=2.2 * made.seconds) if made.number == 61 else made


def interrupt(run: Path) -> None:
    """Truncate a run, as a crash would (within a round, if it has rounds), and resume it."""
    path = run / "journal.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 5 // 8])
    remove_later_evidence(RunFolder(path=run))
    for name in ("result.xml", "tables", "report.rst"):
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    assert main(["resume", str(run), "--progress", "none"]) == 0


def same(numbers: Sequence[float], expected: Sequence[float]) -> None:
    assert numbers == pytest.approx(expected, rel=1e-12, nan_ok=True)


# -- tables against evidence ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_measurements_are_those_of_the_answers(run: Path) -> None:
    """Counts, bytes, rates, response times and percentiles of each measurement are recomputed from its answer."""
    measured = rows(run, "measurements")
    assert measured
    for row in measured:
        read, write = parts = answers(run, [row])
        assert [
            int(row[f"{side}_{what}"]) for side in ("read", "write") for what in ("ios", "bytes", "runtime_ms")
        ] == [part[key] for part in (read, write) for key in ("total_ios", "io_bytes", "runtime")]
        same(values(row, "iops", "mb_per_second"), [rate(parts, "total_ios"), rate(parts, "io_bytes") / 1e6])
        again = response_times(parts)
        same(values(row, *again), list(again.values()))


def test_points_are_those_of_their_rounds(run: Path) -> None:
    """A point's rates are means of the window's rounds; its response times are those of all I/Os of the window."""
    for point in rows(run, "points"):
        window = window_of(run, point)
        assert len(window) == int(point["last_round"]) - int(point["first_round"]) + 1
        round_answers = [answers(run, [row]) for row in window]
        same(
            values(point, "iops", "mb_per_second", "mean_maximum_response_us"),
            [
                float(np.mean([rate(parts, "total_ios") for parts in round_answers])),
                float(np.mean([rate(parts, "io_bytes") for parts in round_answers])) / 1e6,
                float(np.mean([max(part["lat_ns"]["max"] for part in parts) for parts in round_answers])) / 1000,
            ],
        )
        again = response_times([part for parts in round_answers for part in parts])
        same(values(point, *again), list(again.values()))


def test_percentiles_are_those_of_the_reads_and_of_the_writes(run: Path) -> None:
    """The table of percentiles has each point and histogram, reads and writes apart, with the count of I/Os."""
    printed = rows(run, "percentiles")
    expected = percentiles.data_rows(run)
    assert len(printed) == len(expected)
    for key, numbers in expected:
        (row,) = (row for row in printed if key.items() <= row.items())
        same(values(row, *percentiles.COLUMNS), numbers)


def test_rounds_are_those_of_the_answers(run: Path) -> None:
    """The value of a round is that of its point, or of every 30th sample, and the last window is the last rounds."""
    for row in rows(run, "rounds"):
        rounds = series(run)[row["series"]][row["variable"]]
        same(values(row, "value"), [rounds[int(row["round"])]])
        assert row["in_window"] == str(int(row["round"]) > max(rounds) - window_rounds(run)).lower()


def test_no_round_is_missing_or_too_many(run: Path) -> None:
    """Every 30th sample is a round unless it took half of the requested time or less, or 1.5 times that or more."""
    for name, variables in series(run).items():
        for rounds in variables.values():
            expected = list(range(1, max(rounds) + 1))
            if is_sampled(run, name):
                requested = parameter(run, "settling.sample_seconds")
                shares = {number: values(row, "seconds")[0] / requested for number, row in sampled_rows(run).items()}
                expected = [number for number, share in shares.items() if 0.5 < share < 1.5]
            assert list(rounds) == expected
    assert run.parent.name != "late" or 3 not in next(iter(series(run)["Write Saturation"].values()))


def test_determinations_are_those_of_their_rounds(run: Path) -> None:
    """Average, excursions and verdict of each window follow from its rounds by the rule: 20 % and 10 %."""
    assert run.name == "xsr" or window_rounds(run) == (2 if run.parent.name in ("real", "stored") else 5)
    for window in rows(run, "windows"):
        rounds, last = series(run)[window["series"]][window["variable"]], int(window["last_round"])
        assert int(window["first_round"]) == last - window_rounds(run) + 1
        again = determination(rounds, last, window_rounds(run))
        assert window["steady"] == str(again.pop("steady")).lower()
        assert values(window, *again) == pytest.approx(list(again.values()), abs=1e-9 * max(rounds.values()))


def test_samples_add_up_to_the_answers(run: Path) -> None:
    """The samples of each continuous stimulus have the I/Os and bytes of its answers; their rates follow from both."""
    tables = sorted((run / "tables").glob("samples-*.csv"))
    assert tables or facts(run)["test"] in _WITHOUT_SAMPLES
    for path in tables:
        samples = rows(run, path.stem)
        for row in samples:
            seconds, read_ios, write_ios, read_bytes, write_bytes = values(
                row, "seconds", "read_ios", "write_ios", "read_bytes", "write_bytes"
            )
            moved = (read_bytes + write_bytes) / 1e6
            rated = [(read_ios + write_ios) / seconds, moved / seconds] if round(seconds, 9) >= 0.1 else [math.nan] * 2
            same(values(row, "iops", "mb_per_second"), rated)
        totals = {
            key: sum(values(row, f"read_{key}")[0] + values(row, f"write_{key}")[0] for row in samples)
            for key in ("ios", "bytes")
        }
        parts = answers(
            run,
            [row for row in rows(run, "measurements") if slug(row["part"], continuous_phase(run, row)) == path.stem],
        )
        assert totals == {
            "ios": sum(part["total_ios"] for part in parts),
            "bytes": sum(part["io_bytes"] for part in parts),
        }


def test_samples_are_those_of_the_journal(run: Path) -> None:
    """The journal has every sample as the engine gave it, and the tables of samples have the same numbers."""
    tables: dict[str, list[dict[str, float]]] = {}
    name = ""
    for entry in journal(run):
        if entry["kind"] == "step" and entry["step"]["kind"] == "continuous":
            name = slug(entry["step"]["part"], entry["step"]["phase"])
        if entry["kind"] == "outcome" and entry["outcome"]["kind"] == "sample":
            tables.setdefault(name, []).append(entry["outcome"])
    assert tables or facts(run)["test"] in _WITHOUT_SAMPLES
    for table, samples in tables.items():
        printed = rows(run, table)
        assert len(printed) == len(samples)
        for row, sample in zip(printed, samples, strict=True):
            keys = ("seconds", "read_ios", "write_ios", "read_bytes", "write_bytes", "average_response_us")
            same(values(row, *keys), [float(sample[key]) for key in keys])


def test_samples_of_fio_are_differences_of_its_totals(run: Path) -> None:
    """A sample is the difference of two answers of fio: its I/Os, bytes, time, ART and percentiles."""
    checked = 0
    for measured in rows(run, "measurements"):
        path = run / "evidence" / f"{measured['evidence']}.samples.json.gz"
        totals = running_totals(path) if path.exists() else []
        samples = iter(samples_of(run, measured)) if totals else iter(())
        before: dict[str, Any] = {**dict.fromkeys(("ios", "bytes", "ms", "response_ns"), 0), "bins": {}}
        for after in totals:
            row = next(samples)
            bins = {edge: count - before["bins"].get(edge, 0) for edge, count in after["bins"].items()}
            done = {key: after[key] - before[key] for key in ("ios", "bytes", "ms", "response_ns")}
            (maximum,) = values(row, "maximum_response_us")
            assert [total([row], "ios")[0], total([row], "bytes")[0]] == [done["ios"], done["bytes"]]
            again = [done["ms"] / 1000, done["response_ns"] / done["ios"] / 1000]
            assert values(row, "seconds", "average_response_us") == pytest.approx(again, rel=1e-9)
            nines = [percentile(bins, 10**number, 1000 * maximum) for number in (3, 4, 5)]
            same(values(row, "three_nines_us", "four_nines_us", "five_nines_us"), nines)
            before, checked = after, checked + 1
    assert checked or run.parent.name != "real" or facts(run)["test"] in _WITHOUT_SAMPLES


def samples_of(run: Path, measured: Row) -> list[Row]:
    """Return the samples of one start of the engine: those after the samples of its earlier starts."""
    kept = rows(run, slug(measured["part"], continuous_phase(run, measured)))
    starts = measurements(run, measured["phase"], measured["part"])
    earlier = sum(float(total([row], "ios")[0]) for row in starts[: starts.index(measured)])
    done = np.cumsum(total(kept, "ios"))
    return kept[int(np.searchsorted(done, earlier, side="right")) if earlier else 0 :]


def test_host_limits_are_those_of_the_record(run: Path) -> None:
    """Each measurement and each point has the verdict that the rules give for answers and counters."""
    for row in rows(run, "measurements"):
        share = host.verdict(run, row["evidence"])
        assert row.get("host_limited", "") == text(share and share[0])
    for row in rows(run, "points"):
        assert row.get("host_limited", "") == text(host.limited(run, window_of(run, row)))


# -- what is printed against what is recomputed ------------------------------------------------------------------------


def test_every_table_is_recomputed(run: Path) -> None:
    """There is a recomputation for every table of the report that has measured numbers."""
    assert not unknown_tables(run)


@pytest.mark.long
def test_printed_cells_are_those_of_the_record(run: Path) -> None:
    """Each cell of each table is the recomputed figure within half of its last digit, and no row is missing."""
    check_cells(run)


def test_printed_sentences_are_those_of_the_record(run: Path) -> None:
    """Figures in sentences, captions, titles and the header are recomputed, too, and spans of rounds are windows."""
    assert check_sentences(run) >= required_sentences(run)
    assert check_host_notes(run) >= required_host_notes(run)
    assert check_header(run) >= len(windows(run)) > 0 or run.name == "xsr"
    check_spans(run)


# -- what assess says -------------------------------------------------------------------------------------------------


def test_the_assessment_is_that_of_the_record(run: Path) -> None:
    """The figures of ``assess --json`` are those of the answers and the samples: windows, points and time lines."""
    assessment = assessed(run)
    everything = rows(run, "measurements")
    written, read = (sum(values(row, f"{side}_bytes")[0] for row in everything) for side in ("write", "read"))
    assert [assessment["written_bytes"], assessment["read_bytes"]] == [written, read]
    judged = [assessment["sampling"], *assessment["loops"]]
    found = [item for part in judged if part for item in part["determinations"]]
    variables = [rounds for named in series(run).values() for rounds in named.values()]
    for figures, rounds in zip(found, variables, strict=True):
        again = determination(rounds, max(rounds), window_rounds(run))
        assert figures["steady"] == again.pop("steady")
        assert [figures[key] for key in again] == pytest.approx(list(again.values()), abs=1e-9 * max(rounds.values()))
    points = [point for loop in assessment["loops"] for point in loop["points"]]
    for point, row in zip(points, rows(run, "points"), strict=True):
        again = response_times([part for measured in window_of(run, row) for part in answers(run, [measured])])
        same([math.nan if point[key] is None else point[key] for key in again], list(again.values()))
    for line in assessment["time_lines"]:
        kept = measurements(run, line["phase"], line["part"])
        parts = answers(run, kept)
        assert line["engine_starts"] == len(kept)
        assert line["written_bytes"] == sum(part["io_bytes"] for part in parts[1::2])
        assert line["maximum_response_us"] == max(part["lat_ns"]["max"] for part in parts) / 1000
        samples = rows(run, slug(line["part"], line["phase"])) or [
            {**row, "seconds": str(max(values(row, "read_runtime_ms", "write_runtime_ms")) / 1000)} for row in kept
        ]
        seconds = float(column(samples, "seconds").sum())
        ios, moved = (float(total(samples, what).sum()) for what in ("ios", "bytes"))
        rates = [per_second(ios, seconds), per_second(moved, seconds) / 1e6]
        same([math.nan if line[key] is None else line[key] for key in ("iops", "mb_per_second")], rates)


# -- what other programs get ------------------------------------------------------------------------------------------


def test_key_figures_are_those_of_the_record(run: Path) -> None:
    """The OCP lines end with the key figures that limits are compared with: all of them, and no others."""
    again = key_figures(run)
    shown = ocp_figures(run)
    assert shown.keys() == again.keys()
    same(list(shown.values()), [again[place].value for place in shown])


def ocp_figures(run: Path) -> dict[tuple[str, str], float]:
    """Return the measurements of the last step of OCP's lines by their name and place."""
    lines = [json.loads(line) for line in (run / "report.ocp.jsonl").read_text(encoding="utf-8").splitlines()]
    artifacts = [line["testStepArtifact"] for line in lines if "testStepArtifact" in line]
    found = [
        item["measurement"]
        for item in artifacts
        if item["testStepId"] == artifacts[-1]["testStepId"] and "measurement" in item
    ]
    return {(item["name"], item["metadata"]["at"]): item["value"] for item in found}


def test_json_has_the_tables(run: Path) -> None:
    """The tables in JSON are those in CSV, of which every figure is recomputed."""
    document = json.loads((run / "report.json").read_text(encoding="utf-8"))
    tables = {table["name"]: table for table in document["tables"]}
    files = {path.stem for path in (run / "tables").glob("*.csv")}
    assert tables.keys() == files
    for name, table in tables.items():
        fields = [field["name"] for field in table["fields"]]
        printed = [[text(value) for value in row] for row in table["rows"]]
        assert [list(row.values()) for row in rows(run, name)] == printed
        assert not printed or list(rows(run, name)[0]) == fields


def text(value: object) -> str:
    """Return a value of JSON in the form of the CSV."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
