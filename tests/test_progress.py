"""Progress: a rewritten line on a terminal, plain whole lines anywhere else."""

import io

import pytest

from snia_pts.cli.progress import Progress, choose_mode
from snia_pts.runner import OutcomeCame, StepBegun
from snia_pts.specfile import read_specification
from tests import samples

SPEC = read_specification("iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 9)]).spec


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def follow(mode: str, rounds: int = 6, seconds: float = 60.0) -> str:
    """Return what progress writes of a whole run, each outcome of which takes ``seconds``."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(SPEC, mode, stream, clock=lambda: now[0])
    for step, outcomes in samples.answers(SPEC, samples.dut(), rounds=rounds):
        progress.event(StepBegun(step=step))
        for position, outcome in enumerate(outcomes):
            progress.tick(seconds / 2, 10**9)
            now[0] += seconds
            progress.event(OutcomeCame(step=step, position=position, outcome=outcome))
    progress.close()
    return stream.getvalue()


def test_a_log_is_plain_lines() -> None:
    """Without a terminal there is no carriage return or escape, and every round is a line with its excursions."""
    text = follow("log")

    assert "\r" not in text
    assert "\x1b" not in text
    assert text.endswith("\n")
    lines = text.splitlines()
    rounds = [line.partition("] ")[2] for line in lines if "of at most" in line]
    assert [line.partition(":")[0] for line in rounds] == [f"round {number} of at most 9" for number in range(1, 7)]
    assert "steady: 4 KiB 0/100 data" in lines[-1]


def test_a_log_has_a_heartbeat() -> None:
    """Within a round, a line comes every five minutes and no more often."""
    beats = [line for line in follow("log").splitlines() if "point" in line]

    assert 6 * 56 // 5 - 12 <= len(beats) <= 6 * 56 // 5
    assert "ETA" in beats[0]
    assert "RND" in beats[0]


def test_a_terminal_line_is_rewritten_in_its_width() -> None:
    """On a terminal one line is rewritten: it is never wider than the terminal, and the end leaves it clean."""
    text = follow("line")

    assert all(len(part) <= 79 for line in text.split("\n") for part in line.split("\r") if "of at most" not in part)
    assert "point 2/56 RND 128 KiB 100/0 (last" in text
    assert text.endswith("\r" + " " * 79 + "\r")


def test_none_says_nothing() -> None:
    """Mode none is silent."""
    assert follow("none") == ""


def test_the_remaining_time_is_right() -> None:
    """With 60 s a point, after the first round 4 to 8 rounds of 56 min are left; the last round promises nothing."""
    lines = [line for line in follow("log").splitlines() if "of at most" in line]

    assert "ETA 3 h 44 min to 7 h 28 min" in lines[0]
    assert "ETA" not in lines[-1]


@pytest.mark.parametrize(("term", "mode"), [("xterm", "line"), ("dumb", "log"), ("", "log"), ("unknown", "log")])
def test_a_terminal_that_cannot_rewrite_gets_lines(term: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dumb or unknown terminal gets plain lines."""
    monkeypatch.setenv("TERM", term)

    assert choose_mode("auto", Screen()) == mode


def test_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe or file gets plain lines whatever TERM says; who asks for a mode gets it."""
    monkeypatch.setenv("TERM", "xterm")

    assert choose_mode("auto", io.StringIO()) == "log"
    assert choose_mode("line", io.StringIO()) == "line"


def test_a_reader_that_is_gone_stops_no_test() -> None:
    """When nobody listens any more, progress falls silent and the run goes on."""

    class Gone(io.StringIO):
        def write(self, _text: str, /) -> int:
            raise BrokenPipeError

    progress = Progress(SPEC, "log", Gone())
    for step, outcomes in samples.answers(SPEC, samples.dut(), rounds=5):
        progress.event(StepBegun(step=step))
        for position, outcome in enumerate(outcomes):
            progress.event(OutcomeCame(step=step, position=position, outcome=outcome))
    progress.close()


def test_what_is_certain_is_promised() -> None:
    """After five rounds that are not steady, one more is certain: the least remaining time is a whole round."""
    unsteady = read_specification("iops", "2.0.2", "enterprise", overrides=[("rounds.maximum", 9)]).spec
    stream, now = io.StringIO(), [0.0]
    progress = Progress(unsteady, "log", stream, clock=lambda: now[0])
    for step, outcomes in samples.answers(unsteady, samples.dut(), steady=False):
        progress.event(StepBegun(step=step))
        for position, outcome in enumerate(outcomes):
            now[0] += 60
            progress.event(OutcomeCame(step=step, position=position, outcome=outcome))

    (line,) = [line for line in stream.getvalue().splitlines() if "round 5 of" in line]
    assert "ETA 56 min 00 s to 3 h 44 min" in line
