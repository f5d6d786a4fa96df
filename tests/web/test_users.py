"""The file of users and tokens, passwords, sessions, and the limit of attempts to log in."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from snia_pts.errors import HostFailed, SpecError, UsageError
from snia_pts.files import replace_file
from snia_pts.web import passwords, sessions, users
from snia_pts.web.attempts import ADDRESS_LIMIT, USER_LIMIT, Attempts
from snia_pts.web.passwords import hash_password, is_password, require_good_password
from snia_pts.web.sessions import IDLE_SECONDS, LONGEST_SECONDS, Sessions
from snia_pts.web.tokens import find_token, make_token
from snia_pts.web.users import UserFile

PASSWORD, OTHER = "correct horse battery", "another long password"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the least memory that a stored hash may have."""
    monkeypatch.setattr(passwords, "_N", 2**14)
    monkeypatch.setattr(passwords, "_P", 1)


@pytest.fixture(scope="module")
def two_users(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the content of the file of a viewer and an operator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_N", 2**14)
        patch.setattr(passwords, "_P", 1)
        file = UserFile(tmp_path_factory.mktemp("users") / "users.json")
        file.add_user("vera", "viewer", PASSWORD)
        file.add_user("olaf", "operator", PASSWORD + "!")
    return file.path.read_bytes()


@pytest.fixture
def file(tmp_path: Path, two_users: bytes) -> UserFile:
    """Return the file of a viewer and an operator."""
    path = tmp_path / "access" / "users.json"
    path.parent.mkdir()
    replace_file(path, two_users, mode=0o600)
    return UserFile(path)


# -- passwords -------------------------------------------------------------------------------------------------------


def test_a_password_is_compared_with_its_own_salt_and_parameters() -> None:
    """Two hashes of a password differ; each accepts it and nothing else, also with other parameters than today's."""
    first, second = hash_password(PASSWORD), hash_password(PASSWORD)

    assert first.salt != second.salt
    assert first.key != second.key
    assert is_password(PASSWORD, first)
    assert not is_password(PASSWORD + " ", first)
    assert not is_password(PASSWORD, replace(first, p=2))
    assert not is_password(PASSWORD, None)


def test_new_hashes_have_the_recommended_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 MiB and three passes, as OWASP recommends; the file keeps them beside the hash."""
    monkeypatch.undo()
    stored = hash_password(PASSWORD)

    assert (stored.n, stored.r, stored.p) == (2**15, 8, 3)
    assert 128 * stored.n * stored.r == 32 * 2**20


def test_the_same_password_in_another_form_of_unicode_is_accepted() -> None:
    """A keyboard may send a letter and its accent separately."""
    assert is_password("cafe\u0301 au lait, un", hash_password("caf\u00e9 au lait, un"))


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("short", "has 12 to 128 characters; this one has 5"),
        ("x" * 129, "has 12 to 128 characters; this one has 129"),
        ("aaaaaaaaaaaaaaa", "easily guessed"),
        ("VeraVera1212", "easily guessed"),
    ],
)
def test_a_weak_password_is_refused(password: str, reason: str) -> None:
    """Passwords that are short, long, of few characters or mostly the name are refused, with the reason."""
    with pytest.raises(UsageError, match=reason):
        require_good_password(password, "vera")


def test_an_unknown_user_takes_as_long_as_a_wrong_password(file: UserFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login computes the same hash in either case, so that its time does not tell which names exist."""
    accounts, scrypt = file.read(), hashlib.scrypt
    costs: list[tuple[int, int, int]] = []

    def count(password: bytes, *, n: int, r: int, p: int, **others: Any) -> bytes:
        """Note the cost of a hash."""
        costs.append((n, r, p))
        return scrypt(password, n=n, r=r, p=p, **others)

    monkeypatch.setattr(hashlib, "scrypt", count)
    assert accounts.login("vera", "wrong password!") is None
    assert accounts.login("nobody", "wrong password!") is None

    assert len(costs) == 2
    assert costs[0] == costs[1]


# -- the file --------------------------------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_file_and_it_has_no_password(file: UserFile) -> None:
    """The file, and the one that locks it, have mode 0600; the password is not in it."""
    text, token = file.add_token("ci", "viewer", 30)
    content = file.path.read_text("utf-8")

    assert {stat.S_IMODE(path.stat().st_mode) for path in file.path.parent.iterdir()} == {0o600}
    assert PASSWORD not in content
    assert text not in content
    assert token.prefix in content


def test_a_file_that_others_can_read_is_refused(file: UserFile) -> None:
    """The sentence says which command corrects it."""
    file.path.chmod(0o640)

    with pytest.raises(SpecError, match="its mode is 0640: expected 0600") as caught:
        file.read()
    assert f"chmod 600 {file.path}" in caught.value.full_hint


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("{", "not readable as JSON"),
        ("[]", "expected an object"),
        ("[" * 100_000, "not readable as JSON"),
        ('{"format": 2}', "format"),
        ('{"format": 1, "users": [{"name": "a b", "role": "root"}]}', "users 1.role"),
        ('{"format": 1, "extra": 1}', "extra"),
    ],
)
def test_a_file_with_mistakes_is_refused_with_all_of_them(tmp_path: Path, content: str, mistake: str) -> None:
    """Nothing else than the documented keys is accepted."""
    path = tmp_path / "users.json"
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(SpecError, match=mistake):
        UserFile(path).read()


