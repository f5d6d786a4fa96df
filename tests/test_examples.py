"""The examples and the code of the documentation run, on simulated drives."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import snia_pts as pts
from snia_pts.record.folder import RunFolder
from tests.test_api_running import OPTIONS

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
#: A run with a measurement window, that has all points which the examples use.
WHOLE = replace(OPTIONS, overrides=("rounds.maximum=8", "rounds.point_seconds=5"))


def run_example(name: str, *arguments: object, code: int = 0) -> str:
    """Run an example; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Return the folders of three runs: two alike but for their seeds, and one of a slower drive."""
    folder = tmp_path_factory.mktemp("runs")
    drives = {"a": "enterprise-nvme", "b": "enterprise-nvme", "slow": "enterprise-sata"}
    for seed, (name, drive) in enumerate(drives.items()):
        pts.run(replace(WHOLE, target=f"sim:{drive}", seed=seed, run_folder=folder / name))
    return tuple(folder / name for name in drives)


def test_there_are_ten_short_examples() -> None:
    """Each is named in the documentation, and has less than 30 lines."""
    text = (ROOT / "docs/running-from-python.rst").read_text()

    assert len(SCRIPTS) == 10
    assert [name for name in SCRIPTS if len((EXAMPLES / name).read_text().splitlines()) >= 30] == []
    assert [name for name in (*SCRIPTS, "drive.ipynb") if f"``examples/{name}``" not in text] == []


@pytest.mark.long
def test_simulate(tmp_path: Path) -> None:
    """It shows each round, and leaves a run with a report."""
    printed = run_example("simulate.py", tmp_path / "run").splitlines()
    run = pts.load(tmp_path / "run")

    assert re.fullmatch(r"[\d.]+ h at most on a real drive of this speed", printed[0])
    rounds = len(run.result.loops[0].rounds)
    states = [*["too few rounds"] * 4, *["not steady"] * (rounds - 5), "steady"]
    assert run.steady
    assert printed[1:-1] == [f"round {number}: {state}" for number, state in enumerate(states, start=1)]
    assert run.verdict in printed[-1]
    assert (run.path / "report.html").is_file()


@pytest.mark.long
def test_plan_night() -> None:
    """A night is enough for some tests; a target that is not there is refused with its hint."""
    printed = run_example("plan_night.py", "sim:enterprise-nvme", 8)

    assert printed.count("TB written\n") + printed.count("does not fit\n") == 6
    assert "does not exist." in run_example("plan_night.py", "/dev/snia-pts-missing", 8)


@pytest.mark.long
def test_follow_job(tmp_path: Path) -> None:
    """It stops the job after the first round, and says how to continue."""
    printed = run_example("follow_job.py", tmp_path / "run", 1)

    assert "round 1\n" in printed
    assert "Terminated (SIGTERM) in step Round " in printed
    assert f"snia-pts resume {tmp_path / 'run'} continues it" in printed
    assert pts.load(tmp_path / "run").ending == "interrupted"


@pytest.mark.long
def test_resume_stopped(tmp_path: Path) -> None:
    """It resumes a run whose journal was cut, as by a crash, and leaves finished ones alone."""
    for name in ("finished", "killed"):
        pts.run(replace(OPTIONS, run_folder=tmp_path / name))
    journal = RunFolder(path=tmp_path / "killed").journal
    journal.write_bytes(journal.read_bytes()[:-2000])
    printed = run_example("resume_stopped.py", tmp_path)

    assert printed.count("\n") == 1
    assert pts.load(tmp_path / "killed").ending == "finished"
    assert run_example("resume_stopped.py", tmp_path) == ""


@pytest.mark.long
def test_sweep(tmp_path: Path) -> None:
    """More outstanding I/Os do not give fewer IOPS; each depth is a run."""
    rows = list(csv.DictReader(run_example("sweep.py", tmp_path).splitlines()))

    assert [int(row["queue_depth"]) for row in rows] == [1, 4, 16, 64]
    assert all(float(row["iops"]) > 0 and float(row["average_response_ms"]) > 0 for row in rows)
    assert float(rows[-1]["average_response_ms"]) > float(rows[0]["average_response_ms"])
    assert len(pts.load_many(tmp_path)) == 4


@pytest.mark.long
def test_plot_three_runs(tmp_path: Path, runs: tuple[Path, ...]) -> None:
    """The figure names each drive."""
    run_example("plot_three_runs.py", *runs, tmp_path / "figure.svg")

    assert (tmp_path / "figure.svg").read_text().count("<path") > 3


@pytest.mark.long
def test_firmware_check(runs: tuple[Path, ...]) -> None:
    """The same drive again is not worse, a slower one is, which is exit code 1."""
    first, again, slow = runs

    assert run_example("firmware_check.py", first, again) == "no figure is more than 5 % worse\n"
    assert "iops at RND 4 KiB 0/100: " in run_example("firmware_check.py", first, slow, code=1)
    assert run_example("firmware_check.py", slow, first, 10).startswith("no figure is more than 10 % worse")


@pytest.mark.long
def test_steady_state_of_csv(tmp_path: Path) -> None:
    """It finds the steady window; too few rounds are a message."""
    file = tmp_path / "rounds.csv"
    file.write_text("round,iops\n" + "".join(f"{n},{v}\n" for n, v in enumerate([200, 150, 100, 101, 99, 100, 100], 1)))
    printed = run_example("steady_state_of_csv.py", file, "iops")
    file.write_text("iops\n1\n")
    done = subprocess.run(
        [sys.executable, EXAMPLES / "steady_state_of_csv.py", file, "iops"], capture_output=True, text=True, check=False
    )

    assert printed.startswith("rounds 3 to 7: steady\naverage 100,")
    assert done.returncode == 1
    assert done.stderr == "A window has 5 rounds, but there are 1 values. Measure more rounds.\n"


@pytest.mark.long
def test_own_page(tmp_path: Path, runs: tuple[Path, ...]) -> None:
    """The page has each point and each deviation."""
    run = pts.load(runs[0])
    run_example("own_page.py", run.path, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()

    assert page.count("<td>") == run.window_matrix("iops").values.size == 56
    assert page.count("<li>") == len(run.deviations)


@pytest.mark.long
def test_read_result_xml(runs: tuple[Path, ...]) -> None:
    """Python alone reads the numbers, without a package of the suite's environment."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", EXAMPLES / "read_result_xml.py", runs[0] / "result.xml"],
        capture_output=True,
        text=True,
        check=True,
    )
    run = pts.load(runs[0])
    numbers = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit()]

    assert done.stdout.splitlines()[0].endswith(run.verdict)
    assert len(numbers) == sum(len(measured.measurements) for measured in run.result.loops[0].rounds)
    first = run.result.loops[0].rounds[0].measurements[0]
    assert float(numbers[0][3]) == pytest.approx(first.iops)


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path) -> None:
    """A kernel executes every cell; the run shows itself as HTML."""
    program = (
        "import sys, nbformat, nbclient; notebook = nbformat.read(sys.argv[1], 4); "
        "nbclient.NotebookClient(notebook, timeout=300).execute(); nbformat.write(notebook, sys.argv[2])"
    )
    variables = {**os.environ, "JUPYTER_PLATFORM_DIRS": "1", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    files = EXAMPLES / "drive.ipynb", tmp_path / "executed.ipynb"
    subprocess.run([sys.executable, "-c", program, *files], check=True, env=variables)
    cells = json.loads((tmp_path / "executed.ipynb").read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]

    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)


@pytest.mark.long
@pytest.mark.parametrize("page", ["running-from-python"])
def test_the_code_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks of Python run one after the other, as a reader would copy them."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / f"docs/{page}.rst").read_text()
    blocks = re.findall(r"\.\. code:: python\n\n((?:    .*\n|\n)+)", text)
    names: dict[str, object] = {}
    for block in blocks:
        code = "".join(line.removeprefix("    ") for line in block.splitlines(keepends=True))
        exec(compile(code, f"docs/{page}.rst", "exec"), names)  # noqa: S102

    assert len(blocks) >= 8
    assert "Round 3" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "fifth",
        "first",
        "fourth",
        "second",
        "third",
    ]
