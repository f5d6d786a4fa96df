"""What is installed is whole: the wheel holds every specification and every template."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_all_data(tmp_path: Path) -> None:
    """Each file of specs/ and reports/ but the samples is in the wheel, where the installed suite looks for it."""
    left_out = shutil.ignore_patterns(".*", "runs", "build", "*.img", "*.egg-info")
    shutil.copytree(ROOT, tmp_path / "clone", symlinks=True, ignore=left_out)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
    ]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(tmp_path / "clone")], check=True)
    (wheel,) = tmp_path.glob("*.whl")

    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = [path for folder in ("specs", "reports") for path in (tmp_path / "clone" / folder).rglob("*.*")]
    wanted = [path for path in wanted if path.parent.name != "samples"]
    assert wanted
    assert not any("samples" in name for name in names)
    assert {f"snia_pts/data/{path.relative_to(tmp_path / 'clone')}" for path in wanted} - names == set()
    assert "snia_pts/py.typed" in names
