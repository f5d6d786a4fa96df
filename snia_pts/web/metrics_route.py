"""The route ``/metrics`` of the application."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from .metrics import MEDIA_TYPE, exposition

router = APIRouter()


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """Return the metrics of the application's source for Prometheus."""
    return Response(exposition(request.app.state.snapshots.current()), headers={"Content-Type": MEDIA_TYPE})
