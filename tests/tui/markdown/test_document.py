"""However a text is cut into pieces, it looks the same at its end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.tui.markdown.document import MarkdownDocument
from antiphon.tui.markdown.source import LONGEST
from antiphon.tui.markdown.spans import width_of
from antiphon.tui.palette import DARK, LIGHT

TEXT = """\
# Title

Some **bold** and *slanted* words, `code x`, ~~gone~~ and a [link](http://x.y/z).
The same paragraph.

- one
- two
  - inner

  another paragraph
- [x] three
7. seven
8. eight

> a quotation
> of two lines

```python
def f(x):
    \"\"\"Over
    lines.\"\"\"
    return "a" + 1  # why
```

| name | count |
|:-----|------:|
| short | 1 |
| much longer | 22 |

---
<b>html</b> ![a picture](http://x/p.png)
"""
SHOWN = """\
Title

Some bold and slanted words,
code x, gone and a link
(http://x.y/z). The same
paragraph.

• one
• two
  ◦ inner
  another paragraph
• ☑ three
7. seven
8. eight

│ a quotation of two lines

  python                copy
  def f(x):
      \"\"\"Over
      lines.\"\"\"
      return "a" + 1  # why

name          count
───────────   ─────
short             1
much longer      22

──────────────────────────────

<b>html</b> [image: a picture]
(http://x/p.png)
"""


def shown(document: MarkdownDocument, width: int = 30) -> list[str]:
    lines, complete = document.lines(width, DARK)
    assert complete
    assert all(width_of(line) <= width for line in lines)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def test_everything_that_markdown_has() -> None:
    document = MarkdownDocument()
    document.feed(TEXT)
    document.close()
    assert "\n".join(shown(document)) + "\n" == SHOWN
    assert document.blocks == ['def f(x):\n    """Over\n    lines."""\n    return "a" + 1  # why']


@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=40), st.integers(24, 60))
@settings(max_examples=25)
def test_pieces_and_looks_between_them_change_nothing(cuts: list[int], width: int) -> None:
    whole = MarkdownDocument()
    whole.feed(TEXT)
    whole.close()
    document = MarkdownDocument()
    at = 0
    for cut in sorted({*cuts, len(TEXT)}):
        document.feed(TEXT[at:cut])
        at = cut
        shown(document, width)
    document.close()
    assert shown(document, width) == shown(whole, width)


@given(st.text(alphabet="ab \n`*_|-#>1.~[]()\u4e2d\t", max_size=120))
@settings(max_examples=50)
def test_no_text_breaks_it(text: str) -> None:
    document = MarkdownDocument()
    for letter in text:
        document.feed(letter)
        shown(document, 20)
    document.close()
    words = [letter for letter in text if letter in "ab\u4e2d"]
    assert [letter for line in shown(document, 20) for letter in line if letter in "ab\u4e2d"].count(
        "\u4e2d"
    ) == (words.count("\u4e2d"))


@pytest.mark.parametrize("kind", ["code", "table", "words", "word"])
def test_what_has_no_end_is_not_laid_out_again_and_again(kind: str) -> None:
    """Finished lines stay the same objects while more come."""
    begin, more = {
        "code": ("```python\n", "x = 1\n"),
        "table": ("| a | b |\n|---|---|\n", "| c | d |\n"),
        "words": ("", "word " * 20),
        "word": ("", "x" * 100),
    }[kind]
    document = MarkdownDocument()
    document.feed(begin + more * 100)
    before = list(document.lines(40, DARK)[0])
    document.feed(more * 100)
    after = document.lines(40, DARK)[0]
    same = sum(one is other for one, other in zip(before, after, strict=False))
    assert same >= len(before) - LONGEST // 40 - 4
    assert same > 80 or kind in ("words", "word")


def test_another_width_or_palette_lays_it_out_anew() -> None:
    document = MarkdownDocument()
    document.feed("one two three four\n\nfive")
    assert shown(document, 12) == ["one two", "three four", "", "five"]
    assert shown(document, 30) == ["one two three four", "", "five"]
    [first, *_] = document.lines(30, LIGHT)[0]
    assert first[0].style == LIGHT.text


def test_laying_out_stops_when_there_is_no_time_and_goes_on() -> None:
    document = MarkdownDocument()
    document.feed("a paragraph\n\n" * 50)
    lines, complete = document.lines(40, DARK, until=0.0)
    assert (len(lines), complete) == (0, False)
    assert len(shown(document, 40)) == 99


def test_a_mark_that_is_not_closed_yet_does_not_show() -> None:
    document = MarkdownDocument()
    document.feed("It is **very")
    assert shown(document) == ["It is very"]
    document.feed("** so")
    assert shown(document) == ["It is very so"]
