"""Results that come home in chunks, the facts of drives that a plan needs, and health checks."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_TABLES = """
CREATE TABLE lab_chunk (
    run_id uuid NOT NULL CONSTRAINT fk_lab_chunk_run_id_lab_request REFERENCES lab_request (run_id),
    digest text NOT NULL,
    content bytea NOT NULL,
    CONSTRAINT pk_lab_chunk PRIMARY KEY (run_id, digest),
    CONSTRAINT ck_lab_chunk_content
        CHECK (length(content) BETWEEN 1 AND 1048576 AND digest = encode(sha256(content), 'hex'))
);
CREATE TABLE lab_upload (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_lab_upload PRIMARY KEY,
    run_id uuid NOT NULL CONSTRAINT fk_lab_upload_run_id_lab_request REFERENCES lab_request (run_id),
    digest text NOT NULL,
    manifest bytea NOT NULL,
    sent timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_lab_upload_run_id_digest UNIQUE (run_id, digest),
    CONSTRAINT ck_lab_upload_manifest
        CHECK (length(manifest) <= 33554432 AND digest = encode(sha256(manifest), 'hex'))
);
CREATE TABLE lab_receipt (
    run_id uuid NOT NULL CONSTRAINT fk_lab_receipt_run_id_lab_request REFERENCES lab_request (run_id),
    digest text NOT NULL,
    sent timestamptz NOT NULL,
    received timestamptz NOT NULL DEFAULT now(),
    outcome text NOT NULL CONSTRAINT ck_lab_receipt_outcome CHECK (outcome IN ('stored', 'kept', 'empty', 'refused')),
    message text NOT NULL DEFAULT '',
    CONSTRAINT pk_lab_receipt PRIMARY KEY (run_id, digest)
);
ALTER TABLE lab_host ADD COLUMN side_by_side integer NOT NULL DEFAULT 1;
ALTER TABLE lab_drive ADD COLUMN facts jsonb;
ALTER TABLE lab_request ADD COLUMN health_check boolean NOT NULL DEFAULT false;
"""

_FUNCTIONS = """
-- The agent reports how many runs its host tests side by side, and the facts of its drives,
-- [{"serial": ..., "facts": {...}}]; those of a drive that another host has claimed are ignored.
CREATE FUNCTION lab_facts(p_side_by_side integer, p_drives jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
BEGIN
    IF length(p_drives::text) > 1000000 THEN
        RAISE check_violation USING MESSAGE = 'the facts are too long';
    END IF;
    UPDATE lab_host SET side_by_side = greatest(1, least(p_side_by_side, 1024)) WHERE name = own;
    UPDATE lab_drive SET facts = value->'facts' FROM jsonb_array_elements(p_drives)
        WHERE serial = value->>'serial' AND claimed_by_host = own;
END $$;

-- The runs of the host whose folders the controller does not have as they were when the runs ended.
CREATE FUNCTION lab_unreceived() RETURNS SETOF uuid LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
BEGIN
    RETURN QUERY SELECT run.run_id FROM lab_run AS run JOIN lab_request AS request USING (run_id)
        WHERE request.host = own AND run.state IN ('finished', 'stopped', 'failed', 'lost')
        AND NOT EXISTS (SELECT FROM lab_receipt AS receipt
                        WHERE receipt.run_id = run.run_id AND receipt.sent >= run.ended)
        ORDER BY run.ended;
END $$;

-- A health check that did not pass holds its drive, before the agent can start the next run.
CREATE FUNCTION lab_judge_health_check() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE lab_drive SET held = format('health check %s: %s', left(NEW.run_id::text, 8),
            CASE WHEN NEW.state = 'finished' THEN 'exit code ' || NEW.exit_code ELSE NEW.state END)
        FROM lab_request AS request
        WHERE request.run_id = NEW.run_id AND request.health_check AND lab_drive.serial = request.serial AND held = '';
    RETURN NULL;
END $$;
CREATE TRIGGER lab_health_check AFTER UPDATE OF state ON lab_run FOR EACH ROW
    WHEN (NEW.state NOT IN ('queued', 'running')
          AND (NEW.state <> 'finished' OR NEW.exit_code IS DISTINCT FROM 0))
    EXECUTE FUNCTION lab_judge_health_check();

REVOKE ALL ON FUNCTION lab_facts, lab_unreceived, lab_judge_health_check FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lab_facts, lab_unreceived TO lab_agent;
"""

# An agent adds chunks and manifests of its own runs and sees their digests; it changes and removes nothing.
_RIGHTS = """
ALTER TABLE lab_chunk ENABLE ROW LEVEL SECURITY;
ALTER TABLE lab_upload ENABLE ROW LEVEL SECURITY;
ALTER TABLE lab_receipt ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_chunk ON lab_chunk TO lab_agent USING (EXISTS (SELECT FROM lab_request AS request
    WHERE request.run_id = lab_chunk.run_id AND request.host = lab_host_of(current_user)));
CREATE POLICY own_upload ON lab_upload TO lab_agent USING (EXISTS (SELECT FROM lab_request AS request
    WHERE request.run_id = lab_upload.run_id AND request.host = lab_host_of(current_user)));
CREATE POLICY own_receipt ON lab_receipt FOR SELECT TO lab_agent USING (EXISTS (SELECT FROM lab_request AS request
    WHERE request.run_id = lab_receipt.run_id AND request.host = lab_host_of(current_user)));
GRANT SELECT (run_id, digest), INSERT (run_id, digest, content) ON lab_chunk TO lab_agent;
GRANT SELECT (run_id, digest), INSERT (run_id, digest, manifest) ON lab_upload TO lab_agent;
GRANT SELECT ON lab_receipt TO lab_agent;

CREATE POLICY controller ON lab_chunk TO lab_controller USING (true);
CREATE POLICY controller ON lab_upload TO lab_controller USING (true);
CREATE POLICY controller ON lab_receipt TO lab_controller USING (true);
GRANT SELECT, DELETE ON lab_chunk, lab_upload TO lab_controller;
GRANT SELECT, INSERT, UPDATE ON lab_receipt TO lab_controller;
"""


def upgrade() -> None:
    """Create the tables, functions and rights."""
    connection = op.get_bind()
    for statements in (_TABLES, _FUNCTIONS, _RIGHTS):
        connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
