"""Idempotency keys: a request that is sent again gets the response that its first sending made.

A request claims its key under a lease, which this process renews for as long as it works on the request. The
key is kept for 24 hours once its response is stored, and released when there is none.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from antiphon.spec import ids
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.response import Response
from antiphon.store.base import KeyClaim, NewResponse, StoredResponse, StoreError
from antiphon.store.store import Store

if TYPE_CHECKING:
    from antiphon.engine.run import Run, Save
    from antiphon.engine.saving import RunRecords

log = logging.getLogger(__name__)

HEADER = "Idempotency-Key"
IN_PROGRESS, REUSED = "request_in_progress", "idempotency_key_reused"
LEASE = 10.0
"""Seconds that a key stays taken when the process which has it says nothing more of it."""
KEPT = 24 * 3600.0
"""Seconds that a key stands for its response."""
_PATIENCE = 5.0
_POLL = 0.05
_KEY = re.compile(rb"[\x20-\x7e]{1,255}")


class IdempotencyClaim(Struct, eq=False):
    """A key that a request of this process works under."""

    keys: "IdempotencyKeys"
    claim: KeyClaim
    is_kept: bool = False
    """Is its response stored, and the key with it?"""

    __repr__ = object.__repr__  # which leads to no store

    def for_response(self, now: float) -> KeyClaim:
        """The claim as the response is stored with it."""
        return replace(self.claim, expires_at=now + KEPT)

    def settling(self, keep: "Save | None") -> "Save":
        """Settles the key once the run is kept, by `keep` too where there is one."""
        if keep is None:
            return self.settle

        async def keep_and_settle(run: "Run") -> None:
            await keep(run)
            await self.settle(run)

        return keep_and_settle

    async def settle(self, run: "Run") -> None:
        """The run is over: a key without a stored response is free before the client hears of the end."""
        if run.turn.request.store and is_worth_keeping(run.response):
            self.is_kept = True
        else:
            await self.keys.release(self)


class KeyedRecords(Struct, eq=False):
    """Makes the records of an engine for a request with a key: it is kept together with the response."""

    engine: "RunRecords"
    held: IdempotencyClaim
    clock: Callable[[], float]

    @property
    def store(self) -> Store:
        return self.engine.store

    def record(self, run: "Run", tenant: str) -> NewResponse:
        new = self.engine.record(run, tenant)
        if not is_worth_keeping(run.response):
            return new
        return replace(new, claim=self.held.for_response(self.clock()))


def digest_of_key(given: bytes) -> str:
    """What is kept of a key; one that is empty, too long or unprintable is refused."""
    key = given.strip()
    if not _KEY.fullmatch(key):
        message = "expected 1 to 255 printable ASCII characters, as in a UUID"
        raise SpecError(invalid_param(HEADER, message).with_code("invalid_value"))
    return hashlib.sha256(key).hexdigest()


def is_worth_keeping(response: Response) -> bool:
    """Has the run come to its own end? One that failed, or whose client left, can be tried again."""
    details = response.incomplete_details
    if response.status == "incomplete":
        return details is None or details.reason != "cancelled"
    return response.status == "completed"


class IdempotencyKeys:
    """The keys that this process works under. `close` it at the end."""

    def __init__(self, store: Store, clock: Callable[[], float], lease: float | None = None) -> None:
        self._store = store
        self._clock = clock
        self._lease = LEASE if lease is None else lease
        self._held: dict[str, IdempotencyClaim] = {}
        self._renewing: asyncio.Task[None] | None = None

    async def claim(
        self, tenant: str, key: str, body: str, *, waits: bool = False
    ) -> IdempotencyClaim | StoredResponse:
        """The key for this request; or the response that the same request has made.

        `key` and `body` are digests. Who `waits` does so for a request that is about to make its response;
        everyone else is refused while the same request is worked on.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + _PATIENCE
        claim = KeyClaim(tenant, key, body, ids.new_id("holder_"), 0.0)
        while True:
            now = self._clock()
            taken = await self._store.claim_key(replace(claim, expires_at=now + self._lease), now)
            if taken is None:
                return self._hold(claim)
            if taken.body != body:
                raise _reuse_error()
            if taken.response is not None:
                found = await self._store.get(tenant, taken.response)
                if found is not None:
                    return found
            elif not waits or loop.time() >= ends:
                raise _in_progress()
            else:
                await asyncio.sleep(_POLL)

    async def release(self, held: IdempotencyClaim) -> None:
        """The work is over: a key without a stored response is free again."""
        if self._held.pop(held.claim.holder, None) is None or held.is_kept:
            return
        try:
            await self._store.release_key(held.claim)
        except StoreError as error:
            log.warning(
                "an idempotency key could not be released, and is taken until its lease ends: %s", error
            )

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})

    def _hold(self, claim: KeyClaim) -> IdempotencyClaim:
        held = self._held[claim.holder] = IdempotencyClaim(self, claim)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return held

    async def _renew(self) -> None:
        """As long as there are keys; the next one starts it again."""
        while self._held:
            await asyncio.sleep(self._lease / 4)
            holders = [holder for holder, held in self._held.items() if not held.is_kept]
            if not holders:
                continue
            try:
                await self._store.renew_keys(holders, self._clock() + self._lease)
            except StoreError as error:
                log.warning("the leases of idempotency keys could not be renewed: %s", error)


def _in_progress() -> SpecError:
    message = f"the first request with this {HEADER} is still answered; send it again in a while"
    return SpecError(ErrorPayload("invalid_request", message, IN_PROGRESS, HEADER), 409)


def _reuse_error() -> SpecError:
    message = f"this {HEADER} was used for another request; a new request needs a new key"
    return SpecError(ErrorPayload("invalid_request", message, REUSED, HEADER), 409)
