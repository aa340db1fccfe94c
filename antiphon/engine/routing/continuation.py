"""Going on with an answer that broke off: what the next target is given, and how its words are joined on.

Finished items stay, and so does the text that was open: the next target gets both and goes on from there.
What was open and may be neither guessed nor begun anew is the end of the response: a call's arguments or
input, a refusal, a text that has to have a format, and an item that the provider itself was working on.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from antiphon.engine.routing.seam import Seam, last_words
from antiphon.providers.base import SUPPRESSED, Provider, Sink, Turn, WrappingSink
from antiphon.spec.content import InputText, OutputText, Refusal, UrlCitation, text_of
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.spec.request import Request
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import TextFormat
from antiphon.stream import deltas as d
from antiphon.stream.answer_limit import MOST_HELD, TOO_LONG, AnswerTooLong, memory_of, size_of
from antiphon.stream.open_items import is_json_object
from antiphon.wires.usage import CHARACTERS_A_TOKEN

_CONTINUE_TEXT = (
    "Your last message broke off in the middle. Go on with it exactly where it stopped, in the same language "
    "and form, as if it had never been interrupted. Do not greet, explain or start over. Begin by repeating "
    "exactly these last characters of it, and then go on:\n"
)
_CONTINUE_AFTER_ITEMS = (
    "Your answer broke off after what you have said so far. Go on from there, and repeat nothing of it. If "
    "nothing is missing, answer with nothing."
)
UNFINISHED = ErrorPayload(
    "server_error",
    "the gateway stopped in the middle of something that cannot be continued, such as a call, a refusal "
    "or a text with a format; send the request again",
    code="cannot_continue",
)
_REASONING_ENDS = d.ItemEnd(None, "completed")
_NO_WORDS = (d.UsageDelta, d.Finish, d.Failure)
_NOT_YET = "The result of this call comes later. Go on with the answer without it, and do not call again."
_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput)


class Unfinished(Struct, frozen=True):
    """What there is of an answer that broke off."""

    items: list[Item]
    """Those that are finished and that another target can be given."""
    text: str = ""
    """Of the message that is open."""
    place: str = ""
    """Where the last part of that text stands in the output that this was read from."""
    offset: int = 0
    """At which character of that part it stops."""
    has_open_reasoning: bool = False
    output_tokens: int = 0
    """How much has been said."""
    is_estimated: bool = False
    """Did nobody count that?"""
    usage: Usage | None = None
    """What has been counted, if anything was."""

    @property
    def reasoning_tokens(self) -> int:
        return self.usage.output_tokens_details.reasoning_tokens if self.usage is not None else 0


def resumable(response: Response, request: Request, start: int = 0) -> Unfinished | None:
    """What another process can go on with of the output from `start` on, or None if nothing may follow it."""
    statuses = [getattr(item, "status", None) for item in response.output[start:]]
    if "incomplete" in statuses or "in_progress" in statuses[:-1]:
        return None
    return find_unfinished(response, request, start)


def find_unfinished(response: Response, request: Request, start: int = 0) -> Unfinished | None:
    """What can be gone on with of the output from `start` on, or None if something is open that cannot."""
    items: list[Item] = []
    text, has_open_reasoning, has_open_text = "", False, False
    for item in response.output[start:]:
        is_open = getattr(item, "status", None) == "in_progress"
        match item:
            case Message() if is_open:
                parts = item.content if isinstance(item.content, list) else []
                if has_open_text or (parts and isinstance(parts[-1], Refusal)) or _has_format(request):
                    return None
                text, has_open_text = item.get_text(), True
            case Reasoning():
                has_open_reasoning = has_open_reasoning or is_open
            case FunctionCall() if is_open and not is_json_object(item.arguments):
                return None
            case Message() | FunctionCall():
                items.append(item)
            case _ if is_open:
                return None
            case CustomToolCall():
                items.append(item)
    usage = response.usage
    counted = usage.output_tokens if usage is not None else 0
    said = estimated_tokens(response.output[start:])
    place, offset = find_open_text(response, start)
    return Unfinished(
        items, text, place, offset, has_open_reasoning, max(counted, said), counted < said, usage
    )


def find_open_text(response: Response, start: int = 0) -> tuple[str, int]:
    """Return the place of the last part of the open text, and how long it is; "" if no text is open."""
    for n, item in enumerate(response.output[start:], start):
        if isinstance(item, Message) and item.status == "in_progress":
            parts = item.content if isinstance(item.content, list) else []
            return f"output[{n}].content[{max(len(parts) - 1, 0)}]", len(text_of(parts[-1:]))
    return "", 0


def estimated_tokens(items: Sequence[Item]) -> int:
    """About how many tokens a model has written in these items."""
    return _tokens(sum(map(_length, items)))


def _tokens(characters: int) -> int:
    return characters // CHARACTERS_A_TOKEN


def _has_format(request: Request) -> bool:
    format = request.text.format if request.text else None
    return format is not None and not isinstance(format, TextFormat)


def _length(item: Item) -> int:
    match item:
        case Message():
            return len(item.get_text())
        case Reasoning():
            return len(item.get_reasoning_text()) + len(item.get_summary_text())
        case FunctionCall():
            return len(item.arguments)
        case CustomToolCall():
            return len(item.input)
    return 0


class Continuation(Struct):
    """How one target goes on with an answer."""

    unfinished: Unfinished
    added: list[Item]
    """What it is given after the transcript."""
    unsent: str
    """The blanks at the end of the open text, where the target must not be given them."""
    anchor: str
    """What it is asked to begin with; empty if it is asked for no repetition."""
    resent_tokens: int

    @classmethod
    def on(cls, provider: Provider, turn: Turn, unfinished: Unfinished) -> "Continuation":
        added, anchor = list(_sendable(unfinished.items)), ""
        text = unfinished.text.rstrip()
        if text:
            added.append(Message(role="assistant", content=[OutputText(text)]))
            if not _takes_prefill(provider, turn):
                anchor = last_words(text)
                added.append(_ask(_CONTINUE_TEXT + anchor))
        elif added:
            added.append(_ask(_CONTINUE_AFTER_ITEMS))
        resent = sum(map(_length, added)) + len(_NOT_YET) * sum(isinstance(item, _OUTPUTS) for item in added)
        return cls(unfinished, added, unfinished.text[len(text) :], anchor, _tokens(resent))

    def request(self, request: Request) -> Request | None:
        """What is left of it, with room for what is to be repeated; None if the budget is used up."""
        budget = request.max_output_tokens
        if budget is not None:
            budget -= self.unfinished.output_tokens
            if budget <= 0:
                return None
            budget += _tokens(len(self.anchor))
        calls = any(isinstance(item, FunctionCall | CustomToolCall) for item in self.unfinished.items)
        choice = None if calls else request.tool_choice
        return replace(request, max_output_tokens=budget, tool_choice=choice)

    def usage(self, usage: Usage, unheard: int) -> Usage:
        """The input of the attempt without what was sent again, and the output of all.

        `unheard` tokens of what the attempt has said are not there: they were a repetition.
        """
        usage, unfinished = usage.balanced(), self.unfinished
        given, said = max(0, usage.input_tokens - self.resent_tokens), max(0, usage.output_tokens - unheard)
        details = usage.input_tokens_details
        return Usage.of(
            given,
            said + unfinished.output_tokens,
            cached=min(details.cached_tokens, given),
            written=details.cache_write_tokens or 0,
            reasoning=min(usage.output_tokens_details.reasoning_tokens, said) + unfinished.reasoning_tokens,
        )

    def _usage_of_all(self) -> Usage:
        """Where no other target is asked: what has been counted, with all that was said."""
        counted, said = self.unfinished.usage or Usage(), self.unfinished.output_tokens
        return replace(counted, output_tokens=said, total_tokens=counted.input_tokens + said)

    def begin(self, request: Request, sink: Sink) -> Request | None:
        """The request for the next target, once what it leaves behind has been put.

        None if the budget is used up; then that has been put as the end of the answer.
        """
        left = self.request(request)
        if left is None:
            self.end(sink)
        elif self.unfinished.has_open_reasoning:
            sink.put([_REASONING_ENDS])
        return left

    def end(self, sink: Sink) -> None:
        """Put the end of the answer: no target goes on with it."""
        closing: list[d.AnyDelta] = [_REASONING_ENDS] if self.unfinished.has_open_reasoning else []
        sink.put([*closing, d.UsageDelta(self._usage_of_all()), d.Finish("length")])


def suppress_reasoning(turn: Turn, who: str) -> None:
    """The receipt for what a target thought before it went on with a text."""
    turn.receipt(who, "output", "reasoning in the middle of a text is left out", SUPPRESSED)


def _takes_prefill(provider: Provider, turn: Turn) -> bool:
    """Does the model go on by itself? None does that is asked to think first."""
    prefill = provider.capabilities.prefill
    return prefill is not None and turn.request.reasoning is None and bool(prefill.search(turn.model))


def _sendable(items: list[Item]) -> Iterator[Item]:
    """Finished items; a call is never sent without an output, which the client has yet to give."""
    for item in items:
        yield item
        if isinstance(item, FunctionCall):
            yield FunctionCallOutput(call_id=item.call_id, output=_NOT_YET)
        elif isinstance(item, CustomToolCall):
            yield CustomToolCallOutput(call_id=item.call_id, output=_NOT_YET)


def _ask(words: str) -> Message:
    return Message(role="user", content=[InputText(words)])


def _says_something(delta: d.AnyDelta) -> bool:
    return bool(delta.text) if isinstance(delta, d.TextDelta) else not isinstance(delta, _NO_WORDS)


class Continued(WrappingSink):
    """Joins what a target says on to what was said before it, as one answer.

    While a text is open, whatever the target thinks before it goes on would tear the text apart, and is left
    out. Keys are made different from those of the attempt before.
    """

    def __init__(
        self,
        sink: Sink,
        how: Continuation,
        number: int,
        *,
        begins: Callable[[], None],
        left_out: Callable[[], None],
        limit: int,
    ) -> None:
        """`begins` is called before the first thing that the target adds, `left_out` for its thoughts.

        Of these there may be as many bytes as the `limit` says.
        """
        super().__init__(sink)
        self.has_added = False
        """Has the target said anything that was not there before?"""
        self._begins = begins
        self._how = how
        self._number = number
        self._left_out = left_out
        self._room_for_thoughts = limit
        before = how.unfinished.text
        self._seam = Seam(before, how.unsent, how.anchor) if before else None
        self._is_joined = not before  # the open text has gone on, or is over
        self._is_at_text = bool(before)  # what comes belongs to that text
        self._waiting: list[d.AnyDelta] = []  # until it is known what the text before it adds
        self._memory = 0  # that they take

    def put(self, deltas: list[d.AnyDelta]) -> bool:
        passed: list[d.AnyDelta] = []
        for delta in deltas:
            for one in self._join_delta(delta):
                if not self.has_added and _says_something(one):
                    self.has_added = True
                    self._begins()
                passed.append(self._add_usage(one) if type(one) is d.UsageDelta else one)
        return self._sink.put(passed) if passed else True

    def _join_delta(self, delta: d.AnyDelta) -> list[d.AnyDelta]:
        seam = self._seam if self._seam is not None and not self._seam.is_closed else None
        match delta:
            case d.UsageDelta() | d.AnnotationDelta() if seam is not None:
                self._waiting.append(delta)
                self._memory += memory_of((delta,))
                if self._memory > MOST_HELD:
                    raise AnswerTooLong(TOO_LONG)
                return []
            case d.UsageDelta():
                return [delta]
            case d.AnnotationDelta():
                return self._place_note(delta)
            case d.TextDelta(text):
                if seam is None:
                    self._is_joined = self._is_joined or bool(text)
                    return [delta]
                new = seam.feed(text)
                return self._pass_text(new, delta) if seam.is_closed else []
            case d.Finish(reason):
                return [*self._release_seam(is_cut=reason in d.CUTS), delta]
            case d.Failure():
                return [*self._release_seam(is_cut=True), delta]
            case d.ReasoningDelta() | d.SummaryDelta() | d.SignatureDelta() if not self._is_joined:
                self._left_out()
                self._room_for_thoughts -= size_of(delta)
                if self._room_for_thoughts < 0:
                    raise AnswerTooLong(TOO_LONG)
                return []
            case d.MessageStart() | d.PartEnd(None) | d.ItemEnd(None) if not self._is_joined:
                return []
        self._is_joined = True
        decided = self._release_seam()
        self._is_at_text = False
        return [*decided, self._rename_key(delta)]

    def _release_seam(self, *, is_cut: bool = False) -> list[d.AnyDelta]:
        """What the seam still holds: it is known now to be no more than that."""
        if self._seam is None or self._seam.is_closed:
            return []
        return self._pass_text(self._seam.close(is_cut=is_cut))

    def _pass_text(self, new: str, last: d.TextDelta | None = None) -> list[d.AnyDelta]:
        """What the text adds, of which `last` was the last piece, and what waited for that.

        Notes on a mere repetition are left out.
        """
        passed: list[d.AnyDelta] = []
        if new:
            self._is_joined = True
            passed.append(last if last is not None and last.text == new else d.TextDelta(new))
        for delta in self._waiting:
            if not isinstance(delta, d.AnnotationDelta):
                passed.append(delta)
            elif new:
                passed += self._place_note(delta)
        self._waiting = []
        return passed

    def _place_note(self, delta: d.AnnotationDelta) -> list[d.AnyDelta]:
        """A note at its place: its target counts from the start of its own text, and a part from its own."""
        citation = delta.annotation
        if self._seam is None or not self._is_at_text or not isinstance(citation, UrlCitation):
            return [delta]
        start = self._how.unfinished.offset - self._seam.removed
        if citation.start_index + start < 0:
            return []  # on words of an earlier part
        moved = replace(
            citation, start_index=citation.start_index + start, end_index=citation.end_index + start
        )
        return [d.AnnotationDelta(moved)]

    def _add_usage(self, delta: d.UsageDelta) -> d.UsageDelta:
        if self.has_added:
            unheard = _tokens(self._seam.removed) if self._seam is not None else 0
        else:
            unheard = delta.usage.balanced().output_tokens
        return d.UsageDelta(self._how.usage(delta.usage, unheard))

    def _rename_key(self, delta: d.AnyDelta) -> d.AnyDelta:
        match delta:
            case (
                d.CallDelta(key=key)
                | d.WordsStart(key=key)
                | d.Words(key=key)
                | d.PartEnd(key=key)
                | d.ItemEnd(key=key)
                | d.ItemDelta(key=key)
                | d.VendorDelta(key=key)
            ) if key is not None:
                return replace(delta, key=self._own(key))
        return delta

    def _own(self, key: d.Key) -> d.Key:
        return f"{self._number}:{key}"
