"""How a tool says what went wrong, wherever it runs: in an agent, or in the gateway."""


class ToolError(Exception):
    """Raise it in a tool to tell the model, in your own words, what went wrong and what to try instead."""
