"""The colours of the terminal interface, in dark and in light: paper, ink, and one accent."""

from dataclasses import dataclass
from functools import cached_property

from rich.style import Style
from textual.theme import Theme


@dataclass(frozen=True)
class Palette:
    """What the lines of a transcript are drawn with."""

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
    def marked(self) -> Style:
        return Style(color=self.accent)

    @cached_property
    def heading(self) -> Style:
        return Style(color=self.ink, bold=True)

    @cached_property
    def code(self) -> Style:
        return Style(color=self.ink, bgcolor=self.wash)

    @cached_property
    def code_dim(self) -> Style:
        return Style(color=self.soft, bgcolor=self.wash)

    @cached_property
    def failed(self) -> Style:
        return Style(color=self.bad)

    @cached_property
    def warned(self) -> Style:
        return Style(color=self.warning)

    def theme(self) -> Theme:
        """The same for the widgets around the transcript."""
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
    ink="#e6e9ef",
    soft="#8b95a9",
    line="#333b4a",
    paper="#14181f",
    wash="#1b212b",
    accent="#86b6ea",
    good="#52c98b",
    bad="#ff7382",
    warning="#e0b04b",
    string="#a9c7a0",
)
LIGHT = Palette(
    name="antiphon-light",
    is_dark=False,
    ink="#1d2330",
    soft="#5d6679",
    line="#d3d8e0",
    paper="#ffffff",
    wash="#f3f5f8",
    accent="#2166ac",
    good="#1a7f4b",
    bad="#c2293b",
    warning="#8a6000",
    string="#3d6b35",
)
PALETTES = {palette.name: palette for palette in (DARK, LIGHT)}
