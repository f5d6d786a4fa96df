"""The signals that stop a run as Ctrl-C does.

``session`` records the stop in the journal; ``errors`` has its message.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

#: The signals that stop a run like Ctrl-C, and their text in Interrupted.
_STOP_SIGNALS: Mapping[int, str] = {
    signal.SIGTERM: "Terminated (SIGTERM)",
    signal.SIGHUP: "Stopped by a hang-up (SIGHUP)",
}


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop a run as Ctrl-C does, each with its own text; leave SIGHUP ignored under nohup.

    Only the first one raises: another one must not interrupt the end of the run, which the first one started.
    """
    stopping = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt(_STOP_SIGNALS[number])

    handled = [number for number in _STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
