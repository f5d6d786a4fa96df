"""Whether an answer of fio's is that of a job file: fio repeats in it the options that it read.

Measured facts (fio 3.33; the source of 3.42 does the same):

* ``global options`` and ``job options`` hold each option as it was written; that of a group is its last job's.  Where
  jobs are not grouped they come in the order of their sections.
* A variable in a file name is expanded, and escaped colons stay so.
* An option with two names comes back by one of them, which may be the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from .job import TARGET, AnswerRejected

_BEGIN = re.compile(r"^\{", re.MULTILINE)


def require_echo(job_text: str, answer: str, target: str = "", ignored: Collection[str] = ()) -> None:
    """Raise Refused where fio repeats an option otherwise than the job file has it, but for the ``ignored`` ones.

    ``target`` is what stood for the target's variable.  Versions that repeat nothing, or an option by its other name,
    are believed.
    """
    begin = _BEGIN.search(answer)
    document = json.loads(answer[begin.start() :]) if begin else {}
    try:
        found = document.get("global options") or {}
        jobs = [job.get("job options") or {} for job in document["jobs"]]
        common, *sections = _sections(job_text)
        difference = _difference(common, found, target, ignored)
        if len(jobs) == len(sections):
            pairs = zip(sections, jobs, strict=True)
            difference = difference or max(_difference(section, job, target, ignored) for section, job in pairs)
        else:  # a group, of which fio repeats the options of one job
            difference = difference or min(
                (_difference(section, jobs[0], target, ignored) for section in reversed(sections)),
                key=bool,
                default="",
            )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise AnswerRejected("host", f"fio's output is not understood ({error!r})") from error
    if difference:
        raise AnswerRejected("host", f"fio's answer is that of another job: {difference}")


def _difference(expected: Mapping[str, str], found: Mapping[str, Any], target: str, ignored: Collection[str]) -> str:
    """Return the first option that differs, with both values; nothing where none does."""
    for name, value in expected.items():
        values = {value, value.replace(f"${{{TARGET}}}", target)}
        if name in found and name not in ignored and str(found[name]) not in values:
            return f"expected {name}={value.replace(f'${{{TARGET}}}', target)}, got {name}={found[name]}"
    return ""


def _sections(job_text: str) -> list[dict[str, str]]:
    """Return the options of each section of a job file, those for all first."""
    sections: list[dict[str, str]] = []
    for line in job_text.splitlines():
        name, separator, value = line.partition("=")
        if line.startswith("["):
            sections.append({})
        elif separator and not line.startswith("#"):
            sections[-1][name] = value
    return sections
