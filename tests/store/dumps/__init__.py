"""A store of each revision of the tables as SQL, ``REVISION.DATABASE.sql``, made by a version that had it."""
