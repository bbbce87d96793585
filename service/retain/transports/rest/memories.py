"""Routes of memories and sessions."""

from typing import Any

from fastapi import APIRouter, Request, Response

from retain.domain.json_form import (
    deleted_to_json,
    listing_to_json,
    memory_to_json,
    recall_to_json,
    stored_session_to_json,
    stored_to_json,
)
from retain.domain.memory import Stored
from retain.transports.rest.answers import (
    BatchAnswer,
    DeletedAnswer,
    ListingAnswer,
    MemoryAnswer,
    RecallAnswer,
    SessionAnswer,
    StoredAnswer,
)
from retain.transports.rest.requests import (
    IdempotencyKey,
    Service,
    StrictRoute,
    documented_key,
    documented_query,
    json_answer,
    query_of,
)
from retain.transports.schemas import (
    BatchFields,
    CheckedPatchFields,
    DeleteFields,
    IndexedMemoryFields,
    ListFields,
    SearchFields,
    SessionFields,
)
from retain.transports.wire import split_texts

router = APIRouter(route_class=StrictRoute, tags=["memories"])


def answers(model: type, *statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for the OpenAPI page."""
    return {status: {"model": model} for status in statuses or (200,)}


@router.post("/memories", responses=answers(StoredAnswer, 200, 201), openapi_extra=documented_key())
async def store(body: IndexedMemoryFields, service: Service, key: IdempotencyKey) -> Response:
    """Store a memory: 201, or 200 when the same text was there (new tags are added) or its key (it is replaced)."""
    stored = await service.store(body.to_new_memory(), idempotency_key=key)
    return json_answer(stored_to_json(stored), _status([stored]), {"location": f"/api/memories/{stored.memory.id}"})


@router.post("/memories/batch", responses=answers(BatchAnswer, 200, 201), openapi_extra=documented_key())
async def store_batch(body: BatchFields, service: Service, key: IdempotencyKey) -> Response:
    """Store up to 1,000 memories in one transaction, and remove others: all or nothing."""
    stored = await service.store_many(
        body.to_new_memories(), delete=split_texts(body.delete, "delete"), idempotency_key=key
    )
    return json_answer({"stored": [stored_to_json(one) for one in stored]}, _status(stored))


@router.post("/sessions", responses=answers(SessionAnswer, 200, 201), openapi_extra=documented_key())
async def store_session(body: SessionFields, service: Service, key: IdempotencyKey) -> Response:
    """Store a conversation: one memory a turn, or one for the whole session."""
    session = await service.store_session(body.to_turns(), mode=body.mode, idempotency_key=key, **body.to_fields())
    return json_answer(stored_session_to_json(session), _status(session.stored))


@router.post("/memories/search", responses=answers(RecallAnswer))
async def search(body: SearchFields, service: Service) -> Response:
    """Find memories that answer a question, best first; an empty query lists the newest."""
    recall = await service.recall(
        body.query,
        k=body.k,
        mode=body.mode,
        where=body.to_filter(),
        group_by=body.group_by or None,
        min_score=body.min_score,
        time_from_query=body.time_from_query,
    )
    return json_answer(recall_to_json(recall))


@router.post("/memories/delete", responses=answers(DeletedAnswer))
async def delete_many(body: DeleteFields, service: Service) -> Response:
    """Remove all memories that match a filter; `dry_run` shows which."""
    deleted = await service.delete_many(body.to_filter(), dry_run=body.dry_run, expected_count=body.expected_count)
    return json_answer(deleted_to_json(deleted))


@router.get("/memories", responses=answers(ListingAnswer), openapi_extra=documented_query(ListFields))
async def list_memories(request: Request, service: Service) -> Response:
    """List memories, newest first, a page at a time."""
    fields = query_of(request, ListFields)
    return json_answer(listing_to_json(await service.list(fields.to_filter(), fields.to_page())))


@router.get("/memories/{memory_id}", responses=answers(MemoryAnswer))
async def get(memory_id: str, service: Service) -> Response:
    """Return one memory in any state."""
    return json_answer(memory_to_json(await service.get(memory_id)))


@router.patch("/memories/{memory_id}", responses=answers(MemoryAnswer))
async def update(memory_id: str, body: CheckedPatchFields, service: Service) -> Response:
    """Change the given fields; new content is embedded anew."""
    return json_answer(memory_to_json(await service.update(memory_id, body.to_patch())))


@router.delete("/memories/{memory_id}", status_code=204, response_class=Response)
async def delete(memory_id: str, service: Service) -> Response:
    """Remove a memory for good."""
    await service.delete(memory_id)
    return Response(status_code=204)


def _status(stored: "tuple[Stored, ...] | list[Stored]") -> int:
    return 201 if any(one.created for one in stored) else 200
