"""The migrations of the tables of a lab, with those of Procrastinate."""
