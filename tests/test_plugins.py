"""Plugins: loaded only when the operator names them, checked, listed in the report; and the examples of each kind."""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

import snia_pts as pts
from snia_pts import registries
from snia_pts.cli.main import main
from snia_pts.errors import Interrupted, NotResumable, ReportError, UsageError
from snia_pts.runner import plugins
from snia_pts.runner.plugins import load_plugins
from tests.test_api_running import OPTIONS

EXAMPLES = Path(__file__).parent.parent / "examples/plugins"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root distrusts the files of other users")
#: A user who is not trusted: nobody.
NOBODY = 65534


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the plugins that a test loads."""
    monkeypatch.setattr(plugins, "_loaded", {})
    tables = {name: table for name, table in vars(registries).items() if name.isupper()}
    before = {name: dict(table) for name, table in tables.items()}
    yield
    for name, table in tables.items():
        table.clear()
        table.update(before[name])
    for module in [name for name in sys.modules if name.startswith("snia_pts_plugin_")]:
        del sys.modules[module]


def plugin(folder: Path, body: str, name: str = "own.py") -> str:
    """Write a plugin; return its path."""
    path = folder / name
    path.write_text(body)
    return str(path)


# -- the examples ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_report_format(tmp_path: Path) -> None:
    """``--to brief`` writes report.brief with the verdict and each figure; the plugin is listed, not as a deviation."""
    name = str(EXAMPLES / "brief.py")
    options = replace(OPTIONS, plugins=(name,), formats=("brief", "rst"), run_folder=tmp_path / "run")
    run = pts.run(options)
    (used,) = run.result.facts.plugins
    text = (run.path / "report.brief").read_text()

    assert run.result.verdict in text
    assert "* iops at RND 4 KiB 0/100: " in text
    assert used.sha256 == hashlib.sha256((EXAMPLES / "brief.py").read_bytes()).hexdigest()
    assert used.parts == ("report format brief",)
    assert used.sha256 in (run.path / "report.rst").read_text()
    assert f'sha256="{used.sha256}"' in (run.path / "result.xml").read_text()
    assert "plugin" not in {deviation.what for deviation in run.result.deviations}


@pytest.mark.long
def test_a_purge_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--purge shred`` overwrites the file, is proven, and is a deviation; assess checks its command."""
    name = str(EXAMPLES / "shred.py")
    stop = Event()
    options = pts.RunOptions(
        test="iops",
        target=str(tmp_path / "file"),
        size_bytes=16 << 20,
        purge="shred",
        plugins=(name,),
        formats=(),
        run_folder=tmp_path / "run",
    )

    def stop_after_purge(event: pts.events.Event) -> None:
        if isinstance(event, pts.events.OutcomeRecorded):
            stop.set()

    with pytest.raises(Interrupted):
        pts.run(options, on_event=stop_after_purge, stop=stop)
    result = pts.load(tmp_path / "run").result
    (_, purge) = result.purges[0]
    deviations = {deviation.what: deviation.actual for deviation in result.deviations}

    assert (purge.method, purge.samples, purge.survivors) == ("shred, random data and zeros", 64, 0)
    assert deviations["purge"] == "shred, random data and zeros"
    assert deviations["plugin"].startswith(f"purge method shred of the plugin {name}, SHA-256 ")
    assert main(["assess", str(tmp_path / "run"), "--plugin", name]) == 0
    assert "missing" not in capsys.readouterr().err


