"""The files of TKperf (Thomas-Krenn's SSD and HDD tests): read as a run of ours, and written of one."""
