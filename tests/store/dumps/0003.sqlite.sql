BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE determination (
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	series TEXT NOT NULL, 
	variable TEXT NOT NULL, 
	average FLOAT, 
	data_excursion_percent FLOAT, 
	slope_excursion_percent FLOAT, 
	steady BOOLEAN NOT NULL, 
	CONSTRAINT pk_determination PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_determination_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "determination" VALUES(1,1,'1024 KiB','SEQ 1024 KiB 0/100',529.53088,1.98019801980198528745e+00,1.98019801980198528745e+00,1);
INSERT INTO "determination" VALUES(1,2,'128 KiB','SEQ 128 KiB 0/100',528.87552,2.47831474597285217331e-01,2.47831474597285217331e-01,1);
INSERT INTO "determination" VALUES(2,1,'Host Idle Recovery Preconditioning','RND 4 KiB 0/100',97134.0,7.24771964502645804628e-01,7.24771964502645804628e-01,1);
CREATE TABLE deviation (
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	standard TEXT NOT NULL, 
	actual TEXT NOT NULL, 
	clause TEXT NOT NULL, 
	CONSTRAINT pk_deviation PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_deviation_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "deviation" VALUES(1,1,'rounds.point_seconds','60 s','0.1 s','2.0.2 chapter 8, p. 35 (1 minute)');
INSERT INTO "deviation" VALUES(1,2,'rounds.maximum','25 (the operator may choose 25 to 1024)','2','2.0.2 chapter 8, p. 35');
INSERT INTO "deviation" VALUES(1,3,'steady_state.window_rounds','5','2','2.0.2 definition 2.1.24');
INSERT INTO "deviation" VALUES(1,4,'device under test','a solid state drive, raw','SIMULATED: Simulated enterprise SATA SSD','PTS chapter 1');
INSERT INTO "deviation" VALUES(2,1,'settling.window_rounds','5','2','2.0.2 definition 2.1.24');
INSERT INTO "deviation" VALUES(2,2,'settling.sample_seconds','60 s','0.5 s','2.0.2 section 11.2.3, 1 minute');
INSERT INTO "deviation" VALUES(2,3,'settling.stride_samples','30 (the operator may choose 30 to 31)','1','2.0.2 section 11.2.3, 30 minutes apart');
INSERT INTO "deviation" VALUES(2,4,'conditioning.maximum','25 (the operator may choose 25 to 1024)','2','2.0.2 section 11.2.3');
INSERT INTO "deviation" VALUES(2,5,'wait_states.access_a_seconds','5 s','0.3 s','2.0.2 chapter 11 (Access A)');
INSERT INTO "deviation" VALUES(2,6,'wait_states.idle_seconds','5, 10, 15, 25, 50 s','0.3, 0.6 s','2.0.2 chapter 11 (Access B; Wait States 1, 2, 3, 5, 10)');
INSERT INTO "deviation" VALUES(2,7,'wait_states.cycles','360','2','2.0.2 chapter 11 (30 minutes of Access A)');
INSERT INTO "deviation" VALUES(2,8,'wait_states.access_c_seconds','1800 s','1 s','2.0.2 chapter 11 (Access C: return to baseline, 30 minutes)');
INSERT INTO "deviation" VALUES(2,9,'wait_states.access_c_sample_seconds','5 s','0.5 s','2.0.2 chapter 11 (Access C)');
INSERT INTO "deviation" VALUES(2,10,'device under test','a solid state drive, raw','SIMULATED: Simulated enterprise SATA SSD','PTS chapter 1');
CREATE TABLE figure (
	run_id INTEGER NOT NULL, 
	metric_id INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	steady BOOLEAN NOT NULL, 
	rounds BLOB NOT NULL, 
	CONSTRAINT pk_figure PRIMARY KEY (run_id, metric_id), 
	CONSTRAINT fk_figure_metric_id_metric FOREIGN KEY(metric_id) REFERENCES metric (id), 
	CONSTRAINT fk_figure_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "figure" VALUES(1,1,540.0,1,X'0000000000E080400000000000E08040');
INSERT INTO "figure" VALUES(1,2,566.23104,1,X'8BE07F2BD9B181408BE07F2BD9B18140');
INSERT INTO "figure" VALUES(1,3,5.92592592592592595215e+01,1,X'13DA4B682FA14D4013DA4B682FA14D40');
INSERT INTO "figure" VALUES(1,4,139.460608,1,X'');
INSERT INTO "figure" VALUES(1,5,505.0,1,X'0000000000407F400000000000E07F40');
INSERT INTO "figure" VALUES(1,6,529.53088,1,X'FCA9F1D24D628040A03715A930B68040');
INSERT INTO "figure" VALUES(1,7,6.33663366336633657746e+01,1,X'01000000000050405F5F5F5F5F5F4F40');
INSERT INTO "figure" VALUES(1,8,1.58334975999999983285e+02,1,X'');
INSERT INTO "figure" VALUES(1,9,4260.0,1,X'0000000000A4B0400000000000A4B040');
INSERT INTO "figure" VALUES(1,10,558.36672,1,X'5036E50AEF7281405036E50AEF728140');
INSERT INTO "figure" VALUES(1,11,7.51173708920187799265e+00,1,X'D616B9CE040C1E40D616B9CE040C1E40');
INSERT INTO "figure" VALUES(1,12,2.37240319999999975668e+01,1,X'');
INSERT INTO "figure" VALUES(1,13,4035.0,1,X'00000000007CAF40000000000090AF40');
INSERT INTO "figure" VALUES(1,14,528.87552,1,X'19FF3EE3C2818040CE70033E3F8C8040');
INSERT INTO "figure" VALUES(1,15,7.93060718711276368964e+00,1,X'9CA9577204C31F409A746A1EE4AE1F40');
INSERT INTO "figure" VALUES(1,16,21.62688,1,X'');
INSERT INTO "figure" VALUES(1,17,3841.000177664,1,X'');
INSERT INTO "figure" VALUES(2,18,97134.0,1,X'00000000E0A0F74000000000E0CCF740');
INSERT INTO "figure" VALUES(2,19,9.70983333333333430321e+04,1,X'');
INSERT INTO "figure" VALUES(2,20,3.97714773333333369018e+02,1,X'');
INSERT INTO "figure" VALUES(2,21,1.31825125731646597415e+00,1,X'');
INSERT INTO "figure" VALUES(2,22,9.3716479999999986461e+00,1,X'');
INSERT INTO "figure" VALUES(2,23,96866.0,1,X'');
INSERT INTO "figure" VALUES(2,24,396.763136,1,X'');
INSERT INTO "figure" VALUES(2,25,1.32141308611896857172e+00,1,X'');
INSERT INTO "figure" VALUES(2,26,9.24057599999999901285e+00,1,X'');
INSERT INTO "figure" VALUES(2,27,96800.0,1,X'');
INSERT INTO "figure" VALUES(2,28,396.4928,1,X'');
INSERT INTO "figure" VALUES(2,29,1.3223140495867768962e+00,1,X'');
INSERT INTO "figure" VALUES(2,30,9.24057599999999901285e+00,1,X'');
INSERT INTO "figure" VALUES(2,31,96968.0,1,X'');
INSERT INTO "figure" VALUES(2,32,397.180928,1,X'');
INSERT INTO "figure" VALUES(2,33,1.32002310040425729908e+00,1,X'');
INSERT INTO "figure" VALUES(2,34,10.15808,1,X'');
INSERT INTO "figure" VALUES(2,35,1.668329472,1,X'');
CREATE TABLE label (
	run_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_label PRIMARY KEY (run_id, name), 
	CONSTRAINT fk_label_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "label" VALUES(1,'project','alpha; ''beta''');
INSERT INTO "label" VALUES(2,'project','alpha; ''beta''');
CREATE TABLE limit_judgement (
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	metric TEXT NOT NULL, 
	at TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	minimum FLOAT, 
	maximum FLOAT, 
	tolerance_percent FLOAT NOT NULL, 
	value FLOAT, 
	met BOOLEAN NOT NULL, 
	reason TEXT NOT NULL, 
	CONSTRAINT pk_limit_judgement PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_limit_judgement_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
CREATE TABLE metric (
	id INTEGER NOT NULL, 
	test TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	at TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	better TEXT, 
	CONSTRAINT pk_metric PRIMARY KEY (id), 
	CONSTRAINT uq_metric_test_metric_at_unit UNIQUE (test, metric, at, unit)
);
INSERT INTO "metric" VALUES(1,'throughput','iops','SEQ 1024 KiB 100/0','IOPS','more');
INSERT INTO "metric" VALUES(2,'throughput','mb_per_second','SEQ 1024 KiB 100/0','MB/s','more');
INSERT INTO "metric" VALUES(3,'throughput','average_response_ms','SEQ 1024 KiB 100/0','ms','less');
INSERT INTO "metric" VALUES(4,'throughput','maximum_response_ms','SEQ 1024 KiB 100/0','ms','less');
INSERT INTO "metric" VALUES(5,'throughput','iops','SEQ 1024 KiB 0/100','IOPS','more');
INSERT INTO "metric" VALUES(6,'throughput','mb_per_second','SEQ 1024 KiB 0/100','MB/s','more');
INSERT INTO "metric" VALUES(7,'throughput','average_response_ms','SEQ 1024 KiB 0/100','ms','less');
INSERT INTO "metric" VALUES(8,'throughput','maximum_response_ms','SEQ 1024 KiB 0/100','ms','less');
INSERT INTO "metric" VALUES(9,'throughput','iops','SEQ 128 KiB 100/0','IOPS','more');
INSERT INTO "metric" VALUES(10,'throughput','mb_per_second','SEQ 128 KiB 100/0','MB/s','more');
INSERT INTO "metric" VALUES(11,'throughput','average_response_ms','SEQ 128 KiB 100/0','ms','less');
INSERT INTO "metric" VALUES(12,'throughput','maximum_response_ms','SEQ 128 KiB 100/0','ms','less');
INSERT INTO "metric" VALUES(13,'throughput','iops','SEQ 128 KiB 0/100','IOPS','more');
INSERT INTO "metric" VALUES(14,'throughput','mb_per_second','SEQ 128 KiB 0/100','MB/s','more');
INSERT INTO "metric" VALUES(15,'throughput','average_response_ms','SEQ 128 KiB 0/100','ms','less');
INSERT INTO "metric" VALUES(16,'throughput','maximum_response_ms','SEQ 128 KiB 0/100','ms','less');
INSERT INTO "metric" VALUES(17,'throughput','written_gb','the whole test','GB',NULL);
INSERT INTO "metric" VALUES(18,'hir','iops','PC, measurement window','IOPS','more');
INSERT INTO "metric" VALUES(19,'hir','iops','Wait State 1, access A','IOPS','more');
INSERT INTO "metric" VALUES(20,'hir','mb_per_second','Wait State 1, access A','MB/s','more');
INSERT INTO "metric" VALUES(21,'hir','average_response_ms','Wait State 1, access A','ms','less');
INSERT INTO "metric" VALUES(22,'hir','maximum_response_ms','Wait State 1, access A','ms','less');
INSERT INTO "metric" VALUES(23,'hir','iops','Wait State 1, access C','IOPS','more');
INSERT INTO "metric" VALUES(24,'hir','mb_per_second','Wait State 1, access C','MB/s','more');
INSERT INTO "metric" VALUES(25,'hir','average_response_ms','Wait State 1, access C','ms','less');
INSERT INTO "metric" VALUES(26,'hir','maximum_response_ms','Wait State 1, access C','ms','less');
INSERT INTO "metric" VALUES(27,'hir','iops','Wait State 2, access A','IOPS','more');
INSERT INTO "metric" VALUES(28,'hir','mb_per_second','Wait State 2, access A','MB/s','more');
INSERT INTO "metric" VALUES(29,'hir','average_response_ms','Wait State 2, access A','ms','less');
INSERT INTO "metric" VALUES(30,'hir','maximum_response_ms','Wait State 2, access A','ms','less');
INSERT INTO "metric" VALUES(31,'hir','iops','Wait State 2, access C','IOPS','more');
INSERT INTO "metric" VALUES(32,'hir','mb_per_second','Wait State 2, access C','MB/s','more');
INSERT INTO "metric" VALUES(33,'hir','average_response_ms','Wait State 2, access C','ms','less');
INSERT INTO "metric" VALUES(34,'hir','maximum_response_ms','Wait State 2, access C','ms','less');
INSERT INTO "metric" VALUES(35,'hir','written_gb','the whole test','GB',NULL);
CREATE TABLE regression_check (
	run_id INTEGER NOT NULL, 
	metric_id INTEGER NOT NULL, 
	finding TEXT NOT NULL, 
	like_runs INTEGER NOT NULL, 
	median FLOAT, 
	tolerance FLOAT, 
	CONSTRAINT pk_regression_check PRIMARY KEY (run_id, metric_id), 
	CONSTRAINT fk_regression_check_metric_id_metric FOREIGN KEY(metric_id) REFERENCES metric (id), 
	CONSTRAINT fk_regression_check_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
INSERT INTO "regression_check" VALUES(1,2,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(1,6,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(1,10,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(1,14,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(2,18,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(2,23,'no basis',0,NULL,NULL);
INSERT INTO "regression_check" VALUES(2,31,'no basis',0,NULL,NULL);
CREATE TABLE run (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	journal_bytes BIGINT NOT NULL, 
	journal_crc32 BIGINT NOT NULL, 
	folder TEXT NOT NULL, 
	name TEXT NOT NULL, 
	test TEXT NOT NULL, 
	test_class TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	spec_sha256 TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	vendor TEXT NOT NULL, 
	model TEXT NOT NULL, 
	serial TEXT NOT NULL, 
	firmware TEXT NOT NULL, 
	capacity_bytes BIGINT NOT NULL, 
	host TEXT NOT NULL, 
	cpu TEXT NOT NULL, 
	engine TEXT NOT NULL, 
	suite_version TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	started TEXT NOT NULL, 
	finished TEXT NOT NULL, 
	ending TEXT NOT NULL, 
	verdict TEXT NOT NULL, 
	steady BOOLEAN, 
	conformant BOOLEAN NOT NULL, 
	seed BIGINT, archive TEXT DEFAULT '' NOT NULL, archive_sha256 TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT pk_run PRIMARY KEY (id), 
	CONSTRAINT uq_run_key UNIQUE ("key")
);
INSERT INTO "run" VALUES(1,'2c7d49d13eaac2bf5c9503abad759c39ab0d75c46114ee2e942131a1c8860471',39269,191234978,'/tmp/tmp8_jplgte/throughput','throughput','throughput','enterprise','PTS-E 2.0.2','293a84271a5e85f67c5310886e06b8a31ad4a6a27d1349414f179ebac4d887bc','simulated','','Simulated enterprise SATA SSD','SIM-ENTERPRISE-SATA','SIM1',960197124096,'host','AMD EPYC','simulation 0.1.0','0.1.0','','2026-11-25T14:30:08.706+00:00','2026-11-25T16:31:36.657+00:00','finished','STEADY STATE BY ALTERED RULES',1,0,4711,'','');
INSERT INTO "run" VALUES(2,'9aca1af78362bc21606bbc04dfb43d0838532c0a70fc5d197f37dd73d4e8bd4b',41229,3818942981,'/tmp/tmp8_jplgte/hir','hir','hir','enterprise','PTS-E 2.0.2','59cdc6490610b2813280ea640d1976294d17a45afad8e85c6560aaaf8a26d4d1','simulated','','Simulated enterprise SATA SSD','SIM-ENTERPRISE-SATA','SIM1',960197124096,'host','AMD EPYC','simulation 0.1.0','0.1.0','','2026-11-25T14:30:08.996+00:00','2026-11-25T14:30:34.996+00:00','finished','STEADY STATE BY ALTERED RULES, preconditioning determined after 0.00 fills of the ActiveRange',1,0,4711,'','');
CREATE TABLE warning (
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	what TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	CONSTRAINT pk_warning PRIMARY KEY (run_id, number), 
	CONSTRAINT fk_warning_run_id_run FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE
);
CREATE INDEX ix_run_serial ON run (serial);
CREATE INDEX ix_run_spec_sha256_model_started ON run (spec_sha256, model, started);
CREATE INDEX ix_run_test_model_started ON run (test, model, started);
CREATE INDEX ix_label_name_value ON label (name, value);
CREATE INDEX ix_figure_metric_id_run_id_value_steady ON figure (metric_id, run_id, value, steady);
COMMIT;
