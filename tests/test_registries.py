"""The registries: every feature beside the standard has its entries, and is not loaded before it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import snia_pts
from snia_pts import registries
from snia_pts.cli.parser import build_parser

PACKAGE = Path(snia_pts.__file__).parent
REGISTRIES = {name: value for name, value in vars(registries).items() if name.isupper()}


@pytest.mark.parametrize(("registry", "name"), [(key, name) for key, names in REGISTRIES.items() for name in names])
def test_every_entry_exists(registry: str, name: str) -> None:
    """The object that an entry names can be imported."""
    assert registries.load(REGISTRIES[registry], name) is not None


@pytest.mark.parametrize("verb", registries.VERBS)
def test_a_verb_is_part_of_the_command_line(verb: str) -> None:
    """The parser of an added verb has its name, and a function that exists."""
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([verb, "--help"])

    assert ended.value.code == 0


def test_the_core_names_no_feature() -> None:
    """Only plugins.py contains the name of a package of the features; an import contract cannot check texts."""
    packages = {reference.split(".")[1] for registry in REGISTRIES.values() for reference in registry.values()}
    core = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in packages]
    pattern = re.compile(rf"\bsnia_pts\.(?:{'|'.join(packages)})\b")

    assert packages == {"profiles", "arrays", "tkperf", "importer", "fio_results", "store", "fleet", "manual", "web"}
    assert [path.name for path in core if pattern.search(path.read_text("utf-8"))] == ["plugins.py"]


def test_no_feature_is_loaded_before_it_is_used() -> None:
    """Importing the package fills the registries and loads none of the features."""
    program = "import sys, snia_pts; from snia_pts.registries import VERBS; print(len(VERBS), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    count, *modules = done.stdout.split()

    assert int(count) == len(registries.VERBS) > 0
    assert {name for name in modules if name.startswith("snia_pts.")} == {"snia_pts.plugins", "snia_pts.registries"}
