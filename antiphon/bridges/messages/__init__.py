"""The Messages API as a door: its requests become requests of the specification, and events its stream."""
