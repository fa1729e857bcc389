"""The shape of what a server asks of the client: what is missing in it or of a wrong type, so that none can answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from harness.findings.frames import Ask
from harness.model.outcome import cut, cut_json

__all__ = ["ask_faults"]


def ask_faults(ask: Ask, *, modern: bool) -> Iterator[tuple[str, str]]:
    """(pointer below params, what) for everything that is missing in a request or of a wrong type."""
    params = ask.params if isinstance(ask.params, Mapping) else {}
    match ask.method:
        case "elicitation/create":
            yield from _malformed_elicitation(params, modern)
        case "sampling/createMessage":
            messages = params.get("messages")
            if not isinstance(messages, list) or not all(map(_is_sampling_message, messages)):
                yield "/messages", "messages is no list of objects with role and content"
            most = params.get("maxTokens")
            if not isinstance(most, int | float) or isinstance(most, bool):
                yield "/maxTokens", "maxTokens is no number"
        case "roots/list":
            pass
        case _:
            if not ask.pushed:
                said = f"{cut(ask.method, 100)} is none of" if ask.method else "it has no method, and is none of"
                yield "", f"{said} elicitation/create, sampling/createMessage and roots/list"


def _malformed_elicitation(params: Mapping[str, Any], modern: bool) -> Iterator[tuple[str, str]]:
    if not isinstance(params.get("message"), str):
        yield "/message", "message is no text"
    mode = params.get("mode", "form")
    if mode == "form":
        if not isinstance(params.get("requestedSchema"), Mapping):
            yield "/requestedSchema", "requestedSchema is no object"
    elif mode == "url":
        if not _is_url(params.get("url")):
            yield "/url", f"url is no URL: {cut_json(params.get('url'), 100)}"
        if not modern and not isinstance(params.get("elicitationId"), str):
            yield "/elicitationId", "elicitationId is no text"
    else:
        yield "/mode", f"mode is {cut_json(mode, 60)}, neither form nor url"


def _is_sampling_message(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("role") in ("assistant", "user") and "content" in item


def _is_url(value: Any) -> bool:
    if not isinstance(value, str) or any(char.isspace() for char in value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) and (bool(parts.netloc) or parts.scheme not in ("http", "https"))
