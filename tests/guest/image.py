"""Makes what a guest boots from: a kernel of Debian, and an initramfs that puts the host's files below it.

The guest has the host's root file system, read-only, with everything it writes in memory: the Python, the suite, fio
and the tools are the very ones of the host.  Both files are made once and kept in SNIA_PTS_GUEST_CACHE, or in
snia-pts/guest of the user's cache.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_KERNEL, _BUSYBOX = "linux-image-amd64", "busybox-static"
_MODULES = (
    "virtio_pci",
    "9p",
    "9pnet_virtio",
    "overlay",
    "nvme",
    "ahci",
    "sd_mod",
    "sg",
    "virtio_scsi",
    "md_mod",
    "raid0",
    "raid1",
    "crc32c_generic",
    "raid456",
    "raid10",
    "loop",
)
_INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /host /memory /root
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in {modules}; do $b modprobe $module; done
nine=trans=virtio,version=9p2000.L,msize=262144
$b mount -t 9p -o ro,$nine,cache=loose host /host
$b mount -t tmpfs memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /root
for each in proc sys dev; do $b mount --move /$each /root/$each; done
$b mount -t tmpfs run /root/run
$b mkdir /root/run/guest
$b mount -t 9p -o $nine,cache=none guest /root/run/guest
exec $b switch_root /root /bin/sh /run/guest/start
"""
#: Changes whenever the files are made in another way.
_RECIPE = "3"


class Unavailable(Exception):
    """There is no guest here; why."""


def cached_image() -> tuple[Path, Path]:
    """Return kernel and initramfs, made if they are not there yet; raises Unavailable."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("SNIA_PTS_GUEST_CACHE") or Path(home) / "snia-pts/guest") / f"image-{_RECIPE}"
    if not cache.is_dir():
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache.parent) as folder:
            _make(Path(folder))
            made = Path(folder) / "image"
            try:
                made.rename(cache)
            except OSError:  # another one was faster
                assert cache.is_dir()
    return cache / "kernel", cache / "initramfs"


def _make(folder: Path) -> None:
    for package in (_dependency(_KERNEL), _BUSYBOX):
        _call("apt-get", "-qq", "download", package, cwd=folder)
    for archive in folder.glob("*.deb"):
        _call("dpkg", "--extract", str(archive), "tree", cwd=folder)
    image = folder / "image"
    image.mkdir()
    (kernel,) = (folder / "tree/boot").glob("vmlinuz-*")
    shutil.copy(kernel, image / "kernel")
    (modules,) = (folder / "tree/lib/modules").iterdir()
    _call(str(folder / "tree/bin/busybox"), "depmod", "-b", str(folder / "tree"), modules.name, cwd=folder)
    files = {"init": (0o755, _INIT.format(modules=" ".join(_MODULES)).encode())}
    files["bin/busybox"] = 0o755, (folder / "tree/bin/busybox").read_bytes()
    files |= {f"lib/modules/{modules.name}/{name}": (0o644, content) for name, content in _modules(modules)}
    (image / "initramfs").write_bytes(gzip.compress(b"".join(_archive(files)), 6))


def _dependency(package: str) -> str:
    """Return the package that a package without content stands for."""
    match = re.search(r"Depends: (linux-image-\S+)", _call("apt-cache", "depends", package))
    if not match:
        raise Unavailable(f"apt knows no {package} (apt-get update?)")
    return match[1]


def _modules(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the modules that are wanted, of those that they need, and of the list of both."""
    needs = {name: words.split() for name, _, words in _lines(folder / "modules.dep")}
    known = {PurePosixPath(name).name.split(".")[0].replace("-", "_"): name for name in needs}
    wanted, found = [known[name.replace("-", "_")] for name in _MODULES], set[str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += needs[name]
    yield "modules.dep", "".join(f"{name}: {' '.join(needs[name])}\n" for name in sorted(found)).encode()
    yield "modules.builtin", (folder / "modules.builtin").read_bytes()
    for name in sorted(found):
        yield name, (folder / name).read_bytes()


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    yield from (line.partition(":") for line in path.read_text().splitlines())


def _archive(files: dict[str, tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield a cpio archive (newc), as the kernel unpacks it."""
    folders = {str(parent): None for name in files for parent in reversed(PurePosixPath(name).parents)}
    for folder in folders:
        if folder != ".":
            yield _entry(folder, stat.S_IFDIR | 0o755, b"")
    for name, (mode, content) in files.items():
        yield _entry(name, stat.S_IFREG | mode, content)
    yield _entry("TRAILER!!!", 0, b"")


def _entry(name: str, mode: int, content: bytes) -> bytes:
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def _call(*argv: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unavailable(f"{argv[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(argv[:3])} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