def test_a_name_that_occurs_twice_is_refused(file: UserFile) -> None:
    """Otherwise the first of two passwords would decide."""
    document = json.loads(file.path.read_text("utf-8"))
    document["users"] *= 2
    file.path.write_text(json.dumps(document))

    with pytest.raises(SpecError, match="expected each user once"):
        file.read()


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 41, "ä", "a\n"])
def test_an_unusual_name_is_refused(file: UserFile, name: str) -> None:
    """Names are of letters, digits and a few signs."""
    with pytest.raises(UsageError, match="is not a name"):
        file.add_user(name, "viewer", PASSWORD)
    with pytest.raises(UsageError, match="is not a name"):
        file.add_token(name, "viewer", 1)


def test_names_are_added_once_and_removed_once(file: UserFile) -> None:
    """A second user or token of a name is refused, and so is the removal of one that does not exist."""
    file.add_token("ci", "viewer", 1)

    with pytest.raises(UsageError, match="There is a user 'vera' already"):
        file.add_user("vera", "admin", PASSWORD)
    with pytest.raises(UsageError, match="There is a token 'ci' already"):
        file.add_token("ci", "admin", 1)
    file.remove_user("vera")
    file.remove_token("ci")
    with pytest.raises(UsageError, match="There is no user 'vera'"):
        file.remove_user("vera")
    with pytest.raises(UsageError, match="There is no user 'vera'"):
        file.change_user("vera", role="admin")
    with pytest.raises(UsageError, match="There is no token 'ci'"):
        file.remove_token("ci")
    assert [user.name for user in file.read().users] == ["olaf"]


def test_a_change_is_seen_by_a_process_that_has_read_the_file(file: UserFile) -> None:
    """The server sees at once that a role, a password or a user changed, and that the file is gone."""
    server = UserFile(file.path)
    assert server.read().login("vera", PASSWORD)

    file.change_user("vera", role="admin")
    user = server.read().user("vera")
    assert user is not None
    assert user.role == "admin"
    file.change_user("vera", password=OTHER)
    assert server.read().login("vera", PASSWORD) is None
    assert server.read().login("vera", OTHER)
    file.path.unlink()
    assert server.read().users == ()


def _add(path: Path, name: str) -> None:
    UserFile(path).add_token(name, "viewer", 1)


