import io

from antiphon.embedded.progress import Console, Milestones, Step

MIB = 1024 * 1024


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_says_how_far_it_is() -> None:
    assert str(Step("loading")) == "loading"
    assert str(Step("fetching", 3 * MIB)) == "fetching: 3 MiB"
    assert str(Step("fetching", 3 * MIB, 4 * MIB)) == "fetching: 75 % of 4 MiB"
    assert Step("fetching", 5 * MIB, 4 * MIB).percent == 100


def test_milestones_are_few() -> None:
    seen: list[Step] = []
    show = Milestones(seen.append)
    for done in range(1001):
        show(Step("fetching", done, 1000))
    for done in range(40):
        show(Step("downloading", done * MIB))
    show(Step("loading"))
    assert len(seen) == 11 + 3 + 1


def test_a_pipe_gets_lines() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console(Step("fetching", 0, 100))
    console(Step("fetching", 1, 100))
    console(Step("done"))
    console.close()
    assert stream.getvalue().splitlines() == ["antiphon: fetching: 0 % of 0 MiB", "antiphon: done"]


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    stream = Terminal()
    console = Console(stream)
    console(Step("fetching", 100, 100))
    console(Step("fetching", 1, 100))
    console(Step("done"))
    console.close()
    console.close()
    first, second, end = stream.getvalue().split("\n")
    assert first.split("\r")[1:] == [
        "antiphon: fetching: 100 % of 0 MiB",
        "antiphon: fetching: 1 % of 0 MiB  ",
    ]
    assert (second, end) == ("\rantiphon: done", "")
