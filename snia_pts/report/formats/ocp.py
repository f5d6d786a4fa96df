"""The result as JSON lines of OCP Test & Validation, version 2.0, for programs that collect hardware test results.

The format is that of the Open Compute Project's ``ocp-diag-core``.  A step is a purge, a continuous stimulus, a loop of
rounds, or the result; deviations from the standard and warnings are log lines.
"""

from __future__ import annotations

import datetime
import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...model.measurement import METRICS, Measurement, PurgeOutcome
from ...model.steps import Stimulus
from ...model.time_series import TimeLine
from ...results.attributes import METRIC_COLUMNS, measurement_figures
from ...results.key_figures import key_figures
from ...results.limit_checks import Judgement, judgements
from ...results.result import Loop, TestResult
from ...results.warnings import run_warnings
from ...spec import default_of
from ...spec.reader import spec_values
from ...text import one_line
from ..sections.summary import limit_text, shortcomings, verdict

_DRIVE = "drive"
#: The timestamp of a record whose time is missing or invalid.
_UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"

Artifact = tuple[str, Mapping[str, object]]


@dataclass(slots=True, kw_only=True)
class _Lines:
    """The lines written so far; a line without a time of its own has that of the line before."""

    timestamp: str = _UNKNOWN_TIME
    written: list[str] = field(default_factory=list)
    steps: int = 0

    def add(self, kind: str, content: object, when: str = "") -> None:
        self.timestamp = _moment(when) or self.timestamp
        line = {kind: content, "sequenceNumber": len(self.written), "timestamp": self.timestamp}
        self.written.append(json.dumps(_clean(line), ensure_ascii=False, allow_nan=False))

    def step(
        self, name: str, artifacts: Iterable[tuple[Artifact, str]], when: str = "", *, complete: bool = True
    ) -> None:
        """Write a step with its artifacts and their times; ``complete`` is its status."""
        step, self.steps = str(self.steps), self.steps + 1
        self.add("testStepArtifact", {"testStepId": step, "testStepStart": {"name": name}}, when)
        for (kind, content), at in artifacts:
            self.add("testStepArtifact", {"testStepId": step, kind: content}, at)
        status = "COMPLETE" if complete else "ERROR"
        self.add("testStepArtifact", {"testStepId": step, "testStepEnd": {"status": status}})


def make(result: TestResult) -> bytes:
    """Return ``result`` as JSON lines; the same result gives the same bytes."""
    lines, limits, finished = _Lines(), judgements(result), result.ending == "finished"
    repeats = result.facts.spec.rounds_are_repeats
    lines.add("schemaVersion", {"major": 2, "minor": 0}, result.facts.started)
    lines.add("testRunArtifact", {"testRunStart": _start(result)})
    for severity, message in _logs(result):
        lines.add("testRunArtifact", {"log": {"severity": severity, "message": message}})
    for part, purged in result.purges:
        lines.step(f"purge {part}".strip(), _purge(purged), purged.started)
    for line in result.separate_lines:
        lines.step(f"{line.phase} {line.part}".strip(), _stimulus(result, line), complete=line.complete)
    for loop in result.loops:
        complete = all(measured_round.complete for measured_round in loop.rounds)
        kind = "repeats of" if repeats else "rounds"
        steady_state = _steady_state(loop, evaluated=finished or loop.steady) if not repeats else ()
        lines.step(f"{kind} {loop.part}".strip(), (*_rounds(result, loop), *steady_state), complete=complete)
    lines.step("result", _outcome(result, limits), result.finished)
    passed = result.achieved and all(judgement.met for judgement in limits)
    if not finished:
        lines.add("testRunArtifact", {"error": {"symptom": result.ending, "message": result.ending_detail}})
    end = {
        "status": "COMPLETE" if finished else "ERROR",
        "result": "NOT_APPLICABLE" if not finished else "PASS" if passed else "FAIL",
    }
    lines.add("testRunArtifact", {"testRunEnd": end})
    return "".join(f"{line}\n" for line in lines.written).encode("utf-8")


def _start(result: TestResult) -> dict[str, object]:
    facts, dut, platform = result.facts, result.facts.dut, result.facts.platform
    parameters = {
        "test": facts.spec.test,
        "pts": facts.spec.pts,
        "class": facts.test_class,
        **({} if facts.seed is None else {"seed": str(facts.seed)}),
        **dict(spec_values(facts.spec)),
    }
    software = (
        ("suite", "snia-pts", platform.suite_version, "APPLICATION"),
        ("engine", platform.engine, platform.engine_version, "APPLICATION"),
        ("kernel", "Linux", platform.kernel, "SYSTEM"),
        ("firmware", dut.model or dut.name, dut.firmware, "FIRMWARE"),
    )
    drive = {
        "hardwareInfoId": _DRIVE,
        "name": dut.model or dut.name,
        "serialNumber": dut.serial,
        "revision": dut.firmware,
        "location": dut.path,
        "partType": dut.kind,
        "manufacturer": facts.about.vendor,
    }
    return {
        "name": f"{facts.spec.title} Test",
        "version": platform.suite_version,
        "commandLine": shlex.join(facts.command_line),
        "parameters": parameters,
        "dutInfo": {
            "dutInfoId": platform.hostname or "host",
            "name": platform.hostname,
            "platformInfos": [{"info": f"{platform.motherboard}, {platform.cpu}, {platform.operating_system}"}],
            "softwareInfos": [
                {"softwareInfoId": key, "name": name, "version": version, "softwareType": kind}
                for key, name, version, kind in software
            ],
            "hardwareInfos": [{key: value for key, value in drive.items() if value}],
        },
        "metadata": {"run": facts.run_id, "operator": facts.about.operator},
    }


