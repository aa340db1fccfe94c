"""The names of models for the list in Claude Code, which shows only those of Claude's family."""

_FAMILY = ("claude", "anthropic")
_PREFIX = "claude:"


def picker_name(model: str) -> str:
    """A name that Claude Code shows.

    >>> picker_name("groq/llama-3.3-70b"), picker_name("claude-opus-5")
    ('claude:groq/llama-3.3-70b', 'claude-opus-5')
    """
    return model if model.lower().startswith(_FAMILY) else _PREFIX + model


def model_of(name: str) -> str:
    """The model that a client of the Messages API asks for, also by its name in that list.

    >>> model_of("claude:groq/llama-3.3-70b")
    'groq/llama-3.3-70b'
    """
    return name.removeprefix(_PREFIX)
