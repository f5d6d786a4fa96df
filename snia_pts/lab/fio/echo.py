"""Check that a fio answer belongs to a job file: fio echoes the options that it read.

Measured facts (fio 3.33 and 3.39; the source of 3.42 does the same):

* ``global options`` and ``job options`` contain the options with their values as written.  Jobs that
  ``group_reporting`` adds up have one answer, with the options of the last of them.  Other answers are in the order of
  the sections.
* fio expands a variable in a file name; escaped colons stay escaped.
* fio echoes an option that has two names by its main name (``ba`` for ``blockalign``).
* fio echoes every option of the job file, and ``exec_prerun`` and ``exec_postrun`` of the command line.
* ``jobname`` is the name of the section; jobs that are added up have the name of the first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ...model.steps import Stimulus
from .answer import parse_answer, reject_unreadable
from .job import TARGET, AnswerRejected

_SECTION = re.compile(r"^\[(.+)\]$", re.MULTILINE)
#: The main names of options that the suite writes by another name.
_MAIN_NAMES = {"blockalign": "ba"}
#: The suite always writes these, whatever the options of a stimulus.
_REQUIRED = ("filename", "direct", "ioengine", "iodepth", "rw", "randseed")
#: The options of a stimulus that fio is known to echo by the same name and with the value as written.
_ECHOED_AS_WRITTEN = {"ioengine", "direct"}
#: Options on the command line of a fio whose threads wait for a signal before their I/O (``job.command``).
_HOOKS = {"exec_prerun", "exec_postrun"}


def require_origin(
    job_text: str, answer: str, version: str, target: str = "", uncompared: Collection[str] = ()
) -> None:
    """Check that fio of this ``version`` (``3.33``) gave ``answer`` to the job file; raises AnswerRejected if not.

    See ``require_echo`` for ``target`` and ``uncompared``.
    """
    actual = parse_answer(answer).get("fio version")
    if actual != f"fio-{version}":
        raise AnswerRejected("host", f"expected an answer of fio-{version}, got one of {actual or 'no version'}")
    require_echo(job_text, answer, target, uncompared)


def require_echo(job_text: str, answer: str, target: str = "", uncompared: Collection[str] = ()) -> None:
    """Check that the options echoed in ``answer`` are those of the job file; raises AnswerRejected if not.

    ``target`` is the file name that fio puts in place of the variable in the job file.  The values of ``uncompared``
    options may differ.  fio may echo these by another name: for each one that is missing in the echo, the echo may have
    one option that the job file does not have.
    """
    document = parse_answer(answer)
    with reject_unreadable("fio's output"):
        global_options = document.get("global options") or {}
        job_options = [job.get("job options") or {} for job in document["jobs"]]
        common, *sections = _sections(job_text)
        difference = _difference(common, global_options, target, uncompared)
        if len(job_options) == len(sections):
            pairs = zip(sections, job_options, strict=True)
            difference = difference or max(_difference(section, job, target, uncompared) for section, job in pairs)
        else:  # jobs that are added up: fio echoes the options of one of them
            difference = difference or min(
                (_difference(section, job_options[0], target, uncompared) for section in reversed(sections)),
                key=bool,
                default="",
            )
        names, section_names = [job.get("jobname") for job in document["jobs"]], _SECTION.findall(job_text)[1:]
        if names != section_names[: len(names)]:
            difference = difference or f"expected job {', '.join(section_names)}, got {', '.join(map(str, names))}"
    if difference:
        raise AnswerRejected("host", f"fio's answer belongs to another job: {difference}")


def uncompared_options(stimulus: Stimulus) -> frozenset[str]:
    """Return the options of a stimulus that fio may echo in a different form."""
    return frozenset(dict(stimulus.options).keys() - _ECHOED_AS_WRITTEN)


def job_differences(expected_text: str, actual_text: str, *, only_common: bool = False) -> Iterator[str]:
    """Yield a sentence for each option in which two job files differ, and for the first line, which has the target.

    With ``only_common``, only options that both have are compared: another version of the suite may write others.
    """
    expected_line, actual_line = (text.partition("\n")[0] for text in (expected_text, actual_text))
    if expected_line != actual_line and not only_common:
        yield f"expected {expected_line}, got {actual_line}"
    absent = dict[str, str]()
    for expected, actual in zip_longest(_sections(expected_text), _sections(actual_text), fillvalue=absent):
        for name in expected | actual:
            is_compared = not only_common or (name in expected and name in actual)
            if is_compared and expected.get(name) != actual.get(name):
                yield f"expected {_option(name, expected)}, got {_option(name, actual)}"


def _option(name: str, options: Mapping[str, str]) -> str:
    return f"{name}={options[name]}" if name in options else f"no {name}"


def _difference(
    expected: Mapping[str, str], actual: Mapping[str, Any], target: str, uncompared: Collection[str]
) -> str:
    """Return the first option that differs, with both values; "" if there is no difference."""
    missing = 0
    for name, text in expected.items():
        main_name, value = _MAIN_NAMES.get(name, name), text.replace(f"${{{TARGET}}}", target)
        if main_name not in actual:
            if name not in uncompared or name in _REQUIRED:
                return f"expected {name}={value}, got none"
            missing += 1
        elif name not in uncompared and actual[main_name] not in (text, value):
            return f"expected {name}={value}, got {name}={actual[main_name]}"
    unknown = actual.keys() - {_MAIN_NAMES.get(name, name) for name in expected} - _HOOKS
    if len(unknown) > missing:
        return f"expected no other option, got {', '.join(f'{name}={actual[name]}' for name in sorted(unknown))}"
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
