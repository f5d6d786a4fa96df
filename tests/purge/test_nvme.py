"""NVMe Format and Sanitize: they keep the drive's format, affect only the drive under test, and are awaited."""

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

QUERIES = ("id-ctrl", "id-ns", "list-ns", "sanitize-log")
CONTROLLER, NAMESPACE, NAMESPACES = recorded("nvme-id-ctrl"), recorded("nvme-id-ns"), recorded("nvme-list-ns")
TWO = json.dumps({"nsid_list": [{"nsid": 1}, {"nsid": 2}]})


def sanitize_log(status: int, *, progress: int = 65535, block_erase: int = 0xFFFFFFFF) -> str:
    """Return a sanitize log in nvme-cli's form."""
    descriptions = (
        "NVM Subsystem has never been sanitized.",
        "Most Recent Sanitize Command Completed Successfully.",
        "Sanitize in Progress.",
        "Most Recent Sanitize Command Failed.",
    )
    log = {
        "sprog": progress,
        "sstat": {"global_erased": 0, "no_cmplted_passes": 0, "status": f"({status}) {descriptions[status]}"},
        "cdw10_info": 2,
        "time_over_write": 0xFFFFFFFF,
        "time_block_erase": block_erase,
        "time_crypto_erase": 0xFFFFFFFF,
    }
    return json.dumps({"nvme0n1": log})


def rules(**answers: Any) -> list[Rule]:
    """Return the rules of a drive that only answers queries: the recorded answers, some of them replaced."""

    output = {
        "id-ctrl": CONTROLLER,
        "id-ns": NAMESPACE,
        "list-ns": NAMESPACES,
        "sanitize-log": sanitize_log(0),
        **{name.replace("_", "-"): answer for name, answer in answers.items()},
    }
    return [Rule(when=(name,), says=text) for name, text in output.items()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """An NVMe drive with one namespace, as recorded."""
    with staged(tmp_path, monkeypatch, "nvme0n1") as stage:
        yield stage


# -- Format ----------------------------------------------------------------------------------------------------------


def test_format_is_the_first_choice_and_keeps_the_lba_format(stage: Stage) -> None:
    """The first choice for NVMe is to format the namespace with user data erase and its LBA format: no deviation."""
    stage.play("nvme", Rule(when=("format",), says=recorded("nvme-format"), erases=stage.path), *rules())
    purge = stage.purge()

    assert purge.label == "NVMe Format, SES 1 (proven on 64 blocks)"
    assert purge.deviations == ()
    assert stage.commands_without(*QUERIES) == [
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
def test_format_keeps_the_lba_format_metadata_and_protection(
    low: int, high: int, extended: bool, kind: int, first: bool
) -> None:
    """LBA format (of up to 64), metadata position, protection type and position are those that Identify reports."""
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


def capability(name: str, **answers: str) -> PurgeCapability | MethodUnavailable:
    """Return whether a drive with these answers supports a method."""
    output = {"id-ctrl": CONTROLLER, "id-ns": NAMESPACE, "list-ns": NAMESPACES, "sanitize-log": sanitize_log(0)}
    tools = Canned({**output, **{key.replace("_", "-"): value for key, value in answers.items()}}, path="/dev/nvme3n1")
    try:
        return METHODS[name].query(tools)
    except MethodUnavailable as reason:
        return reason


@pytest.mark.parametrize("fna", range(8))
@pytest.mark.parametrize("count", [0, 1, 2, 16])
@pytest.mark.parametrize(("name", "crypto"), [("nvme-format", False), ("nvme-format-crypto", True)])
def test_format_is_unavailable_if_it_erases_other_namespaces(fna: int, count: int, name: str, crypto: bool) -> None:
    """If FNA says that a format affects all namespaces, it is available only for a drive with a single one."""
    listed = json.dumps({"nsid_list": [{"nsid": number + 1} for number in range(count)]})

    outcome = capability(name, id_ctrl=altered("nvme-id-ctrl", fna=fna), list_ns=listed)
    if crypto and not fna & 4:
        assert isinstance(outcome, MethodUnavailable)
        assert not outcome.remedy
    elif fna & 3 and count != 1:
        assert isinstance(outcome, MethodUnavailable)
        assert "erases every namespace" in str(outcome)
        assert outcome.remedy
    elif fna & 1:  # the format is sent to the controller, which this drive does not have
        assert "controller" in str(outcome)
    else:
        assert isinstance(outcome, PurgeCapability)
        assert outcome.command[2] == "/dev/nvme3n1"


@pytest.mark.long
@pytest.mark.parametrize(("oacs", "everywhere"), [(2, False), (2 | 8, True)])
def test_unattached_namespaces_are_counted(stage: Stage, oacs: int, everywhere: bool) -> None:
    """If the controller supports namespace management, list-ns asks for all allocated namespaces, not only attached."""
    controller = altered("nvme-id-ctrl", fna=2, oacs=oacs)
    stage.play("nvme", Rule(when=("format",), erases=stage.path), *rules(id_ctrl=controller))
    stage.purge()

    (list_command,) = (command for command in stage.commands if "list-ns" in command)
    assert ("--all" in list_command) == everywhere


def controller_of(stage: Stage, name: str, serial: str = "", multipath: bool = False) -> None:
    """Add the drive's controller to the stage's sysfs."""
    parent = stage.root / "sys/class" / ("nvme-subsys0" if multipath else name)
    (parent / name if multipath else parent).mkdir(parents=True)
    ((parent / name if multipath else parent) / "serial").write_text(f"{serial}\n")
    stage.block.joinpath("device").rmdir()
    stage.block.joinpath("device").symlink_to(parent)


@pytest.mark.long
@pytest.mark.parametrize("multipath", [False, True])
def test_format_of_all_namespaces_is_sent_to_the_controller(stage: Stage, multipath: bool) -> None:
    """With FNA bit 0 and one namespace, the command names the controller from sysfs, with and without multipath."""
    controller_of(stage, "nvme7", multipath=multipath)
    stage.play("nvme", Rule(when=("format",), erases=stage.path), *rules(id_ctrl=altered("nvme-id-ctrl", fna=1)))
    stage.purge()

    ((_, _, addressed, *_),) = stage.commands_without(*QUERIES)
    assert addressed == "/dev/nvme7"


def test_a_controller_with_another_serial_number_gets_no_command(stage: Stage) -> None:
    """If the controller's serial number differs from the drive's, the purge fails and sends no command."""
    controller_of(stage, "nvme7", serial="ANOTHER")
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", fna=1)))
    with pytest.raises(PurgeFailed, match="does not report its controller"):
        stage.purge("nvme-format")

    assert stage.commands_without(*QUERIES) == []


def test_a_format_that_keeps_the_data_fails(stage: Stage) -> None:
    """A purge fails if the controller reports success but keeps the data."""
    stage.play("nvme", Rule(when=("format",), says=recorded("nvme-format")), *rules())
    with pytest.raises(PurgeFailed, match="NVMe Format, SES 1 reported success, but 64 of 64 blocks"):
        stage.purge()


def test_a_failed_format_is_reported_with_its_status(stage: Stage) -> None:
    """The error message has the status that the controller returned."""
    status = "NVMe status: Invalid Format: The LBA Format specified is not supported(0x410a)\n"
    stage.play("nvme", Rule(when=("format",), complains=status, exits=1), *rules())
    with pytest.raises(PurgeFailed, match=r"Invalid Format: The LBA Format specified is not supported\(0x410a\)"):
        stage.purge()


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"flbas": 4}, {"dps": 1}])
def test_a_format_that_changes_lba_format_or_protection_fails(stage: Stage, changes: dict[str, int]) -> None:
    """A purge fails if LBA format or protection differ after it, even if the data is gone."""
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
def test_unreadable_answers_make_format_unavailable(answers: dict[str, str], text: str) -> None:
    """Format is unavailable if the tool's output is not JSON or lacks a field that Format needs."""
    unavailable = capability("nvme-format", **answers)

    assert isinstance(unavailable, MethodUnavailable)
    assert text in str(unavailable)


