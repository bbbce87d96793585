"""The OpenAPI description as one plain HTML page: no script, nothing fetched from elsewhere."""

import json
from html import escape
from typing import Any, cast

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330 }
h2 { margin-top: 2.5rem } summary { cursor: pointer; padding: .4rem 0 }
code, pre { font: 14px/1.45 ui-monospace, monospace; background: #f2f4f8; border-radius: 4px }
code { padding: .1rem .3rem } pre { padding: .6rem .8rem; overflow-x: auto }
b.method { display: inline-block; width: 4.5rem; font-family: ui-monospace, monospace }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; vertical-align: top; padding: .25rem .6rem }
tr + tr { border-top: 1px solid #dde2ea }
@media (prefers-color-scheme: dark) {
  body { background: #14181f; color: #dfe4ec } code, pre { background: #222935 } tr + tr { border-color: #333c4b } }
"""


def openapi_page(description: dict[str, Any], /) -> str:
    """Return the page for an OpenAPI description."""
    info = description["info"]
    schemas = description.get("components", {}).get("schemas", {})
    parts = [f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>", _INTRODUCTION]
    group = ""
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if (tag := operation["tags"][0]) != group:
                group = tag
                parts.append(f"<h2>{escape(group.capitalize())}</h2>")
            parts.append(_operation(method, path, operation, schemas))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])} REST</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{"".join(parts)}</html>'
    )


_INTRODUCTION = (
    "<p>Where the service has keys, each request takes one: <code>Authorization: Bearer KEY</code>. "
    "<code>X-Agent-ID</code> says for which agent a request speaks. Refusals are problem documents (RFC 9457) "
    'with a stable <code>code</code>. For programs: <a href="openapi.json">openapi.json</a>.</p>'
)


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    parts = [
        f'<details><summary><b class="method">{method.upper()}</b> <code>{escape(path)}</code></summary>',
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if parameters := operation.get("parameters"):
        rows = [(item["name"], item.get("schema", {}), item["in"]) for item in parameters]
        parts.append(_table("Parameters", [_row(name, field, place) for name, field, place in rows]))
    if body := operation.get("requestBody"):
        for kind, media in body["content"].items():
            parts.append(f"<p>Body: <code>{escape(kind)}</code></p>")
            parts.append(_fields("Fields", media.get("schema", {}), schemas))
    for status, answer in operation["responses"].items():
        if status != "default":
            schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
            parts.append(_fields(f"Answer {status}", schema, schemas))
    return "".join(parts) + "</details>"


def _fields(title: str, schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    known = schemas.get(str(schema.get("$ref", "")).rpartition("/")[2], {})
    rows = [_row(name, field, "") for name, field in known.get("properties", {}).items()]
    return _table(title, rows) if rows else ""


def _table(title: str, rows: list[str]) -> str:
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"


def _row(name: str, field: dict[str, Any], place: str) -> str:
    default = f", default {json.dumps(field['default'])}" if field.get("default") not in (None, "") else ""
    about = field.get("description", "")
    return (
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field) + default)} {escape(place)}</td>"
        f"<td>{escape(about)}</td></tr>"
    )


def _kind(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return " | ".join(map(str, field["enum"]))
    if "anyOf" in field:
        return " | ".join(_kind(option) for option in field["anyOf"])
    kind = field.get("type", "")
    kinds = " | ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
    return f"{kinds} of {_kind(field['items'])}" if kind == "array" and "items" in field else kinds
