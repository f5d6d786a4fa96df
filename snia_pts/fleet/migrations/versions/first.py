"""The tables of the first lab, the schema of Procrastinate 3.10 (its own file), and the rights of the roles."""

from __future__ import annotations

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0001"
down_revision = None

_TABLES = """
CREATE TABLE lab_host (
    name text NOT NULL CONSTRAINT pk_lab_host PRIMARY KEY
        CONSTRAINT ck_lab_host_name CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,47}$'),
    maintenance boolean NOT NULL DEFAULT false,
    version text NOT NULL DEFAULT '',
    added timestamptz NOT NULL DEFAULT now(),
    last_seen timestamptz
);
CREATE TABLE lab_drive (
    serial text NOT NULL CONSTRAINT pk_lab_drive PRIMARY KEY
        CONSTRAINT ck_lab_drive_serial CHECK (serial <> '' AND length(serial) <= 100),
    model text NOT NULL DEFAULT '' CONSTRAINT ck_lab_drive_model CHECK (length(model) <= 200),
    claimed_by_host text CONSTRAINT fk_lab_drive_claimed_by_host_lab_host REFERENCES lab_host (name),
    held text NOT NULL DEFAULT '',
    health text NOT NULL DEFAULT 'unknown'
        CONSTRAINT ck_lab_drive_health CHECK (health IN ('good', 'unknown', 'bad', 'retired'))
);
CREATE INDEX ix_lab_drive_claimed_by_host ON lab_drive (claimed_by_host);
CREATE TABLE lab_request (
    run_id uuid NOT NULL CONSTRAINT pk_lab_request PRIMARY KEY,
    host text NOT NULL CONSTRAINT fk_lab_request_host_lab_host REFERENCES lab_host (name),
    serial text NOT NULL CONSTRAINT fk_lab_request_serial_lab_drive REFERENCES lab_drive (serial),
    test text NOT NULL,
    request jsonb NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    campaign text NOT NULL DEFAULT '',
    submitter text NOT NULL DEFAULT session_user,
    submitted timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_lab_request_host ON lab_request (host);
CREATE INDEX ix_lab_request_serial ON lab_request (serial);
CREATE TABLE lab_run (
    run_id uuid NOT NULL CONSTRAINT pk_lab_run PRIMARY KEY
        CONSTRAINT fk_lab_run_run_id_lab_request REFERENCES lab_request (run_id),
    state text NOT NULL DEFAULT 'queued' CONSTRAINT ck_lab_run_state CHECK (state IN
        ('queued', 'running', 'finished', 'stopped', 'failed', 'lost', 'refused', 'cancelled')),
    exit_code integer,
    verdict text NOT NULL DEFAULT '',
    message text NOT NULL DEFAULT '',
    folder text NOT NULL DEFAULT '',
    stop text NOT NULL DEFAULT '' CONSTRAINT ck_lab_run_stop CHECK (stop IN ('', 'point', 'now')),
    resume text NOT NULL DEFAULT '' CONSTRAINT ck_lab_run_resume CHECK (resume IN ('', 'rule', 'from-purge')),
    started timestamptz,
    ended timestamptz
);
CREATE TABLE lab_event (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_lab_event PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    host text NOT NULL DEFAULT '',
    run_id uuid,
    serial text NOT NULL DEFAULT '',
    kind text NOT NULL,
    message text NOT NULL DEFAULT ''
);
CREATE INDEX ix_lab_event_run_id ON lab_event (run_id);
"""

# Roles belong to the server, so that those of another lab on it are used.
_ROLES = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'lab_controller') THEN
        CREATE ROLE lab_controller LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'lab_agent') THEN
        CREATE ROLE lab_agent NOLOGIN;
    END IF;
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
END $$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
"""

# The host of an agent is the end of the name of the role that it logged in with.  In a function of a SECURITY DEFINER,
# current_user is the owner of the function, so that these functions use session_user.
_FUNCTIONS = """
CREATE FUNCTION lab_host_of(role name) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN starts_with(role::text, 'agent_') THEN substr(role::text, 7) END;