# -- Sanitize --------------------------------------------------------------------------------------------------------


def sanitizing(stage: Stage, *, end: int = 1, erases: bool = True, first: int = 0) -> None:
    """Let a drive without Format complete a sanitize after two log queries; the last log has the status ``end``."""
    stage.play(
        "nvme",
        Rule(when=("sanitize",), then="begun", erases=stage.path if erases else ""),
        Rule(when=("sanitize-log",), state="begun", then="half", says=sanitize_log(2, progress=655)),
        Rule(when=("sanitize-log",), state="half", then="done", says=sanitize_log(2, progress=40000)),
        Rule(when=("sanitize-log",), state="done", says=sanitize_log(end)),
        *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0, sanicap=3), sanitize_log=sanitize_log(first)),
    )


@pytest.mark.long_but_first
@pytest.mark.parametrize(("name", "action"), [("auto", 2), ("nvme-sanitize-block", 2), ("nvme-sanitize-crypto", 4)])
def test_a_drive_is_sanitized_to_the_end(stage: Stage, name: str, action: int) -> None:
    """The suite polls the sanitize log until the drive reports the end, then checks that the data is gone."""
    sanitizing(stage, first=3)
    ticks: list[float] = []
    purge = stage.purge(name, tick=lambda seconds, written: ticks.append(seconds))

    assert purge.method.startswith("NVMe Sanitize, ")
    assert (purge.samples, purge.survivors, purge.deviations) == (64, 0, ())
    assert stage.commands_without(*QUERIES) == [["nvme", "sanitize", stage.path, f"--sanact={action}", "--ause"]]
    assert stage.state == "done"
    assert len(ticks) == 2
    assert ticks == sorted(ticks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("end", "log_status"), [(3, r"\(3\) Most Recent Sanitize Command Failed"), (0, r"\(0\) NVM Subsys")]
)
def test_a_sanitize_without_a_success_status_fails(stage: Stage, end: int, log_status: str) -> None:
    """A purge fails if the final log reports a failure or no sanitize, even if the data is gone."""
    sanitizing(stage, end=end)
    with pytest.raises(PurgeFailed, match=f"failed: the drive's sanitize log says {log_status}"):
        stage.purge("nvme-sanitize-block")


