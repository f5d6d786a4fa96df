"""What ``setup.cfg`` cannot say: a build copies ``specs/`` and ``reports/`` into the package and writes elsewhere."""

import shutil
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithData(build_py):
    """Builds the package with its data; an editable install uses the data of the checkout."""

    def run(self) -> None:
        """Build the package, then copy the data into it."""
        super().run()
        if not self.editable_mode:
            for folder in ("specs", "reports"):
                target = Path(self.build_lib, "snia_pts", "data", folder)
                shutil.copytree(folder, target, ignore=shutil.ignore_patterns("samples"))


with tempfile.TemporaryDirectory() as scratch:  # the tree may be read-only, and may hold an old build
    setup(
        cmdclass={"build_py": BuildWithData},
        options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
    )
