"""NVMe Format and Sanitize: in the form that is in use, on nothing but the drive under test, to the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import PurgeFailed, TargetUnfit
from snia_pts.lab.purge import METHODS, PurgeCapability, available_methods, method
from snia_pts.lab.purge.choice import choose
from snia_pts.lab.purge.method import MethodUnavailable
from tests.purge.playing import Canned, Rule, Stage, altered, recorded, staged

READING = ("id-ctrl", "id-ns", "list-ns", "sanitize-log")
CONTROLLER, NAMESPACE, NAMESPACES = recorded("nvme-id-ctrl"), recorded("nvme-id-ns"), recorded("nvme-list-ns")
TWO = json.dumps({"nsid_list": [{"nsid": 1}, {"nsid": 2}]})


def sanitize_log(status: int, *, progress: int = 65535, block_erase: int = 0xFFFFFFFF) -> str:
    """Return a sanitize log in nvme-cli's form."""
    words = (
        "NVM Subsystem has never been sanitized.",
        "Most Recent Sanitize Command Completed Successfully.",
        "Sanitize in Progress.",
        "Most Recent Sanitize Command Failed.",
    )
    log = {
        "sprog": progress,
        "sstat": {"global_erased": 0, "no_cmplted_passes": 0, "status": f"({status}) {words[status]}"},
        "cdw10_info": 2,
        "time_over_write": 0xFFFFFFFF,
        "time_block_erase": block_erase,
        "time_crypto_erase": 0xFFFFFFFF,
    }
    return json.dumps({"nvme0n1": log})