def _logs(result: TestResult) -> Iterator[tuple[str, str]]:
    authority = result.facts.spec.authority
    for deviation in result.deviations:
        required = f"{default_of(deviation, authority)}: {deviation.standard}"
        yield "WARNING", f"deviation: {deviation.what}: {deviation.actual}; {required} ({deviation.clause})"
    for setting in result.facts.settings:
        default = f"{default_of(setting, authority)}: {setting.standard}"
        yield "INFO", f"setting: {setting.what}: {setting.actual}; {default} ({setting.clause})"
    for warning in run_warnings(result):
        yield "WARNING", f"{warning.what}: {warning.detail}"
    for note in result.facts.about.notes:
        yield "INFO", note


def _purge(purged: PurgeOutcome) -> Iterator[tuple[Artifact, str]]:
    proven = purged.samples > 0 and not purged.survivors
    message = f"{purged.survivors} of {purged.samples} sample blocks survived"
    kind = "PASS" if proven else "FAIL" if purged.samples else "UNKNOWN"
    yield ("log", {"severity": "INFO", "message": purged.label}), ""
    yield (("diagnosis", {"verdict": "purged", "type": kind, "message": message, "hardwareInfoId": _DRIVE}), "")


def _stimulus(result: TestResult, line: TimeLine) -> Iterator[tuple[Artifact, str]]:
    """Yield the measurements of a continuous stimulus, one for each start of the engine."""
    for measured in line.measurements:
        for name, unit, value in _figures(result, measured):
            yield ("measurement", _measurement(name, _place(measured.stimulus), unit, value)), measured.timing.started


def _rounds(result: TestResult, loop: Loop) -> Iterator[tuple[Artifact, str]]:
    """Yield a series for each metric of every point, indexed by the number of the round."""
    series: dict[str, int] = {}
    for measured_round in loop.rounds:
        for measured in measured_round.measurements:
            at = measured.timing.started
            for name, unit, value in _figures(result, measured):
                at_part = "" if measured.stimulus.name else loop.part  # a name contains the part
                identity = f"{name} at {at_part} {_place(measured.stimulus)}".replace("  ", " ")
                if identity not in series:
                    series[identity] = 0
                    start = {"name": name, "unit": unit, "measurementSeriesId": identity, "hardwareInfoId": _DRIVE}
                    yield ("measurementSeriesStart", start), at
                element = {
                    "index": measured_round.number,
                    "value": value,
                    "measurementSeriesId": identity,
                    "timestamp": _moment(at) or _UNKNOWN_TIME,
                }
                yield ("measurementSeriesElement", element), at
                series[identity] += 1
    for identity, count in series.items():
        yield ("measurementSeriesEnd", {"measurementSeriesId": identity, "totalCount": count}), ""


def _steady_state(loop: Loop, *, evaluated: bool) -> Iterator[tuple[Artifact, str]]:
    """Yield the window's verdict; UNKNOWN unless ``evaluated``."""
    window = loop.window
    numbers = f"rounds {window.numbers[0]} - {window.numbers[-1]}" if window else "no window"
    kind = _passed(loop.steady) if evaluated else "UNKNOWN"
    yield ("diagnosis", {"verdict": "steady state", "type": kind, "message": numbers}), ""


def _outcome(result: TestResult, limits: Sequence[Judgement]) -> Iterator[tuple[Artifact, str]]:
    """Yield the key figures with their limits, the verdict on the test, and the verdict on each limit."""
    for figure in key_figures(result):
        validators = [
            {"type": kind, "value": value}
            for limit in (judgement.limit for judgement in limits)
            if (limit.name, limit.unit) == (figure.name, figure.unit)
            for kind, value in (
                ("GREATER_THAN_OR_EQUAL", limit.lower_bound),
                ("LESS_THAN_OR_EQUAL", limit.upper_bound),
            )
            if math.isfinite(value)
        ]
        content = _measurement(figure.metric, figure.at, figure.unit, figure.value)
        yield ("measurement", {**content, "validators": validators} if validators else content), ""
    kind = _passed(result.achieved) if result.ending == "finished" else "UNKNOWN"
    yield ("diagnosis", {"verdict": "test", "type": kind, "message": verdict(result)}), ""
    conformance = "yes" if result.conformant else f"NO, {shortcomings(result)}"
    severity = "INFO" if result.conformant else "WARNING"
    yield ("log", {"severity": severity, "message": f"PTS conformant: {conformance}"}), ""
    for judgement in limits:
        limit, met = judgement.limit, judgement.met
        message = f"{limit_text(limit, judgement.value)}{'' if met else f': {judgement.shown_reason}'}"
        yield ("diagnosis", {"verdict": limit.name, "type": _passed(met), "message": message}), ""


def _figures(result: TestResult, measured: Measurement) -> Iterator[tuple[str, str, float]]:
    row = measurement_figures(result, measured)
    for name, (column, divisor) in METRIC_COLUMNS.items():
        if isinstance(value := row[column], int | float):
            yield name, METRICS[name].unit, value / divisor


def _measurement(name: str, at: str, unit: str, value: float) -> dict[str, object]:
    return {"name": name, "value": value, "unit": unit, "hardwareInfoId": _DRIVE, "metadata": {"at": at}}


def _place(stimulus: Stimulus) -> str:
    return f"{stimulus.label} {stimulus.demand.label}"


def _passed(good: bool) -> str:
    return "PASS" if good else "FAIL"


def _moment(text: str) -> str:
    """Return a time in RFC 3339 format; empty if it is invalid or has no time zone."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return ""
    return moment.isoformat() if moment.tzinfo else ""


def _clean(value: object) -> object:
    """Return a value with all strings as printable single lines, because a device may report anything."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {str(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value
