"""A simulated SSD in real time, for real fio: a server of one process, and how a test starts and questions it.

``model`` is the drive, ``server`` its clock, ``nbd`` and ``fuse`` are its two connectors, ``oracle`` keeps what the
drive itself saw, ``drive`` is the test's side.  The drive is slower than a small machine (``slow``), so that the
model is measured and not the machine.
"""
