"""Everything that can touch a device or start a program."""
