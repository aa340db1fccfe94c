"""What the command line decides for every part."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int = 5
    tokens: int = 400
    streams: int = 1000
    turns: int = 1000
    long: bool = False
    install: bool = True
    litellm: bool = False

    @property
    def work(self) -> tuple[int, bool]:
        """What changes a figure that keeps its name."""
        return self.tokens, self.long