@pytest.mark.long
def test_a_run_with_a_purge_of_a_plugin_needs_the_plugin_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new process ``resume`` names the plugin; ``assess`` and ``report`` name it too, and still work."""
    test_a_purge_method(tmp_path, capsys)
    run, snia_pts = str(tmp_path / "run"), [sys.executable, "-m", "snia_pts"]

    def output(*words: str) -> tuple[int, str]:
        done = subprocess.run([*snia_pts, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    missing = f"The run used the plugin {EXAMPLES / 'shred.py'}, which is not given (missing: purge method shred)"
    assert output("assess", run)[0] == 0
    assert missing in output("assess", run)[1]
    assert missing in output("report", run, "--to", "none")[1]
    code, message = output("resume", run)
    assert code == NotResumable.exit_code
    assert f"its purge method shred is that of the plugin {EXAMPLES / 'shred.py'}, which is not given" in message


@pytest.mark.long
def test_a_plugin_of_a_run_that_is_resumed_may_have_changed(tmp_path: Path) -> None:
    """A format that is missing is a notice; other code under the same name is a change that the report lists."""
    own = plugin(tmp_path, (EXAMPLES / "brief.py").read_text(), "brief.py")
    stop, notices = Event(), list[str]()
    options = replace(OPTIONS, plugins=(own,), formats=("brief",), run_folder=tmp_path / "run")

    def in_round_1(event: pts.events.Event) -> None:
        if isinstance(event, pts.events.RoundEvaluated):
            stop.set()
        if isinstance(event, pts.events.Notice):
            notices.append(event.text)

    with pytest.raises(Interrupted):
        pts.run(options, in_round_1, stop=stop)
    with pytest.raises(Interrupted):
        pts.resume(tmp_path / "run", on_event=in_round_1, stop=stop)
    assert any("which is not given (missing: report format brief)" in text for text in notices)
    Path(own).write_text(Path(own).read_text() + "# changed\n")
    program = "import snia_pts as pts, sys; pts.resume(sys.argv[1], pts.ResumeOptions(plugins=sys.argv[2:]))"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "run"), own], check=True)

    changes = [change for stopped in pts.load(tmp_path / "run").result.interruptions for change in stopped.changes]
    assert any(change.startswith(f"plugin {own}: SHA-256 ") for change in changes)
    assert (tmp_path / "run/report.brief").is_file()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, object]]]:
    """Start a server for the webhook; return the messages that it gets."""
    received: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("SNIA_PTS_WEBHOOK", f"http://127.0.0.1:{server.server_port}/")
    yield received
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.long
def test_a_notification(tmp_path: Path, messages: list[dict[str, object]]) -> None:
    """It is sent for a finished and for a stopped run; not for a run without a folder, nor if it is not named."""
    options = replace(OPTIONS, plugins=(str(EXAMPLES / "webhook.py"),), run_folder=tmp_path / "run")
    stop = Event()
    stop.set()
    run = pts.run(options)
    with pytest.raises(Interrupted):
        pts.run(replace(options, run_folder=tmp_path / "stopped"), stop=stop)
    with pytest.raises(UsageError):
        pts.run(replace(options, formats=("none",)))
    pts.run(replace(options, plugins=(), run_folder=tmp_path / "other"))

    assert [message["run"] for message in messages] == [str(run.path), str(tmp_path / "stopped")]
    assert messages[0]["verdicts"] == [run.result.verdict]
    assert messages[0]["error"] is None
    assert str(messages[1]["error"]).startswith("Stopped by the calling program")


@pytest.mark.long
def test_a_job_loads_its_plugins(tmp_path: Path) -> None:
    """They are named to its process, which writes the format; this process loads none of them."""
    name = str(EXAMPLES / "brief.py")
    job = pts.start(replace(OPTIONS, plugins=(name,), formats=("brief",), run_folder=tmp_path / "run"))
    run = job.wait(timeout_seconds=60)

    assert run.verdict in (run.path / "report.brief").read_text()
    assert "brief" not in registries.OUTPUTS


@pytest.mark.long
def test_a_notification_that_fails_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run still finishes."""
    monkeypatch.delenv("SNIA_PTS_WEBHOOK", raising=False)
    notices: list[str] = []
    options = replace(OPTIONS, plugins=(str(EXAMPLES / "webhook.py"),), run_folder=tmp_path / "run")
    run = pts.run(options, lambda event: notices.append(event.text) if isinstance(event, pts.events.Notice) else None)

    assert run.result.ending == "finished"
    (notice,) = notices
    assert notice.startswith("The notification webhook failed (KeyError: 'SNIA_PTS_WEBHOOK' in /")
    assert re.search(r"/examples/plugins/webhook\.py, line \d+\)\.$", notice)


