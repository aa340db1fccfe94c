"""The tools of a turn, for wires that know only functions."""
