"""``scripts/release`` signs the digests of what it builds, and writes nothing if it cannot."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "release"
KEY = "releases@example.org"

#: python3 and the programs of the environments that it makes: all of them are this program, under their names.
TOOLS = """#!/bin/sh
for last; do :; done
case ${0##*/} in
    python3)
        mkdir -p "$last/bin"
        for name in pip python twine cyclonedx-py snia-pts; do cp "$0" "$last/bin/$name"; done ;;
    python)
        mkdir "$last/dist" && echo wheel >"$last/dist/snia_pts-9.1-py3-none-any.whl"
        eval "$DURING_THE_BUILD" ;;
    snia-pts) echo "snia-pts 9.1" ;;
    cyclonedx-py) while [ "$1" != --output-file ]; do shift; done && echo components >"$2" ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="gpg is not installed (package gnupg)")


@pytest.fixture(name="keys", scope="module")
def _keys() -> Iterator[Path]:
    """The home of a gpg with one key, which ends with the tests; its path is short, because it holds sockets."""
    with tempfile.TemporaryDirectory(prefix="gpg") as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", KEY, "ed25519", "sign", "1d"], check=True)
        yield Path(home)
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    """A git tree with the script and the files that name the version 9.1; a stand-in builds."""
    tree = tmp_path / "tree"
    files = {
        "snia_pts/__init__.py": '__version__ = "9.1"\n',
        "CHANGES.rst": "Changes\n=======\n\n9.1 (2026-11-28)\n----------------\n",
        "packaging/release.txt": "",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "scripts").mkdir()
    shutil.copy(SCRIPT, tree / "scripts")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(TOOLS)
    (tmp_path / "bin" / "python3").chmod(0o755)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "9.1"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


def release(tree: Path, keys: Path, *argv: str, during_the_build: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script of ``tree``; its files go to ``dist`` beside it."""
    path = f"{tree.parent / 'bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "GNUPGHOME": str(keys), "DURING_THE_BUILD": during_the_build}
    command = [str(tree / "scripts" / "release"), *argv, str(tree.parent / "dist")]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def verify(folder: Path, keys: Path) -> int:
    """Return the exit code of the check that docs/install.rst shows."""
    check = ["sh", "-c", "gpg --verify SHA256SUMS.asc && sha256sum --check SHA256SUMS"]
    environment = os.environ | {"GNUPGHOME": str(keys)}
    return subprocess.run(check, cwd=folder, env=environment, capture_output=True, check=False).returncode


def test_the_signature_of_a_release_is_that_of_its_digests(tree: Path, keys: Path) -> None:
    """The check succeeds, and fails after any file or the list of digests changed."""
    done = release(tree, keys, "--key", KEY)

    dist = tree.parent / "dist"
    wheel, components = "snia_pts-9.1-py3-none-any.whl", "snia_pts-9.1.cdx.json"
    assert done.returncode == 0, done.stderr
    assert {path.name for path in dist.iterdir()} == {wheel, components, "SHA256SUMS", "SHA256SUMS.asc"}
    assert [line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()] == [wheel, components]
    assert verify(dist, keys) == 0
    for name in (wheel, components, "SHA256SUMS"):
        content = (dist / name).read_bytes()
        (dist / name).write_bytes(content + b"\n")
        assert verify(dist, keys) != 0
        (dist / name).write_bytes(content)


def test_a_release_without_a_key_has_no_signature(tree: Path, keys: Path) -> None:
    """The digests are those of a release with a signature."""
    done = release(tree, keys)

    assert done.returncode == 0, done.stderr
    assert not (tree.parent / "dist" / "SHA256SUMS.asc").exists()
    assert len((tree.parent / "dist" / "SHA256SUMS").read_text().splitlines()) == 2


@pytest.mark.parametrize("key", ["nobody@example.org", ""])
def test_a_key_that_cannot_sign_is_refused_before_the_build(tree: Path, keys: Path, key: str) -> None:
    """Nothing is built or written, and the message says how to list the keys."""
    done = release(tree, keys, "--key", key)

    assert (done.returncode, done.stdout) == (1, "")
    assert "gpg --list-secret-keys" in done.stderr.splitlines()[-1]
    assert not (tree.parent / "dist").exists()


def test_a_key_that_is_lost_during_the_build_leaves_no_unsigned_release(tree: Path, keys: Path, tmp_path: Path) -> None:
    """The script fails, and a folder with files that lack their signature is not made."""
    away = tmp_path / "away"
    lose = f'test -e "{away}" || mv "$GNUPGHOME/private-keys-v1.d" "{away}"'
    try:
        done = release(tree, keys, "--key", KEY, during_the_build=lose)
    finally:
        shutil.move(away, keys / "private-keys-v1.d")

    assert done.returncode == 1
    assert f"gpg cannot sign with the key '{KEY}'" in done.stderr
    assert not (tree.parent / "dist").exists()
