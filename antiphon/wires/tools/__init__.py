"""Tools on wires that know only functions: their names there, their calls, and how both lead back."""