def rules(**answers: Any) -> list[Rule]:
    """Return the rules of a drive that only answers questions: as the recorded one, but for some answers."""
    says = {
        "id-ctrl": CONTROLLER,
        "id-ns": NAMESPACE,
        "list-ns": NAMESPACES,
        "sanitize-log": sanitize_log(0),
        **{name.replace("_", "-"): answer for name, answer in answers.items()},
    }
    return [Rule(when=(name,), says=say) for name, say in says.items()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """An NVMe drive with one namespace, as recorded."""
    with staged(tmp_path, monkeypatch, "nvme0n1") as made:
        yield made


# -- Format ----------------------------------------------------------------------------------------------------------


def test_a_drive_is_formatted(stage: Stage) -> None:
    """The first method for NVMe is a format with user data erase, of the namespace, in its form; it is no Deviation."""
    stage.play("nvme", Rule(when=("format",), says=recorded("nvme-format"), erases=stage.path), *rules())
    purge = stage.purge()

    assert purge.label == "NVMe Format, SES 1 (proven on 64 blocks)"
    assert purge.deviations == ()
    assert stage.acted(*READING) == [
        [
            "nvme",
            "format",
            stage.path,
            "--force",
            "--ses=1",
            "--lbaf=0",
            "--ms=0",
            "--pi=0",
            "--pil=0",
            "--timeout=43200000",
        ],
    ]
    assert sorted(path.name for path in stage.evidence.iterdir()) == [
        "00000-purge-id-ctrl.process.json",
        "00000-purge-id-ns-after.process.json",
        "00000-purge-id-ns.process.json",
        "00000-purge.process.json",
    ]


@given(
    low=st.integers(0, 15), high=st.integers(0, 3), extended=st.booleans(), kind=st.integers(0, 3), first=st.booleans()
)
def test_the_form_in_use_is_kept(low: int, high: int, extended: bool, kind: int, first: bool) -> None:
    """LBA format (of up to 64), place of the metadata, kind and place of the protection: all as Identify tells them."""
    flbas, dps = high << 5 | extended << 4 | low, first << 3 | kind
    tools = Canned({"id-ctrl": CONTROLLER, "id-ns": altered("nvme-id-ns", flbas=flbas, dps=dps)}, path="/dev/nvme3n1")

    assert METHODS["nvme-format"].query(tools).command[3:9] == (
        "--force",
        "--ses=1",
        f"--lbaf={16 * high + low}",
        f"--ms={extended:d}",
        f"--pi={kind}",
        f"--pil={first:d}",
    )


def offered(name: str, **answers: str) -> PurgeCapability | MethodUnavailable:
    """Ask a drive for a method."""
    known = {"id-ctrl": CONTROLLER, "id-ns": NAMESPACE, "list-ns": NAMESPACES, "sanitize-log": sanitize_log(0)}
    tools = Canned({**known, **{key.replace("_", "-"): value for key, value in answers.items()}}, path="/dev/nvme3n1")
    try:
        return METHODS[name].query(tools)
    except MethodUnavailable as refused:
        return refused


@pytest.mark.parametrize("fna", range(8))
@pytest.mark.parametrize("count", [0, 1, 2, 16])
@pytest.mark.parametrize(("name", "crypto"), [("nvme-format", False), ("nvme-format-crypto", True)])
def test_no_other_namespace_is_formatted(fna: int, count: int, name: str, crypto: bool) -> None:
    """Where a format or its erase is of all namespaces, it is on offer for a drive with just one; else for any."""
    listed = json.dumps({"nsid_list": [{"nsid": number + 1} for number in range(count)]})
    found = offered(name, id_ctrl=altered("nvme-id-ctrl", fna=fna), list_ns=listed)
    if crypto and not fna & 4:
        assert isinstance(found, MethodUnavailable)
        assert not found.remedy
    elif fna & 3 and count != 1:
        assert isinstance(found, MethodUnavailable)
        assert "erases every namespace" in str(found)
        assert found.remedy
    elif fna & 1:  # to be formatted by its controller, which this drive does not have
        assert "controller" in str(found)
    else:
        assert isinstance(found, PurgeCapability)
        assert found.command[2] == "/dev/nvme3n1"


@pytest.mark.parametrize(("oacs", "everywhere"), [(2, False), (2 | 8, True)])
def test_namespaces_that_are_not_attached_count(stage: Stage, oacs: int, everywhere: bool) -> None:
    """Where the controller manages namespaces, all that are allocated are asked for, attached or not."""
    controller = altered("nvme-id-ctrl", fna=2, oacs=oacs)
    stage.play("nvme", Rule(when=("format",), erases=stage.path), *rules(id_ctrl=controller))
    stage.purge()

    (asked,) = (command for command in stage.commands if "list-ns" in command)
    assert ("--all" in asked) == everywhere


def controller_of(stage: Stage, name: str, serial: str = "", multipath: bool = False) -> None:
    """Put a controller above the drive, in the stage's sysfs."""
    place = stage.root / "sys/class" / ("nvme-subsys0" if multipath else name)
    (place / name if multipath else place).mkdir(parents=True)
    ((place / name if multipath else place) / "serial").write_text(f"{serial}\n")
    stage.block.joinpath("device").rmdir()
    stage.block.joinpath("device").symlink_to(place)


@pytest.mark.parametrize("multipath", [False, True])
def test_a_controller_that_formats_all_is_addressed_itself(stage: Stage, multipath: bool) -> None:
    """FNA bit 0 with a single namespace: the tool is given the controller, found in sysfs, on one path or several."""
    controller_of(stage, "nvme7", multipath=multipath)
    stage.play("nvme", Rule(when=("format",), erases=stage.path), *rules(id_ctrl=altered("nvme-id-ctrl", fna=1)))
    stage.purge()

    ((_, _, addressed, *_),) = stage.acted(*READING)
    assert addressed == "/dev/nvme7"


def test_a_controller_of_another_drive_is_not_addressed(stage: Stage) -> None:
    """The controller has the drive's serial number, or nothing is sent to it."""
    controller_of(stage, "nvme7", serial="ANOTHER")
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", fna=1)))
    with pytest.raises(PurgeFailed, match="does not report its controller"):
        stage.purge("nvme-format")

    assert stage.acted(*READING) == []


def test_a_format_that_lies_is_found_out(stage: Stage) -> None:
    """A controller that says success and keeps the data has not purged."""
    stage.play("nvme", Rule(when=("format",), says=recorded("nvme-format")), *rules())
    with pytest.raises(PurgeFailed, match="NVMe Format, SES 1 reported success, but 64 of 64 blocks"):
        stage.purge()


def test_a_format_that_fails_is_told(stage: Stage) -> None:
    """The controller's status is in the sentence."""
    status = "NVMe status: Invalid Format: The LBA Format specified is not supported(0x410a)\n"
    stage.play("nvme", Rule(when=("format",), complains=status, exits=1), *rules())
    with pytest.raises(PurgeFailed, match=r"Invalid Format: The LBA Format specified is not supported\(0x410a\)"):
        stage.purge()


@pytest.mark.parametrize("changes", [{"flbas": 4}, {"dps": 1}])
def test_a_format_that_changes_the_form_has_failed(stage: Stage, changes: dict[str, int]) -> None:
    """Another LBA format or protection after it ends the run, whatever became of the data."""
    stage.play(
        "nvme",
        Rule(when=("format",), erases=stage.path, then="formatted"),
        Rule(when=("id-ns",), state="formatted", says=altered("nvme-id-ns", **changes)),
        *rules(),
    )
    with pytest.raises(PurgeFailed, match="changed the format of the drive"):
        stage.purge()


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({"id_ctrl": "gibberish"}, "printed no JSON"),
        ({"id_ctrl": "[]"}, "printed no JSON"),
        ({"id_ctrl": "{}"}, "does not report oacs"),
        ({"id_ns": "{}"}, "does not report flbas"),
        ({"id_ns": json.dumps({"flbas": "0", "dps": 0})}, "does not report flbas"),
        ({"id_ctrl": altered("nvme-id-ctrl", fna=2), "list_ns": "{}"}, "an unknown number"),
    ],
)
def test_an_answer_that_is_not_understood_purges_nothing(answers: dict[str, str], text: str) -> None:
    """What the drive is like must be known before it is formatted."""
    found = offered("nvme-format", **answers)

    assert isinstance(found, MethodUnavailable)
    assert text in str(found)