def test_changes_of_several_processes_are_all_kept(file: UserFile) -> None:
    """Each change is made in the content that the one before it left."""
    context = multiprocessing.get_context("fork")
    names = [f"t{number}" for number in range(6)]
    processes = [context.Process(target=_add, args=(file.path, name)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert sorted(token.name for token in file.read().tokens) == names


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The parent of the file is a file."""
    (tmp_path / "file").write_text("")

    with pytest.raises(HostFailed, match="change of the users"):
        UserFile(tmp_path / "file" / "users.json").add_token("ci", "viewer", 1)


def test_the_default_file_is_in_the_configuration_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CONFIG_HOME decides, else ~/.config."""
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert users.default_path() == tmp_path / ".config/snia-pts/users.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/x")
    assert users.default_path() == Path("/x/snia-pts/users.json")


# -- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_found_by_its_whole_text_until_it_expires() -> None:
    """Neither its beginning, nor another end, nor any other text is enough."""
    text, token = make_token("ci", "operator", 30)
    others = [make_token(f"t{number}", "viewer", 1)[1] for number in range(3)]

    assert find_token(text, [*others, token]) is token
    assert token.expires - token.created == timedelta(days=30)
    assert len(text) == len("spt_") + 10 + 1 + 43
    for wrong in (token.prefix, text[:-1], text[:-1] + ("A" if text[-1] != "A" else "B"), text + "A", "", "ä", "spt_"):
        assert find_token(wrong, [token]) is None
    assert find_token(text, others) is None
    past = replace(token, expires=datetime.now(UTC) - timedelta(seconds=1))
    assert find_token(text, [past]) is None


# -- sessions --------------------------------------------------------------------------------------------------------


def test_a_session_has_a_new_id_of_256_bits_that_is_nowhere_stored(file: UserFile) -> None:
    """Each login gets another id and another CSRF token; the sessions have only the hash of the id."""
    vera = file.read().user("vera")
    assert vera is not None
    all_sessions = Sessions()
    (first, one), (second, two) = all_sessions.start(vera), all_sessions.start(vera)

    assert first != second
    assert one.csrf_token != two.csrf_token
    assert len(first) == 43
    assert first not in repr(all_sessions)
    assert all_sessions.find(first, file.read()) is one
    assert all_sessions.find("x", file.read()) is None
    all_sessions.end(first)
    assert all_sessions.find(first, file.read()) is None
    assert all_sessions.find(second, file.read()) is two


def test_a_session_ends_without_use_and_after_its_longest_time(file: UserFile) -> None:
    """Use prolongs it up to 12 hours; a stream of events is no use."""
    clock = Clock()
    vera = file.read().user("vera")
    assert vera is not None
    all_sessions = Sessions(clock)
    session_id, _ = all_sessions.start(vera)

    clock.now += IDLE_SECONDS - 1
    assert all_sessions.find(session_id, file.read(), extend_session=False)
    clock.now += 1
    assert all_sessions.find(session_id, file.read()) is None

    session_id, session = all_sessions.start(vera)
    while clock.now + IDLE_SECONDS / 2 < session.started + LONGEST_SECONDS:
        clock.now += IDLE_SECONDS / 2
        assert all_sessions.find(session_id, file.read())
    clock.now = session.started + LONGEST_SECONDS
    assert all_sessions.find(session_id, file.read()) is None


def test_a_session_follows_its_user(file: UserFile) -> None:
    """It gets a new role at once, and ends with the user or the password."""
    all_sessions = Sessions()
    vera, olaf = file.read().users
    of_vera, of_olaf = all_sessions.start(vera)[0], all_sessions.start(olaf)[0]

    file.change_user("vera", role="admin")
    session = all_sessions.find(of_vera, file.read())
    assert session is not None
    assert session.user.role == "admin"
    file.change_user("vera", password=OTHER)
    assert all_sessions.find(of_vera, file.read()) is None
    file.remove_user("olaf")
    assert all_sessions.find(of_olaf, file.read()) is None


def test_the_number_of_sessions_is_bounded(file: UserFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who logs in too often loses the oldest sessions, and so do all users together."""
    monkeypatch.setattr(sessions, "_MAX_OF_USER", 3)
    monkeypatch.setattr(sessions, "_MAX", 4)
    all_sessions = Sessions()
    vera, olaf = file.read().users
    of_olaf = all_sessions.start(olaf)[0]
    of_vera = [all_sessions.start(vera)[0] for _ in range(4)]

    alive = [session_id for session_id in (of_olaf, *of_vera) if all_sessions.find(session_id, file.read())]
    assert alive == [of_olaf, *of_vera[1:]]
    newest = all_sessions.start(olaf)[0]
    alive = [session_id for session_id in (of_olaf, *of_vera, newest) if all_sessions.find(session_id, file.read())]
    assert alive == [*of_vera[1:], newest]


# -- attempts --------------------------------------------------------------------------------------------------------


def test_an_address_gets_a_few_attempts_and_then_waits() -> None:
    """It waits until the oldest attempt is old enough; another address does not."""
    clock = Clock()
    attempts = Attempts(clock)
    most, seconds = ADDRESS_LIMIT

    for number in range(most):
        assert attempts.wait_seconds("10.0.0.1", f"user{number}") == 0
    assert attempts.wait_seconds("10.0.0.1", "vera") == seconds
    assert attempts.wait_seconds("10.0.0.2", "vera") == 0
    clock.now += seconds - 0.5
    assert attempts.wait_seconds("10.0.0.1", "vera") == 1
    clock.now += 0.5
    assert attempts.wait_seconds("10.0.0.1", "vera") == 0


def test_a_user_is_limited_over_all_addresses() -> None:
    """Many addresses together get at most 50 attempts an hour at one user; the case of the name is no difference."""
    attempts = Attempts(Clock())
    most, seconds = USER_LIMIT

    for number in range(most):
        assert attempts.wait_seconds(f"10.0.0.{number}", "vera") == 0
    assert attempts.wait_seconds("10.0.1.1", "VERA") == seconds
    assert attempts.wait_seconds("10.0.1.1", "olaf") == 0


def test_all_addresses_of_an_ipv6_network_count_as_one() -> None:
    """A host may take any address of its network of 64 bits."""
    attempts = Attempts(Clock())
    for number in range(ADDRESS_LIMIT[0]):
        assert attempts.wait_seconds(f"2001:db8::{number:x}", f"u{number}") == 0
    assert attempts.wait_seconds("2001:db8::ffff", "vera") > 0
    assert attempts.wait_seconds("2001:db8:0:1::1", "vera") == 0


def test_a_login_clears_the_attempts_and_their_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest addresses and names are remembered."""
    monkeypatch.setattr("snia_pts.web.attempts._MAX_KEYS", 10)
    attempts = Attempts(Clock())
    for number in range(100):
        attempts.wait_seconds(f"10.0.0.{number}", f"u{number}")
    assert len(attempts._times) == 10
    attempts.forget("10.0.0.99", "U99")
    assert len(attempts._times) == 8
