"""Sends what changes to all viewers: one snapshot at a time is read for all of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.responses import StreamingResponse
from starlette.types import Send

from ..errors import SniaPtsError
from .model import Snapshot
from .snapshots import Snapshots

_LOGGER = logging.getLogger(__name__)
#: The pause between two snapshots while there are viewers, and how many times longer than the reading it is at least.
_PAUSE_SECONDS = 0.5
_PAUSE_FACTOR = 4
#: A viewer that has not taken so many events is disconnected; a browser connects again, and gets the present state.
_MAX_WAITING = 8
#: A comment after so long without an event, so that a lost connection is noticed.
_SILENT_SECONDS = 15.0
#: Returns the rows that a kind of viewer shows, as JSON objects by key.
Rows = Callable[[Snapshot], Mapping[str, str]]


@dataclass(eq=False, slots=True)
class _Viewer:
    """A viewer of rows: ``events`` are those that it has yet to take; None ends them."""

    topic: str
    events: asyncio.Queue[str | None] = field(default_factory=lambda: asyncio.Queue(_MAX_WAITING + 1))


class EventStream(StreamingResponse):
    """An answer with events, which are closed as soon as it ends, so that a viewer that is gone is not counted."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"})
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events."""
        async with aclosing(self._events):
            await super().stream_response(send)


class Feed:
    """The changes of a source, as server-sent events."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._viewers: set[_Viewer] = set()
        self._topics: dict[str, Rows] = {}
        self._shown: dict[str, Mapping[str, str]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def viewers(self) -> int:
        """The number of viewers."""
        return len(self._viewers)

    async def events(self, topic: str, rows: Rows) -> AsyncGenerator[str, None]:
        """Yield the present rows of a topic, and then those that change, as events of server-sent events.

        All viewers of a ``topic`` have the same ``rows``, which are computed once for all of them.  Ends if the source
        fails.
        """
        viewer = _Viewer(topic)
        shown = self._shown.get(topic)
        if shown is None:
            try:
                shown = await asyncio.to_thread(lambda: rows(self._snapshots.current()))
            except SniaPtsError as error:
                _LOGGER.warning("%s", error)
                return
            shown = self._shown.setdefault(topic, shown)
        self._topics[topic] = rows
        self._viewers.add(viewer)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_changes())
        try:
            yield _event(shown.values())
            while True:
                try:
                    event = await asyncio.wait_for(viewer.events.get(), _SILENT_SECONDS)
                except TimeoutError:
                    event = ": no change\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._viewers.discard(viewer)

    async def _send_changes(self) -> None:
        """Read snapshots while there are viewers, and send each topic what changed.

        If the source fails, all viewers are disconnected: a browser connects again until it is back.
        """
        try:
            seconds = 0.0
            while self._viewers:
                await asyncio.sleep(max(_PAUSE_SECONDS, _PAUSE_FACTOR * seconds))
                began = time.monotonic()
                for topic in self._topics.keys() - {viewer.topic for viewer in self._viewers}:
                    del self._topics[topic], self._shown[topic]
                rows_by_topic = await asyncio.to_thread(self._read_rows, dict(self._topics))
                for topic, rows in rows_by_topic.items():
                    self._send_rows(topic, rows)
                seconds = time.monotonic() - began
        except SniaPtsError as error:
            _LOGGER.warning("%s", error)
        finally:
            for viewer in self._viewers:
                viewer.events.put_nowait(None)
            self._viewers.clear()
            self._shown.clear()
            self._topics.clear()

    def _read_rows(self, topics: Mapping[str, Rows]) -> dict[str, Mapping[str, str]]:
        """Read a snapshot, and return the rows of each topic."""
        snapshot = self._snapshots.read()
        return {topic: rows(snapshot) for topic, rows in topics.items()}

    def _send_rows(self, topic: str, rows: Mapping[str, str]) -> None:
        before, self._shown[topic] = self._shown[topic], rows
        changed = [row for key, row in rows.items() if before.get(key) != row]
        if changed:
            self._send(topic, _event(changed))

    def _send(self, topic: str, event: str) -> None:
        for viewer in [viewer for viewer in self._viewers if viewer.topic == topic]:
            if viewer.events.qsize() < _MAX_WAITING:
                viewer.events.put_nowait(event)
            else:
                viewer.events.put_nowait(None)
                self._viewers.discard(viewer)


def _event(rows: Iterable[str]) -> str:
    return f"data: [{','.join(rows)}]\n\n"
