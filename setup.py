"""What ``setup.cfg`` cannot say: package data, the description for an index, reproducible archives.

A build copies ``specs/``, ``reports/`` and the pages of ``docs/`` into the package, and writes nothing into the tree.
"""

import gzip
import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
#: The folders that a build copies into the package, each with the names that it leaves out.
DATA = {
    "specs": (),
    "reports": ("samples",),
    "docs": ("*.py", "*.png", "*.svg", "__pycache__", "figures", "static"),
}


class BuildWithData(build_py):
    """Builds the package with its data; an editable install uses the data of the checkout."""

    def run(self) -> None:
        """Build the package, then copy the data into it."""
        super().run()
        if not self.editable_mode:
            for folder, omitted in DATA.items():
                target = Path(self.build_lib, "snia_pts", "data", folder)
                shutil.copytree(ROOT / folder, target, ignore=shutil.ignore_patterns(*omitted))


class ReproducibleSdist(sdist):
    """Builds a source distribution that depends on the files and SOURCE_DATE_EPOCH alone, as bdist_wheel does."""

    def make_archive(self, base_name: Any, format: Any, root_dir: Any = None, base_dir: Any = None, **_: Any) -> str:
        """Pack the folder ``base_dir`` as BASE_NAME.tar.gz: sorted, without owners, and with one date if it is set."""
        if format != "gztar" or root_dir is not None:
            raise ValueError(f"{format}: a source distribution is a .tar.gz")
        date = os.environ.get("SOURCE_DATE_EPOCH")

        def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.mtime = int(date) if date else int(member.mtime)
            return member

        path = f"{base_name}.tar.gz"
        with (
            Path(path).open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=int(date) if date else None) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member in sorted(Path(base_dir).rglob("*")):
                archive.add(member, recursive=False, filter=anonymous)
        return path


def description() -> str:
    """Return README.rst as an index can show it, for a program that was installed.

    It has neither links, which lead to files of the tree, nor what only a clone has, such as the picture and ``.venv``.
    Pages of docs/ are named by the command that shows them.
    """
    text = (ROOT / "README.rst").read_text(encoding="utf-8").replace(".venv/bin/", "")
    clone_only = r"^\.\. begin of what only a clone has\n.*?^\.\. end of what only a clone has\n\n"
    text = re.sub(clone_only, "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`([^`<]+?)\s+<docs/([\w-]+)\.rst>`_", r"\1 (``snia-pts docs \2``)", text)
    return re.sub(r"`([^`<]+?)\s+<[^>:]+>`_", r"\1", text)


with tempfile.TemporaryDirectory() as scratch:  # the tree may be read-only, and may hold an old build
    setup(
        long_description=description(),
        long_description_content_type="text/x-rst",
        cmdclass={"build_py": BuildWithData, "sdist": ReproducibleSdist},
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
