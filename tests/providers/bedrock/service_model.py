"""A strict reading of botocore's service model: what AWS's own SDK knows about a request of ours.

Its `ParamValidator` looks at types, unknown and missing keys, unions and lower limits; enumerations,
patterns and upper limits are checked here.
"""

import base64
import binascii
import re
from functools import cache
from typing import Any
from urllib.parse import unquote

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.validate import ParamValidator

from tests.providers.fake_server import Received

_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream|count-tokens)")
_OPERATIONS = {"converse": "Converse", "converse-stream": "ConverseStream", "count-tokens": "CountTokens"}


@cache
def _service() -> Any:
    return botocore.session.get_session().get_service_model("bedrock-runtime")


def operation(received: Received) -> str | None:
    found = _PATH.fullmatch(received.path)
    return _OPERATIONS[found[2]] if found else None


def mistakes(received: Received) -> list[str]:
    """Everything about a request that does not fit the operation which its path names."""
    found = _PATH.fullmatch(received.path)
    if found is None:
        return [f"there is no operation at {received.path}"]
    shape = _service().operation_model(_OPERATIONS[found[2]]).input_shape
    wrong: list[str] = []
    params = _read({"modelId": unquote(found[1]), **received.body}, shape, "$", wrong)
    report = ParamValidator().validate(params, shape)
    return wrong + (report.generate_report().splitlines() if report.has_errors() else [])


def _read(value: Any, shape: Any, path: str, wrong: list[str]) -> Any:
    """The value as boto3 takes it, with bytes in place of base64."""
    match shape.type_name, value:
        case "structure", dict() if not shape.is_document_type:
            members = shape.members
            return {
                name: _read(one, members[name], f"{path}.{name}", wrong) if name in members else one
                for name, one in value.items()
            }
        case "list", list():
            _limits(len(value), shape, path, wrong)
            return [_read(one, shape.member, f"{path}[{n}]", wrong) for n, one in enumerate(value)]
        case "map", dict():
            return {name: _read(one, shape.value, f"{path}.{name}", wrong) for name, one in value.items()}
        case "blob", str():
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error:
                wrong.append(f"{path}: no base64")
        case "string", str():
            _limits(len(value), shape, path, wrong)
            if shape.enum and value not in shape.enum:
                wrong.append(f"{path}: {value!r} is not one of {shape.enum}")
            if (pattern := shape.metadata.get("pattern")) and not re.fullmatch(pattern, value):
                wrong.append(f"{path}: {value!r} does not fit {pattern}")
        case (("integer" | "float" | "double" | "long"), int() | float()):
            _limits(value, shape, path, wrong)
    return value


def _limits(value: float, shape: Any, path: str, wrong: list[str]) -> None:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if (low is not None and value < low) or (high is not None and value > high):
        wrong.append(f"{path}: {value} is not between {low} and {high}")


def is_signed_by(received: Received, access_key: str, secret_key: str) -> bool:
    """Does the signature of this request, as it came over the wire, belong to these keys?"""
    parts = dict(
        re.findall(r"(Credential|SignedHeaders|Signature)=([^,\s]+)", received.headers["authorization"])
    )
    key, _, region, service, _ = parts["Credential"].split("/")
    signed = {name: received.headers[name] for name in parts["SignedHeaders"].split(";")}
    query = f"?{received.query}" if received.query else ""
    url = f"http://{signed.pop('host')}{received.path}{query}"
    request = AWSRequest(method=received.method, url=url, data=received.raw, headers=signed)
    request.context["timestamp"] = signed["x-amz-date"]
    signer = SigV4Auth(Credentials(access_key, secret_key), service, region)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return key == access_key and service == "bedrock" and bool(expected == parts["Signature"])
