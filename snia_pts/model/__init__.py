"""The values that the suite works on: what is asked for, what is known of device and host, what was measured."""