def test_a_folder_of_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its profiles are listed, shown and run by their names, with the plugin only."""
    name = str(EXAMPLES / "lab_profiles.py")
    assert main(["profile", "show", "mail-spool"]) == UsageError.exit_code
    capsys.readouterr()
    assert main(["profile", "list", "--plugin", name]) == 0
    assert "mail-spool" in capsys.readouterr().out
    assert main(["profile", "show", "mail-spool", "--plugin", name]) == 0
    assert capsys.readouterr().out == (EXAMPLES / "profiles/mail-spool.toml").read_text()
    options = pts.RunOptions(
        test="profile",
        specification="mail-spool",
        target="sim:enterprise-nvme",
        plugins=(name,),
        formats=(),
        run_folder=tmp_path / "run",
    )
    run = pts.run(options)
    with pytest.raises(UsageError, match="There is no profile 'mail-spool'"):
        pts.plan(replace(options, plugins=(), run_folder=None))

    assert run.result.verdict == "COMPLETE (workload profile, not a PTS test)"
    assert run.result.facts.plugins[0].parts == ("folder of profiles lab",)


# -- only when named -------------------------------------------------------------------------------------------------


def test_an_installed_plugin_is_not_loaded_unless_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module on the path is loaded by its name alone, and its compiled cache is not used."""
    module = tmp_path / "acme_plugin.py"
    shutil.copy(EXAMPLES / "brief.py", module)
    monkeypatch.syspath_prepend(str(tmp_path))
    pts.plan(OPTIONS)
    assert "brief" not in registries.OUTPUTS
    (tmp_path / "evil.py").write_text("raise RuntimeError")
    py_compile.compile(
        str(tmp_path / "evil.py"), cfile=str(tmp_path / f"__pycache__/acme_plugin.{sys.implementation.cache_tag}.pyc")
    )
    (loaded,) = load_plugins(["acme_plugin"])

    assert loaded.path == str(module)
    assert load_plugins(["acme_plugin", "acme_plugin"]) == (loaded,)
    assert "acme_plugin" not in sys.modules


def test_a_plugin_of_an_earlier_run_must_be_named_again(tmp_path: Path) -> None:
    """What one run of a process loaded, another run cannot use without naming it."""
    load_plugins([str(EXAMPLES / "brief.py"), str(EXAMPLES / "shred.py")])
    with pytest.raises(UsageError, match="unknown format 'brief'"):
        pts.run(replace(OPTIONS, formats=("brief",), run_folder=tmp_path / "run"))
    with pytest.raises(UsageError, match="--purge shred: this is a method of a plugin"):
        pts.plan(pts.RunOptions(test="iops", target=str(tmp_path / "file"), size_bytes=1 << 24, purge="shred"))


@pytest.mark.long
def test_a_journal_never_names_what_is_loaded(tmp_path: Path) -> None:
    """The stored options have no plugins; the facts list them."""
    pts.run(replace(OPTIONS, plugins=(str(EXAMPLES / "brief.py"),), run_folder=tmp_path / "run"))
    facts = pts.load(tmp_path / "run").result.facts

    assert facts.options is not None
    assert facts.options.plugins == ()
    assert [used.name for used in facts.plugins] == [str(EXAMPLES / "brief.py")]


# -- what is refused -------------------------------------------------------------------------------------------------

