"""The route ``/metrics`` of the application."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from .metrics import exposition

router = APIRouter()


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """Return the metrics of the application's source for Prometheus."""
    return Response(exposition(request.app.state.snapshots.current()), media_type=CONTENT_TYPE_LATEST)
