"""Makes notices about problems: what happened, its code, and what to do now."""

import antiphon
from antiphon.tui.chats import Node
from antiphon.tui.entries import NoticeEntry
from antiphon.tui.transcript import Transcript
from antiphon.wires.own_command import own_command
from antiphon.wires.terminal_text import printable

_RETRY = "/retry asks again."
_START = f"`{own_command('serve')}` starts one; --local needs none."
_INCOMPLETE = {
    "max_output_tokens": ("The answer reached its limit of tokens", "Write “go on” to continue it."),
    "content_filter": ("A content filter ended the answer", "Put the question another way."),
}
_CODES = {
    "rate_limit_exceeded": "Wait a little; then /retry asks again.",
    "insufficient_quota": "The account has no credit left; choose another model with /model.",
    "model_not_found": "/model lists what the server offers.",
    "context_length_exceeded": "Begin a new chat with Ctrl+N, or go back with /edit.",
    "invalid_api_key": "Start again with --api-key, or set ANTIPHON_API_KEY.",
    "previous_response_not_found": "The server no longer has this conversation; /retry sends all of it.",
}
_STATUSES = {
    401: "Start again with --api-key, or set ANTIPHON_API_KEY.",
    403: "The key is not allowed to do this; ask the operator of the server.",
    404: "/model lists what the server offers.",
    413: "Attach less, or begin a new chat with Ctrl+N.",
    429: "Wait a little; then /retry asks again.",
}


def failure_notice(response: antiphon.Response | Node) -> NoticeEntry:
    """Makes the notice of a `failed` response."""
    error = response.error
    code = error.code if error else ""
    message = error.message if error else "the server gave no reason"
    return NoticeEntry("The response failed", message, code=code, hint=_CODES.get(code, _RETRY), tone="error")


def ended_early(response: antiphon.Response | Node) -> NoticeEntry:
    """Makes the notice of an `incomplete` response."""
    reason = response.incomplete_details.reason if response.incomplete_details else "no reason given"
    title, hint = _INCOMPLETE.get(reason, ("The answer is incomplete", "Write “go on” to continue it."))
    return NoticeEntry(title, hint=hint, code=reason, tone="warning")


def of_status(status: str) -> NoticeEntry:
    return NoticeEntry(f"The response is {status}", tone="warning", hint=_RETRY)


def stop_notice() -> NoticeEntry:
    return NoticeEntry("Stopped", hint="The answer so far stays; /retry asks again.", tone="warning")


class ServerAway(NoticeEntry):
    """The notice of a lost connection, until it is back; `then` says what to do afterwards."""

    def __init__(self, problem: str, *then: str) -> None:
        hint = " ".join(("Reconnecting until it answers.", *then, _START))
        super().__init__("The server cannot be reached", problem, hint=hint, tone="warning")
        self._then = then
        self.is_over = False

    def tell(self, problem: str) -> None:
        """Shows the current problem after another attempt to connect."""
        self.text = printable(problem)
        self.change()

    def end(self) -> None:
        """Shows that the server is back."""
        self.title, self.hint, self.tone = "The server is back", " ".join(self._then), "info"
        self.text, self.is_over = "", True
        self.change()


def update_outage(transcript: Transcript, problem: str) -> bool:
    """Updates the notices of a lost connection; returns false if there are none.

    The newest one shows the current problem. Without a problem all of them end.
    """
    shown = [one for one in transcript.entries if isinstance(one, ServerAway) and not one.is_over]
    for notice in shown[-1:] if problem else shown:
        if problem:
            notice.tell(problem)
        else:
            notice.end()
        transcript.redraw(notice)
    return bool(shown)


def of_error(error: Exception) -> NoticeEntry:
    """Makes the notice of an exception of a call to the server."""
    match error:
        case antiphon.StatusError():
            hint = _CODES.get(error.code) or _STATUSES.get(error.status, _RETRY)
            where = f" (at {error.param})" if error.param else ""
            title = f"The server refused with {error.status}"
            return NoticeEntry(
                title, f"{error.message}{where}", code=error.code or error.type, hint=hint, tone="error"
            )
        case antiphon.StreamBroken():
            return NoticeEntry(
                "The answer broke off",
                str(error),
                hint=f"The part that arrived is kept. {_RETRY}",
                tone="error",
            )
        case antiphon.ConnectionFailed():
            return ServerAway(str(error), _RETRY)
        case antiphon.TimedOut():
            return NoticeEntry("The server took too long", str(error), hint=_RETRY, tone="error")
        case antiphon.UnexpectedAnswer():
            return NoticeEntry("This is no Open Responses server", str(error), tone="error")
        case antiphon.AntiphonError():
            return NoticeEntry("This cannot be done", str(error), tone="error")
        case _:
            return NoticeEntry(
                "Something unexpected failed", f"{type(error).__name__}: {error}", tone="error"
            )
