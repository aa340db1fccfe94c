"""Control characters of others never reach a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.wires.terminal_text import printable, printable_line

ATTACKS = {
    "OSC 8, a link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x07",
    "OSC 52, the clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "OSC 0, the title": "\x1b]0;root\x07",
    "CSI, clears the screen": "\x1b[2J\x1b[1;1H",
    "CSI 6n, an answer on standard input": "\x1b[6n",
    "DCS": "\x1bP+q544e\x1b\\",
    "C1 CSI": "\x9b31m",
    "C1 OSC": "\x9d52;c;YQ==\x9c",
    "backspaces": "rm -rf /\x08\x08\x08ls",
    "a carriage return": "safe\rrm -rf /",
    "a bidirectional override": "user\u202enoitcennoc\u202c",
    "isolates": "\u2066a\u2069",
    "half of a pair": "a\ud800b",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_nothing_is_left_to_obey(attack: str) -> None:
    shown = printable(attack)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs")]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    shown.encode()


def test_the_reader_sees_that_there_was_something() -> None:
    assert printable("\x1b[31mred\x07") == "␛[31mred␇"
    assert printable("a\x7fb\x9bc") == "a␡b�c"


def test_text_stays_as_it_is() -> None:
    text = "Grüße,\n\t\u05e9\u05dc\u05d5\u05dd 👩‍👩‍👧 \u200e\n"
    assert printable(text) == text
    assert printable("one\r\ntwo\r\n") == "one\ntwo\n"


def test_a_title_has_one_line() -> None:
    assert printable_line("  a\n\n b\tc\u2028d\x1b ") == "a b c d␛"


@given(st.text(alphabet=st.characters()), st.integers(0, 20))
def test_a_stream_that_is_cut_anywhere_says_the_same(text: str, at: int) -> None:
    assert printable(text[:at]) + printable(text[at:]) == printable(text)
    assert printable(printable(text)) == printable(text)
