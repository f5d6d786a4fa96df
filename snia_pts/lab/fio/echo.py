"""Check that a fio answer belongs to a job file: fio echoes the options that it read.

Measured facts (fio 3.33; the source of 3.42 does the same):

* ``global options`` and ``job options`` contain each option as written; a group has those of its last job.  Jobs that
  are not grouped are in the order of their sections.
* fio expands a variable in a file name; escaped colons stay escaped.
* fio may echo an option that has two names by its other name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from .job import TARGET, AnswerRejected

_BEGIN = re.compile(r"^\{", re.MULTILINE)


def require_echo(job_text: str, answer: str, target: str = "", ignored: Collection[str] = ()) -> None:
    """Check that the options echoed in ``answer`` are those of the job file, except the ``ignored`` ones.

    ``target`` is the value of the target's variable.  An option that fio does not echo, or echoes by its other name, is
    accepted.  Raises AnswerRejected on a difference.
    """
    begin = _BEGIN.search(answer)
    document = json.loads(answer[begin.start() :]) if begin else {}
    try:
        global_options = document.get("global options") or {}
        job_options = [job.get("job options") or {} for job in document["jobs"]]
        common, *sections = _sections(job_text)
        difference = _difference(common, global_options, target, ignored)
        if len(job_options) == len(sections):
            pairs = zip(sections, job_options, strict=True)
            difference = difference or max(_difference(section, job, target, ignored) for section, job in pairs)
        else:  # a group: fio echoes the options of one of its jobs
            difference = difference or min(
                (_difference(section, job_options[0], target, ignored) for section in reversed(sections)),
                key=bool,
                default="",
            )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise AnswerRejected("host", f"cannot parse fio's output ({error!r})") from error
    if difference:
        raise AnswerRejected("host", f"fio's answer belongs to another job: {difference}")


def job_differences(expected_text: str, actual_text: str) -> Iterator[str]:
    """Yield a sentence for each option in which two job files differ, and for the first line, which has the target."""
    expected_line, actual_line = (text.partition("\n")[0] for text in (expected_text, actual_text))
    if expected_line != actual_line:
        yield f"expected {expected_line}, got {actual_line}"
    absent = dict[str, str]()
    for expected, actual in zip_longest(_sections(expected_text), _sections(actual_text), fillvalue=absent):
        for name in expected | actual:
            if expected.get(name) != actual.get(name):
                yield f"expected {_option(name, expected)}, got {_option(name, actual)}"


def _option(name: str, options: Mapping[str, str]) -> str:
    return f"{name}={options[name]}" if name in options else f"no {name}"


def _difference(expected: Mapping[str, str], actual: Mapping[str, Any], target: str, ignored: Collection[str]) -> str:
    """Return the first option that differs, with both values; "" if there is no difference."""
    for name, value in expected.items():
        values = {value, value.replace(f"${{{TARGET}}}", target)}
        if name in actual and name not in ignored and str(actual[name]) not in values:
            return f"expected {name}={value.replace(f'${{{TARGET}}}', target)}, got {name}={actual[name]}"
    return ""


def _sections(job_text: str) -> list[dict[str, str]]:
    """Return the options of each section of a job file; the global ones are first."""
    sections: list[dict[str, str]] = []
    for line in job_text.splitlines():
        name, separator, value = line.partition("=")
        if line.startswith("["):
            sections.append({})
        elif separator and sections and not line.startswith("#"):
            sections[-1][name] = value
    return sections
