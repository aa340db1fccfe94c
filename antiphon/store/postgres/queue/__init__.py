"""Background work in PostgreSQL: the jobs of procrastinate, who takes them, and what if that one dies."""
