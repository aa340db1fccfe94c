"""Tools on wires that know only functions: their names there, and their calls."""
