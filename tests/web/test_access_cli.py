"""The verb access, and the options of serve that say who may use the pages."""

from __future__ import annotations

import getpass
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from snia_pts.cli.main import main
from snia_pts.errors import UsageError
from snia_pts.web import passwords
from snia_pts.web.commands import _access, _url
from snia_pts.web.site import Site, make_site
from snia_pts.web.users import UserFile

PASSWORD = "correct horse battery"  # noqa: S105


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has a folder of runs, a password, and the configuration of the user."""
    monkeypatch.setattr(passwords, "_N", 2**14)
    monkeypatch.setattr(passwords, "_P", 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "password").write_text(f"{PASSWORD}\nanother line\n")
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    """Run a command that is refused; return its message, on one line."""
    assert main(argv) == code
    output = capsys.readouterr()
    assert output.out == ""
    return " ".join(output.err.split())


def test_users_and_tokens_are_added_listed_changed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """The token is on standard output alone, so that a script can store it."""
    assert main(["access", "user", "add", "anna", "--role", "operator", "--password-file", "password"]) == 0
    assert main(["access", "user", "change", "anna", "--role", "admin"]) == 0
    capsys.readouterr()
    assert main(["access", "token", "add", "ci", "--days", "7"]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["access", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["name", "kind", "role", "valid", "until", "begins", "with"],
        ["anna", "user", "admin"],
    ]
    assert lines[2].split()[:3] == ["ci", "token", "viewer"]
    assert main(["access", "list", "--json"]) == 0
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["users"] == [{"name": "anna", "role": "admin"}]
    assert token.startswith(document["tokens"][0]["prefix"])
    assert token not in text
    accounts = UserFile(Path("configuration/snia-pts/users.json")).read()
    assert accounts.login("anna", PASSWORD)
    assert accounts.token(token)

    assert main(["access", "user", "remove", "anna"]) == 0
    assert main(["access", "token", "remove", "ci"]) == 0
    capsys.readouterr()
    assert main(["access", "list"]) == 0
    assert "has no users and no tokens" in capsys.readouterr().err


def test_a_typed_password_is_asked_for_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two different ones are refused, and nothing is added."""
    typed = iter([PASSWORD, "x", PASSWORD, PASSWORD])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: next(typed))

    assert "two passwords are different" in refusal(capsys, "access", "user", "add", "anna")
    assert main(["access", "user", "add", "anna"]) == 0
    assert UserFile(Path("configuration/snia-pts/users.json")).read().login("anna", PASSWORD)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["user", "add", "anna"], "standard input is not a terminal"),
        (["user", "add", "a b", "--password-file", "password"], "is not a name"),
        (["user", "add", "anna", "--password-file", "nowhere"], "--password-file nowhere: No such file"),
        (["user", "add", "anna", "--password-file", "/dev/null"], "it is not a regular file"),
        (["user", "add", "anna", "--role", "root"], "expected one of viewer, operator, admin"),
        (["user", "change", "anna"], "expected --role, --password or --password-file"),
        (["user", "change", "anna", "--role", "admin"], "There is no user 'anna'"),
        (["user", "remove", "anna"], "There is no user 'anna'"),
        (["token", "add", "ci", "--days", "0"], "--days 0: expected 1 to 366"),
        (["token", "remove", "ci"], "There is no token 'ci'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_change_that_is_not_possible_is_refused(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    """With the exit code of a wrong option, and the remedy."""
    assert message in refusal(capsys, "access", *argv)


# -- serve -----------------------------------------------------------------------------------------------------------


def make_certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate and its key, and return their files."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", "key.pem", "-out", "certificate.pem", "-subj", "/CN=localhost"]
    subprocess.run([*command, *files], check=True, capture_output=True, cwd=folder)
    return "certificate.pem", "key.pem"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"])  # noqa: S104
def test_without_tls_only_a_local_address_is_served(capsys: pytest.CaptureFixture[str], address: str) -> None:
    """The sentence names the reason and the remedies."""
    message = refusal(capsys, "serve", "runs", "--listen", address)

    assert f"--listen {address}: others in the network could read passwords and sessions." in message
    assert "--certificate and --key" in message


@pytest.mark.long_but_first
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--listen", "localhost.example"], "expected an IP address"),
        (["--listen", ""], "expected an IP address"),
        (["--port", "70000"], "--port 70000: not a port"),
        (["--url", "lab.example"], "expected http or https and a host"),
        (["--url", "https://lab.example/x"], "expected http or https and a host"),
        (["--url", "https://[::1"], "expected http or https and a host"),
        (["--url", "https://anna@lab.example"], "expected http or https and a host"),
        (["--url", "https://lab.example"], "--url https://lab.example: nobody could log in"),
        (["--url", "https://lab.example", "--role", "viewer"], "--role viewer: it is for this host only"),
        (["--certificate", "x"], "expected both --certificate and --key"),
        (["--key", "x"], "expected both --certificate and --key"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_open_too_much_or_contradict_are_refused(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    """Before anything listens."""
    assert message in refusal(capsys, "serve", "runs", *argv)


def test_a_role_for_everybody_is_refused_where_users_have_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise nobody would know which of them is in force."""
    main(["access", "user", "add", "anna", "--password-file", "password"])
    capsys.readouterr()

    assert "users.json has users, and each has a role" in refusal(capsys, "serve", "runs", "--role", "operator")


def test_a_certificate_is_checked_before_the_start(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A missing file, a key that others can read, a key of another form, and a network without users are refused."""
    certificate, key = make_certificate(folder)
    options = ("serve", "runs", "--listen", "0.0.0.0", "--certificate", certificate, "--key")  # noqa: S104

    assert "No such file" in refusal(capsys, *options, "nowhere", code=13)
    assert "nobody could log in" in refusal(capsys, *options, key)
    Path(key).chmod(0o644)
    assert "other users can read or change it" in refusal(capsys, *options, key, code=13)
    Path("other.pem").write_text("not a key")
    Path("other.pem").chmod(0o600)
    assert "without a password, in PEM" in refusal(capsys, *options, "other.pem", code=13)


def test_a_key_with_a_password_is_refused_without_a_question(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A server that starts with the host has nobody to ask."""
    certificate, key = make_certificate(folder)
    command = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", "locked.pem"]
    subprocess.run(command, check=True, capture_output=True)
    Path("locked.pem").chmod(0o600)

    message = refusal(capsys, "serve", "runs", "--certificate", certificate, "--key", "locked.pem", code=13)
    assert "without a password" in message


@pytest.mark.parametrize(
    ("options", "anyone"), [([], "viewer"), (["--role", "operator"], "operator"), (["--listen", "::1"], "viewer")]
)
def test_on_loopback_everybody_is_a_viewer_unless_the_option_says_more(options: list[str], anyone: str) -> None:
    """Starting and stopping runs needs users, or --role operator."""
    from snia_pts.cli.parser import build_parser

    arguments = build_parser().parse_args(["serve", "runs", *options])
    assert _access(arguments, make_site(arguments.listen)).anyone == anyone


# -- sites -----------------------------------------------------------------------------------------------------------


def test_a_site_has_the_names_of_its_address_and_of_its_urls() -> None:
    """Each Host header gets the origin that a browser sends from there; others have none."""
    local = make_site("127.0.0.1", urls=["https://LAB.example:443/", "http://lab2.example:81"])
    origins = {
        "127.0.0.1:8400": "http://127.0.0.1:8400",
        "localhost": "http://localhost",
        "localhost:80": "http://localhost",
        "[::1]:8400": "http://[::1]:8400",
        "lab.example": "https://lab.example",
        "Lab2.example:81": "http://lab2.example:81",
        "lab.example:8400": None,
        "lab2.example": None,
        "192.0.2.1": None,
        "localhost:": None,
        "localhost/": None,
        "a b": None,
    }

    assert {host: local.origin(host) for host in origins} == origins


def test_another_address_than_loopback_has_the_name_of_the_host(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """No name server is asked for it."""
    from snia_pts.web.site import Certificate

    monkeypatch.setattr("socket.gethostname", lambda: "Bench7")
    certificate = Certificate(path=folder / "c", key=folder / "k")
    everywhere = make_site("0.0.0.0", certificate=certificate)  # noqa: S104
    one = make_site("192.0.2.1", certificate=certificate)

    assert everywhere.origin("bench7:8400") == "https://bench7:8400"
    assert everywhere.origin("192.0.2.1:8400") is None
    assert one.origin("192.0.2.1") == "https://192.0.2.1"
    with pytest.raises(UsageError, match="others in the network"):
        make_site("192.0.2.1")


def test_the_address_to_open_is_that_of_the_site() -> None:
    """An address of all interfaces is none to open."""
    from snia_pts.web.commands import _listening

    with _listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert _url(Site(names=frozenset()), listener) == f"http://127.0.0.1:{port}/"
        assert _url(make_site("127.0.0.1", urls=["https://lab.example"]), listener) == "https://lab.example/"
    with _listening("0.0.0.0", 0) as listener:  # noqa: S104
        assert re.fullmatch(r"https://[^/]+:\d+/", _url(Site(names=frozenset(), tls=True), listener))
