"""Checks of several keys together: names lead somewhere, secrets are there, nothing is given twice."""

import hashlib
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from antiphon.config.document import ConfigDocument, OverlayText, parse_overlay
from antiphon.config.mistakes import ConfigErrors, KeyPath, Where, quote, suggest
from antiphon.config.reader import ConfigReader, keys, secret_in
from antiphon.config.routes import TIERS_COOLDOWN, WILDCARD, RouteSettings
from antiphon.config.schema import LOCAL, ClientKey, Config, StoreSettings, UnknownModel, local_alias
from antiphon.config.secret import Secret, is_database_url
from antiphon.config.tools import ToolSettings
from antiphon.config.upstreams import FoundProvider, HttpSettings, ProviderSettings, UpstreamTimeouts

_PROVIDER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# Spelled otherwise, it may be a key in the wrong place, and is not repeated.
_SHOWN_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def complete(
    reader: ConfigReader,
    config: Config,
    environ: Mapping[str, str] | None,
    found: Iterable[FoundProvider] = (),
) -> Config:
    """Complete the configuration: fetch its secrets, and add the embedded model and the found providers.

    Mistakes go to the reader. Without an environment, secrets that lie there are left alone.
    """
    local = replace(config.local, model=os.path.expanduser(config.local.model))
    config = _with_local(replace(config, local=local), reader.types or {})
    providers = {name: _provider(reader, config, item, environ) for name, item in config.providers.items()}
    config = add_found_providers(
        replace(config, providers=providers), found, reader.types or {}, environ or {}
    )
    clients = {name: _key(reader, key, environ) for name, key in config.keys.items()}
    server = replace(config.server, host=config.server.host.removeprefix("[").removesuffix("]"))
    store = _store(reader, config, environ)
    if server.memory_limit < server.body_limit:
        reader.add_mistake(
            ("server", "memory_limit"), "expected at least as much as `body_limit`, which must fit in"
        )
    if reader.types is not None:
        _check_models(reader, config)
    _check_keys(reader, clients)
    routes = {name: _route(reader, name, route) for name, route in config.routes.items()}
    tables = {name: _tool(reader, tool, environ) for name, tool in config.tools.tables.items()}
    tools = replace(config.tools, tables=tables)
    return replace(config, keys=clients, server=server, store=store, routes=routes, tools=tools)


def check_exposure(config: Config) -> str | None:
    """Why the server must not listen on its configured host, or None: without keys, only loopback is safe."""
    if config.keys or _is_loopback(config.server.host):
        return None
    return (
        f"host {quote(config.server.host)} can be reached from other machines and there are no keys, "
        "so anyone could use your models; add a [keys.NAME] table, or use host 127.0.0.1"
    )


def should_discover(config: Config) -> bool:
    """Should the gateway look for providers by itself? By default not where other machines could use them."""
    told = config.server.discover
    return _is_loopback(config.server.host) if told is None else told


def add_found_providers(
    config: Config,
    found: Iterable[FoundProvider],
    types: Mapping[str, type[ProviderSettings]],
    environ: Mapping[str, str],
) -> Config:
    """The configuration with providers that were found; one that is configured keeps its name."""
    new = {one.name: one for one in found if one.name not in config.providers}
    providers = dict(config.providers)
    for name, one in new.items():
        settings = types[one.table["type"]](
            **one.table, name=name, origin=Where(one.by), timeouts=config.timeouts
        )
        secret = secret_in(environ.get(settings.api_key_env or ""))
        providers[name] = replace(settings, api_key=secret)
    return replace(config, providers=providers, discovered=config.discovered | new)


def replace_models(config: Config, models: Mapping[str, Sequence[str]]) -> Config:
    """The configuration with another `[models]` table; `ConfigErrors` if that leads nowhere."""
    reader = ConfigReader(ConfigDocument(), Config, None, {})
    tables = {alias: tuple(targets) for alias, targets in models.items()}
    changed = _with_local(replace(config, models=tables), {})
    _check_models(reader, changed)
    if reader.mistakes:
        raise ConfigErrors(reader.mistakes)
    return changed


