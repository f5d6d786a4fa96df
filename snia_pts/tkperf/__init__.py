"""Import results of TKperf (Thomas-Krenn's SSD and HDD tests) as runs, and export runs as its files."""
