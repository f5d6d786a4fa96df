"""The man page, from the parser and the table of exit codes."""

from __future__ import annotations

from docutils.core import publish_string
from docutils.writers import manpage

from ..cli.parser import build_parser
from . import generate
from .pages import without_roles

_HEAD = """\
========
snia-pts
========

{summary}
{underline}

:Manual section: 1
:Manual group: snia-pts

SYNOPSIS
========

::

    snia-pts VERB [ARGUMENT...]
    snia-pts VERB --help

DESCRIPTION
===========

{description}

**A test destroys everything on its target.**
``snia-pts docs safety`` shows which drives are refused, and ``snia-pts docs`` lists all pages of the documentation.

VERBS
=====

{verbs}

FILES
=====

``runs/``
    The folders of runs, below the current folder; ``--run-dir`` names another place.

EXIT STATUS
===========

{exit_codes}
"""


def man_page() -> str:
    """Return the man page ``snia-pts.1``."""
    parser = build_parser()
    summary = "test the performance of a drive by the SNIA specification"
    text = _HEAD.format(
        summary=summary,
        underline="~" * len(summary),
        description=parser.description,
        verbs=generate.command_line(),
        exit_codes=generate.exit_codes(),
    )
    settings = {"_disable_config": True, "halt_level": 2, "output_encoding": "unicode"}
    page = publish_string(without_roles(text), writer=manpage.Writer(), settings_overrides=settings)  # type: ignore[no-untyped-call,unused-ignore]
    return str(page)
