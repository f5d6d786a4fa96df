"""Arrays that the suite creates from drives for a run (docs/array.rst), and the verb ``raid-estimate``."""
