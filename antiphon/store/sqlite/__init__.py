"""The store in one SQLite file, beside a journal of what it has not written yet."""
