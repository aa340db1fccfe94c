"""What comes again in every line of a stream: between it stand the words, and only they have to be read."""

import msgspec

from antiphon.spec.codec import UNREADABLE, encode

_TRIES = 3
_END = b"\n\n"
_string = msgspec.json.Decoder(str).decode


class RepeatedText:
    """The bytes before and after the words of a line that was read in full and had nothing else to say.

    A line that begins and ends with the same bytes, and has one JSON string between them, is the same JSON
    with other words. That is cheaper to see than to parse. Where no two lines are alike it is soon given up.
    """

    __slots__ = ("_between", "_between_alone", "_head", "_tail", "_tail_alone", "_tries")

    def __init__(self) -> None:
        self._head = b"\n"  # which no line begins with
        self._tail = b""
        self._tail_alone = b""  # of an event that is one line
        self._between = self._between_alone = slice(0)
        self._tries = 0

    def words(self, line: bytes) -> str | None:
        """The words of this line, if the rest of it is known."""
        if line.startswith(self._head) and line.endswith(self._tail):
            try:
                return _string(line[self._between])
            except UNREADABLE:
                return None
        return None

    def words_alone(self, data: bytes) -> str | None:
        """The words of data that is one line and the end of its event, if the rest of it is known."""
        if (
            data.startswith(self._head)
            and data.endswith(self._tail_alone)
            and data.find(b"\n") == len(data) - len(_END)
        ):
            try:
                return _string(data[self._between_alone])
            except UNREADABLE:
                return None
        return None

    def learn(self, line: bytes, field: bytes, words: str) -> None:
        """`field` is the name of the words in this line, which has nothing but them to say."""
        if self._tries < _TRIES:
            self._tries += 1
            name, token = b'"%b":' % field, encode(words)
            start = line.find(name) + len(name)
            start += line[start : start + 1] == b" "
            end = start + len(token)
            if line.count(name) == 1 and line[start:end] == token and end < len(line):
                self._head, self._tail = line[:start], line[end:]
                self._tail_alone = self._tail + _END
                self._between = slice(start, -len(self._tail))
                self._between_alone = slice(start, -len(self._tail_alone))