def _is_loopback(host: str) -> bool:
    host = host.removeprefix("[").removesuffix("]")
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _with_local(config: Config, types: Mapping[str, type[ProviderSettings]]) -> Config:
    """Add what the embedded model needs and the file does not name: its provider, its alias, the default."""
    providers = dict(config.providers)
    if config.local.enabled and LOCAL not in providers:
        kind = next((kind for kind in types if types[kind].embedded), None)
        if kind is not None:
            providers[LOCAL] = types[kind](type=kind, name=LOCAL)
    if LOCAL not in providers or not providers[LOCAL].embedded:
        return config
    alias = local_alias(config.local)
    models = {**config.models}
    models.setdefault(alias, (f"{LOCAL}/{alias}",))
    return replace(config, providers=providers, models=models, default_model=config.default_model or alias)


def _store(reader: ConfigReader, config: Config, environ: Mapping[str, str] | None) -> StoreSettings:
    """The checked store settings. Machines that share a database need the same sealing keys."""
    store = config.store
    store = replace(store, path=store.path and os.path.expanduser(store.path))
    if store.url_env is not None:
        if store.url is not None:
            reader.add_mistake(("store", "url_env"), "expected `url` or `url_env`, got both")
            return store
        # Also a command that needs no other secret has to know where things are stored.
        known = reader.environ if environ is None and reader.environ.get(store.url_env) else environ
        url = _from_environment(reader, ("store", "url_env"), store.url_env, known)
        if url is not None and not is_database_url(url.reveal()):
            message = "the environment variable that it names holds no address of PostgreSQL"
            reader.add_mistake(("store", "url_env"), f'{message}, such as "postgresql://user@host/database"')
        store = replace(store, url=url)
    if (
        (store.url or store.url_env)
        and not config.sealing.keys
        and "keys" not in _table(reader, ("sealing",))
    ):
        reader.add_mistake(
            ("store", "url" if store.url_env is None else "url_env"),
            "with PostgreSQL, all machines need the same sealing keys: make one with "
            "`openssl rand -base64 32` and write it as `keys` into [sealing]",
        )
    return store


def _provider(
    reader: ConfigReader, config: Config, provider: ProviderSettings, environ: Mapping[str, str] | None
) -> ProviderSettings:
    path: KeyPath = ("providers", provider.name)
    disabled = (provider.absence() if provider.embedded else None) or ""
    if provider.embedded and (objection := provider.objection(config.local)):
        reader.add_mistake(("local", "model"), objection)
    if not _PROVIDER_NAME.fullmatch(provider.name):
        reader.add_mistake(
            path, "a provider's name has only letters, digits, `-`, `_` and `.`, at most 64 of them"
        )
    given = _table(reader, path)
    if provider.needs_base_url and "base_url" not in given:
        reader.add_mistake(
            path, 'missing key `base_url`, expected an address such as "https://api.example.com/v1"'
        )
    if isinstance(provider, HttpSettings):
        for header in provider.headers:
            if not _HEADER_NAME.fullmatch(header):
                reader.add_mistake((*path, "headers", header), "not the name of an HTTP header")
    secret, variable = provider.api_key, provider.api_key_env
    if secret is not None and "api_key_env" in given:
        reader.add_mistake((*path, "api_key_env"), "expected `api_key` or `api_key_env`, got both")
    elif secret is not None:
        variable = None
    elif variable is not None and environ is not None and not environ.get(variable, "").strip():
        disabled = f"the environment variable {_name_variable(variable)} is not set"
        # The variable of a preset stands in no file: then it is the table that has the warning.
        place = (*path, "api_key_env") if "api_key_env" in given else path
        set_it = (
            f"; where the gateway runs: export {variable}=…" if _SHOWN_VARIABLE.fullmatch(variable) else ""
        )
        reader.add_warning(place, f"{disabled}, so this provider is disabled{set_it}")
    elif variable is not None:
        secret = _from_environment(reader, (*path, "api_key_env"), variable, environ)
    limits = _table(reader, (*path, "timeouts"))
    own = {key: getattr(provider.timeouts, key) for key in keys(UpstreamTimeouts) if key in limits}
    return replace(
        provider,
        api_key=secret,
        api_key_env=variable,
        timeouts=replace(config.timeouts, **own),
        disabled=disabled,
    )


