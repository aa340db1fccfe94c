"""Several targets behind one name: who is asked, in what order, and what a failure leads to.

`router` is the provider that asks one target after another, as `dispatch` says; `attempt` is the sink that it
gives to each, and `continuation` and `seam` join what two of them say. `routes` has every route of the
configuration, and `order` and `tiers` sort its targets. `states` keeps what is known of each target
(`breaker`, `retry_budget`, `estimates`, `affinity`) in memory that the workers of one machine share, and
`sharing` tells other machines of it. All but `router`, `states` and `sharing` do no I/O and are given
the time, so that a simulation can drive them.
"""
