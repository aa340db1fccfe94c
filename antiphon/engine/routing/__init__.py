"""Several targets behind one name: who is asked, in what order, and what a failure leads to.

`states`, `breaker`, `retry_budget`, `estimates`, `affinity`, `order` and `seam` do no I/O and are told the
time, so that a simulation can drive them. `router` is the provider that asks one target after another, and
`attempt` the sink that it gives to each.
"""
