"""What the kernel tells of drive and host while a run goes on."""