OBJECTS = "from pathlib import Path\ndef make(result): return b''\nTEXT = 'x'\ndef register(registries):\n    "


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ZeroDivisionError('x')", "ZeroDivisionError: x in /"),
        ("def register(registries:", "SyntaxError: "),
        ("x = 1", "it has no function register(registries)"),
        ("def register(registries): pass", "register(registries) adds nothing"),
        ("def register(registries): registries.X", "register: AttributeError: "),
        (
            OBJECTS + "registries.SPECS['x'] = f'{__name__}:make'",
            "it adds to SPECS, and plugins add to PURGE",
        ),
        (OBJECTS + "registries.OUTPUTS['pdf'] = f'{__name__}:make'", "it replaces an entry of OUTPUTS"),
        (OBJECTS + "registries.TARGETS.clear()", "it adds to TARGETS"),
        (OBJECTS + "registries.OUTPUTS['../x'] = f'{__name__}:make'", "report format ../x: expected a name of a-z"),
        (OBJECTS + "registries.OUTPUTS['x'] = make", 'report format x: expected the text f"{__name__}:OBJECT"'),
        (OBJECTS + "registries.OUTPUTS['x'] = 'os:getpid'", 'report format x: expected the text f"{__name__}:OBJECT"'),
        (OBJECTS + "registries.OUTPUTS['x'] = f'{__name__}:no'", "report format x: it has no 'no'"),
        (OBJECTS + "registries.OUTPUTS['x'] = f'{__name__}:TEXT'", "report format x: expected a function, got str"),
        (
            OBJECTS + "registries.PURGE_METHODS['x'] = f'{__name__}:make'",
            "purge method x: expected a Method",
        ),
        (OBJECTS + "registries.PURGE_METHODS['auto'] = f'{__name__}:make'", "it replaces an entry of PURGE_METHODS"),
    ],
)
def test_an_invalid_plugin_is_refused(body: str, reason: str, tmp_path: Path) -> None:
    """The message says what is wrong; nothing of the plugin stays registered."""
    before = {name: dict(table) for name, table in vars(registries).items() if name.isupper()}
    name = plugin(tmp_path, body)
    with pytest.raises(UsageError) as refused:
        pts.plan(replace(OPTIONS, plugins=(name,)))

    assert str(refused.value).startswith(f"--plugin {name}: {reason}")
    assert before == {name: table for name, table in vars(registries).items() if name.isupper()}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_plugin", "there is no such Python module"),
        ("math", "there is no such Python module"),
        ("a b", "not the name of a module"),
        ("/no/such.py", "cannot open /no/such.py: No such file or directory"),
        ("/dev/null.py/x", "cannot open /dev/null.py/x: No such file or directory"),
    ],
)
def test_a_missing_plugin_is_refused(name: str, reason: str) -> None:
    """The message names it."""
    with pytest.raises(UsageError, match=f"--plugin {name}: {reason}") as refused:
        load_plugins([name])
    if name.isidentifier():
        assert refused.value.hint.endswith(f"Give a file by its path: ./{name}.py.")


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    """Their entries could not be distinguished."""
    (tmp_path / "a").mkdir()
    load_plugins([str(EXAMPLES / "brief.py")])
    with pytest.raises(UsageError, match=r"examples/plugins/brief\.py is loaded under the same name"):
        load_plugins([plugin(tmp_path / "a", "", "brief.py")])


@pytest.mark.long_but_first
@pytest.mark.parametrize("body", ["def make(result): return 'text'", "def make(result): raise KeyError('x')"])
def test_a_format_that_fails_costs_no_result(body: str, tmp_path: Path) -> None:
    """The error is that of a report; the run is finished."""
    register = "\ndef register(registries): registries.OUTPUTS['x'] = f'{__name__}:make'"
    options = replace(
        OPTIONS, plugins=(plugin(tmp_path, body + register),), formats=("x",), run_folder=tmp_path / "run"
    )
    with pytest.raises(ReportError, match="the format x of a plugin"):
        pts.run(options)

    assert pts.load(tmp_path / "run").result.ending == "finished"


@ROOT_ONLY
@pytest.mark.parametrize("change", ["file", "owner", "folder", "symlink", "module of a package"])
def test_root_refuses_a_plugin_that_other_users_can_change(change: str, tmp_path: Path) -> None:
    """Its file, its folder, a symlink to it, and every file of a package must be root's."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    path = Path(plugin(folder, (EXAMPLES / "brief.py").read_text(), "__init__.py" if "package" in change else "x.py"))
    name = str(path)
    if change == "file":
        path.chmod(0o666)
    elif change == "owner":
        os.chown(path, NOBODY, NOBODY)
    elif change == "folder":
        folder.chmod(0o777)
    elif change == "symlink":
        link = tmp_path / "link.py"
        link.symlink_to(path)
        os.lchown(link, NOBODY, NOBODY)
        name = str(link)
    else:
        (folder / "part.py").touch(0o644)
        os.chown(folder / "part.py", NOBODY, NOBODY)
    with pytest.raises(UsageError, match="root would run it, and ") as refused:
        load_plugins([name])

    assert refused.value.hint == "Let only root and the user who called sudo change it."
