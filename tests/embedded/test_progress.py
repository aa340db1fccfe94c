import io

from antiphon.embedded.progress import Console, Milestones, ProgressStep

MIB = 1024 * 1024


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_says_how_far_it_is() -> None:
    assert str(ProgressStep("loading")) == "loading"
    assert str(ProgressStep("fetching", 3 * MIB)) == "fetching: 3 MiB"
    assert str(ProgressStep("fetching", 3 * MIB, 4 * MIB)) == "fetching: 75 % of 4 MiB"
    assert ProgressStep("fetching", 5 * MIB, 4 * MIB).percent == 100


def test_milestones_are_few() -> None:
    seen: list[ProgressStep] = []
    show = Milestones(seen.append)
    for done in range(1001):
        show(ProgressStep("fetching", done, 1000))
    for done in range(40):
        show(ProgressStep("downloading", done * MIB))
    show(ProgressStep("loading"))
    assert len(seen) == 11 + 3 + 1


def test_a_pipe_gets_lines() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console(ProgressStep("fetching", 0, 100))
    console(ProgressStep("fetching", 1, 100))
    console(ProgressStep("done"))
    console.close()
    assert stream.getvalue().splitlines() == ["antiphon: fetching: 0 % of 0 MiB", "antiphon: done"]


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    stream = Terminal()
    console = Console(stream)
    console(ProgressStep("fetching", 100, 100))
    console(ProgressStep("fetching", 1, 100))
    console(ProgressStep("done"))
    console.close()
    console.close()
    first, second, end = stream.getvalue().split("\n")
    assert first.split("\r")[1:] == [
        "antiphon: fetching: 100 % of 0 MiB",
        "antiphon: fetching: 1 % of 0 MiB  ",
    ]
    assert (second, end) == ("\rantiphon: done", "")
