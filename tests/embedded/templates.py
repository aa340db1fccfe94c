"""Models with another chat template: the default model's file, rewritten."""

import struct
from pathlib import Path

_KEY = b"tokenizer.chat_template"
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNMENT = 32

# As those of models that call functions and think: tools in the system message, calls and thoughts in tags.
TOOLS_AND_THINKING = """\
{%- if tools %}
    {{- '<|im_start|>system\\nThese functions can be called:\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content is string %}
            {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- if message.content %}{{- message.content }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if (loop.first and message.content) or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {%- set given = call.function.arguments %}
            {{- given if given is string else given | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is not defined or enable_thinking %}{{- '<think>\\n' }}{%- endif %}
{%- endif %}
"""


def with_template(source: Path, target: Path, template: str) -> Path:
    """Writes the model of `source` to `target`, with this chat template instead of its own."""
    data = source.read_bytes()
    tensors, pairs = struct.unpack_from("<QQ", data, 8)
    head, at = bytearray(data[:24]), 24
    for _ in range(pairs):
        start = at
        key, at = _string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        value, at = at + 4, _after(data, kind, at + 4)
        if key == _KEY:
            new = template.encode()
            head += data[start:value] + struct.pack("<Q", len(new)) + new
        else:
            head += data[start:at]
    start = at
    for _ in range(tensors):
        _, at = _string(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dimensions + 12
    head += data[start:at]
    rest = data[at + -at % _ALIGNMENT :]
    target.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + rest)
    return target


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length], at + 8 + length


def _after(data: bytes, kind: int, at: int) -> int:
    if kind == _STRING:
        return _string(data, at)[1]
    if kind != _ARRAY:
        return at + _SIZES[kind]
    inner: int
    count: int
    inner, count = struct.unpack_from("<IQ", data, at)
    if inner in _SIZES:
        return at + 12 + count * _SIZES[inner]
    at += 12
    for _ in range(count):
        at = _after(data, inner, at)
    return at
