"""The public library: functions and values that ``snia_pts`` exports; docs/api.rst describes them."""
