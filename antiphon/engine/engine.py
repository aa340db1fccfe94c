"""The engine: it takes a request, finds its context and its provider, and hands back a run."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from antiphon.config import Config, UnknownModel
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.answer_sinks import checks_of
from antiphon.engine.askers import Asker, NoTarget, SingleTarget
from antiphon.engine.capabilities import report_unsupported
from antiphon.engine.chat_checks import check_chat
from antiphon.engine.context import Memory, Resolved, check_question, input_items, resolve, resolve_alone
from antiphon.engine.hosted.history import without_credentials
from antiphon.engine.hosted.loop import HostedLoop
from antiphon.engine.hosted.plan import HostedPlan, HostedTools
from antiphon.engine.idempotency import KeyedRecords
from antiphon.engine.media import MediaFetcher
from antiphon.engine.reasoning import Proofs
from antiphon.engine.receipt_log import ReceiptLog
from antiphon.engine.request_context import RequestContext
from antiphon.engine.response_state import ResponseState, report_hidden
from antiphon.engine.routing.affinity import chain_keys, response_keys
from antiphon.engine.routing.router import TargetRouter
from antiphon.engine.routing.routes import RouteInUse, Routes, UsableRoute
from antiphon.engine.routing.tiers import one_target
from antiphon.engine.run import Run, Save
from antiphon.engine.run_state import RunState, Services
from antiphon.engine.saving import Saving, encode_all, stored
from antiphon.engine.settings_in_force import SettingsInForce
from antiphon.providers.base import SUPPRESSED, TRUNCATED, Capabilities, Provider, Turn
from antiphon.providers.discovery import advice_on
from antiphon.spec.codec import encode, extras
from antiphon.spec.errors import MODEL_UNAVAILABLE, ErrorPayload, SpecError
from antiphon.spec.items import Item
from antiphon.spec.request import CompactRequest, Request, WebSocketCreate, new_response
from antiphon.spec.response import Response
from antiphon.spec.routing import RoutingDecision, hint_of
from antiphon.store.base import Append, Context, Joining, NewResponse
from antiphon.store.bodies import insert_output
from antiphon.store.store import Store
from antiphon.stream.answer_limit import MOST_DELTAS, TOO_LONG, AnswerRoom
from antiphon.stream.client_calls import declared_tools
from antiphon.stream.composer import Composer
from antiphon.stream.dialects import solicited
from antiphon.stream.policy import check_tools
from antiphon.tools.citations import Citations
from antiphon.wires.run_listener import Listener, RunKind
from antiphon.wires.schema.check import check_schema
from antiphon.wires.schema.pool import SchemaPool
from antiphon.wires.sealing import Seal


class PriorAttempt(Struct):
    """A response that another process has begun, and the context that it follows."""

    response: Response
    previous: Context | None


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
        routes = routes or Routes(config, providers, clock)
        hosted = hosted or HostedTools({}, config, seal, KnownSecrets())
        self.settings = SettingsInForce.of(config, providers, routes, hosted, media)
        """Those that the next run begins with."""
        self.store = store
        self.seal = seal
        self.clock = clock
        self.schemas = SchemaPool()
        self.services = Services(seal, self.schemas, clock, store)
        self._receipt_log = ReceiptLog()

    @property
    def config(self) -> Config:
        return self.settings.config

    @property
    def providers(self) -> Mapping[str, Provider]:
        return self.settings.providers

    @property
    def routes(self) -> Routes:
        return self.settings.routes

    @property
    def hosted(self) -> HostedTools:
        return self.settings.hosted

    def use(self, config: Config) -> None:
        """From the next run on, serve by this configuration; its providers and tools are those in force.

        A run that has begun keeps its own, and what is known of targets stays known.
        """
        now = self.settings
        routes = Routes(config, now.providers, self.clock, replaced=now.routes)
        self.settings = SettingsInForce.of(config, now.providers, routes, now.hosted, now.media)

    def listen(self, listener: Listener) -> None:
        """From here on, tell this listener of each run."""
        self.services.heard.add(listener)

    def new_run(self, context: RequestContext, kind: RunKind = "response") -> RunState:
        """A run that has not begun, with the settings that are in force now."""
        return RunState(
            kind=kind,
            tenant=context.tenant,
            key=context.key,
            request_id=context.request_id,
            context=context,
            settings=self.settings,
            services=self.services,
        )

    async def start(
        self,
        request: Request,
        state: RunState,
        *,
        memory: Memory | None = None,
        error_event: bool = True,
        keep: Save | None = None,
        counts_receipts: bool = False,
        keeps_chunks: bool = False,
        stream_error_codes: frozenset[str] = frozenset(),
        prior: PriorAttempt | None = None,
    ) -> Run:
        """A run that has not begun: everything that can be refused without a provider has been.

        `keep` is awaited before the terminal event goes out, for a door that keeps the run in a way of its
        own. With `counts_receipts` the terminal response says how many there are, also where its dialect has
        no word for it; with `keeps_chunks` a chunk of the upstream without words is an empty delta. An error
        whose code is in `stream_error_codes` becomes events, also where the client has seen none yet. `prior`
        is what another process has made of the response: the composer does not know yet what was said.
        """
        context = state.context
        if request.store:
            self.store.check_available()
        if prior is None and (
            request.tool_choice is not None or request.text is not None or request.chat is not None
        ):
            await self._check(request, context)
        resolved = resolve_alone(request, context.is_large)
        if resolved is None:
            check_question(request)
        turn = self.target(request, state, resolved.items if resolved else None)
        assert state.target is not None
        provider, usable = state.settings.providers[state.target.provider], state.usable
        takes, plan = (usable or provider).capabilities, None
        is_warming = turn.stream and isinstance(request, WebSocketCreate) and not request.generate
        if is_warming:
            usable = None
        elif request.tools:
            plan = state.settings.hosted.plan(turn, takes)
        if request.background and usable is None and plan is None:
            report_unsupported(turn, provider)  # once it is queued, nobody could be refused any more
        if resolved is None:
            resolved = await self._read(turn, plan, state, memory, prior.previous if prior else None)
            turn.items = resolved.items
        named = state.usable.name if state.usable is not None else state.model
        response = prior.response if prior else self._new_response(request, takes, named)
        state.id, state.is_background = response.id, request.background
        composer = self._composer(response, turn, context, provider, error_event, counts_receipts)
        if keeps_chunks:
            composer.keeps_chunks = turn.keeps_chunks = True
        asker: Asker
        citations: Citations | None = None
        if plan is not None:
            plan.turn.keeps_chunks = keeps_chunks
            asker = loop = self._loop(plan, takes, state, resolved, memory, composer)
            citations = loop.citations
        elif usable is not None:
            asker = self.router(usable, turn, state, resolved, memory, composer)
            asker.prepared_for = state.target
        elif is_warming:
            asker = NoTarget()
        else:
            asker = SingleTarget(state, state.target, resolved, takes)
        save = self._saving(request, context, memory, keep)
        added, retells = self.services.sinks, context.dialect.shows_summaries
        checks = checks_of(asker.capabilities, turn, self.schemas, added, citations, retells=retells)
        return Run(state, turn, composer, resolved, asker, save, checks, stream_error_codes)

    def _saving(
        self, request: Request, context: RequestContext, memory: Memory | None, keep: Save | None
    ) -> Saving | None:
        """How a run is kept, if it is. A background response is written by its job, with its events."""
        if (claim := context.claim) is not None and not request.background:
            return Saving(KeyedRecords(self, claim, self.clock), context.tenant, memory, claim.settling(keep))
        if (request.store and not request.background) or memory is not None or keep is not None:
            return Saving(self, context.tenant, memory, keep)
        return None

    async def _check(self, request: Request, context: RequestContext) -> None:
        """Refuse what contradicts itself, or speaks of what does not exist."""
        if request.tool_choice is not None:
            check_tools(request)
        if request.text is not None:
            await check_schema(request, context.tenant, self.schemas)
        if request.chat is not None:
            await check_chat(request, context.tenant, self.store)

    async def _read(
        self,
        turn: Turn,
        plan: HostedPlan | None,
        state: RunState,
        memory: Memory | None,
        previous: Context | None,
    ) -> Resolved:
        """The context of the turn, and the tools that were declared on its way."""
        resolved = await self.resolve(turn.request, state.context, memory, previous)
        turn.is_large = resolved.is_large
        if not resolved.is_plain:
            turn.tools = declared_tools(turn.request.tools, resolved.items)
            if plan is not None:
                plan.turn.tools = declared_tools(plan.turn.tools, resolved.items)
        return resolved

    def _loop(
        self,
        plan: HostedPlan,
        takes: Capabilities,
        state: RunState,
        resolved: Resolved,
        memory: Memory | None,
        composer: Composer,
    ) -> HostedLoop:
        """What asks the model and runs its hosted calls, by turns."""
        context, target = replace(resolved), state.target
        assert target is not None
        plan.turn.is_large = resolved.is_large

        def make_asker(turn: Turn, said: Callable[[], Response]) -> SingleTarget | TargetRouter:
            state.turn = turn
            if (usable := state.usable) is None:
                return SingleTarget(state, target, context, takes)
            return self.router(usable, turn, state, context, memory, composer, said, composer.response.id)

        return HostedLoop(state, plan, context, composer, make_asker, takes)

    def _composer(
        self,
        response: Response,
        turn: Turn,
        context: RequestContext,
        provider: Provider,
        error_event: bool,
        counts_receipts: bool,
    ) -> Composer:
        """What makes the events of the response, in the dialect and with the extras of the client."""
        dialect, tools = context.dialect, turn.tools
        if context.receipts:
            response.receipts = turn.receipts
        counted = counts_receipts or (turn.stream and dialect.slug is not None)
        return Composer(
            response,
            clock=self.clock,
            shows=partial(dialect.shows, solicited=solicited(tools)) if tools else dialect.shows,
            hidden=partial(report_hidden, turn, provider.name),
            first_sequence_number=dialect.first_sequence_number,
            error_event=error_event,
            seal=Proofs(self.seal, provider, turn).seal_blob,
            receipts=turn.receipts if counted else (),
            room=AnswerRoom(turn.answer_limit, MOST_DELTAS),
            limited=partial(turn.receipt, "gateway", "output", TOO_LONG, TRUNCATED),
        )

    def _new_response(self, request: Request, takes: Capabilities, named: str) -> Response:
        response = new_response(request, named, self.clock(), takes.defaults)
        if "service_tier" not in takes.parameters:
            response.service_tier = "default"
        if request.tools:
            response.tools = [without_credentials(tool) for tool in request.tools]
        return response

    def target(self, request: Request, state: RunState, items: list[Item] | None = None) -> Turn:
        """What the first target is asked for this request; `state` then has the target and its route."""
        context, settings = state.context, state.settings
        state.model = request.model or settings.config.default_model or ""
        try:
            target = settings.resolve_model(request.model)
        except UnknownModel as unknown:
            message = f"{unknown}{advice_on(state.model, settings.providers)}"
            raise SpecError(ErrorPayload("not_found", message, "model_not_found", "model")) from None
        if (route := settings.route_of(state.model)) is None:
            self.check_use(target.provider, context)
        else:
            state.usable = usable = self.usable(route, context)
            state.route_name = route.route.name
            target = usable.targets[0]
        state.target = target
        # A background response can be followed later; over a WebSocket nothing is ever plain.
        stream = request.stream or request.background or request.always_streams
        state.turn = turn = Turn(
            target.upstream_model,
            request,
            [] if items is None else items,
            request.tools,
            tenant=context.tenant,
            request_id=context.request_id,
            strict=context.strict,
            is_lenient=context.dialect.is_lenient,
            stream=stream,
            is_large=context.is_large,
            log=self._receipt_log,
            key=context.key,
            answer_limit=settings.config.server.answer_limit,
        )
        for place in context.skipped:
            turn.receipt("gateway", place, "a text is no item of an input, so it is passed over", SUPPRESSED)
        return turn

    def check_use(self, provider: str, context: RequestContext) -> None:
        """Refuse a provider that cannot be used, or not by this sender."""
        if context.via and provider in self.config.discovered:
            message = (
                f"this request came through a proxy (it has the header {context.via}), and without keys "
                f"such a request cannot use {provider}, which was found and not configured; "
                f"add a [keys.NAME] table, or a [providers.{provider}] table"
            )
            raise SpecError(ErrorPayload("permission_denied", message, "proxied_request", "model"), 403)
        if why := self.settings.config.providers[provider].disabled:
            message = f"the provider {provider} is disabled: {why}"
            raise SpecError(ErrorPayload("server_error", message, MODEL_UNAVAILABLE, "model"), 503)

    def usable(self, route: RouteInUse, context: RequestContext) -> UsableRoute:
        """The route with the targets that this sender can use; it is refused if there is none."""
        if not context.via and route.all is not None:
            return route.all
        found, refusals = [], []
        targets, spare = route.route.targets, route.route.spare
        for target in targets if spare is None else (*targets, spare):
            try:
                self.check_use(target.provider, context)
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
        state: RunState,
        resolved: Resolved,
        memory: Memory | None,
        composer: Composer,
        said: Callable[[], Response] | None = None,
        response_id: str = "",
    ) -> TargetRouter:
        """What asks the targets of this route for the turn.

        With an id, this response has been answered in part, and goes on where it was.
        """
        route, context = usable.route, state.context
        router = TargetRouter(state, usable, resolved, ResponseState(state, composer, said))
        if not route.has_choice:
            if context.hint is not None or extras(turn.request):
                self._read_hint(usable, turn, context)
            return router
        request, tenant, name = turn.request, context.tenant, route.route.name
        self._read_hint(usable, turn, context)
        if route.keeps_chains:
            keys = chain_keys(request, tenant, name, context.request_id if memory is not None else "")
            keys += response_keys(tenant, name, response_id) if response_id else []
            if request.store or memory is not None or response_id:
                router.keys_of_response = partial(response_keys, tenant, name)
            router.chain_keys = keys
        router.leaves_receipt = True
        return router

    def decide(self, request: Request, context: RequestContext) -> RoutingDecision:
        """Which target a request that goes on with nothing would go to; nothing is sent."""
        state = self.new_run(context)
        turn = self.target(request, state, input_items(request.input))
        if (usable := state.usable) is None:
            assert state.target is not None
            return one_target(state.target)
        self._read_hint(usable, turn, context)
        return usable.route.decide(turn, usable)

    def _read_hint(self, usable: UsableRoute, turn: Turn, context: RequestContext) -> None:
        """What is said about the task; refused if that leaves none of these targets."""
        turn.hint = hint_of(turn.request) or context.hint
        usable.route.check_hint(turn.hint, usable.targets)

    def resolve(
        self,
        request: Request | CompactRequest,
        context: RequestContext,
        memory: Memory | None = None,
        previous: Context | None = None,
    ) -> Awaitable[Resolved]:
        return resolve(
            request,
            tenant=context.tenant,
            store=self.store,
            memory=memory,
            previous=previous,
            pairing=context.pairing or self.config.store.pairing,
            is_large=context.is_large,
        )

    def record(self, run: Run, tenant: str) -> NewResponse:
        """The finished run as the store keeps it."""
        response, previous, given = run.composer.response, run.resolved.previous, run.resolved.input
        request, is_large, made = run.turn.request, run.turn.is_large, response.output
        expires, append = self.expires_at(response.created_at), None
        if conversation := request.conversation:
            append = Append(conversation, stored(given + made, is_large), expires)
        output = encode_all(made, is_large)
        body = encode(replace(response, output=[]))
        if run.composer.muted:
            run.encoded = insert_output(body, output)
        return NewResponse(
            id=response.id,
            tenant=tenant,
            status=response.status,
            model=response.model,
            created_at=response.created_at,
            body=body,
            lacks_output=True,
            input=encode_all(given, is_large),
            output=output,
            names=[item.id for item in given + made if item.id],
            previous=previous,
            expires_at=expires,
            append=append,
            chat=self.joining(request),
            settlements=() if run.state.admission is None else run.state.settle(),
        )

    def joining(self, request: Request) -> Joining | None:
        """The chat that the response to a request joins now."""
        if request.chat is None:
            return None
        now = self.clock()
        return Joining(request.chat, now, self.expires_at(now))

    async def close(self) -> None:
        self.routes.close()
        await self.hosted.close()
        await self.schemas.close()

    def expires_at(self, now: float) -> int | None:
        ttl = self.settings.config.store.ttl
        return int(now + ttl) if ttl else None