CREATE FUNCTION lab_require_host() RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_host_of(session_user);
BEGIN
    IF own IS NULL OR NOT EXISTS (SELECT FROM lab_host WHERE name = own) THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not the role of an agent', session_user);
    END IF;
    RETURN own;
END $$;

-- An agent has started a session: it has these drives, [{"serial": ..., "model": ...}], and no other one.  A drive that
-- another host has claimed stays that host's, until its agent no longer reports it.
CREATE FUNCTION lab_hello(p_version text, p_drives jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
BEGIN
    IF jsonb_array_length(p_drives) > 1000 THEN
        RAISE check_violation USING MESSAGE = 'more than 1000 drives';
    END IF;
    UPDATE lab_host SET version = left(p_version, 100), last_seen = now() WHERE name = own;
    UPDATE lab_drive SET claimed_by_host = NULL
        WHERE claimed_by_host = own AND serial NOT IN (SELECT value->>'serial' FROM jsonb_array_elements(p_drives))
        AND NOT EXISTS (SELECT FROM lab_request JOIN lab_run USING (run_id)
                        WHERE lab_request.serial = lab_drive.serial AND state IN ('queued', 'running'));
    INSERT INTO lab_drive AS known (serial, model, claimed_by_host)
        SELECT value->>'serial', coalesce(value->>'model', ''), own FROM jsonb_array_elements(p_drives)
        ON CONFLICT (serial) DO UPDATE SET model = excluded.model, claimed_by_host = own
            WHERE known.claimed_by_host IS NULL OR known.claimed_by_host = own;
    INSERT INTO lab_event (host, kind, message) VALUES (own, 'agent started', left(p_version, 100));
    INSERT INTO lab_event (host, serial, kind, message)
        SELECT own, serial, 'drive of another host', format('%s has claimed it', claimed_by_host)
        FROM lab_drive WHERE claimed_by_host <> own
        AND serial IN (SELECT value->>'serial' FROM jsonb_array_elements(p_drives));
END $$;

-- The agent calls: returns what people want of each of its runs that has not ended, and why it may not be started.
CREATE FUNCTION lab_heartbeat()
    RETURNS TABLE (run_id uuid, state text, stop text, resume text, obstacle text) LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own text := lab_require_host();
BEGIN
    UPDATE lab_host SET last_seen = now() WHERE name = own;
    RETURN QUERY SELECT run.run_id, run.state, run.stop, run.resume,
        CASE WHEN drive.claimed_by_host IS DISTINCT FROM own THEN 'another host has the drive'
             WHEN drive.health IN ('bad', 'retired') THEN format('the health of the drive is %s', drive.health)
             WHEN drive.held <> '' THEN format('the drive is held: %s', drive.held)
             WHEN host.maintenance THEN 'the host is in maintenance'
             ELSE '' END
        FROM lab_run AS run JOIN lab_request AS request USING (run_id)
        JOIN lab_drive AS drive ON drive.serial = request.serial JOIN lab_host AS host ON host.name = own
        WHERE request.host = own AND run.state IN ('queued', 'running');
END $$;

-- The agent reports where a run of its host stands.  A repeated report changes nothing.
CREATE FUNCTION lab_report(p_run uuid, p_state text, p_exit_code integer, p_verdict text, p_message text, p_folder text)
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    own text := lab_require_host();
    tested text;
BEGIN
    SELECT serial INTO tested FROM lab_request WHERE run_id = p_run AND host = own;
    IF tested IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is not a run of host %s', p_run, own);
    END IF;
    IF p_state NOT IN ('running', 'finished', 'stopped', 'failed', 'lost', 'refused', 'cancelled') THEN
        RAISE check_violation USING MESSAGE = format('%s is not a state that an agent reports', p_state);
    END IF;
    UPDATE lab_run SET state = p_state, exit_code = p_exit_code, verdict = left(p_verdict, 200),
            message = left(p_message, 2000), folder = left(p_folder, 1000), resume = '',
            stop = CASE WHEN p_state = 'running' THEN stop ELSE '' END,
            started = CASE WHEN p_state = 'running' THEN coalesce(started, now()) ELSE started END,
            ended = CASE WHEN p_state = 'running' THEN NULL ELSE now() END
        WHERE run_id = p_run AND (state, resume) IS DISTINCT FROM (p_state, '');
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO lab_event (host, run_id, serial, kind, message)
        VALUES (own, p_run, tested, p_state, left(p_message, 2000));
    UPDATE lab_drive SET held = format('run %s is lost', p_run)
        WHERE serial = tested AND p_state = 'lost' AND held = '';
    UPDATE lab_drive SET health = CASE WHEN p_exit_code = 12 THEN 'bad' ELSE 'good' END
        WHERE serial = tested AND health IN ('unknown', 'good') AND (p_exit_code = 12 OR p_state = 'finished');
END $$;

REVOKE ALL ON FUNCTION lab_require_host, lab_hello, lab_heartbeat, lab_report FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lab_hello, lab_heartbeat, lab_report TO lab_agent;
"""

_RIGHTS = """
-- The workers of an agent are its own, so that none can remove those of another one.
ALTER TABLE procrastinate_workers ADD COLUMN role name NOT NULL DEFAULT current_user;

ALTER TABLE procrastinate_jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE procrastinate_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE procrastinate_workers ENABLE ROW LEVEL SECURITY;
ALTER TABLE lab_request ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_request ON lab_request FOR SELECT TO lab_agent USING (host = lab_host_of(current_user));
CREATE POLICY own_queue ON procrastinate_jobs TO lab_agent
    USING (queue_name = 'host:' || lab_host_of(current_user))
    WITH CHECK (queue_name = 'host:' || lab_host_of(current_user) AND lock =
        (SELECT 'drive:' || serial FROM lab_request WHERE run_id::text = args->>'run_id'));
CREATE POLICY own_job ON procrastinate_events FOR INSERT TO lab_agent
    WITH CHECK (EXISTS (SELECT FROM procrastinate_jobs WHERE id = job_id));
CREATE POLICY own_worker ON procrastinate_workers TO lab_agent
    USING (role = current_user) WITH CHECK (role = current_user);

GRANT SELECT ON lab_request TO lab_agent;
GRANT SELECT, UPDATE (status, worker_id, attempts, abort_requested, scheduled_at, priority, queue_name, lock)
    ON procrastinate_jobs TO lab_agent;
GRANT INSERT ON procrastinate_events TO lab_agent;
GRANT USAGE ON SEQUENCE procrastinate_events_id_seq TO lab_agent;
GRANT SELECT, INSERT, UPDATE (last_heartbeat), DELETE ON procrastinate_workers TO lab_agent;

CREATE POLICY controller ON lab_request TO lab_controller USING (true) WITH CHECK (true);
CREATE POLICY controller ON procrastinate_jobs TO lab_controller USING (true) WITH CHECK (true);
CREATE POLICY controller ON procrastinate_events TO lab_controller USING (true) WITH CHECK (true);
CREATE POLICY controller ON procrastinate_workers FOR SELECT TO lab_controller USING (true);

GRANT SELECT ON lab_host, lab_drive, lab_request, lab_run, lab_event, lab_version TO lab_controller;
GRANT UPDATE (maintenance) ON lab_host TO lab_controller;
GRANT UPDATE (held, health) ON lab_drive TO lab_controller;
GRANT INSERT ON lab_request, lab_run, lab_event TO lab_controller;
GRANT UPDATE (state, stop, resume, message, ended) ON lab_run TO lab_controller;
GRANT SELECT, INSERT, UPDATE ON procrastinate_jobs TO lab_controller;
GRANT SELECT, INSERT ON procrastinate_events TO lab_controller;
GRANT USAGE ON SEQUENCE procrastinate_jobs_id_seq, procrastinate_events_id_seq TO lab_controller;
GRANT SELECT ON procrastinate_workers TO lab_controller;
"""


def upgrade() -> None:
    """Create all tables, functions, roles and rights."""
    connection = op.get_bind()
    for statements in (SchemaManager.get_schema(), _TABLES, _ROLES, _FUNCTIONS, _RIGHTS):
        connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
