"""The OpenAPI description as one plain HTML page: no script, nothing fetched from elsewhere."""

import json
from html import escape
from typing import Any, cast

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330 }
h2 { margin-top: 2.5rem } summary { cursor: pointer; padding: .4rem 0 } summary span { color: #5b6576 }
details { border-bottom: 1px solid #dde2ea } details[open] { padding-bottom: 1.5rem }
code { font: 14px/1.45 ui-monospace, monospace; background: #f2f4f8; border-radius: 4px; padding: .1rem .3rem }
b.method { display: inline-block; width: 4.5rem; font-family: ui-monospace, monospace }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 } caption { text-align: left; font-weight: 600 }
td, th { text-align: left; vertical-align: top; padding: .25rem .6rem } th { font-weight: 400; color: #5b6576 }
td:first-child { width: 14rem } td:nth-child(2) { width: 14rem } tr + tr { border-top: 1px solid #dde2ea }
@media (prefers-color-scheme: dark) {
  body { background: #14181f; color: #dfe4ec } code { background: #222935 } a { color: #8ab4f8 }
  details, tr + tr { border-color: #333c4b } summary span, th { color: #97a1b3 } }
"""
_INTRODUCTION = (
    "<p>Where the service has keys, each request takes one: <code>Authorization: Bearer KEY</code>. "
    "<code>X-Agent-ID</code> says for which agent a request speaks. Refusals are problem documents (RFC 9457) "
    'with a stable <code>code</code>. For programs: <a href="openapi.json">openapi.json</a>.</p>'
)

Schema = dict[str, Any]


def openapi_page(description: dict[str, Any], /) -> str:
    """Return the page for an OpenAPI description."""
    title, about = (escape(description["info"][name]) for name in ("title", "description"))
    schemas = description.get("components", {}).get("schemas", {})
    parts = [f"<h1>{title}</h1><p>{about}</p>", _INTRODUCTION]
    group = ""
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if (tag := operation["tags"][0]) != group:
                group = tag
                parts.append(f"<h2>{escape(group.capitalize())}</h2>")
            parts.append(_operation(method, path, operation, schemas))
    parts.append("<h2>Shapes</h2><p>What the bodies and answers above are made of.</p>")
    parts += [
        f'<div id="{escape(name)}">{_fields(name, schema)}</div>'
        for name, schema in sorted(schemas.items())
        if "properties" in schema
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} REST</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{"".join(parts)}</html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Schema]) -> str:
    parts = [
        f'<details><summary><b class="method">{method.upper()}</b> <code>{escape(path)}</code> '
        f"<span>{escape(operation.get('description', ''))}</span></summary>"
    ]
    if parameters := operation.get("parameters"):
        rows = [_row(p["name"], p.get("schema", {}), p["in"], p.get("required", False)) for p in parameters]
        parts.append(_table("Parameters", rows))
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(_fields(f"Body, {kind}", _known(media.get("schema", {}), schemas)))
    answers: dict[str, list[str]] = {}
    for status, answer in operation["responses"].items():
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if status != "default" and "$ref" in schema:
            answers.setdefault(schema["$ref"], []).append(status)
    parts += [
        _fields(f"Answer {', '.join(statuses)}", _known({"$ref": ref}, schemas)) for ref, statuses in answers.items()
    ]
    return "".join(parts) + "</details>"


def _known(schema: Schema, schemas: dict[str, Schema]) -> Schema:
    return schemas.get(_name(schema), {})


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _fields(title: str, schema: Schema) -> str:
    required = schema.get("required", ())
    rows = [_row(name, field, "", name in required) for name, field in schema.get("properties", {}).items()]
    return _table(title, rows) if rows else ""


def _table(title: str, rows: list[str]) -> str:
    heading = "<tr><th>name</th><th>kind</th><th>meaning</th></tr>"
    return f"<table><caption>{escape(title)}</caption>{heading}{''.join(rows)}</table>"


def _row(name: str, field: Schema, place: str, required: bool) -> str:
    notes = [place] if place else []
    notes += ["required"] if required else []
    if field.get("default") not in (None, "", {}):
        notes.append(f"default {json.dumps(field['default'])}")
    about = field.get("description", "")
    beside = f"<br>{escape(', '.join(notes))}" if notes else ""
    return f"<tr><td><code>{escape(name)}</code></td><td>{_kind(field)}{beside}</td><td>{escape(about)}</td></tr>"


def _kind(field: Schema) -> str:
    """Return the kind of a value as HTML; shapes are links to their table."""
    if name := escape(_name(field)):
        return f'<a href="#{name}">{name}</a>'
    if "enum" in field:
        return " | ".join(escape(str(value)) for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(_kind(option) for option in field["anyOf"])
    kind = field.get("type", "")
    kinds = " | ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
    return f"{escape(kinds)} of {_kind(field['items'])}" if kind == "array" and "items" in field else escape(kinds)
