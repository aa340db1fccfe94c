"""The SQL of uploaded files: what is known of each; its bytes are in a folder, under their digest."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.file_values import FilePage, UploadedFile
from antiphon.store.postgres import vector_stores
from antiphon.store.postgres.connection import Connection, execute, one, rows

FILE = "SELECT id, tenant, filename, purpose, bytes, digest, created_at, expires_at FROM files"
# Two uploads of one tenant must not both find the room that is left.
HOLD_TENANT = "SELECT pg_advisory_xact_lock(hashtextextended('antiphon files of ' || %s, 0))"


async def add(db: Connection, file: UploadedFile, quota: int) -> bool:
    await execute(db, HOLD_TENANT, (file.tenant,))
    sum_of = "SELECT coalesce(sum(bytes), 0)::int8 FROM files WHERE tenant = %s"
    ((taken,),) = await rows(db, sum_of, (file.tenant,))
    if taken + file.bytes > quota:
        return False
    await execute(
        db,
        "INSERT INTO files (id, tenant, filename, purpose, bytes, digest, created_at, expires_at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            file.id,
            file.tenant,
            file.filename,
            file.purpose,
            file.bytes,
            file.digest,
            file.created_at,
            file.expires_at,
        ),
    )
    return True


async def get(db: Connection, tenant: str, id: str) -> UploadedFile | None:
    row = await one(db, f"{FILE} WHERE tenant = %s AND id = %s", (tenant, id))
    return None if row is None else UploadedFile(*row)


async def page(
    db: Connection, tenant: str, purpose: str | None, after: str | None, limit: int, newest: bool
) -> FilePage:
    sql, values = f"{FILE} WHERE tenant = %s", [tenant]
    if purpose is not None:
        sql, values = f"{sql} AND purpose = %s", [*values, purpose]
    more, order = await vector_stores.beyond(db, "files", tenant, after, newest)
    found = await rows(db, f"{sql} {more} {order} LIMIT %s", (*values, limit + 1))
    return FilePage(tuple(UploadedFile(*row) for row in found[:limit]), len(found) > limit)


async def delete(db: Connection, tenant: str, id: str) -> bool:
    row = await one(db, "SELECT key FROM files WHERE tenant = %s AND id = %s FOR UPDATE", (tenant, id))
    if row is None:
        return False
    await vector_stores.forget(db, "file = %s", *row)
    await execute(db, "DELETE FROM files WHERE key = %s", row)
    return True


async def used(db: Connection, digests: Sequence[str]) -> set[str]:
    found = await rows(db, "SELECT DISTINCT digest FROM files WHERE digest = ANY(%s)", (list(digests),))
    return {digest for (digest,) in found}
