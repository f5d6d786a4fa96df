"""Checks the formats of a report before it is written, or before the run that it reports on starts."""

from __future__ import annotations

from collections.abc import Sequence

from .. import registries
from ..errors import ReportError, UsageError
from ..report import DATA_OUTPUTS, DEFAULT_FORMATS, OUTPUTS
from .plugins import load_plugins


def require_formats(formats: tuple[str, ...] | None, plugins: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the formats of a report, the default ones for None.  Those of ``plugins`` are known, too.

    Raises UsageError for an unknown format, ReportError for one that cannot be written on this host.
    """
    if formats is None:
        return DEFAULT_FORMATS
    load_plugins(plugins)
    supported = (*OUTPUTS, *DATA_OUTPUTS, *registries.added_by(plugins, registries.OUTPUTS))
    if unknown := [name for name in formats if name not in supported]:
        detail = f"--to {','.join(formats)}: unknown format {unknown[0]!r}."
        raise UsageError(detail=detail, hint=f"Formats: {', '.join(supported)}; none; or that of a --plugin.")
    if "interactive" in formats:
        from ..report.formats.interactive import require_plotly

        try:
            require_plotly()
        except ReportError as error:
            error.add_note("Or omit interactive from --to. No report was written.")
            raise
    return tuple(dict.fromkeys(formats))
