"""What the processes of runs print."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

_TABLE = """
CREATE TABLE lab_output (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_lab_output PRIMARY KEY,
    run_id uuid NOT NULL CONSTRAINT fk_lab_output_run_id_lab_request REFERENCES lab_request (run_id),
    at timestamptz NOT NULL DEFAULT now(),
    start_byte bigint NOT NULL,
    content bytea NOT NULL,
    CONSTRAINT uq_lab_output_run_id_start_byte UNIQUE (run_id, start_byte),
    CONSTRAINT ck_lab_output_content CHECK (length(content) BETWEEN 1 AND 65536)
);
"""

_FUNCTIONS = """
-- Adds output of a run of the host, if it begins where the stored output ends; returns how many bytes are stored, which
-- are at most 4 MiB of a run.
CREATE FUNCTION lab_add_output(p_run uuid, p_start bigint, p_content bytea) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
    stored bigint;
BEGIN
    PERFORM FROM lab_request WHERE run_id = p_run AND host = own FOR UPDATE;
    IF NOT FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not a run of host %s', p_run, own);
    END IF;
    SELECT coalesce(max(start_byte + length(content)), 0) INTO stored FROM lab_output WHERE run_id = p_run;
    IF p_start = stored AND length(p_content) > 0 AND stored + length(p_content) <= 4194304 THEN
        INSERT INTO lab_output (run_id, start_byte, content) VALUES (p_run, p_start, p_content);
        stored := stored + length(p_content);
    END IF;
    RETURN stored;
END $$;

REVOKE ALL ON FUNCTION lab_add_output FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lab_add_output TO lab_agent;
"""

_RIGHTS = """
ALTER TABLE lab_output ENABLE ROW LEVEL SECURITY;
CREATE POLICY controller ON lab_output FOR SELECT TO lab_controller USING (true);
GRANT SELECT ON lab_output TO lab_controller;
"""


def upgrade() -> None:
    """Create the table, the function and the rights."""
    connection = op.get_bind()
    for statements in (_TABLE, _FUNCTIONS, _RIGHTS):
        connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