def _name_variable(variable: str, key: str = "api_key_env") -> str:
    return variable if _SHOWN_VARIABLE.fullmatch(variable) else f"that `{key}` names"


def _tool(reader: ConfigReader, tool: ToolSettings, environ: Mapping[str, str] | None) -> ToolSettings:
    """The table of a hosted tool, with the secret `X` of the variable that its key `X_env` names."""
    found: dict[str, Secret] = {}
    for key in keys(type(tool)):
        secret, variable = key.removesuffix("_env"), getattr(tool, key)
        if secret == key or secret not in keys(type(tool)) or variable is None:
            continue
        path: KeyPath = ("tools", tool.name, key)
        if getattr(tool, secret) is not None:
            reader.add_mistake(path, f"expected `{secret}` or `{key}`, got both")
        elif environ is not None and not environ.get(variable, "").strip():
            reader.add_warning(path, f"the environment variable {_name_variable(variable, key)} is not set")
        elif (value := _from_environment(reader, path, variable, environ)) is not None:
            found[secret] = value
    return replace(tool, **found)


def _key(reader: ConfigReader, key: ClientKey, environ: Mapping[str, str] | None) -> ClientKey:
    path: KeyPath = ("keys", key.name)
    given = _table(reader, path).keys() & {"key_env", "key_sha256"}
    if len(given) != 1:
        reader.add_mistake(path, f"expected `key_env` or `key_sha256`, got {'both' if given else 'neither'}")
    digest = key.key_sha256.lower() if key.key_sha256 else None
    if key.key_env is not None:
        secret = _from_environment(reader, (*path, "key_env"), key.key_env, environ)
        digest = _digest(secret) if secret else None
    return replace(key, key_sha256=digest, tenant=key.tenant or key.name)


def _digest(secret: Secret) -> str:
    return hashlib.sha256(secret.reveal().encode()).hexdigest()


def _from_environment(
    reader: ConfigReader, path: KeyPath, variable: str, environ: Mapping[str, str] | None
) -> Secret | None:
    if environ is None:
        return None
    value = environ.get(variable, "")
    secret = secret_in(value)
    if secret is None:
        reason = "holds no text of printable ASCII characters" if value else "is not set"
        reader.add_mistake(path, f"the environment variable that it names {reason}")
    return secret


def _check_models(reader: ConfigReader, config: Config) -> None:
    names = {*config.providers, *_table(reader, ("providers",))}
    for alias, targets in config.models.items():
        path: KeyPath = ("models", alias)
        if not alias:
            reader.add_mistake(path, "an alias needs a name")
        if alias.count(WILDCARD) > 1:
            reader.add_mistake(
                path, f"a pattern has one {WILDCARD}, and this one has {alias.count(WILDCARD)}"
            )
        if not targets:
            reader.add_mistake(path, 'expected a target such as "groq/llama-3.3-70b", got an empty list')
        if len(targets) > 1 and alias in targets:
            message = "a route cannot have the name of one of its targets, which leads to that target alone"
            reader.add_mistake(path, f"{message}; give it another name")
        may_fill = WILDCARD in alias and len(targets) == 1 and alias not in config.routes
        for n, (place, target) in enumerate(zip(_places(reader, path, targets), targets, strict=True)):
            _check_target(reader, config, place, target, names)
            if WILDCARD in target and not may_fill:
                message = f"a target may have a {WILDCARD} only where it is the one target of a pattern"
                reader.add_mistake(place, f"{message} without a [routes] table")
            if target in targets[:n]:
                message = f"the target {quote(target)} is there more than once; use weights instead"
                reader.add_mistake(place, message)
    for name, route in config.routes.items():
        _check_route(reader, config, name, route, names)
    if config.default_model is not None:
        _check_default(reader, config, config.default_model, names)
    for model in config.catalogue:
        provider, _, upstream = model.partition("/")
        if not upstream:
            expected = 'expected a name of the form "provider/model", in quotes'
            reader.add_mistake(("catalogue", model), f"{expected}, got {quote(model)}")
        elif provider not in names:
            reader.add_mistake(
                ("catalogue", model), f"there is no provider {quote(provider)}{_or(provider, names)}"
            )


