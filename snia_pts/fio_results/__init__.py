"""Import fio's results as runs: JSON, json+ and the normal output of any job."""
