"""The live values of runs in progress."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

_STATEMENTS = """
ALTER TABLE lab_run ADD COLUMN live jsonb, ADD COLUMN series jsonb;

-- The agent reports the live values of a run in progress, and its values over time, at most 64 KiB each; p_hot is not
-- empty if the drive is hot, which is one event of a run.
CREATE FUNCTION lab_report_live(p_run uuid, p_live jsonb, p_series jsonb, p_hot text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
    tested text;
BEGIN
    SELECT serial INTO tested FROM lab_request WHERE run_id = p_run AND host = own;
    IF tested IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not a run of host %s', p_run, own);
    END IF;
    IF greatest(octet_length(p_live::text), octet_length(p_series::text)) > 65536 THEN
        RAISE check_violation USING MESSAGE = 'the live values have more than 64 KiB';
    END IF;
    UPDATE lab_run SET live = p_live, series = p_series WHERE run_id = p_run AND state = 'running';
    IF FOUND AND p_hot <> '' AND NOT EXISTS (SELECT FROM lab_event WHERE run_id = p_run AND kind = 'hot') THEN
        INSERT INTO lab_event (host, run_id, serial, kind, message)
            VALUES (own, p_run, tested, 'hot', left(p_hot, 200));
    END IF;
END $$;
REVOKE ALL ON FUNCTION lab_report_live FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lab_report_live TO lab_agent;
"""


def upgrade() -> None:
    """Add the column and the function."""
    op.get_bind().exec_driver_sql(_STATEMENTS, execution_options={"no_parameters": True})
