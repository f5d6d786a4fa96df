"""Requests of a lab: data that a host checks before it does anything."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snia_pts.errors import SpecError
from snia_pts.fleet.request import RequestOptions, RunRequest, parse_request, request_json
from snia_pts.model.annotations import Annotations
from snia_pts.model.run_options import RunOptions
from snia_pts.spec.limits import Limit

_DOCUMENT: dict[str, Any] = {
    "run_id": "6a1e2a3c-1111-4222-8333-444455556666",
    "serial": "S64HNE0R500001",
    "model": "EXAMPLE 960",
    "test": "iops",
}


def _mistakes(text: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        parse_request(text)
    return caught.value.mistakes


def test_a_request_survives_its_document() -> None:
    """Every field of a request is the same after it was written and read."""
    limit = Limit(test="iops", metric="iops", at="RND 4 KiB 0/100", unit="IOPS", minimum=10_000.0)
    request = RunRequest(
        run_id=UUID(_DOCUMENT["run_id"]),
        serial="S1",
        model="M 1",
        test="all",
        on_lost="from-purge",
        options=RequestOptions(
            test_class="client",
            pts="1.1",
            overrides=("iops.rounds.maximum=7",),
            purge="nvme-format",
            seed=4711,
            limits=(limit,),
            about=Annotations(operator="A. Tester"),
            formats=("pdf",),
        ),
        labels={"lot": "7"},
    )

    assert parse_request(request_json(request)) == request


def test_options_that_are_not_in_a_document_are_those_of_a_run() -> None:
    """A request without options has the defaults of RunOptions."""
    options, defaults = parse_request(json.dumps(_DOCUMENT)).options, RunOptions(test="iops", target="/dev/x")

    assert {field.name: getattr(options, field.name) for field in fields(RequestOptions)} == {
        field.name: getattr(defaults, field.name) for field in fields(RequestOptions)
    }


def test_no_option_of_a_request_destroys_data_starts_a_program_or_names_a_file() -> None:
    """The options of a request are those of a run without these."""
    ours = {field.name for field in fields(RequestOptions)}

    assert {field.name for field in fields(RunOptions)} - ours == {
        "test",
        "target",
        "specification",
        "size_bytes",
        "overwrite",
        "discard_data",
        "serial",
        "member_run",
        "purge_command",
        "tune",
        "power_command",
        "limits_source",
        "assumed_mb_per_second",
        "run_folder",
        "plugins",
    }


@pytest.mark.parametrize(
    ("change", "mistakes"),
    [
        ({"argv": ["rm", "-rf", "/"]}, "  argv: unknown key"),
        ({"options": {"purge_command": "rm -rf /"}}, "  options.purge_command: unknown key"),
        ({"options": {"overwrite": True}}, "  options.overwrite: unknown key; did you mean overrides?"),
        ({"options": {"plugins": ["plugin.py"]}}, "  options.plugins: unknown key"),
        ({"run_id": "../../etc"}, "  run_id: '../../etc': expected a UUID"),
        ({"run_id": 7}, "  run_id: 7: expected a UUID"),
        ({"serial": ""}, "  serial: '': expected a short line of printable letters"),
        ({"serial": "S1\x1b[2J"}, "  serial: 'S1\\x1b[2J': expected a short line of printable letters"),
        ({"model": "M" * 201}, f"  model: '{'M' * 80}': expected a short line of printable letters"),
        ({"options": {"allow_unpurged": 1}}, "  options.allow_unpurged: 1: expected true or false"),
        ({"options": {"seed": -1}}, "  options.seed: -1: expected a number of at least 0"),
        ({"options": {"stall_seconds": 0}}, "  options.stall_seconds: 0: expected a number of at least 1"),
        ({"labels": {"lot": 7}}, "  labels.lot: 7: expected a text"),
        ({"options": "iops"}, "  options: 'iops': expected a table"),
    ],
)
def test_a_hostile_document_is_refused_with_a_sentence_for_each_mistake(change: dict[str, Any], mistakes: str) -> None:
    """An option that no request may have, a wrong type and an impossible value are named."""
    assert _mistakes(json.dumps({**_DOCUMENT, **change})) == mistakes


def test_all_mistakes_are_listed_at_once() -> None:
    """A document with several mistakes has a line for each."""
    text = json.dumps({"test": "rm", "on_lost": "restart"})

    assert sorted(line.split(":")[0].strip() for line in _mistakes(text).splitlines()) == [
        "model",
        "on_lost",
        "run_id",
        "serial",
        "test",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "[" * 100_000, b"\xff\xfe{", '{"a": 1e999', "{" + " " * 1024 * 1024 + "}", "1" * 5000],
)
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    """A text that is no JSON object, or is too long or too deeply nested, is an error with one line."""
    assert _mistakes(text).startswith("  not readable as JSON: ")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@given(
    st.dictionaries(
        st.sampled_from([field.name for field in fields(RunRequest)]) | st.text(),
        st.dictionaries(st.sampled_from([field.name for field in fields(RequestOptions)]), _JSON) | _JSON,
    )
)
def test_any_document_is_a_request_or_a_list_of_mistakes(change: dict[str, Any]) -> None:
    """No document gives another error, and what is accepted survives."""
    try:
        request = parse_request(json.dumps({**_DOCUMENT, **change}))
    except SpecError:
        return
    assert parse_request(request_json(request)) == request
