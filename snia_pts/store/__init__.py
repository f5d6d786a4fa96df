"""Results of many runs in a database, SQLite or PostgreSQL.  The run folders have all results; a store is a copy."""
