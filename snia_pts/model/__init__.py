"""Value types: what a run is asked for, what is known of device and host, what was measured."""
