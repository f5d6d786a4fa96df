"""``python -m tests.monitoring`` writes the files in ``packaging/monitoring/`` anew."""

from __future__ import annotations

from pathlib import Path

from snia_pts.web.monitoring_files import alert_rules, dashboard

FOLDER = Path(__file__).parent.parent / "packaging/monitoring"
FILES = {"snia-pts.rules.yml": alert_rules, "snia-pts-dashboard.json": dashboard}

if __name__ == "__main__":
    for name, content in FILES.items():
        (FOLDER / name).write_text(content(), "utf-8")
