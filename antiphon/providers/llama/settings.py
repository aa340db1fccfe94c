"""The keys of `type = "llama"`: none of its own, for the embedded model is described by `[local]`."""

from typing import ClassVar

from antiphon.config import DeclaredSettings, LocalSettings
from antiphon.embedded import weights
from antiphon.embedded.process import available


class LlamaSettings(DeclaredSettings, frozen=True, kw_only=True):
    embedded: ClassVar[bool] = True

    @classmethod
    def absence(cls) -> str | None:
        return available()

    @classmethod
    def objection(cls, local: LocalSettings) -> str | None:
        return weights.objection(local.model)