@pytest.mark.long
def test_a_sanitize_that_does_not_end_times_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the drive stays at 1 % until the timeout, the purge fails and says that the sanitize may still be running."""
    monkeypatch.setattr(method, "DEFAULT_TIMEOUT_SECONDS", 0.3)
    stage.play(
        "nvme",
        Rule(when=("sanitize",), then="begun"),
        Rule(when=("sanitize-log",), state="begun", says=sanitize_log(2, progress=655)),
        *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0, sanicap=3)),
    )
    with pytest.raises(PurgeFailed, match=r"failed: it is at 1% after \d+ s, and may still be running in the drive"):
        stage.purge("nvme-sanitize-block")


@pytest.mark.long
def test_an_unreadable_sanitize_log_is_retried_until_a_timeout(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite retries a log query that fails; if the failures last too long, the purge fails."""
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
    ("estimate", "seconds", "limit"),
    [
        (0xFFFFFFFF, None, 12 * 3600),
        (0, None, 12 * 3600),
        (-1, None, 12 * 3600),
        (30, 30.0, 7260),
        (36000, 36000.0, 79200),
    ],
)
def test_time_limit_follows_the_estimate_of_the_drive(estimate: int, seconds: float | None, limit: float) -> None:
    """The limit is twice the drive's block erase estimate plus two hours, or 12 hours without an estimate."""
    log = sanitize_log(1, block_erase=estimate)
    block_erase = capability("nvme-sanitize-block", id_ctrl=altered("nvme-id-ctrl", sanicap=2), sanitize_log=log)

    assert isinstance(block_erase, PurgeCapability)
    assert (block_erase.seconds, block_erase.timeout_seconds) == (seconds, limit)


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
def test_unsupported_and_hindered_methods_are_unavailable(
    name: str, answers: dict[str, str], text: str, remedy: bool
) -> None:
    """An unsupported method has no remedy; a supported method that cannot run now has one."""
    unavailable = capability(name, **answers)

    assert isinstance(unavailable, MethodUnavailable)
    assert text in str(unavailable)
    assert bool(unavailable.remedy) == remedy


# -- choice ----------------------------------------------------------------------------------------------------------


def test_available_methods_are_in_order_of_preference(stage: Stage) -> None:
    """Format comes before Sanitize, erasing the data before erasing the key; discard and overwrite come last."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", sanicap=3, fna=4)))

    assert available_methods(stage.tools().dut, stage.root) == (
        "nvme-format",
        "nvme-format-crypto",
        "nvme-sanitize-block",
        "nvme-sanitize-crypto",
        "blkdiscard",
        "overwrite",
    )
    assert stage.commands_without(*QUERIES) == []


def test_a_drive_with_two_namespaces_is_refused(stage: Stage) -> None:
    """If only a second namespace prevents a format, the choice fails with the reason, a remedy and the alternatives."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", fna=2), list_ns=TWO))
    with pytest.raises(TargetUnfit, match="nvme-format: Format NVM erases every namespace of the drive, and it has 2"):
        choose(stage.tools(), "auto")
    with pytest.raises(TargetUnfit, match="purge method nvme-format is not available for it: Format NVM") as unfit:
        choose(stage.tools(), "nvme-format")

    assert unfit.value.hint.startswith("Give the drive a single namespace (nvme delete-ns). Available: blkdiscard")
    assert stage.commands_without(*QUERIES) == []


def test_a_drive_without_format_and_sanitize_is_discarded(stage: Stage) -> None:
    """If the controller supports neither Format nor Sanitize, the purge is a blkdiscard, which is a deviation."""
    stage.play("nvme", *rules(id_ctrl=altered("nvme-id-ctrl", oacs=0)))
    stage.play("blkdiscard", Rule(erases=stage.path))
    purge = stage.purge()

    assert purge.method == "blkdiscard"
    assert [deviation.what for deviation in purge.deviations] == ["purge"]


def test_no_nvme_command_is_sent_through_usb(stage: Stage) -> None:
    """A drive on USB gets no NVMe command; only discard and overwrite are available."""
    dut = replace(stage.tools().dut, bus="USB")
    stage.play("nvme", *rules())

    assert available_methods(dut, stage.root) == ("blkdiscard", "overwrite")
    assert stage.commands == []
