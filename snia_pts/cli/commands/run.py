"""The verbs that run or plan tests on a target: one test, or ``all``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...errors import Interrupted, stop_cause
from ...model.run_options import RunOptions
from ...results.limit_checks import judgements, require_met, untested_judgements
from ...results.result import TestResult
from ...runner.caller import Caller
from ...runner.options import split_options
from ...runner.run import FinishedRun, estimate, run
from ...runner.signals import stopped_by_signals
from ...runner.suite import FinishedSuite, estimate_suite, run_suite
from ..notifications.config import load_mail_config
from ..notifications.content import Notification
from ..notifications.notification import notify_on_exit
from ..notifications.webhook import load_webhook_config, public_command_line, webhook_on_exit
from ..options import run_options
from ..parser import BASIC, TESTS
from ..storing import stored_on_exit
from ..text.formatting import json_text
from ..text.lines import print_lines, terminal_width
from ..text.plan import plan_json, plan_lines, suite_json, suite_lines
from ..text.suite import overview_lines
from ..text.terminal import Terminal
from .batch import start_batch


def run_one(arguments: argparse.Namespace) -> int:
    """Run, or plan, the test ``arguments.test``."""
    return run_or_plan(run_options(arguments), arguments)


def run_or_plan(options: RunOptions, arguments: argparse.Namespace) -> int:
    """Run, or plan, the test of these options, and print the result; with --detach, start it as a batch."""
    if arguments.detach or len(arguments.targets) > 1:
        return start_batch((options,), arguments, suite=False)
    if arguments.plan:
        with operator_session(arguments) as (caller, _):
            plan = estimate(options, caller)
        if arguments.json:
            print(json_text(plan_json(plan, plan.dut)))
        else:
            print_lines(plan_lines(plan, plan.dut, arguments.targets[0]))
        return 0
    with operator_session(arguments) as (caller, _):
        return show_run(run(options, caller))


def run_all(arguments: argparse.Namespace) -> int:
    """Run, or plan, several tests one after the other."""
    arguments.test = BASIC[0]
    tests = tuple(TESTS) if arguments.advanced else BASIC
    return run_or_plan_all(split_options(run_options(arguments), tests), arguments)


def run_or_plan_all(options: Sequence[RunOptions], arguments: argparse.Namespace) -> int:
    """Run, or plan, the tests of these options one after the other, and print the results.

    With --detach, starts them as a batch.
    """
    if arguments.detach or len(arguments.targets) > 1:
        return start_batch(options, arguments, suite=True)
    if arguments.plan:
        with operator_session(arguments) as (caller, _):
            estimates = estimate_suite(options, caller)
        if arguments.json:
            print(json_text(suite_json(estimates, estimates[0].dut)))
        else:
            print_lines(suite_lines(estimates, estimates[0].dut, arguments.targets[0]))
        return 0
    with operator_session(arguments) as (caller, notification):
        return show_suite(run_suite(options, caller), notification)


@contextmanager
def operator_session(arguments: argparse.Namespace) -> Iterator[tuple[Caller, Notification]]:
    """Show a run on the terminal, store it, and mail or send its result; yield its Caller, and the mail."""
    with notify_on_exit(load_mail_config(arguments), arguments.afterwards) as notification:
        terminal = Terminal(arguments.progress, notification)
        with (
            stopped_by_signals(),
            stored_on_exit(arguments.store, terminal.on_event) as on_stored,
            webhook_on_exit(load_webhook_config(arguments), on_stored, arguments.afterwards) as on_event,
        ):
            caller = Caller(
                on_event=on_event, confirm=terminal.confirm, command_line=public_command_line(arguments.command_line)
            )
            try:
                yield caller, notification
            finally:
                terminal.close()


def show_run(finished: FinishedRun) -> int:
    """Print the result of a run and where its report is; raises LimitsMissed."""
    from ..text.result import result_lines

    with _printing(finished.folder.path):
        print_lines(result_lines(finished.result, terminal_width(sys.stdout)))
        print_lines(("", f"run folder: {finished.folder.path}"))
        print_lines(f"report:     {path}" for path in finished.reports.values())
    require_met(judgements(finished.result))
    return 0


def show_suite(finished: FinishedSuite, notification: Notification) -> int:
    """Print the results of several tests; raises ReportError if a report failed, and LimitsMissed."""
    notification.verdict = finished.overview.verdict
    with _printing(finished.folder.path):
        print_lines(overview_lines(finished.overview))
        print_lines(("", f"run folder: {finished.folder.path}"))
        print_lines(f"summary:    {path}" for path in finished.reports.values())
    if finished.unreported:
        raise finished.unreported[0]
    _require_limits_met(finished.results)
    return 0


@contextmanager
def _printing(folder: Path) -> Iterator[None]:
    """Raise Interrupted for a stop while the result of the finished run in ``folder`` is printed."""
    try:
        yield
    except KeyboardInterrupt as stop:
        step, hint = "printing the result", "The run is complete; its folder has all results."
        raise Interrupted(cause=stop_cause(stop), step=step, what=folder, hint=hint) from None


def _require_limits_met(results: tuple[TestResult, ...]) -> None:
    judged = [judgement for result in results for judgement in judgements(result)]
    limits = results[0].facts.limits if results else ()
    require_met((*judged, *untested_judgements(limits, [result.facts.spec.test for result in results])))
