"""The man page and the completion files have what the parser has."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.cli.parser import build_parser
from snia_pts.manual import generate
from snia_pts.manual.completion import completion_file
from snia_pts.manual.man_page import man_page

_TRY = '. ./file; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _snia_pts; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture(name="bash_file", scope="module")
def _bash_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completion file of bash, in a folder with two run folders."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "file").write_text(completion_file("bash"), encoding="utf-8")
    for name in ("iops-one", "iops-two"):
        (folder / "runs" / name).mkdir(parents=True)
    return folder / "file"


def completed(file: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of these words, sorted; it divides words at colons."""
    command = ["bash", "-c", _TRY, "bash", "snia-pts", *words]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return sorted(done.stdout.split())  # bash lists files in the order of the file system


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["thr"], ["throughput"]),
        (["iops", "sim", ":", "enterprise-sa"], ["enterprise-sas", "enterprise-sata"]),
        (["iops", "sim", ":", "hd"], ["hdd"]),
        (["iops", "x", "--keep"], ["--keep-write-cache"]),
        (["iops", "x", "--set", "rounds.max"], ["rounds.maximum="]),
        (["all", "x", "--set", "latency.rounds.max"], ["latency.rounds.maximum="]),
        (["assess", "runs/iops-t"], ["runs/iops-two"]),
        (["report", "runs/i"], ["runs/iops-one", "runs/iops-two"]),
        (["profile", "show", "etcd"], ["etcd-fsync", "etcd-node"]),
        (["docs", "pur"], ["purge"]),
        (["spec", "show", "d"], ["dirth"]),
    ],
    ids=" ".join,
)
def test_bash_completes_a_word(bash_file: Path, words: list[str], offered: list[str]) -> None:
    """Verbs, simulated drives, options, keys, run folders, profiles and pages are offered."""
    assert completed(bash_file, *words) == offered


def test_bash_offers_the_drives_of_the_host(bash_file: Path) -> None:
    """A target may be any disk of /sys/block, but no RAM disk or loop device."""
    names = [path.name for path in Path("/sys/block").glob("*")]
    expected = {f"/dev/{name}" for name in names if not re.match(r"(fd|loop|ram|sr|zram)\d", name)}

    assert {word for word in completed(bash_file, "iops", "") if word.startswith("/dev/")} == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_file(shell: str, tmp_path: Path) -> None:
    """The file has no fault of syntax, and names every verb."""
    text = completion_file(shell)
    (tmp_path / "file").write_text(text, encoding="utf-8")

    assert [verb for verb in generate.verb_parsers(build_parser()) if verb.split()[-1] not in text] == []
    assert "sim:enterprise-nvme" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so the syntax was not checked (apt install {shell})")
    done = subprocess.run([shell, "-n", str(tmp_path / "file")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_completion_without_its_library_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The extra is optional; the error says how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "shtab", None)
    monkeypatch.delitem(__import__("sys").modules, "snia_pts.manual.completion")
    assert main(["completion", "bash"]) != 0
    assert "snia-pts[completion]" in capsys.readouterr().err


@pytest.mark.long
def test_the_man_page_has_every_verb_option_and_exit_code() -> None:
    """What --help says of each verb is in the page."""
    page = man_page()
    plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fP", "").replace("\\%", "")

    assert re.search(r'^\.TH "?snia-pts"? "?1"?', plain, re.MULTILINE)
    for verb, parser in generate.verb_parsers(build_parser()).items():
        assert verb in plain
        options = [name for action in parser._actions for name in action.option_strings]
        assert [name for name in options if name not in plain and name not in ("-h", "--help", "-v", "--verbose")] == []
    for code in (2, 6, 22, 130):
        assert re.search(rf"^T\{{\n{code}\nT\}}", plain, re.MULTILINE)


def test_man_shows_the_page(tmp_path: Path) -> None:
    """groff has nothing to say about the page but that lines in narrow columns cannot be justified."""
    if shutil.which("man") is None:
        pytest.skip("man is not installed (apt install man-db)")
    (tmp_path / "snia-pts.1").write_text(man_page(), encoding="utf-8")
    command = ["man", "--warnings", "--local-file", "--pager=cat", str(tmp_path / "snia-pts.1")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"MANWIDTH": "80", "LANG": "C.UTF-8"}
    )

    assert "EXIT STATUS" in done.stdout
    assert [line for line in done.stderr.splitlines() if "cannot adjust line" not in line] == []


def test_options_are_not_shared_with_the_program() -> None:
    """The values for completion are no restriction of the parser that reads command lines."""
    completion_file("bash")
    arguments: argparse.Namespace = build_parser().parse_args(["iops", "x", "--set", "no.such=1"])

    assert arguments.set == ["no.such=1"]
