"""The example for Kubernetes: its files belong together, and its Job's command runs, without a cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from snia_pts.cli.main import main
from snia_pts.record.folder import RunFolder
from snia_pts.record.replay import assess
from snia_pts.results.limit_checks import judgements

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "kubernetes"


def manifests() -> dict[str, dict[str, Any]]:
    """Return the documents of the manifest by their kinds."""
    documents = list(yaml.safe_load_all((EXAMPLE / "storage-check.yaml").read_text()))
    return {document["kind"]: document for document in documents}


def instructions() -> list[list[str]]:
    """Return the instructions of the Containerfile, each as its words."""
    text = re.sub(r"\\\n\s*", "", (EXAMPLE / "Containerfile").read_text())
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_manifest_has_what_the_job_mounts() -> None:
    """The Job's volumes are the claim, the limits and an empty folder; its container mounts all of them, once."""
    documents = manifests()
    pod = documents["Job"]["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    (container,) = pod["containers"]

    assert list(documents) == ["PersistentVolumeClaim", "ConfigMap", "Job"]
    claim = volumes["volume"]["persistentVolumeClaim"]["claimName"]
    assert claim == documents["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["limits"]["configMap"]["name"] == documents["ConfigMap"]["metadata"]["name"]
    assert sorted(mount["name"] for mount in container["volumeMounts"]) == sorted(volumes)


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_manifest_is_valid(version: str) -> None:
    """Each document has the keys and types of the schema of its kind, and no others."""
    documents = manifests()
    for document in documents.values():
        kubernetes_validate.validate(document, version, strict=True)
    documents["Job"]["spec"]["backofflimit"] = documents["Job"]["spec"].pop("backoffLimit")
    with pytest.raises(kubernetes_validate.ValidationError, match="'backofflimit' was unexpected"):
        kubernetes_validate.validate(documents["Job"], version, strict=True)


def test_a_failed_check_is_not_repeated() -> None:
    """Neither the Job nor its pod tries again, so that the exit code is that of the one run."""
    job = manifests()["Job"]["spec"]
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")


@pytest.mark.long
@pytest.mark.parametrize("minimum", [1, 10**9])
def test_the_command_of_the_job_runs_and_returns_its_verdict(
    minimum: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a folder in place of the volume: 0 if all limits are met, 19 if one is not, of etcd or of the node."""
    documents = manifests()
    (container,) = documents["Job"]["spec"]["template"]["spec"]["containers"]
    words = [str(word) for word in container["args"]]
    for mount in container["volumeMounts"]:
        place = tmp_path / mount["name"]
        place.mkdir()
        words = [re.sub(rf"{mount['mountPath']}(?=/|$)", str(place), word) for word in words]
    (limits,) = documents["ConfigMap"]["data"].items()
    (tmp_path / "limits" / limits[0]).write_text(re.sub("minimum = [0-9]+", f"minimum = {minimum}", limits[1]))

    code = main([*words, "--range", "4M"])
    met = {
        check.limit.name: check.met for check in judgements(assess(RunFolder.existing(tmp_path / "results" / "run")))
    }
    assert met == {
        "sync_99_percent_ms at fdatasync": met["sync_99_percent_ms at fdatasync"],  # depends on the disk
        "read_iops at random mix": minimum == 1,
        "write_iops at random mix": minimum == 1,
    }
    assert code == (0 if all(met.values()) else 19)
    assert ("NOT MET" in capsys.readouterr().out) == (code == 19)
    assert list((tmp_path / "volume").iterdir()) == []


@pytest.mark.long
def test_the_image_can_be_built_from_what_it_copies(tmp_path: Path) -> None:
    """These files are enough to build the wheel; the entry point is the program that it installs."""
    copied = [words[1:] for words in instructions() if words[0] == "COPY"]
    for *sources, target in copied:
        for source in sources:
            place = tmp_path / target.strip("/") / (source if target.endswith("/") else "")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / target.strip("/"))
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(tmp_path)!r}))"
    command = [sys.executable, "-c", build]
    done = subprocess.run(command, cwd=tmp_path / "build", check=True, capture_output=True, text=True)
    names = zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]).namelist()
    assert "snia_pts/data/specs/profiles/etcd-node.toml" in names

    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    program = setup["options.entry_points"]["console_scripts"].split("=")[0].strip()
    (entry_point,) = [" ".join(words[1:]) for words in instructions() if words[0] == "ENTRYPOINT"]
    assert json.loads(entry_point) == [f"/opt/snia-pts/bin/{program}"]
