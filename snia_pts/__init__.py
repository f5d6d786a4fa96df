"""snia-pts: runs the SNIA Solid State Storage Performance Test Specification on a drive."""

import logging

from . import plugins

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())
plugins.register()
