"""The points of a test whose rounds are repeats: they are known by name before the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.steps import Stimulus
from ..spec import Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPoint:
    """A point with its position on the axes, and its stimulus, which has its name.

    ``axis_values`` are the values of all axes, including host settings, by the key of the axis.
    """

    axis_values: Mapping[str, Scalar]
    stimulus: Stimulus

    @property
    def name(self) -> str:
        return self.stimulus.name
