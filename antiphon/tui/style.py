"""The style sheet of the interface."""

from typing import Final

CSS: Final = """
Screen { background: $background; color: $foreground; }
ToastRack { align: right top; }
Toast { background: $panel; color: $foreground; }
#head { height: 2; padding: 0 3 1 3; color: $soft; }
Transcript { height: 1fr; padding: 0 1 0 1; background: $background; scrollbar-size-vertical: 1;
  scrollbar-size-horizontal: 0; overflow-x: hidden; scrollbar-gutter: stable; }
Transcript:focus { background: $background; }
#welcome { height: 1fr; align: center middle; }
#welcome-text { width: auto; max-width: 64; color: $soft; }
#below { height: auto; padding: 0 2; }
#queue { height: auto; max-height: 3; color: $soft; padding: 0 1; display: none; }
#queue.shown { display: block; }
#offers { height: auto; max-height: 9; padding: 0 1; border: none; background: $background; display: none; }
#offers.shown { display: block; }
#frame { height: auto; border: round $line; padding: 0 1; background: $background; }
#frame:focus-within { border: round $primary 70%; }
#prompt { width: 2; height: 1; color: $primary; }
#frame Horizontal { height: auto; }
PromptInput { height: auto; max-height: 8; width: 1fr; border: none; padding: 0; background: $background; }
PromptInput:focus { border: none; }
#attached { height: auto; color: $soft; display: none; }
#attached.shown { display: block; }
ApprovalPrompt { height: auto; border: round $warning 70%; padding: 0 1; margin: 0 2; display: none; }
ApprovalPrompt.shown { display: block; }
ApprovalPrompt Static { height: auto; max-height: 8; }
ApprovalPrompt #keys { color: $soft; }
#status { height: 1; padding: 0 3; color: $soft; }
Footer { background: $background; padding: 0 2; }
FooterKey { background: $background; }
FooterKey .footer-key--key { background: $background; color: $primary; }
FooterKey .footer-key--description { background: $background; color: $soft; }

Chooser { align: center middle; background: $background 60%; }
Chooser > Vertical { width: 76; max-width: 94%; height: auto; max-height: 80%; background: $panel;
  border: round $line; padding: 1 2; }
Chooser .title { color: $foreground; text-style: bold; height: 1; margin-bottom: 1; }
Chooser .about { color: $soft; height: auto; margin-top: 1; }
Chooser Input { border: none; height: 1; padding: 0; background: $panel; margin-bottom: 1; }
Chooser Input:focus { border: none; }
Chooser OptionList { border: none; padding: 0; height: auto; max-height: 18; background: $panel; }
Chooser OptionList:focus { border: none; }
OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
  background: $primary 22%; color: $foreground; text-style: none; }

Inspector { background: $background; }
Inspector #verdict { height: 1; padding: 0 2; }
Inspector TabbedContent { height: 1fr; padding: 0 1; }
Inspector #filter { border: none; height: 1; padding: 0 1; margin: 0 0 1 0; background: $panel; }
Inspector #events { height: 1fr; border: none; padding: 0 1; background: $background;
  scrollbar-size-vertical: 1; }
Inspector #detail { display: none; height: 40%; border-top: solid $line; padding: 0 1;
  scrollbar-size-vertical: 1; }
Inspector #detail.shown { display: block; }
Inspector VerticalScroll { scrollbar-size-vertical: 1; padding: 0 1; }
Inspector Tree { background: $background; padding: 0 1; }
Tabs .underline--bar { color: $line; }
"""
