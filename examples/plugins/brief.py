"""A report format: the verdict, the deviations and the key figures as Markdown, for a ticket."""

from snia_pts.results.key_figures import key_figures
from snia_pts.results.result import TestResult


def brief(result: TestResult) -> bytes:
    """Return the content of report.brief."""
    facts = result.facts
    lines = [f"**{facts.spec.title} test of {facts.dut.summary}: {result.verdict}**", ""]
    lines += [f"* {figure.name}: {figure.value:.6g} {figure.unit}".rstrip() for figure in key_figures(result)]
    lines += [f"* deviation: {deviation.what}: {deviation.actual}" for deviation in result.deviations]
    return "\n".join([*lines, ""]).encode()


def register(registries):
    """Add the report format ``--to brief``."""
    registries.OUTPUTS["brief"] = f"{__name__}:brief"