def _places(reader: ConfigReader, path: KeyPath, values: Sequence[str]) -> list[KeyPath]:
    """Where each value of a list stands; the values do not include elements that could not be read."""
    given = _value(reader, path)
    if not isinstance(given, list):
        return [path] * len(values)
    found: list[KeyPath] = []
    for n, value in enumerate(given):
        if len(found) < len(values) and value == values[len(found)]:
            found.append((*path, n))
    return found


def _check_target(reader: ConfigReader, config: Config, path: KeyPath, target: str, names: set[str]) -> None:
    provider, slash, upstream = target.partition("/")
    if not (slash and upstream):
        reader.add_mistake(path, f'expected a target of the form "provider/model", got {quote(target)}')
    elif provider not in names:
        reader.add_mistake(path, f"there is no provider {quote(provider)}{_or(provider, names)}")
    elif provider in config.providers and not config.serves(provider, upstream):
        there = local_alias(config.local)
        reader.add_mistake(path, f"{provider} has no model {quote(upstream)}; there is: {there}")


def _check_route(
    reader: ConfigReader, config: Config, name: str, route: RouteSettings, names: set[str]
) -> None:
    path: KeyPath = ("routes", name)
    targets = config.models.get(name)
    if targets is None:
        reader.add_mistake(
            path, f"there is no alias {quote(name)} in [models]{_or(name, set(config.models))}"
        )
        return
    given, wanted = (*path, "weights"), ("models", name)
    count, expected = _count(reader, given, route.weights), _count(reader, wanted, targets)
    if count not in (0, expected):
        reader.add_mistake(given, f"expected a weight for each target, {expected} in all, got {count}")
    elif len(route.weights) == count and not any(route.weights) and count:
        reader.add_mistake(given, "expected a weight above 0 for one target at least")
    if (spare := route.context_window_fallback) is not None:
        where = (*path, "context_window_fallback")
        _check_target(reader, config, where, spare, names)
        if WILDCARD in spare:
            message = f"only the target of a pattern may have a {WILDCARD}"
            reader.add_mistake(where, f"expected one target, got {quote(spare)}: {message}")
        elif targets == (spare,):
            message = "name one with a larger window, or leave this out"
            reader.add_mistake(where, f"{quote(spare)} is the only target already; {message}")


def _count(reader: ConfigReader, path: KeyPath, values: Sequence[object]) -> int:
    """How many values a list has, with the elements that could not be read."""
    given = _value(reader, path)
    if isinstance(given, OverlayText):
        given = parse_overlay(given, separated=True)
    return len(given if isinstance(given, list) else values)


def _route(reader: ConfigReader, name: str, route: RouteSettings) -> RouteSettings:
    """The route with the longer cooldown of the strategy `tiers`, unless the table sets one."""
    if route.strategy != "tiers" or "cooldown" in _table(reader, ("routes", name)):
        return route
    return replace(route, cooldown=TIERS_COOLDOWN)


def _check_default(reader: ConfigReader, config: Config, model: str, providers: set[str]) -> None:
    provider, _, upstream = model.partition("/")
    serves = provider not in config.providers or config.serves(provider, upstream)
    if config.alias_of(model) is None and not (provider in providers and upstream and serves):
        reader.add_mistake(("default_model",), f"{UnknownModel(model, config.available())}")


def _or(name: str, known: set[str]) -> str:
    return suggest(name, known) or f"; there is: {', '.join(sorted(known)) or 'none'}"


def _check_keys(reader: ConfigReader, clients: Mapping[str, ClientKey]) -> None:
    seen: dict[str, str] = {}
    for name, key in clients.items():
        if key.key_sha256 is None:
            continue
        if (other := seen.setdefault(key.key_sha256, name)) != name:
            reader.add_mistake(("keys", name), f"the same key as `{other}`; each client needs its own")


def _table(reader: ConfigReader, path: KeyPath) -> Mapping[str, Any]:
    """The raw table at a path, also one that a variable spells; empty when there is none."""
    value = _value(reader, path)
    table = parse_overlay(value) if isinstance(value, OverlayText) else value
    return table if isinstance(table, dict) else {}


def _value(reader: ConfigReader, path: KeyPath) -> Any:
    """The raw value at a path, None when there is none."""
    return _table(reader, path[:-1]).get(str(path[-1])) if path else reader.document.tree
