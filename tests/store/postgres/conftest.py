"""The fixtures of PostgreSQL."""

from tests.postgres import empty_postgres_url, own_cluster, postgres_url, shared_cluster

__all__ = ["empty_postgres_url", "own_cluster", "postgres_url", "shared_cluster"]
