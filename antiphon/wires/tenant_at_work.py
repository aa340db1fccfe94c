"""For which tenant the current task works, so that what all of them share goes to each in turn."""

from contextvars import ContextVar

_tenant: ContextVar[str] = ContextVar("tenant", default="")


def work_for(tenant: str) -> None:
    """From now on, this task and those that it starts work for this tenant."""
    _tenant.set(tenant)


def tenant_at_work() -> str:
    return _tenant.get()
