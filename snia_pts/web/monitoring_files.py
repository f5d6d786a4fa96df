"""The alert rules and the dashboard of Grafana in ``packaging/monitoring/``, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: Each alert: its expression, for how long it must hold, and its summary.
ALERTS: Mapping[str, tuple[str, str, str]] = {
    "SniaPtsRunStalled": (
        "time() - snia_pts_run_last_step_timestamp_seconds > 3 * snia_pts_run_longest_step_seconds"
        ' and on (drive) snia_pts_run_state{state="running"} == 1',
        "10m",
        "The run of drive {{ $labels.drive }} has had no result for three times its longest step.",
    ),
    "SniaPtsAgentSilent": (
        "time() - snia_pts_agent_last_seen_timestamp_seconds > 300",
        "1m",
        "The agent of host {{ $labels.host }} has not called for more than 5 minutes.",
    ),
    "SniaPtsDriveHot": (
        "snia_pts_drive_temperature_celsius >= on (drive) snia_pts_drive_warning_temperature_celsius - 3",
        "1m",
        "Drive {{ $labels.drive }} has {{ $value }} °C; it may throttle, and its results are then those of heat.",
    ),
    "SniaPtsDiskLow": (
        "snia_pts_folder_free_bytes < 2e9",
        "1m",
        "The folder of the runs has {{ $value | humanize1024 }}B left; runs end with an error when it is full.",
    ),
    "SniaPtsRunLost": (
        'snia_pts_run_state{state="lost"} == 1',
        "0m",
        "The run of drive {{ $labels.drive }} is lost: its process ended without a result.",
    ),
    "SniaPtsDriveHeld": (
        'snia_pts_drive_state{state="held"} == 1',
        "1h",
        "Drive {{ $labels.drive }} has been held for an hour.",
    ),
    "SniaPtsLimitsMissed": (
        "snia_pts_run_missed_limits == 1",
        "0m",
        "The run of drive {{ $labels.drive }} finished and missed limits.",
    ),
    "SniaPtsIngestFailing": (
        "increase(snia_pts_ingest_failures_total[1h]) > 0",
        "0m",
        "Results were received but not stored; snia-pts lab collect says why, and lab logs RUN keeps that.",
    ),
    "SniaPtsCertificateExpiring": (
        'probe_ssl_earliest_cert_expiry{job="snia-pts-certificate"} - time() < 14 * 86400',
        "1h",
        "The certificate of snia-pts serve expires in {{ $value | humanizeDuration }}.",
    ),
    "SniaPtsQueueStuck": (
        'snia_pts_queue_jobs{state=~"ready|blocked"} > 0',
        "15m",
        "A run on drive {{ $labels.drive }} has been {{ $labels.state }} for 15 minutes.",
    ),
}
#: Each panel: its title, its unit, and its query with its legend.
_PANELS = (
    ("Runs by state", "short", "sum by (state) (snia_pts_run_state)", "{{state}}"),
    ("Progress", "percentunit", "snia_pts_run_progress_ratio", "{{drive}}"),
    ("Remaining time at most", "s", 'snia_pts_run_remaining_seconds{bound="most"}', "{{drive}}"),
    ("Temperature", "celsius", "snia_pts_drive_temperature_celsius", "{{drive}}"),
    ("Tracked variables", "iops", "snia_pts_result_iops", "{{drive}} {{at}}"),
    ("Written", "Bps", "rate(snia_pts_run_write_bytes_total[10m])", "{{drive}}"),
    ("Queue", "short", "sum by (state) (snia_pts_queue_jobs)", "{{state}}"),
    ("Time since the last call of an agent", "s", "time() - snia_pts_agent_last_seen_timestamp_seconds", "{{host}}"),
)
_WIDTH, _HEIGHT = 12, 8


def alert_rules() -> str:
    """Return the rules file for Prometheus: YAML, of which JSON is a part."""
    rules = [
        {
            "alert": name,
            "expr": expression,
            "for": duration,
            "labels": {"severity": "warning"},
            "annotations": {"summary": summary},
        }
        for name, (expression, duration, summary) in ALERTS.items()
    ]
    return _json({"groups": [{"name": "snia-pts", "rules": rules}]})


def dashboard() -> str:
    """Return the dashboard for the import of Grafana, which asks for the data source."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": source,
            "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [{"refId": "A", "expr": query, "legendFormat": legend, "datasource": source}],
        }
        for number, (title, unit, query, legend) in enumerate(_PANELS)
    ]
    variable = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    return _json(
        {
            "__inputs": [],
            "uid": "snia-pts",
            "title": "snia-pts",
            "schemaVersion": 39,
            "time": {"from": "now-24h", "to": "now"},
            "refresh": "1m",
            "templating": {"list": [variable]},
            "panels": panels,
        }
    )


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
