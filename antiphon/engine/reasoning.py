"""Signatures of reasoning: encrypted on their way to the client, decrypted on the way back to the same model.

A blob holds the provider and the model that it came from, so a chain that moves to another one goes on
without it, and no upstream ever gets what it cannot read.
"""

from copy import copy

import msgspec
from msgspec import Struct

from antiphon.providers.base import SUPPRESSED, Provider, Turn
from antiphon.spec.errors import INVALID_ENCRYPTED_CONTENT, ErrorPayload, SpecError
from antiphon.spec.items import Item, Reasoning
from antiphon.wires.sealing import Seal, SealBroken, is_sealed

REASONING = "reasoning"


class _Proof(Struct, array_like=True):
    provider: str
    model: str
    blob: str


class Proofs(Struct, eq=False):
    """The proofs of one turn."""

    _seal: Seal
    _provider: Provider
    _turn: Turn

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def takes_foreign(self) -> bool:
        """Does the upstream read what it sealed itself?"""
        return self._provider.capabilities.foreign_proofs

    def pass_over(self, error: SpecError) -> None:
        """Leave a receipt for a part of the history that cannot be read; a strict caller is refused."""
        if not self._turn.is_lenient:
            raise error
        payload = error.payload
        self._turn.receipt(self._provider.name, payload.param or "input", payload.message, SUPPRESSED)

    def seal_blob(self, blob: str) -> str:
        proof = _Proof(self._provider.name, self._turn.model, blob)
        return self._seal.seal(msgspec.json.encode(proof), tenant=self._turn.tenant, purpose=REASONING)

    def open_items(self, items: list[Item], start: int) -> list[Item]:
        """The items as the provider may see them; those from `start` on came with this request."""
        return [
            self._open(item, n - start) if isinstance(item, Reasoning) and item.encrypted_content else item
            for n, item in enumerate(items)
        ]

    def _open(self, item: Reasoning, n: int) -> Reasoning:
        blob = item.encrypted_content or ""
        own = copy(item)
        own.encrypted_content = None
        param = f"input[{n}].encrypted_content" if n >= 0 else "previous_response_id"
        if not is_sealed(blob):
            if self.takes_foreign:
                own.encrypted_content = blob
            else:
                reason = "this reasoning was not sealed by this gateway, so its provider cannot be known"
                self._turn.receipt(self._provider.name, param, reason, SUPPRESSED)
            return own
        try:
            raw = self._seal.open(blob, tenant=self._turn.tenant, purpose=REASONING)
        except SealBroken as broken:
            message = f"this reasoning cannot be opened: {broken}; leave it out"
            payload = ErrorPayload("invalid_request", message, INVALID_ENCRYPTED_CONTENT, param)
            self.pass_over(SpecError(payload))
            return own
        proof = msgspec.json.decode(raw, type=_Proof)
        if (proof.provider, proof.model) == (self._provider.name, self._turn.model):
            own.encrypted_content = proof.blob
        else:
            reason = f"only {proof.provider}/{proof.model} can read this reasoning, so it is left out"
            self._turn.receipt(self._provider.name, param, reason, SUPPRESSED)
        return own
