"""Whether the service lives and is ready; details only for those who may see everything."""

import asyncio
import time

from fastapi import APIRouter, Request, Response

from retain.core.policy import Principal
from retain.core.service import MemoryService
from retain.domain.errors import EmbeddingError, RetainError
from retain.domain.text import ROOT
from retain.transports.rest.answers import HealthAnswer
from retain.transports.rest.memories import answers
from retain.transports.rest.requests import StrictRoute, json_answer
from retain.version import __version__

router = APIRouter(route_class=StrictRoute, tags=["health"])
_STARTED = time.monotonic()


@router.get("/health/live", responses=answers(HealthAnswer))
async def live() -> Response:
    """Answer as soon as the process does."""
    return json_answer({"status": "healthy"})


@router.get("/health/ready", responses=answers(HealthAnswer, 200, 503))
async def ready(request: Request) -> Response:
    """Answer 200 when the model is loaded and fits the database, which answers; otherwise 503."""
    problem = await _problem(request.app.state.service, request.app.state.loading)
    status = "healthy" if problem is None else "degraded"
    form: dict[str, object] = {"status": status}
    principal: Principal | None = request.state.principal
    if principal is not None and principal.namespace == ROOT and principal.agent_id is None:
        form["version"] = __version__
        form["uptime_s"] = round(time.monotonic() - _STARTED, 1)
        form["problems"] = [] if problem is None else [{"code": problem.code, "detail": str(problem)}]
    return json_answer(form, 200 if problem is None else 503)


@router.get("/health", responses=answers(HealthAnswer, 200, 503))
async def health(request: Request) -> Response:
    """The same as ready."""
    return await ready(request)


async def _problem(service: MemoryService, loading: "asyncio.Task[None] | None") -> RetainError | None:
    if loading is not None and not loading.done():
        return EmbeddingError("the embedding model is being loaded")
    try:
        await service.warm_up()  # at once when it is loaded; what failed at the start may work by now
        await service.require_ready()
    except RetainError as error:
        return error
    return None
