"""Emits the events of the steps and outcomes of a run, and of each complete round."""

from __future__ import annotations

import logging

from ..analysis.window import last_window, sampled_round, sampled_window
from ..model.measurement import MeasuredRound, Measurement, Outcome, Sample, SampledRound
from ..model.steps import ContinuousStimulus, Round, Step
from ..results.builder import sampled_phase
from ..spec import Spec, SteadyStateRule, loop_rule, settling_rule
from .events import OnEvent, OutcomeRecorded, RoundEvaluated, StepStarted

_LOGGER = logging.getLogger(__name__)


class ProgressObserver:
    """Emits events, and evaluates each round for them; the procedure evaluates rounds independently."""

    def __init__(self, spec: Spec, emit: OnEvent) -> None:
        """Set ``replaying`` while outcomes are replayed from a journal: their rounds are not logged again."""
        self._emit = emit
        self.replaying = False
        self._rule, self._settling, self._phase = loop_rule(spec), settling_rule(spec), sampled_phase(spec)
        self._samples_before = self._sampled_bytes = 0
        self._sampled_rounds: list[SampledRound] = []
        self._round_measurements: list[Measurement] = []
        self._rounds: dict[str, list[MeasuredRound]] = {}

    def start_step(self, step: Step) -> None:
        """Emit StepStarted."""
        self._round_measurements = []
        self._emit(StepStarted(step=step))

    def record_outcome(self, step: Step, position: int, outcome: Outcome) -> None:
        """Emit OutcomeRecorded, and RoundEvaluated if the outcome completes a round."""
        self._emit(OutcomeRecorded(step=step, position=position, outcome=outcome))
        if isinstance(step, Round) and isinstance(outcome, Measurement) and self._rule:
            self._round_measurements.append(outcome)
            if len(self._round_measurements) == len(step.stimuli):
                measured_round = MeasuredRound(
                    number=step.number, measurements=tuple(self._round_measurements), complete=True
                )
                self._evaluate(step, measured_round, self._rule)
        elif isinstance(step, ContinuousStimulus) and step.phase == self._phase and self._settling:
            if isinstance(outcome, Measurement):
                self._samples_before += step.samples
            elif isinstance(outcome, Sample):
                self._sampled_bytes += outcome.write_bytes
                fills = step.stimulus.fills(self._sampled_bytes)
                sampled = sampled_round(self._samples_before, outcome, self._settling, fills)
                if sampled is not None:
                    self._sampled_rounds.append(sampled)
                    window = sampled_window(self._sampled_rounds, self._settling)
                    self._emit_round(
                        RoundEvaluated(step=step, rule=self._settling, evaluated_round=sampled, window=window)
                    )

    def _evaluate(self, step: Step, measured_round: MeasuredRound, rule: SteadyStateRule) -> None:
        name = f"{step.kind} {step.part}"
        last = self._rounds[name] = [*self._rounds.get(name, ()), measured_round][-rule.window_rounds :]
        window = last_window(last, rule)
        self._emit_round(RoundEvaluated(step=step, rule=rule, evaluated_round=measured_round, window=window))

    def _emit_round(self, event: RoundEvaluated) -> None:
        if not self.replaying:
            window = event.window
            decision = "steady" if window and window.steady else "not steady" if window else "too few rounds"
            number = "" if isinstance(event.step, Round) else f", round {event.evaluated_round.number}"
            _LOGGER.info("%s%s: %s", event.step.label, number, decision)
        self._emit(event)
