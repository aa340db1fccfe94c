"""The store on PostgreSQL, for gateways on several machines; it needs the extra `postgres`."""
