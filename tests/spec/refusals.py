"""Requests that are taken or refused, and why."""

from typing import Any

import msgspec
import pytest

from antiphon.spec import Request, SpecError, decode_request

Payload = dict[str, Any]


def accepted(body: Payload | bytes) -> Request:
    return decode_request(body if isinstance(body, bytes) else msgspec.json.encode(body))


def refusal(body: Payload | bytes, **options: Any) -> SpecError:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with pytest.raises(SpecError) as caught:
        decode_request(raw, **options)
    return caught.value
