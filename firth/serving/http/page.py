"""/docs: the addresses of the server on one page, without scripts and without anything from another server."""

from __future__ import annotations

import html
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color-scheme:light dark}"
    "td,th{text-align:left;padding:.1em 1em .1em 0;vertical-align:top}code{font-family:ui-monospace,monospace}"
)


def page(schema: dict[str, Any]) -> str:
    """From the OpenAPI schema of the application."""
    about = schema["info"]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{_text(about['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{_text(about['title'])} {_text(about['version'])}</h1><p>{_text(about.get('description', ''))}</p>",
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    bodies = schema.get("components", {}).get("schemas", {})
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_text(path)}</code></h2><p>{_text(route.get('description', ''))}</p>")
            content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if name in bodies:
                parts.append(_parameters(bodies[name]))
    return "".join(parts)


def _parameters(body: dict[str, Any]) -> str:
    needed = body.get("required", ())
    rows = [
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(_kind(facts))}</td><td>{_default(name, facts, needed)}</td></tr>"
        for name, facts in body["properties"].items()
    ]
    return f"<table><tr><th>parameter</th><th>type</th><th>default</th></tr>{''.join(rows)}</table>"


def _default(name: str, facts: dict[str, Any], needed: Any) -> str:
    if name in needed:
        return "required"
    return "" if facts.get("default") is None else f"<code>{_text(repr(facts['default']))}</code>"


def _kind(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(kind for one in facts["anyOf"] if (kind := _kind(one)) != "null")
    if "enum" in facts:
        return " or ".join(f'"{value}"' for value in facts["enum"])
    if facts.get("type") == "array":
        return f"list of {_kind(facts.get('items', {}))}"
    return str(facts.get("type") or facts.get("$ref", "").rpartition("/")[2] or "any")


def _text(text: str) -> str:
    return html.escape(text)
