"""A folder of profiles: ``snia-pts profile run mail-spool TARGET --plugin .../lab_profiles.py``."""

from pathlib import Path

FOLDER = Path(__file__).parent / "profiles"


def register(registries):
    """Add the profiles in the folder beside this file."""
    registries.PROFILE_FOLDERS["lab"] = f"{__name__}:FOLDER"
