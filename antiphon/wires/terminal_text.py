"""Text of models, tools and servers, made safe to print on a terminal.

A terminal obeys control characters: they can move the cursor, rename the window, fill the clipboard (OSC 52)
or hide where a link leads (OSC 8). Each is shown as a sign of its own instead, character by character, so
that a sequence which is cut in two by a stream is as harmless as a whole one.
"""

import re

# C0 without tab and line feed, DEL, C1, what turns the direction of writing, and halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SPACES = re.compile(r"\s+")
_PICTURES = 0x2400
"""Unicode has a picture for each character of C0, in their order."""


def printable(text: str) -> str:
    """The text without anything that a terminal would obey, but for line feeds and tabs.

    A carriage return is left out, so that the lines of Windows read as lines and nothing is written over.
    """
    return _UNSAFE.sub(_replace_control, text)


def printable_line(text: str) -> str:
    """The same on one line: for titles, names, and messages of errors."""
    return _SPACES.sub(" ", printable(text)).strip()


def _replace_control(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\r":
        return ""
    if character < " ":
        return chr(_PICTURES + ord(character))
    return "\N{SYMBOL FOR DELETE}" if character == "\x7f" else "\N{REPLACEMENT CHARACTER}"
