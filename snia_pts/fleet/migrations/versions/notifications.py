"""Which messages about the ends of runs were sent."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_STATEMENTS = """
CREATE INDEX ix_lab_event_at ON lab_event (at);
CREATE TABLE lab_notification (
    event_id bigint NOT NULL CONSTRAINT fk_lab_notification_event_id_lab_event REFERENCES lab_event (id),
    channel text NOT NULL CONSTRAINT ck_lab_notification_channel CHECK (channel IN ('mail', 'webhook')),
    sent timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_lab_notification PRIMARY KEY (event_id, channel)
);
GRANT SELECT, INSERT ON lab_notification TO lab_controller;
"""


def upgrade() -> None:
    """Create the table, its rights, and an index for the recent events."""
    op.get_bind().exec_driver_sql(_STATEMENTS, execution_options={"no_parameters": True})
