"""A custom tool on a wire that has only functions: a function with one string, `input`."""

import json
import re


def wrap(text: str) -> str:
    """The input of a custom tool as the arguments of its function."""
    return json.dumps({"input": text}, ensure_ascii=False)


class Unwrapper:
    """The text inside `{"input": "…"}`, piece by piece as the arguments come.

    A model that forgets the wrapping, or calls the field something else, is understood at the end.
    """

    _HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
    _PIECE = re.compile(
        r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]'
    )
    # An escape, or the first of two that are one character, of which more may come.
    _INCOMPLETE = re.compile(
        r"\\(u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?"
    )

    def __init__(self) -> None:
        self.over = False
        self._inside = False
        self._held = ""
        self._other = False

    def feed(self, piece: str) -> str:
        if self.over:
            return ""
        if self._other:
            self._held += piece
            return ""
        text = self._held + piece
        if not self._inside:
            head = self._HEAD.match(text)
            if head is None:
                self._held = text
                self._other = not '{"input":"'.startswith("".join(text.split()))
                return ""
            self._inside = True
            text = text[head.end() :]
        return self._unescape(text)

    def end(self) -> str:
        """What is left when no more will come."""
        if self.over or self._inside or not self._held:
            return ""
        text, self._held = self._held, ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(value, dict):
            texts = [one for one in value.values() if isinstance(one, str)]
            value = value.get("input", texts[0] if len(texts) == len(value) == 1 else None)
        return value if isinstance(value, str) else text

    def _unescape(self, text: str) -> str:
        pieces = []
        at = 0
        while at < len(text) and not self._INCOMPLETE.fullmatch(text, at):
            if found := self._PIECE.match(text, at):
                pieces.append(found.group())
                at = found.end()
            elif text[at] == '"':
                self.over = True
                break
            else:
                # A backslash that JSON does not know stands for itself.
                pieces.append(r"\\")
                at += 1
        self._held = text[at:]
        return _text_of(pieces)


def _text_of(pieces: list[str]) -> str:
    text: str = json.loads(f'"{"".join(pieces)}"', strict=False)
    # Half of a surrogate pair cannot be sent on.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
