"""The engine: it takes a request, finds its context and its provider, and hands back a run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial

from msgspec import Struct

from antiphon.config import Config, Target, UnknownModel
from antiphon.engine.capabilities import report_unsupported
from antiphon.engine.chats import check_chat
from antiphon.engine.context import Memory, Resolved, alone, input_items, resolve, shown
from antiphon.engine.media import MediaFetcher, may_have_addresses
from antiphon.engine.reasoning import Proofs
from antiphon.engine.receipts import ReceiptLog
from antiphon.engine.routing.affinity import chain_keys, key_of
from antiphon.engine.routing.router import Router
from antiphon.engine.routing.routes import RouteInUse, Routes
from antiphon.engine.routing.tiers import one_target
from antiphon.engine.run import Run, Save, checks_of
from antiphon.engine.truncation import fit
from antiphon.providers.base import SUPPRESSED, Capabilities, Provider, Turn
from antiphon.providers.silent import Silent
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.initial_response import new_response
from antiphon.spec.items import Item
from antiphon.spec.long_values import encode_each, encode_long
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate
from antiphon.spec.response import Response
from antiphon.spec.routing import RouteHint, RoutingDecision, hint_of
from antiphon.store.base import Append, Context, Joining, NewResponse, Store
from antiphon.store.base import StoredItem as StoredItem
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect, solicited
from antiphon.stream.policy import check_tools
from antiphon.wires.schema.check import check_schema
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal
from antiphon.wires.worker_thread import in_worker_thread

_MANY = 1000


class Asked(Struct, eq=False):
    """What a request asked for, where that led, and what was made of it."""

    model: str = ""
    target: Target | None = None
    turn: Turn | None = None
    route: RouteInUse | None = None


class Caller(Struct, eq=False):
    """Who asks, and how they want to be answered."""

    tenant: str = ""
    key: str = ""
    """The name of the key that was sent."""
    dialect: Dialect = OPEN_RESPONSES
    receipts: bool = False
    strict: bool = False
    request_id: str = ""
    is_large: bool = False
    """Has this request a body that takes longer than the event loop can spare?"""
    via: str = ""
    """The header by which somebody whom nobody knows shows that they come through a proxy."""
    asked: Asked | None = None
    """For the log; a copy of the caller shares it."""
    hint: RouteHint | None = None
    """What a header says about the task, for routes that choose by it."""

    def asking(self, request_id: str) -> "Caller":
        return Caller(
            self.tenant,
            self.key,
            self.dialect,
            self.receipts,
            self.strict,
            request_id,
            False,
            self.via,
            Asked(),
            self.hint,
        )


class Engine:
    def __init__(
        self,
        config: Config,
        providers: Mapping[str, Provider],
        store: Store,
        seal: Seal,
        clock: Callable[[], float],
        media: MediaFetcher | None = None,
        routes: Routes | None = None,
    ) -> None:
        self.config = config
        self.providers = providers
        self.store = store
        self.seal = seal
        self.clock = clock
        self.media = media
        self.routes = routes or Routes(config, providers, clock)
        self.schemas = SchemaPool()
        self._receipt_log = ReceiptLog()
        self._resolve_model = lru_cache(_MANY)(config.resolve)

    async def start(
        self,
        request: Request,
        caller: Caller,
        *,
        memory: Memory | None = None,
        error_event: bool = True,
        keep: Save | None = None,
        counts_receipts: bool = False,
        keeps_chunks: bool = False,
    ) -> Run:
        """A run that has not begun: everything that can be refused without the upstream has been.

        `keep` is awaited before the terminal event goes out, for who keeps the run in a way of their own.
        With `counts_receipts` the terminal response says how many there are, also where its dialect has no
        word for it; with `keeps_chunks` a chunk of the upstream without words is an empty delta.
        """
        if request.tool_choice is not None:
            check_tools(request)
        if request.text is not None:
            await check_schema(request, caller.tenant, self.schemas)
        if request.chat is not None:
            await check_chat(request, caller.tenant, self.store)
        resolved = alone(request)
        provider, turn = self.target(request, caller, resolved.items if resolved else None)
        asked = caller.asked
        assert asked is not None
        route = asked.route
        if isinstance(request, WebSocketCreate) and not request.generate:
            provider, route = Silent(), None
        elif route is None:
            report_unsupported(turn, provider)
        first, proofs = provider, Proofs(self.seal, provider, turn)
        may_not_fit = provider.capabilities.counts_tokens
        if resolved is None:
            resolved = await self.resolve(request, caller, memory)
            turn.is_large = resolved.is_large
            if route is None:
                turn.items = await shown(resolved, proofs, caller.tenant, self.seal)
                may_not_fit = may_not_fit or may_have_addresses(turn.items)
        if route is not None:
            # What is done for one target is done when it is asked.
            turn.items = resolved.items
            provider = self.router(route, turn, caller, resolved, memory)
        # Counting tokens can mean waiting for the model, so a background response leaves it to its job.
        elif may_not_fit and not request.background:
            turn.items = await self.fitted(provider, turn, turn.items)
        named = None if route is None else str(asked.target)
        response = self._new_response(turn, provider.capabilities, caller, named)
        counted = counts_receipts or (turn.stream and caller.dialect.slug is not None)
        composer = self._composer(response, turn, caller, first.name, proofs, error_event, counted)
        if route is not None and isinstance(provider, Router):
            provider.composing = _Composing(self.seal, composer, asked, turn, first)
        if keeps_chunks:
            turn.keeps_chunks = composer.keeps_chunks = True
        # A background response is written by its job, together with its events.
        saves = (request.store and not request.background) or memory is not None or keep is not None
        save = _Saving(self, caller, memory, keep) if saves else None
        return Run(turn, composer, resolved, provider, save, checks_of(provider, turn, self.schemas))

    def _composer(
        self,
        response: Response,
        turn: Turn,
        caller: Caller,
        provider: str,
        proofs: Proofs,
        error_event: bool,
        counts_receipts: bool,
    ) -> Composer:
        dialect, tools = caller.dialect, turn.request.tools
        return Composer(
            response,
            clock=self.clock,
            shows=partial(dialect.shows, solicited=solicited(tools)) if tools else dialect.shows,
            hidden=partial(_hidden, turn, provider),
            first_sequence_number=dialect.first_sequence_number,
            error_event=error_event,
            seal=proofs.sealed,
            receipts=turn.receipts if counts_receipts else (),
        )

    def _new_response(self, turn: Turn, takes: Capabilities, caller: Caller, model: str | None) -> Response:
        """`model` is the target that is asked first, where there are several."""
        request = turn.request
        named = model or request.model or self.default_model
        response = new_response(request, named, self.clock(), takes.defaults)
        if "service_tier" not in takes.parameters:
            response.service_tier = "default"
        if caller.receipts:
            response.receipts = turn.receipts
        return response

    def target(
        self, request: Request, caller: Caller, items: list[Item] | None = None
    ) -> tuple[Provider, Turn]:
        asked = caller.asked = caller.asked or Asked()
        asked.model = request.model or self.default_model
        try:
            target = self._resolve_model(request.model)
        except UnknownModel as unknown:
            raise SpecError(
                ErrorPayload("not_found", str(unknown), code="model_not_found", param="model")
            ) from None
        asked.route = self.routes.get(asked.model)
        if asked.route is None:
            self.check_use(target.provider, caller)
        else:
            target = self.usable(asked.route, caller)[0]
        asked.target = target
        # A background response can be followed later; over a WebSocket nothing is ever plain.
        stream = request.stream or request.background or isinstance(request, WebSocketCreate)
        asked.turn = turn = Turn(
            target.upstream_model,
            request,
            [] if items is None else items,
            request.tools,
            tenant=caller.tenant,
            request_id=caller.request_id,
            strict=caller.strict,
            stream=stream,
            is_large=caller.is_large,
            log=self._receipt_log,
            key=caller.key,
        )
        return self.providers[target.provider], turn

    def check_use(self, provider: str, caller: Caller) -> None:
        """Refuse a provider that cannot be used, or not by this caller."""
        if caller.via and provider in self.config.discovered:
            message = (
                f"this request came through a proxy (it has the header {caller.via}), and without keys "
                f"such a request cannot use {provider}, which was found and not configured; "
                f"add a [keys.NAME] table, or a [providers.{provider}] table"
            )
            raise SpecError(ErrorPayload("permission_denied", message, "proxied_request", "model"), 403)
        if why := self.config.providers[provider].disabled:
            message = f"the provider {provider} is disabled: {why}"
            raise SpecError(ErrorPayload("server_error", message, "model_unavailable", "model"), 503)

    def usable(self, route: RouteInUse, caller: Caller) -> tuple[Target, ...]:
        """The targets of a route that this caller can use; it is refused if there is none."""
        targets = route.route.targets
        if not caller.via and route.is_enabled:
            return targets
        found, refusal = [], None
        for target in targets:
            try:
                self.check_use(target.provider, caller)
                found.append(target)
            except SpecError as error:
                refusal = refusal or error
        if refusal is not None and not found:
            raise refusal
        return tuple(found)

    def router(
        self,
        route: RouteInUse,
        turn: Turn,
        caller: Caller,
        resolved: Resolved,
        memory: Memory | None = None,
    ) -> Router:
        """What asks the targets of this route for the turn; `follow` it with the response that it makes."""
        request, tenant, targets = turn.request, caller.tenant, self.usable(route, caller)
        self._read_hint(route, targets, turn, caller)
        keys: list[int] = []
        remembers: Callable[[str], list[int]] | None = None
        if route.keeps_chains:
            keys = chain_keys(request, tenant, caller.request_id if memory is not None else "")
            if request.store or memory is not None:
                remembers = partial(_response_keys, tenant)
        prepare = partial(self._prepare, resolved)
        return Router(route, targets, prepare, keys, remembers)

    def decide(self, request: Request, caller: Caller) -> RoutingDecision:
        """Which target a request that goes on with nothing would go to; nothing is sent."""
        _, turn = self.target(request, caller, input_items(request.input))
        asked = caller.asked
        assert asked is not None
        if asked.route is None:
            assert asked.target is not None
            return one_target(asked.target)
        targets = self.usable(asked.route, caller)
        self._read_hint(asked.route, targets, turn, caller)
        return asked.route.decide(turn, targets)

    def _read_hint(self, route: RouteInUse, targets: Sequence[Target], turn: Turn, caller: Caller) -> None:
        """What is said about the task; refused if that leaves nobody of these targets to be asked."""
        if not route.has_choice:
            return
        hint = turn.hint = hint_of(turn.request) or caller.hint
        if hint is not None and all(one.provider in hint.without for one in targets):
            message = f"no target of {route.route.name!r} is left to be asked"
            raise SpecError(invalid_param("antiphon:route.without", message))

    def follow(self, router: Router, composer: Composer, caller: Caller) -> None:
        """Whatever target the router asks, the response is composed as that target's."""
        router.composing = _Composing(self.seal, composer, caller.asked or Asked())

    def _prepare(
        self, resolved: Resolved, provider: Provider, turn: Turn, added: Sequence[Item]
    ) -> Awaitable[None] | None:
        """Make the turn what this provider takes, with receipts for what it does not."""
        report_unsupported(turn, provider)
        if resolved.is_plain and not provider.capabilities.counts_tokens:
            turn.items = [*resolved.items, *added]
            if self.media is None or not may_have_addresses(turn.items):
                return None
        return self._fit(resolved, provider, turn, added)

    async def _fit(self, resolved: Resolved, provider: Provider, turn: Turn, added: Sequence[Item]) -> None:
        items = await self.shown(resolved, provider, turn)
        turn.items = await self.fitted(provider, turn, [*items, *added])

    def shown(self, resolved: Resolved, provider: Provider, turn: Turn) -> Awaitable[list[Item]]:
        """The items as this provider may see them."""
        return shown(resolved, Proofs(self.seal, provider, turn), turn.tenant, self.seal)

    def resolve(
        self, request: Request | CompactRequest, caller: Caller, memory: Memory | None = None
    ) -> Awaitable[Resolved]:
        return resolve(
            request,
            tenant=caller.tenant,
            store=self.store,
            memory=memory,
            pairing=self.config.store.pairing,
            is_large=caller.is_large,
        )

    async def fitted(self, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
        """The items as this provider takes them, and no more of them than it can hold."""
        return await fit(provider, turn, await self.embedded(provider, turn, items))

    async def embedded(self, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
        if self.media is None or not may_have_addresses(items):
            return items
        return await self.media.embedded(provider, turn, items)

    @property
    def default_model(self) -> str:
        return self.config.default_model or ""

    def record(self, run: Run, caller: Caller) -> NewResponse:
        """The finished run as the store keeps it."""
        response, resolved = run.response, run.resolved
        given, made = resolved.input, response.output
        expires, append = self.expires_at(response.created_at), None
        if conversation := run.turn.request.conversation:
            append = Append(conversation, stored(given + made, run.turn.is_large), expires)
        run.encoded = encode(response)
        return NewResponse(
            id=response.id,
            tenant=caller.tenant,
            status=response.status,
            model=response.model,
            created_at=response.created_at,
            body=run.encoded,
            input=encode_all(given, run.turn.is_large),
            output=encode_all(made),
            names=[item.id for item in given + made if item.id],
            previous=resolved.previous,
            expires_at=expires,
            append=append,
            chat=self.joining(run.turn.request),
        )

    def joining(self, request: Request) -> Joining | None:
        """The chat that the response to a request joins now."""
        if request.chat is None:
            return None
        now = self.clock()
        return Joining(request.chat, now, self.expires_at(now))

    async def close(self) -> None:
        self.routes.close()
        await self.schemas.close()

    def expires_at(self, now: float) -> int | None:
        ttl = self.config.store.ttl
        return int(now + ttl) if ttl else None


class _Composing(Struct, eq=False):
    """Keeps a response true to the target that is asked for it now."""

    seal: Seal
    composer: Composer
    asked: Asked
    turn: Turn | None = None
    """What the composer is made for already, and for whom."""
    provider: Provider | None = None

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def response(self) -> Response:
        return self.composer.response

    def begins(self, target: Target, provider: Provider, turn: Turn) -> None:
        composer = self.composer
        composer.response.model = turn.target
        if turn is self.turn and provider is self.provider:
            self.asked.target = target
            return
        self.turn, self.provider = turn, provider
        composer.seal = Proofs(self.seal, provider, turn).sealed
        composer.hidden = partial(_hidden, turn, provider.name)
        self.asked.target, self.asked.turn = target, turn

    def snapshot(self) -> Response:
        return self.composer.snapshot()

    def shows(self, item_type: str) -> str | None:
        return self.composer.shows(item_type)


def _response_keys(tenant: str, id: str) -> list[int]:
    return [key_of(tenant, "response", id)]


def _hidden(turn: Turn, provider: str, type: str) -> None:
    """The client learns at least that there was something which it did not ask for."""
    reason = f"{type!r} is outside the specification and no tool of the request asks for it: not shown"
    turn.receipt(provider, "output", reason, SUPPRESSED)


class _Saving(Struct, eq=False):
    """How a run is kept: smaller than a function with all that it needs, for as long as a stream is open."""

    engine: Engine
    caller: Caller
    memory: Memory | None
    keep: Save | None

    __repr__ = object.__repr__  # which shows no prompt

    def __call__(self, run: Run) -> Awaitable[None]:
        if self.memory is None and self.keep is None and not run.turn.is_large:
            return self.engine.store.save(self.engine.record(run, self.caller))
        return self._kept(run)

    async def _kept(self, run: Run) -> None:
        is_large = run.turn.is_large
        if run.turn.request.store:
            record = self.engine.record
            new = await in_worker_thread(record, run, self.caller) if is_large else record(run, self.caller)
            await self.engine.store.save(new)
        if self.memory is not None and run.response.status in ("completed", "incomplete"):
            context = await in_worker_thread(remembered, run) if is_large else remembered(run)
            self.memory.keep(run.response.id, context)
        if self.keep is not None:
            await self.keep(run)


def encode_all(items: list[Item], is_large: bool = False) -> bytes:
    """Items as one fragment; large ones in pieces, so that no call takes long."""
    if is_large:
        return b"".join(encode_each(items))
    return encode(items[0]) if len(items) == 1 else b",".join([encode(item) for item in items])


def stored(items: list[Item], is_large: bool = False) -> list[StoredItem]:
    encoded = encode_long if is_large else encode
    return [StoredItem(item.id or None, encoded(item)) for item in items]


def remembered(run: Run) -> Context:
    """The run as a WebSocket remembers it."""
    previous = run.resolved.previous
    return Context(
        response=run.response.id,
        status=run.response.status,
        before=previous.fragments() if previous else (),
        input=encode_all(run.resolved.input, run.turn.is_large),
        output=encode_all(run.response.output),
    )
