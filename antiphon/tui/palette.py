"""The colours of the terminal interface, in dark and in light: paper, ink, and the accent of the web app."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rich.style import Style

if TYPE_CHECKING:
    from textual.theme import Theme


@dataclass(frozen=True)
class Palette:
    """The colours and styles of a transcript."""

    name: str
    is_dark: bool
    ink: str
    soft: str
    line: str
    paper: str
    wash: str
    accent: str
    good: str
    bad: str
    warning: str
    string: str

    @cached_property
    def text(self) -> Style:
        return Style(color=self.ink)

    @cached_property
    def dim(self) -> Style:
        return Style(color=self.soft)

    @cached_property
    def rule(self) -> Style:
        return Style(color=self.line)

    @cached_property
    def mark(self) -> Style:
        return Style(color=self.accent)

    @cached_property
    def heading(self) -> Style:
        return Style(color=self.ink, bold=True)

    @cached_property
    def code(self) -> Style:
        return Style(color=self.ink, bgcolor=self.wash)

    @cached_property
    def inline_code(self) -> Style:
        """Code inside a sentence: on a background, or in a colour if the palette has no background."""
        return Style(color=self.string) if self.wash == "default" else self.code

    @cached_property
    def code_dim(self) -> Style:
        return Style(color=self.soft, bgcolor=self.wash)

    @cached_property
    def failure(self) -> Style:
        return Style(color=self.bad)

    @cached_property
    def caution(self) -> Style:
        return Style(color=self.warning)

    def theme(self) -> "Theme":
        """Returns the same colours as a theme for the widgets around the transcript."""
        from textual.theme import Theme  # `antiphon ask` draws without it, and starts faster so

        return Theme(
            name=self.name,
            primary=self.accent,
            secondary=self.soft,
            accent=self.accent,
            warning=self.warning,
            error=self.bad,
            success=self.good,
            foreground=self.ink,
            background=self.paper,
            surface=self.paper,
            panel=self.wash,
            boost=self.wash,
            dark=self.is_dark,
            variables={
                "line": self.line,
                "soft": self.soft,
                "border": self.line,
                "border-blurred": self.line,
                "footer-background": self.paper,
                "footer-key-foreground": self.accent,
                "footer-description-foreground": self.soft,
                "input-selection-background": f"{self.accent} 30%",
                "scrollbar": self.line,
                "scrollbar-hover": self.soft,
                "scrollbar-active": self.soft,
                "scrollbar-background": self.paper,
                "scrollbar-background-hover": self.paper,
                "scrollbar-background-active": self.paper,
                "scrollbar-corner-color": self.paper,
            },
        )


DARK = Palette(
    name="antiphon-dark",
    is_dark=True,
    ink="#e9e7e2",
    soft="#a19d95",
    line="#3a3934",
    paper="#161615",
    wash="#1f1f1d",
    accent="#e5a27b",
    good="#8fc79b",
    bad="#f08a80",
    warning="#e0b878",
    string="#a3c79a",
)
LIGHT = Palette(
    name="antiphon-light",
    is_dark=False,
    ink="#1c1b19",
    soft="#66635d",
    line="#d9d7d2",
    paper="#fefefd",
    wash="#f6f6f4",
    accent="#8a3b17",
    good="#2f6b3c",
    bad="#b3261e",
    warning="#7a4a00",
    string="#3a6b35",
)
TERMINAL = Palette(
    name="terminal",
    is_dark=True,
    ink="default",
    soft="#7a7a7a",
    line="#7a7a7a",
    paper="default",
    wash="default",
    accent="cyan",
    good="green",
    bad="red",
    warning="magenta",
    string="green",
)
"""The terminal's own colours, for lines that are printed between its others."""
PALETTES = {palette.name: palette for palette in (DARK, LIGHT)}
