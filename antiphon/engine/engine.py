"""The engine: it takes a request, finds its context and its provider, and hands back a run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from antiphon.config import Config, Target, UnknownModel
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.caller import Begun
from antiphon.engine.caller import Caller as Caller
from antiphon.engine.capabilities import report_unsupported
from antiphon.engine.chat_checks import check_chat
from antiphon.engine.context import Memory, Resolved, alone, check_question, input_items, resolve, shown
from antiphon.engine.current_target import Asked as Asked
from antiphon.engine.current_target import Composing, hidden
from antiphon.engine.files import with_files
from antiphon.engine.hosted.history import without_credentials
from antiphon.engine.hosted.loop import HostedLoop
from antiphon.engine.hosted.plan import HostedPlan, HostedTools
from antiphon.engine.idempotency import KeyedRecords
from antiphon.engine.media import MediaFetcher
from antiphon.engine.messages_items import change_tools, told_plainly
from antiphon.engine.reasoning import Proofs
from antiphon.engine.receipt_log import ReceiptLog
from antiphon.engine.routing.affinity import chain_keys, response_keys
from antiphon.engine.routing.continuation import Resuming, Unfinished
from antiphon.engine.routing.router import RouteProvider
from antiphon.engine.routing.routes import RouteInUse, Routes, UsableRoute
from antiphon.engine.routing.tiers import one_target
from antiphon.engine.run import Run, Save, checks_of
from antiphon.engine.saving import Saving, encode_all, encode_around, stored
from antiphon.engine.summary import asks_for_summary
from antiphon.engine.truncation import fit
from antiphon.engine.wrapping import FittedLater, wrapped
from antiphon.providers.base import SUPPRESSED, TRUNCATED, Capabilities, Provider, Sink, Turn
from antiphon.providers.discovery import advice_on
from antiphon.providers.silent import Refusing, Silent
from antiphon.spec.codec import extras
from antiphon.spec.errors import MODEL_UNAVAILABLE, ErrorPayload, SpecError
from antiphon.spec.initial_response import new_response
from antiphon.spec.items import Item, has_media
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate
from antiphon.spec.response import Response
from antiphon.spec.routing import RoutingDecision, hint_of
from antiphon.store.base import Append, Context, Joining, NewResponse
from antiphon.store.store import Store
from antiphon.stream.answer_limit import MOST_DELTAS, TOO_LONG
from antiphon.stream.client_calls import declared_tools
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import solicited
from antiphon.stream.policy import check_tools
from antiphon.wires.messages.vendor import FIELDS
from antiphon.wires.schema.check import check_schema
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal

_MANY = 1000


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
        hosted: HostedTools | None = None,
    ) -> None:
        self.config = config
        self.providers = providers
        self.store = store
        self.seal = seal
        self.clock = clock
        self.media = media
        self.routes = routes or Routes(config, providers, clock)
        self.hosted = hosted or HostedTools({}, config, seal, KnownSecrets())
        self.schemas = SchemaPool()
        self._wrapped: Callable[[Provider, Turn], Provider] = partial(wrapped, seal, self.schemas)
        self._receipt_log = ReceiptLog()
        self._resolve_model = lru_cache(_MANY)(config.resolve)
        self._find_alias = lru_cache(_MANY)(config.alias_of)

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
        told_in_stream: frozenset[str] = frozenset(),
        begun: Begun | None = None,
    ) -> Run:
        """A run that has not begun: everything that can be refused without the upstream has been.

        `keep` is awaited before the terminal event goes out, for who keeps the run in a way of their own.
        With `counts_receipts` the terminal response says how many there are, also where its dialect has no
        word for it; with `keeps_chunks` a chunk of the upstream without words is an empty delta. An error
        whose code is in `told_in_stream` is told as events, also where nothing has been told yet. `begun` is
        what another process has begun: the composer is yet to be told what was said.
        """
        if request.store:
            self.store.check_available()
        if begun is None and (
            request.tool_choice is not None or request.text is not None or request.chat is not None
        ):
            await self._check(request, caller)
        resolved = alone(request, caller.is_large)
        if resolved is None:
            check_question(request)
        provider, turn = self.target(request, caller, resolved.items if resolved else None)
        usable, plan = caller.asked.usable, None
        if turn.stream and isinstance(request, WebSocketCreate) and not request.generate:
            provider, usable = Silent(), None
        elif request.tools:
            plan = self.hosted.plan(turn, (usable or provider).capabilities)
        # What is done for one model turn, or for one target, is done when it is asked.
        at_once = usable is None and plan is None
        if at_once:
            report_unsupported(turn, provider)
        if resolved is None:
            resolved = await self._read(turn, plan, caller, memory, begun.previous if begun else None)
        first = provider
        if at_once:
            if (showing := self._show(resolved, provider, turn, told_in_stream)) is not None:
                provider = await showing
            provider = self._wrapped(provider, turn)
        else:
            turn.items = resolved.items
        named = caller.asked.usable.name if caller.asked.usable is not None else caller.asked.model
        takes = (usable or provider).capabilities
        response = begun.response if begun else self._new_response(request, takes, named)
        composer = self._composer(response, turn, caller, first, error_event, counts_receipts, keeps_chunks)
        if usable is not None and plan is None:
            composing = Composing(self.seal, composer, caller.asked)
            provider = self.router(usable, turn, caller, resolved, memory, composing, caller.asked.target)
        if plan is not None:
            plan.turn.keeps_chunks = keeps_chunks
            provider = self._loop(plan, provider, caller, resolved, memory, composer)
        save = self._saving(request, caller, memory, keep)
        checks = checks_of(
            provider,
            turn,
            self.schemas,
            restricts_calls=plan is None,
            retells=caller.dialect.shows_summaries,
        )
        return Run(turn, composer, resolved, provider, save, checks, told_in_stream)

    def _saving(
        self, request: Request, caller: Caller, memory: Memory | None, keep: Save | None
    ) -> Saving | None:
        """How a run is kept, if it is. A background response is written by its job, with its events."""
        if (held := caller.held) is not None and not request.background:
            return Saving(KeyedRecords(self, held, self.clock), caller.tenant, memory, held.settling(keep))
        if (request.store and not request.background) or memory is not None or keep is not None:
            return Saving(self, caller.tenant, memory, keep)
        return None

    async def _check(self, request: Request, caller: Caller) -> None:
        """Refuse what contradicts itself, or speaks of what does not exist."""
        if request.tool_choice is not None:
            check_tools(request)
        if request.text is not None:
            await check_schema(request, caller.tenant, self.schemas)
        if request.chat is not None:
            await check_chat(request, caller.tenant, self.store)

    async def _read(
        self,
        turn: Turn,
        plan: HostedPlan | None,
        caller: Caller,
        memory: Memory | None,
        previous: Context | None,
    ) -> Resolved:
        """The context of the turn, and the tools that were declared on its way."""
        resolved = await self.resolve(turn.request, caller, memory, previous)
        turn.is_large = resolved.is_large
        if not resolved.is_plain:
            turn.tools = declared_tools(turn.request.tools, resolved.items)
            if plan is not None:
                plan.turn.tools = declared_tools(plan.turn.tools, resolved.items)
        return resolved

    def _show(
        self, resolved: Resolved, provider: Provider, turn: Turn, told_in_stream: frozenset[str]
    ) -> Awaitable[Provider] | None:
        """Give the turn its items as its only provider takes them; None if that is done at once.

        Awaited, it gives who answers: somebody else where the refusal is told in the stream, or in the
        background, where the items are made to fit when the provider is asked.
        """
        if resolved.is_plain and not resolved.has_media and not provider.capabilities.counts_tokens:
            turn.items = resolved.items
            return None
        return self._show_what_fits(resolved, provider, turn, told_in_stream)

    async def _show_what_fits(
        self, resolved: Resolved, provider: Provider, turn: Turn, told_in_stream: frozenset[str]
    ) -> Provider:
        turn.items = await self.shown(resolved, provider, turn)
        may_not_fit = resolved.has_media or provider.capabilities.counts_tokens
        if not may_not_fit or asks_for_summary(turn.items):
            return provider
        if turn.request.background:  # counting tokens can mean waiting for the model
            return FittedLater(provider, self.fitted)
        try:
            turn.items = await self.fitted(provider, turn, turn.items)
        except SpecError as refusal:
            if not turn.stream or refusal.payload.code not in told_in_stream:
                raise
            return Refusing(refusal)
        return provider

    def _loop(
        self,
        plan: HostedPlan,
        provider: Provider,
        caller: Caller,
        resolved: Resolved,
        memory: Memory | None,
        composer: Composer,
    ) -> HostedLoop:
        """What asks the model and runs its hosted calls, by turns."""
        asked, context = caller.asked, replace(resolved)
        usable = asked.usable
        plan.turn.is_large = resolved.is_large

        async def ask(turn: Turn, sink: Sink, said: Callable[[], Response], begun: Unfinished | None) -> None:
            asked.turn = turn
            if usable is not None:
                composing = Composing(self.seal, composer, asked, said=said)
                id = composer.response.id
                router = self.router(usable, turn, caller, context, memory, composing, response_id=id)
                if begun is not None:
                    router.resume(begun)
                await router.answer(turn, sink)
                return
            if (preparing := self._prepare(context, provider, turn, ())) is not None:
                await preparing
            one = self._wrapped(provider, turn)
            await (one if begun is None else Resuming(one, begun)).answer(turn, sink)

        return HostedLoop(self.hosted, plan, context, composer, ask, (usable or provider).capabilities)

    def _composer(
        self,
        response: Response,
        turn: Turn,
        caller: Caller,
        provider: Provider,
        error_event: bool,
        counts_receipts: bool,
        keeps_chunks: bool,
    ) -> Composer:
        """What tells of the response, in the words of the caller's dialect and with what was asked for."""
        dialect, tools = caller.dialect, turn.tools
        if caller.receipts:
            response.receipts = turn.receipts
        turn.keeps_chunks = keeps_chunks
        counted = counts_receipts or (turn.stream and dialect.slug is not None)
        composer = Composer(
            response,
            clock=self.clock,
            shows=partial(dialect.shows, solicited=solicited(tools)) if tools else dialect.shows,
            hidden=partial(hidden, turn, provider.name),
            first_sequence_number=dialect.first_sequence_number,
            error_event=error_event,
            seal=Proofs(self.seal, provider, turn).sealed,
            receipts=turn.receipts if counted else (),
            room=self.config.server.answer_limit,
            deltas_left=MOST_DELTAS,
            limited=partial(turn.receipt, "gateway", "output", TOO_LONG, TRUNCATED),
        )
        composer.keeps_chunks = keeps_chunks
        return composer

    def _new_response(self, request: Request, takes: Capabilities, named: str) -> Response:
        response = new_response(request, named, self.clock(), takes.defaults)
        if "service_tier" not in takes.parameters:
            response.service_tier = "default"
        if request.tools:
            response.tools = [without_credentials(tool) for tool in request.tools]
        return response

    def target(
        self, request: Request, caller: Caller, items: list[Item] | None = None
    ) -> tuple[Provider, Turn]:
        """Who is asked first for this request, and with what; `caller.asked` has it with the route behind."""
        asked = caller.asked
        asked.model = request.model or self.default_model
        try:
            target = self._resolve_model(request.model)
        except UnknownModel as unknown:
            message = f"{unknown}{advice_on(asked.model, self.providers)}"
            raise SpecError(ErrorPayload("not_found", message, "model_not_found", "model")) from None
        if (route := self.route_of(asked.model)) is None:
            self.check_use(target.provider, caller)
        else:
            asked.usable = usable = self.usable(route, caller)
            target = usable.targets[0]
        asked.target = target
        # A background response can be followed later; over a WebSocket nothing is ever plain.
        stream = request.stream or request.background or request.always_streams
        asked.turn = turn = Turn(
            target.upstream_model,
            request,
            [] if items is None else items,
            request.tools,
            tenant=caller.tenant,
            request_id=caller.request_id,
            strict=caller.strict,
            is_lenient=caller.dialect.is_lenient,
            stream=stream,
            is_large=caller.is_large,
            log=self._receipt_log,
            key=caller.key,
            answer_limit=self.config.server.answer_limit,
        )
        for place in caller.skipped:
            turn.receipt("gateway", place, "a text is no item of an input, so it is passed over", SUPPRESSED)
        return self.providers[target.provider], turn

    def route_of(self, model: str) -> RouteInUse | None:
        """How a name is served that has several targets, or that a pattern with several stands for."""
        return self.routes.get(self._find_alias(model) or model)

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
            raise SpecError(ErrorPayload("server_error", message, MODEL_UNAVAILABLE, "model"), 503)

    def usable(self, route: RouteInUse, caller: Caller) -> UsableRoute:
        """The route with the targets that this caller can use; it is refused if there is none."""
        if not caller.via and route.all is not None:
            return route.all
        found, refusals = [], []
        targets, spare = route.route.targets, route.route.spare
        for target in targets if spare is None else (*targets, spare):
            try:
                self.check_use(target.provider, caller)
                found.append(target)
            except SpecError as error:
                refusals.append(error)
        usable = tuple(target for target in targets if target in found)
        if not usable:
            raise refusals[0]
        return route.among(usable, spare if spare in found else None)

    def router(
        self,
        usable: UsableRoute,
        turn: Turn,
        caller: Caller,
        resolved: Resolved,
        memory: Memory | None,
        composing: Composing,
        begun_for: Target | None = None,
        response_id: str = "",
    ) -> RouteProvider:
        """What asks the targets of this route for the turn, and who the response is made for already.

        With an id, this response has been answered in part, and goes on where it was.
        """
        takes, route = usable.capabilities, usable.route
        router = RouteProvider(usable, takes, resolved, self._prepare, self._wrapped, composing, begun_for)
        if not route.has_choice:
            if caller.hint is not None or extras(turn.request):
                self._read_hint(usable, turn, caller)
            return router
        request, tenant, name = turn.request, caller.tenant, route.route.name
        self._read_hint(usable, turn, caller)
        if route.keeps_chains:
            keys = chain_keys(request, tenant, name, caller.request_id if memory is not None else "")
            keys += response_keys(tenant, name, response_id) if response_id else []
            if request.store or memory is not None or response_id:
                router.remembers = partial(response_keys, tenant, name)
            router.keys = keys
        router.tells = True
        return router

    def decide(self, request: Request, caller: Caller) -> RoutingDecision:
        """Which target a request that goes on with nothing would go to; nothing is sent."""
        _, turn = self.target(request, caller, input_items(request.input))
        asked = caller.asked
        if (usable := asked.usable) is None:
            assert asked.target is not None
            return one_target(asked.target)
        self._read_hint(usable, turn, caller)
        return usable.route.decide(turn, usable)

    def _read_hint(self, usable: UsableRoute, turn: Turn, caller: Caller) -> None:
        """What is said about the task; refused if that leaves nobody of these targets to be asked."""
        turn.hint = hint_of(turn.request) or caller.hint
        usable.route.check_hint(turn.hint, usable.targets)

    def _prepare(
        self, resolved: Resolved, provider: Provider, turn: Turn, added: Sequence[Item]
    ) -> Awaitable[None] | None:
        """Make the turn what this provider takes, with receipts for what it does not."""
        report_unsupported(turn, provider)
        if resolved.is_plain and not resolved.has_media and not provider.capabilities.counts_tokens:
            turn.items = [*resolved.items, *added] if added else resolved.items
            return None
        return self._fit(resolved, provider, turn, added)

    async def _fit(self, resolved: Resolved, provider: Provider, turn: Turn, added: Sequence[Item]) -> None:
        items = await self.shown(resolved, provider, turn)
        turn.items = await self.fitted(provider, turn, [*items, *added])

    def shown(self, resolved: Resolved, provider: Provider, turn: Turn) -> Awaitable[list[Item]]:
        """The items as this provider may see them."""
        takes = provider.capabilities
        speaks_messages = FIELDS in takes.parameters
        if not resolved.is_plain and not speaks_messages:
            change_tools(turn, resolved.items)

        def told(items: list[Item]) -> list[Item]:
            items = items if speaks_messages else told_plainly(items)
            return self.hosted.history.told(items, takes=takes, tenant=turn.tenant)

        return shown(resolved, Proofs(self.seal, provider, turn), turn.tenant, self.seal, told)

    def resolve(
        self,
        request: Request | CompactRequest,
        caller: Caller,
        memory: Memory | None = None,
        previous: Context | None = None,
    ) -> Awaitable[Resolved]:
        return resolve(
            request,
            tenant=caller.tenant,
            store=self.store,
            memory=memory,
            previous=previous,
            pairing=caller.pairing or self.config.store.pairing,
            is_large=caller.is_large,
        )

    async def fitted(self, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
        """The items as this provider takes them, and no more of them than it can hold."""
        return await fit(provider, turn, await self.embedded(provider, turn, items))

    async def embedded(self, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
        if self.media is None or not has_media(items):
            return items
        items = await with_files(self.hosted.tools.get("file_search"), provider, turn, items, self.clock())
        return await self.media.embedded(provider, turn, items)

    @property
    def default_model(self) -> str:
        return self.config.default_model or ""

    def record(self, run: Run, tenant: str) -> NewResponse:
        """The finished run as the store keeps it."""
        response, resolved = run.response, run.resolved
        given, made = resolved.input, response.output
        expires, append = self.expires_at(response.created_at), None
        if conversation := run.turn.request.conversation:
            append = Append(conversation, stored(given + made, run.turn.is_large), expires)
        output = encode_all(made)
        run.encoded = encode_around(response, output)
        return NewResponse(
            id=response.id,
            tenant=tenant,
            status=response.status,
            model=response.model,
            created_at=response.created_at,
            body=run.encoded,
            input=encode_all(given, run.turn.is_large),
            output=output,
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

    def watch(self, watched: Callable[[Provider], Provider]) -> None:
        """From here on, a provider is asked through what this makes of it."""
        inside = self._wrapped
        self._wrapped = lambda provider, turn: inside(watched(provider), turn)

    async def close(self) -> None:
        self.routes.close()
        await self.hosted.close()
        await self.schemas.close()

    def expires_at(self, now: float) -> int | None:
        ttl = self.config.store.ttl
        return int(now + ttl) if ttl else None
