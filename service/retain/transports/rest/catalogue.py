"""Routes of tags, types and counts."""

from fastapi import APIRouter, Request, Response

from retain.domain.json_form import namespace_count_to_json, stats_to_json, tag_count_to_json, type_count_to_json
from retain.transports.rest.answers import (
    ChangedAnswer,
    NamespacesAnswer,
    NewTypeAnswer,
    StatsAnswer,
    TagsAnswer,
    TypesAnswer,
)
from retain.transports.rest.memories import answers
from retain.transports.rest.requests import Service, StrictRoute, documented_query, json_answer, query_of
from retain.transports.schemas import FilterFields, MergeTagsFields, NewTypeFields, RenameTagFields, TagsFields
from retain.transports.wire import split_texts

router = APIRouter(route_class=StrictRoute, tags=["tags, types, counts"])


@router.get("/tags", responses=answers(TagsAnswer), openapi_extra=documented_query(TagsFields))
async def list_tags(request: Request, service: Service) -> Response:
    """List the tags in use, most used first."""
    fields = query_of(request, TagsFields)
    tags = await service.tags(fields.to_filter(), minimum_use=fields.minimum_use)
    return json_answer({"tags": [tag_count_to_json(count) for count in tags]})


@router.post("/tags/rename", responses=answers(ChangedAnswer))
async def rename_tag(body: RenameTagFields, service: Service) -> Response:
    """Rename a tag everywhere; one that exists already takes it in."""
    return json_answer({"changed": await service.merge_tags([body.old], body.new)})


@router.post("/tags/merge", responses=answers(ChangedAnswer))
async def merge_tags(body: MergeTagsFields, service: Service) -> Response:
    """Replace several tags by one everywhere."""
    sources = split_texts(body.sources, "sources")
    return json_answer({"changed": await service.merge_tags(sources, body.target)})


@router.get("/namespaces", responses=answers(NamespacesAnswer), openapi_extra=documented_query(FilterFields))
async def list_namespaces(request: Request, service: Service) -> Response:
    """List the namespaces in use, by name."""
    counts = await service.namespaces(query_of(request, FilterFields).to_filter())
    return json_answer({"namespaces": [namespace_count_to_json(count) for count in counts]})


@router.get("/types", responses=answers(TypesAnswer))
async def list_types(service: Service) -> Response:
    """List the known types with their use."""
    return json_answer({"types": [type_count_to_json(count) for count in await service.types()]})


@router.post("/types", status_code=201, responses=answers(NewTypeAnswer, 201))
async def add_type(body: NewTypeFields, service: Service) -> Response:
    """Add an own type, optionally below a base type."""
    parent = body.parent or None
    await service.register_type(body.type, parent=parent)
    return json_answer({"type": body.type, "parent": parent}, 201)


@router.get("/stats", responses=answers(StatsAnswer))
async def stats(service: Service) -> Response:
    """Return counts over what the caller may read."""
    return json_answer(stats_to_json(await service.stats()))