# -- Sanitize --------------------------------------------------------------------------------------------------------


def sanitizing(stage: Stage, *, end: int = 1, erases: bool = True, first: int = 0) -> None:
    """Let a drive without Format sanitize in two looks, and end with a status."""
    stage.play(
        "nvme",
        Rule(when=("sanitize",), then="begun", erases=stage.path if erases else ""),
        Rule(when=("sanitize-log",), state="begun", then="half", says=sanitize_log(2, progress=655)),
        Rule(when=("sanitize-log",), state="half", then="done", says=sanitize_log(2, progress=40000)),
        Rule(when=("sanitize-log",), state="done", says=sanitize_log(end)),
        *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0, sanicap=3), sanitize_log=sanitize_log(first)),
    )


@pytest.mark.parametrize(("name", "action"), [("auto", 2), ("nvme-sanitize-block", 2), ("nvme-sanitize-crypto", 4)])
def test_a_drive_is_sanitized_to_the_end(stage: Stage, name: str, action: int) -> None:
    """The log is looked at until the drive says that it is done, and the pattern is gone only then."""
    sanitizing(stage, first=3)
    ticks: list[float] = []
    purge = stage.purge(name, tick=lambda seconds, written: ticks.append(seconds))

    assert purge.method.startswith("NVMe Sanitize, ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.acted(*READING) == [["nvme", "sanitize", stage.path, f"--sanact={action}", "--ause"]]
    assert stage.state == "done"
    assert len(ticks) == 2
    assert ticks == sorted(ticks)


@pytest.mark.parametrize(("end", "word"), [(3, r"\(3\) Most Recent Sanitize Command Failed"), (0, r"\(0\) NVM Subsys")])
def test_a_sanitize_that_does_not_succeed_has_failed(stage: Stage, end: int, word: str) -> None:
    """A log that ends with failure, or that knows of no sanitize, is told, though the data may be gone."""
    sanitizing(stage, end=end)
    with pytest.raises(PurgeFailed, match=f"failed: the drive's sanitize log says {word}"):
        stage.purge("nvme-sanitize-block")


def test_a_sanitize_without_end_is_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drive that stays at one percent (there are such) ends the run, with the word that it may go on."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    stage.play(
        "nvme",
        Rule(when=("sanitize",), then="begun"),
        Rule(when=("sanitize-log",), state="begun", says=sanitize_log(2, progress=655)),
        *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0, sanicap=3)),
    )
    with pytest.raises(PurgeFailed, match=r"failed: it is at 1% after \d+ s, and may still be running in the drive"):
        stage.purge("nvme-sanitize-block")


def test_a_drive_that_falls_silent_is_waited_for_and_given_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be read for a while is no end of the sanitize; one that stays unreadable ends the run."""
    stage.play(
        "nvme",
        Rule(when=("sanitize",), then="silent", erases=stage.path),
        Rule(when=("sanitize-log",), state="silent", then="done", complains="Resource unavailable\n", exits=1),
        Rule(when=("sanitize-log",), state="done", says=sanitize_log(1)),
        *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0, sanicap=3)),
    )
    assert stage.purge("nvme-sanitize-block").survivors == 0

    stage.state = ""
    monkeypatch.setattr(method, "_SILENCE_SECONDS", 0.0)
    with pytest.raises(PurgeFailed, match="failed: it was at 0%, then nvme sanitize-log failed: Resource unavailable"):
        stage.purge("nvme-sanitize-block")


@pytest.mark.parametrize(
    ("told", "seconds", "limit"),
    [
        (0xFFFFFFFF, None, 12 * 3600),
        (0, None, 12 * 3600),
        (-1, None, 12 * 3600),
        (30, 30.0, 7260),
        (36000, 36000.0, 79200),
    ],
)
def test_the_drive_says_how_long_it_takes(told: int, seconds: float | None, limit: float) -> None:
    """The estimate for the block erase sets the limit, with two hours' grace; where there is none it is 12 hours."""
    log = sanitize_log(1, block_erase=told)
    found = offered("nvme-sanitize-block", id_ctrl=altered("nvme-id-ctrl", sanicap=2), sanitize_log=log)

    assert isinstance(found, PurgeCapability)
    assert (found.seconds, found.timeout_seconds) == (seconds, limit)


