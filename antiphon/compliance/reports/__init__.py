"""A report in four forms: for a terminal, a program, a build server, a browser."""
