"""Background responses: they run without their caller, and outlive the process that works on them.

`background` is all that one process does of it. `job` is one response as somebody works on it: the end of
its run, which writes the log. `owned_rows` (SQLite, with `late_loop`) and `queued_work` (PostgreSQL) say who
works on what; `job_record` is what another process needs to go on, and `takeover` how it does. `following`
reads the log for whoever listens.
"""
