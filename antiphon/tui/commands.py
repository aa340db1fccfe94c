"""The commands that begin with a slash."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from antiphon.tui.chooser import ListChoice
from antiphon.tui.entries import as_markdown
from antiphon.tui.prompt_input import Completion, PromptInput

if TYPE_CHECKING:
    from antiphon.tui.app import ChatApp

EFFORTS = ("none", "low", "medium", "high", "xhigh")


class Command(NamedTuple):
    """One command: its purpose, its argument, and its function."""

    about: str
    takes: str
    run: "Callable[[ChatApp, str], Awaitable[None]]"


async def _model(app: "ChatApp", text: str) -> None:
    if text:
        app.use_model(text)
    else:
        models = sorted(app.connection.models)
        if models:
            app.choose("Models", [ListChoice(name, name) for name in models], app.use_model)
        else:
            app.say("The server lists no models; write /model and a name.")


async def _effort(app: "ChatApp", text: str) -> None:
    if not text:
        app.choose("Effort", [ListChoice(one, one) for one in EFFORTS], app.use_effort)
    elif text in EFFORTS:
        app.use_effort(text)
    else:
        app.say(f"There is no effort {text!r}; there are {', '.join(EFFORTS)}.")


async def _system(app: "ChatApp", text: str) -> None:
    app.settings.system = text or None
    app.say(f"The instructions are now: {text}" if text else "The model gets no instructions.")


async def _tools(app: "ChatApp", text: str) -> None:
    names = [f"{tool.name}: {tool.description}".rstrip(": ") for tool in app.settings.tools]
    none = "There are no tools; start with --tool module:function or --mcp COMMAND."
    app.say("\n".join(names) or none)


async def _attach(app: "ChatApp", text: str) -> None:
    if text:
        app.attach(text.removeprefix("@"))
    else:
        app.say("Write /attach and the name of a file; @ and a few letters find one.")


async def _retry(app: "ChatApp", text: str) -> None:
    app.retry()


async def _edit(app: "ChatApp", text: str) -> None:
    app.edit()


async def _branch(app: "ChatApp", text: str) -> None:
    app.choose_branch()


async def _export(app: "ChatApp", text: str) -> None:
    path = app.options.folder / (text or "chat.md")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(as_markdown(app.transcript.entries))
    except FileExistsError:
        app.say(f"{path.name} exists already; write /export and another name.")
    except OSError as error:
        app.say(f"{path} cannot be written: {error.strerror}")
    else:
        app.say(f"Written to {path.name}")


async def _clear(app: "ChatApp", text: str) -> None:
    app.action_new_chat()


async def _chats(app: "ChatApp", text: str) -> None:
    app.action_chats()


async def _rename(app: "ChatApp", text: str) -> None:
    await app.rename(text)


async def _background(app: "ChatApp", text: str) -> None:
    app.settings.background = not app.settings.background
    on = app.settings.background
    told = "go on when this terminal is closed" if on else "end when this terminal is closed"
    app.say(f"Responses {told}.")
    app.show_status()


async def _copy(app: "ChatApp", text: str) -> None:
    app.action_copy_answer()


async def _inspect(app: "ChatApp", text: str) -> None:
    app.action_inspect()


async def _theme(app: "ChatApp", text: str) -> None:
    app.action_theme()


async def _help(app: "ChatApp", text: str) -> None:
    app.say(help_text())


async def _quit(app: "ChatApp", text: str) -> None:
    app.exit()


COMMANDS: dict[str, Command] = {
    "model": Command("choose the model", "[NAME]", _model),
    "effort": Command("how hard the model thinks", f"[{'|'.join(EFFORTS)}]", _effort),
    "system": Command("instructions for the model", "[TEXT]", _system),
    "tools": Command("the tools that the model may call", "", _tools),
    "attach": Command("add a file or an image to the next message", "FILE", _attach),
    "retry": Command("ask the last message again, on a branch", "", _retry),
    "edit": Command("change an earlier message, on a branch", "", _edit),
    "branch": Command("go to another branch of this chat", "", _branch),
    "export": Command("write this chat to a file", "[FILE]", _export),
    "clear": Command("begin a new chat", "", _clear),
    "chats": Command("list, search, rename and delete chats", "", _chats),
    "rename": Command("give this chat a title", "TITLE", _rename),
    "background": Command("let responses continue without this terminal", "", _background),
    "copy": Command("copy the last answer", "", _copy),
    "inspect": Command("events, items, request, receipts, verdict", "", _inspect),
    "theme": Command("light or dark", "", _theme),
    "help": Command("commands and keys", "", _help),
    "quit": Command("leave", "", _quit),
}

KEYS = (
    ("Enter", "send; Shift+Enter, Ctrl+J or \\ Enter: new line"),
    ("Up, Down", "earlier messages"),
    ("Esc", "stop the answer"),
    ("Tab", "to the transcript: arrows, Enter folds, c copies, e edits, r retries"),
    ("Ctrl+N, Ctrl+O", "new chat, list of chats"),
    ("Ctrl+Y", "copy the last answer"),
    ("Ctrl+T", "light or dark"),
    ("F12", "inspector"),
    ("Ctrl+P", "all commands"),
    ("Ctrl+Q", "leave"),
)


def help_text() -> str:
    commands = [f"/{name} {one.takes}".rstrip().ljust(40) + one.about for name, one in COMMANDS.items()]
    keys = [f"{key:<16}{what}" for key, what in KEYS]
    return "\n".join([*commands, "", *keys])


def matching(letters: str) -> Sequence[Completion]:
    """Returns the commands that begin with this text."""
    return [
        Completion(f"/{name}", f"{one.about}  {one.takes}".strip())
        for name, one in COMMANDS.items()
        if name.startswith(letters)
    ]


async def run(app: "ChatApp", text: str) -> None:
    """Runs a line that begins with a slash."""
    name, _, rest = text[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        app.say(f"There is no command /{name}; /help lists all.")
        return
    await command.run(app, rest.strip())


class CommandProvider(Provider):
    """Offers the same commands behind Ctrl+P, with a search by any of their letters."""

    async def discover(self) -> AsyncIterator[DiscoveryHit]:
        for name, one in COMMANDS.items():
            yield DiscoveryHit(f"/{name}", self._runs(name, one), help=one.about)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, one in COMMANDS.items():
            if score := matcher.match(f"/{name}") or matcher.match(one.about) / 2:
                yield Hit(score, matcher.highlight(f"/{name}"), self._runs(name, one), help=one.about)

    def _runs(self, name: str, command: Command) -> Callable[[], Awaitable[None] | None]:
        """Writes a command with an argument into the composer, and runs any other."""
        app = cast("ChatApp", self.app)
        if command.takes and not command.takes.startswith("["):
            return partial(app.query_one(PromptInput).write, f"/{name} ")
        return partial(run, app, f"/{name}")
