"""The compliance tool: a catalogue of rules, checks that prove them on a live server, reports, captures,
and a server that judges clients."""
