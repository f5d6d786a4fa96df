CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.determination (
    run_id bigint NOT NULL,
    number integer NOT NULL,
    series text NOT NULL,
    variable text NOT NULL,
    average double precision,
    data_excursion_percent double precision,
    slope_excursion_percent double precision,
    steady boolean NOT NULL
);
CREATE TABLE public.deviation (
    run_id bigint NOT NULL,
    number integer NOT NULL,
    what text NOT NULL,
    standard text NOT NULL,
    actual text NOT NULL,
    clause text NOT NULL
);
CREATE TABLE public.figure (
    run_id bigint NOT NULL,
    metric_id bigint NOT NULL,
    value double precision NOT NULL,
    steady boolean NOT NULL,
    rounds bytea NOT NULL
);
CREATE TABLE public.label (
    run_id bigint NOT NULL,
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE public.limit_judgement (
    run_id bigint NOT NULL,
    number integer NOT NULL,
    metric text NOT NULL,
    at text NOT NULL,
    unit text NOT NULL,
    minimum double precision,
    maximum double precision,
    tolerance_percent double precision NOT NULL,
    value double precision,
    met boolean NOT NULL,
    reason text NOT NULL
);
CREATE TABLE public.metric (
    id bigint NOT NULL,
    test text NOT NULL,
    metric text NOT NULL,
    at text NOT NULL,
    unit text NOT NULL,
    better text
);
CREATE SEQUENCE public.metric_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.metric_id_seq OWNED BY public.metric.id;
CREATE TABLE public.regression_check (
    run_id bigint NOT NULL,
    metric_id bigint NOT NULL,
    finding text NOT NULL,
    like_runs integer NOT NULL,
    median double precision,
    tolerance double precision
);
CREATE TABLE public.run (
    id bigint NOT NULL,
    key text NOT NULL,
    journal_bytes bigint NOT NULL,
    journal_crc32 bigint NOT NULL,
    folder text NOT NULL,
    name text NOT NULL,
    test text NOT NULL,
    test_class text NOT NULL,
    revision text NOT NULL,
    spec_sha256 text NOT NULL,
    kind text NOT NULL,
    vendor text NOT NULL,
    model text NOT NULL,
    serial text NOT NULL,
    firmware text NOT NULL,
    capacity_bytes bigint NOT NULL,
    host text NOT NULL,
    cpu text NOT NULL,
    engine text NOT NULL,
    suite_version text NOT NULL,
    operator text NOT NULL,
    started text NOT NULL,
    finished text NOT NULL,
    ending text NOT NULL,
    verdict text NOT NULL,
    steady boolean,
    conformant boolean NOT NULL,
    seed bigint,
    archive text DEFAULT ''::text NOT NULL,
    archive_sha256 text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE public.run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.run_id_seq OWNED BY public.run.id;
CREATE TABLE public.warning (
    run_id bigint NOT NULL,
    number integer NOT NULL,
    what text NOT NULL,
    detail text NOT NULL
);
ALTER TABLE ONLY public.metric ALTER COLUMN id SET DEFAULT nextval('public.metric_id_seq'::regclass);
ALTER TABLE ONLY public.run ALTER COLUMN id SET DEFAULT nextval('public.run_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('0003');
INSERT INTO public.determination VALUES (1, 1, '1024 KiB', 'SEQ 1024 KiB 0/100', 529.53088, 1.9801980198019853, 1.9801980198019853, true);
INSERT INTO public.determination VALUES (1, 2, '128 KiB', 'SEQ 128 KiB 0/100', 528.87552, 0.24783147459728522, 0.24783147459728522, true);
INSERT INTO public.determination VALUES (2, 1, 'Host Idle Recovery Preconditioning', 'RND 4 KiB 0/100', 97134, 0.7247719645026458, 0.7247719645026458, true);
INSERT INTO public.deviation VALUES (1, 1, 'rounds.point_seconds', '60 s', '0.1 s', '2.0.2 chapter 8, p. 35 (1 minute)');
INSERT INTO public.deviation VALUES (1, 2, 'rounds.maximum', '25 (the operator may choose 25 to 1024)', '2', '2.0.2 chapter 8, p. 35');
INSERT INTO public.deviation VALUES (1, 3, 'steady_state.window_rounds', '5', '2', '2.0.2 definition 2.1.24');
INSERT INTO public.deviation VALUES (1, 4, 'device under test', 'a solid state drive, raw', 'SIMULATED: Simulated enterprise SATA SSD', 'PTS chapter 1');
INSERT INTO public.deviation VALUES (2, 1, 'settling.window_rounds', '5', '2', '2.0.2 definition 2.1.24');
INSERT INTO public.deviation VALUES (2, 2, 'settling.sample_seconds', '60 s', '0.5 s', '2.0.2 section 11.2.3, 1 minute');
INSERT INTO public.deviation VALUES (2, 3, 'settling.stride_samples', '30 (the operator may choose 30 to 31)', '1', '2.0.2 section 11.2.3, 30 minutes apart');
INSERT INTO public.deviation VALUES (2, 4, 'conditioning.maximum', '25 (the operator may choose 25 to 1024)', '2', '2.0.2 section 11.2.3');
INSERT INTO public.deviation VALUES (2, 5, 'wait_states.access_a_seconds', '5 s', '0.3 s', '2.0.2 chapter 11 (Access A)');
INSERT INTO public.deviation VALUES (2, 6, 'wait_states.idle_seconds', '5, 10, 15, 25, 50 s', '0.3, 0.6 s', '2.0.2 chapter 11 (Access B; Wait States 1, 2, 3, 5, 10)');
INSERT INTO public.deviation VALUES (2, 7, 'wait_states.cycles', '360', '2', '2.0.2 chapter 11 (30 minutes of Access A)');
INSERT INTO public.deviation VALUES (2, 8, 'wait_states.access_c_seconds', '1800 s', '1 s', '2.0.2 chapter 11 (Access C: return to baseline, 30 minutes)');
INSERT INTO public.deviation VALUES (2, 9, 'wait_states.access_c_sample_seconds', '5 s', '0.5 s', '2.0.2 chapter 11 (Access C)');
INSERT INTO public.deviation VALUES (2, 10, 'device under test', 'a solid state drive, raw', 'SIMULATED: Simulated enterprise SATA SSD', 'PTS chapter 1');
INSERT INTO public.figure VALUES (1, 1, 540, true, '\x0000000000e080400000000000e08040');
INSERT INTO public.figure VALUES (1, 2, 566.23104, true, '\x8be07f2bd9b181408be07f2bd9b18140');
INSERT INTO public.figure VALUES (1, 3, 59.25925925925926, true, '\x13da4b682fa14d4013da4b682fa14d40');
INSERT INTO public.figure VALUES (1, 4, 139.460608, true, '\x');
INSERT INTO public.figure VALUES (1, 5, 505, true, '\x0000000000407f400000000000e07f40');
INSERT INTO public.figure VALUES (1, 6, 529.53088, true, '\xfca9f1d24d628040a03715a930b68040');
INSERT INTO public.figure VALUES (1, 7, 63.366336633663366, true, '\x01000000000050405f5f5f5f5f5f4f40');
INSERT INTO public.figure VALUES (1, 8, 158.33497599999998, true, '\x');
INSERT INTO public.figure VALUES (1, 9, 4260, true, '\x0000000000a4b0400000000000a4b040');
INSERT INTO public.figure VALUES (1, 10, 558.36672, true, '\x5036e50aef7281405036e50aef728140');
INSERT INTO public.figure VALUES (1, 11, 7.511737089201878, true, '\xd616b9ce040c1e40d616b9ce040c1e40');
INSERT INTO public.figure VALUES (1, 12, 23.724031999999998, true, '\x');
INSERT INTO public.figure VALUES (1, 13, 4035, true, '\x00000000007caf40000000000090af40');
INSERT INTO public.figure VALUES (1, 14, 528.87552, true, '\x19ff3ee3c2818040ce70033e3f8c8040');
INSERT INTO public.figure VALUES (1, 15, 7.930607187112764, true, '\x9ca9577204c31f409a746a1ee4ae1f40');
INSERT INTO public.figure VALUES (1, 16, 21.62688, true, '\x');
INSERT INTO public.figure VALUES (1, 17, 3841.000177664, true, '\x');
INSERT INTO public.figure VALUES (2, 18, 97134, true, '\x00000000e0a0f74000000000e0ccf740');
INSERT INTO public.figure VALUES (2, 19, 97098.33333333334, true, '\x');
INSERT INTO public.figure VALUES (2, 20, 397.71477333333337, true, '\x');
INSERT INTO public.figure VALUES (2, 21, 1.318251257316466, true, '\x');
INSERT INTO public.figure VALUES (2, 22, 9.371647999999999, true, '\x');
INSERT INTO public.figure VALUES (2, 23, 96866, true, '\x');
INSERT INTO public.figure VALUES (2, 24, 396.763136, true, '\x');
INSERT INTO public.figure VALUES (2, 25, 1.3214130861189686, true, '\x');
INSERT INTO public.figure VALUES (2, 26, 9.240575999999999, true, '\x');
INSERT INTO public.figure VALUES (2, 27, 96800, true, '\x');
INSERT INTO public.figure VALUES (2, 28, 396.4928, true, '\x');
INSERT INTO public.figure VALUES (2, 29, 1.322314049586777, true, '\x');
INSERT INTO public.figure VALUES (2, 30, 9.240575999999999, true, '\x');
INSERT INTO public.figure VALUES (2, 31, 96968, true, '\x');
INSERT INTO public.figure VALUES (2, 32, 397.180928, true, '\x');
INSERT INTO public.figure VALUES (2, 33, 1.3200231004042573, true, '\x');
INSERT INTO public.figure VALUES (2, 34, 10.15808, true, '\x');
INSERT INTO public.figure VALUES (2, 35, 1.668329472, true, '\x');
INSERT INTO public.label VALUES (1, 'project', 'alpha; ''beta''');
INSERT INTO public.label VALUES (2, 'project', 'alpha; ''beta''');
INSERT INTO public.metric VALUES (1, 'throughput', 'iops', 'SEQ 1024 KiB 100/0', 'IOPS', 'more');
INSERT INTO public.metric VALUES (2, 'throughput', 'mb_per_second', 'SEQ 1024 KiB 100/0', 'MB/s', 'more');
INSERT INTO public.metric VALUES (3, 'throughput', 'average_response_ms', 'SEQ 1024 KiB 100/0', 'ms', 'less');
INSERT INTO public.metric VALUES (4, 'throughput', 'maximum_response_ms', 'SEQ 1024 KiB 100/0', 'ms', 'less');
INSERT INTO public.metric VALUES (5, 'throughput', 'iops', 'SEQ 1024 KiB 0/100', 'IOPS', 'more');
INSERT INTO public.metric VALUES (6, 'throughput', 'mb_per_second', 'SEQ 1024 KiB 0/100', 'MB/s', 'more');
INSERT INTO public.metric VALUES (7, 'throughput', 'average_response_ms', 'SEQ 1024 KiB 0/100', 'ms', 'less');
INSERT INTO public.metric VALUES (8, 'throughput', 'maximum_response_ms', 'SEQ 1024 KiB 0/100', 'ms', 'less');
INSERT INTO public.metric VALUES (9, 'throughput', 'iops', 'SEQ 128 KiB 100/0', 'IOPS', 'more');
INSERT INTO public.metric VALUES (10, 'throughput', 'mb_per_second', 'SEQ 128 KiB 100/0', 'MB/s', 'more');
INSERT INTO public.metric VALUES (11, 'throughput', 'average_response_ms', 'SEQ 128 KiB 100/0', 'ms', 'less');
INSERT INTO public.metric VALUES (12, 'throughput', 'maximum_response_ms', 'SEQ 128 KiB 100/0', 'ms', 'less');
INSERT INTO public.metric VALUES (13, 'throughput', 'iops', 'SEQ 128 KiB 0/100', 'IOPS', 'more');
INSERT INTO public.metric VALUES (14, 'throughput', 'mb_per_second', 'SEQ 128 KiB 0/100', 'MB/s', 'more');
INSERT INTO public.metric VALUES (15, 'throughput', 'average_response_ms', 'SEQ 128 KiB 0/100', 'ms', 'less');
INSERT INTO public.metric VALUES (16, 'throughput', 'maximum_response_ms', 'SEQ 128 KiB 0/100', 'ms', 'less');
INSERT INTO public.metric VALUES (17, 'throughput', 'written_gb', 'the whole test', 'GB', NULL);
INSERT INTO public.metric VALUES (18, 'hir', 'iops', 'PC, measurement window', 'IOPS', 'more');
INSERT INTO public.metric VALUES (19, 'hir', 'iops', 'Wait State 1, access A', 'IOPS', 'more');
INSERT INTO public.metric VALUES (20, 'hir', 'mb_per_second', 'Wait State 1, access A', 'MB/s', 'more');
INSERT INTO public.metric VALUES (21, 'hir', 'average_response_ms', 'Wait State 1, access A', 'ms', 'less');
INSERT INTO public.metric VALUES (22, 'hir', 'maximum_response_ms', 'Wait State 1, access A', 'ms', 'less');
INSERT INTO public.metric VALUES (23, 'hir', 'iops', 'Wait State 1, access C', 'IOPS', 'more');
INSERT INTO public.metric VALUES (24, 'hir', 'mb_per_second', 'Wait State 1, access C', 'MB/s', 'more');
INSERT INTO public.metric VALUES (25, 'hir', 'average_response_ms', 'Wait State 1, access C', 'ms', 'less');
INSERT INTO public.metric VALUES (26, 'hir', 'maximum_response_ms', 'Wait State 1, access C', 'ms', 'less');
INSERT INTO public.metric VALUES (27, 'hir', 'iops', 'Wait State 2, access A', 'IOPS', 'more');
INSERT INTO public.metric VALUES (28, 'hir', 'mb_per_second', 'Wait State 2, access A', 'MB/s', 'more');
INSERT INTO public.metric VALUES (29, 'hir', 'average_response_ms', 'Wait State 2, access A', 'ms', 'less');
INSERT INTO public.metric VALUES (30, 'hir', 'maximum_response_ms', 'Wait State 2, access A', 'ms', 'less');
INSERT INTO public.metric VALUES (31, 'hir', 'iops', 'Wait State 2, access C', 'IOPS', 'more');
INSERT INTO public.metric VALUES (32, 'hir', 'mb_per_second', 'Wait State 2, access C', 'MB/s', 'more');
INSERT INTO public.metric VALUES (33, 'hir', 'average_response_ms', 'Wait State 2, access C', 'ms', 'less');
INSERT INTO public.metric VALUES (34, 'hir', 'maximum_response_ms', 'Wait State 2, access C', 'ms', 'less');
INSERT INTO public.metric VALUES (35, 'hir', 'written_gb', 'the whole test', 'GB', NULL);
INSERT INTO public.regression_check VALUES (1, 2, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (1, 6, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (1, 10, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (1, 14, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (2, 18, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (2, 23, 'no basis', 0, NULL, NULL);
INSERT INTO public.regression_check VALUES (2, 31, 'no basis', 0, NULL, NULL);
INSERT INTO public.run VALUES (1, '2c7d49d13eaac2bf5c9503abad759c39ab0d75c46114ee2e942131a1c8860471', 39269, 191234978, '/tmp/tmp8_jplgte/throughput', 'throughput', 'throughput', 'enterprise', 'PTS-E 2.0.2', '293a84271a5e85f67c5310886e06b8a31ad4a6a27d1349414f179ebac4d887bc', 'simulated', '', 'Simulated enterprise SATA SSD', 'SIM-ENTERPRISE-SATA', 'SIM1', 960197124096, 'host', 'AMD EPYC', 'simulation 0.1.0', '0.1.0', '', '2026-11-25T14:30:08.706+00:00', '2026-11-25T16:31:36.657+00:00', 'finished', 'STEADY STATE BY ALTERED RULES', true, false, 4711, '', '');
INSERT INTO public.run VALUES (2, '9aca1af78362bc21606bbc04dfb43d0838532c0a70fc5d197f37dd73d4e8bd4b', 41229, 3818942981, '/tmp/tmp8_jplgte/hir', 'hir', 'hir', 'enterprise', 'PTS-E 2.0.2', '59cdc6490610b2813280ea640d1976294d17a45afad8e85c6560aaaf8a26d4d1', 'simulated', '', 'Simulated enterprise SATA SSD', 'SIM-ENTERPRISE-SATA', 'SIM1', 960197124096, 'host', 'AMD EPYC', 'simulation 0.1.0', '0.1.0', '', '2026-11-25T14:30:08.996+00:00', '2026-11-25T14:30:34.996+00:00', 'finished', 'STEADY STATE BY ALTERED RULES, preconditioning determined after 0.00 fills of the ActiveRange', true, false, 4711, '', '');
SELECT pg_catalog.setval('public.metric_id_seq', 35, true);
SELECT pg_catalog.setval('public.run_id_seq', 2, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.determination
    ADD CONSTRAINT pk_determination PRIMARY KEY (run_id, number);
ALTER TABLE ONLY public.deviation
    ADD CONSTRAINT pk_deviation PRIMARY KEY (run_id, number);
ALTER TABLE ONLY public.figure
    ADD CONSTRAINT pk_figure PRIMARY KEY (run_id, metric_id);
ALTER TABLE ONLY public.label
    ADD CONSTRAINT pk_label PRIMARY KEY (run_id, name);
ALTER TABLE ONLY public.limit_judgement
    ADD CONSTRAINT pk_limit_judgement PRIMARY KEY (run_id, number);
ALTER TABLE ONLY public.metric
    ADD CONSTRAINT pk_metric PRIMARY KEY (id);
ALTER TABLE ONLY public.regression_check
    ADD CONSTRAINT pk_regression_check PRIMARY KEY (run_id, metric_id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT pk_run PRIMARY KEY (id);
ALTER TABLE ONLY public.warning
    ADD CONSTRAINT pk_warning PRIMARY KEY (run_id, number);
ALTER TABLE ONLY public.metric
    ADD CONSTRAINT uq_metric_test_metric_at_unit UNIQUE (test, metric, at, unit);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT uq_run_key UNIQUE (key);
CREATE INDEX ix_figure_metric_id_run_id_value_steady ON public.figure USING btree (metric_id, run_id, value, steady);
CREATE INDEX ix_label_name_value ON public.label USING btree (name, value);
CREATE INDEX ix_run_serial ON public.run USING btree (serial);
CREATE INDEX ix_run_spec_sha256_model_started ON public.run USING btree (spec_sha256, model, started);
CREATE INDEX ix_run_test_model_started ON public.run USING btree (test, model, started);
ALTER TABLE ONLY public.determination
    ADD CONSTRAINT fk_determination_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.deviation
    ADD CONSTRAINT fk_deviation_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.figure
    ADD CONSTRAINT fk_figure_metric_id_metric FOREIGN KEY (metric_id) REFERENCES public.metric(id);
ALTER TABLE ONLY public.figure
    ADD CONSTRAINT fk_figure_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.label
    ADD CONSTRAINT fk_label_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.limit_judgement
    ADD CONSTRAINT fk_limit_judgement_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.regression_check
    ADD CONSTRAINT fk_regression_check_metric_id_metric FOREIGN KEY (metric_id) REFERENCES public.metric(id);
ALTER TABLE ONLY public.regression_check
    ADD CONSTRAINT fk_regression_check_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.warning
    ADD CONSTRAINT fk_warning_run_id_run FOREIGN KEY (run_id) REFERENCES public.run(id) ON DELETE CASCADE;