@pytest.mark.parametrize(
    ("name", "answers", "text", "remedy"),
    [
        ("nvme-sanitize-block", {}, "not support this sanitize", False),
        ("nvme-sanitize-block", {"id_ctrl": altered("nvme-id-ctrl", sanicap=1)}, "not support this sanitize", False),
        ("nvme-sanitize-crypto", {"id_ctrl": altered("nvme-id-ctrl", sanicap=2)}, "not support this sanitize", False),
        ("nvme-sanitize-block", {"id_ctrl": altered("nvme-id-ctrl", sanicap=2), "list_ns": TWO}, "every", True),
        (
            "nvme-sanitize-block",
            {"id_ctrl": altered("nvme-id-ctrl", sanicap=2), "sanitize_log": sanitize_log(2)},
            "in progress",
            True,
        ),
        ("nvme-sanitize-block", {"id_ctrl": altered("nvme-id-ctrl", sanicap=2), "sanitize_log": "{}"}, "no log", True),
        (
            "nvme-sanitize-block",
            {"id_ctrl": altered("nvme-id-ctrl", sanicap=2), "sanitize_log": json.dumps({"nvme0n1": {"sstat": {}}})},
            "no status",
            True,
        ),
        ("nvme-format", {"id_ctrl": altered("nvme-id-ctrl", oacs=0)}, "does not support Format NVM", False),
    ],
)
def test_what_a_controller_lacks_is_not_on_offer(name: str, answers: dict[str, str], text: str, remedy: bool) -> None:
    """What it has not is told apart from what it has and will not do now."""
    found = offered(name, **answers)

    assert isinstance(found, MethodUnavailable)
    assert text in str(found)
    assert bool(found.remedy) == remedy


# -- choosing --------------------------------------------------------------------------------------------------------


def test_what_is_on_offer_is_listed_in_order(stage: Stage) -> None:
    """A drive with everything: Format before Sanitize, erasing data before erasing the key, what is no purge last."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", sanicap=3, fna=4)))

    assert available_methods(stage.tools().dut, stage.root) == (
        "nvme-format",
        "nvme-format-crypto",
        "nvme-sanitize-block",
        "nvme-sanitize-crypto",
        "blkdiscard",
        "overwrite",
    )
    assert stage.acted(*READING) == []


def test_a_hindered_drive_is_not_purged_by_something_less(stage: Stage) -> None:
    """A drive that could be formatted if it had one namespace is refused with that word, and what else there is."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", fna=2), list_ns=TWO))
    with pytest.raises(TargetUnfit, match="nvme-format: Format NVM erases every namespace of the drive, and it has 2"):
        choose(stage.tools(), "auto")
    with pytest.raises(TargetUnfit, match="purge method nvme-format is not available for it: Format NVM") as unfit:
        choose(stage.tools(), "nvme-format")

    assert unfit.value.hint.startswith("Give the drive a single namespace (nvme delete-ns). Available: blkdiscard")
    assert stage.acted(*READING) == []


def test_a_drive_without_any_of_them_is_discarded(stage: Stage) -> None:
    """A controller that has neither Format nor Sanitize is purged by discarding: a Deviation."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0)))
    stage.play("blkdiscard", Rule(erases=stage.path))
    purge = stage.purge()

    assert purge.method == "blkdiscard"
    assert [deviation.what for deviation in purge.deviations] == ["purge"]


def test_a_drive_behind_usb_is_not_asked(stage: Stage) -> None:
    """What a bridge makes of NVMe commands nobody knows: none is sent."""
    dut = replace(stage.tools().dut, bus="USB")
    stage.play("nvme", *rules())

    assert available_methods(dut, stage.root) == ("blkdiscard", "overwrite")
    assert stage.commands == []
