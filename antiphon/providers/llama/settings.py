"""The keys of `type = "llama"`: none of its own, for the embedded model is described by `[local]`."""

from typing import ClassVar

from antiphon.config import DeclaredSettings


class LlamaSettings(DeclaredSettings, frozen=True, kw_only=True):
    embedded: ClassVar[bool] = True
