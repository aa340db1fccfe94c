"""Why an answer ended, in the words of every upstream, as our reason. What is not here is an ordinary end."""

from antiphon.stream.deltas import FinishReason

FINISH_REASONS: dict[str, FinishReason] = {
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "continuation": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "model_armor": "content_filter",
    "image_safety": "content_filter",
    "image_prohibited_content": "content_filter",
    "image_recitation": "content_filter",
    # The upstream's own tools have been called as often as they may in one answer.
    "pause_turn": "max_tool_calls",
    "max_tool_calls": "max_tool_calls",
    "cancelled": "cancelled",
    # The turn pauses once the upstream has summarised what was said before.
    "compaction": "compaction",
}
