"""Why a host tests no more drives side by side, and how many bytes of results a host may have in the database."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

_COLUMNS = """
ALTER TABLE lab_host ADD COLUMN side_by_side_reason text NOT NULL DEFAULT '';
ALTER TABLE lab_host ADD COLUMN chunk_bytes bigint NOT NULL DEFAULT 0;
UPDATE lab_host SET chunk_bytes = coalesce((SELECT sum(length(content)) FROM lab_chunk
    JOIN lab_request AS request USING (run_id) WHERE request.host = lab_host.name), 0);
"""

_FUNCTIONS = """
-- As lab_facts with two arguments, which older agents call; p_reason is why the host tests no more drives side by side.
CREATE FUNCTION lab_facts(p_side_by_side integer, p_reason text, p_drives jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    PERFORM lab_facts(p_side_by_side, p_drives);
    UPDATE lab_host SET side_by_side_reason = left(p_reason, 500) WHERE name = lab_require_host();
END $$;
REVOKE ALL ON FUNCTION lab_facts(integer, text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lab_facts(integer, text, jsonb) TO lab_agent;

-- Counts the bytes of results that the controller has not received yet from a host: at most 64 GiB, the largest folder.
CREATE FUNCTION lab_add_chunk_bytes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE lab_host SET chunk_bytes = chunk_bytes + added.bytes
        FROM (SELECT request.host, sum(length(chunk.content)) AS bytes FROM added_chunk AS chunk
              JOIN lab_request AS request USING (run_id) GROUP BY request.host) AS added WHERE name = added.host;
    IF EXISTS (SELECT FROM added_chunk AS chunk JOIN lab_request AS request USING (run_id)
               JOIN lab_host AS host ON host.name = request.host WHERE host.chunk_bytes > 68719476736) THEN
        RAISE disk_full USING MESSAGE = 'the database has 64 GiB of results of this host that were not collected';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION lab_subtract_chunk_bytes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    UPDATE lab_host SET chunk_bytes = chunk_bytes - removed.bytes
        FROM (SELECT request.host, sum(length(chunk.content)) AS bytes FROM removed_chunk AS chunk
              JOIN lab_request AS request USING (run_id) GROUP BY request.host) AS removed WHERE name = removed.host;
    RETURN NULL;
END $$;
CREATE TRIGGER lab_add_chunk_bytes AFTER INSERT ON lab_chunk
    REFERENCING NEW TABLE AS added_chunk FOR EACH STATEMENT EXECUTE FUNCTION lab_add_chunk_bytes();
CREATE TRIGGER lab_subtract_chunk_bytes AFTER DELETE ON lab_chunk
    REFERENCING OLD TABLE AS removed_chunk FOR EACH STATEMENT EXECUTE FUNCTION lab_subtract_chunk_bytes();
REVOKE ALL ON FUNCTION lab_add_chunk_bytes, lab_subtract_chunk_bytes FROM PUBLIC;
"""


def upgrade() -> None:
    """Add the columns, the functions and the triggers."""
    connection = op.get_bind()
    for statements in (_COLUMNS, _FUNCTIONS):
        connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
