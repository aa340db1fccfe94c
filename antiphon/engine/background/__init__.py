"""Background responses: they run without their caller, and outlive the process that works on them.

`background` is all that one process does of it. `job` is one response as this process works on it: the end
of its run, which writes the log. `owned_rows` (SQLite) and `queued_work` (PostgreSQL) say which process
works on what; `job_record` is what another process needs to go on, and `takeover` how it does. `following`
reads the log for the clients that follow it.
"""
