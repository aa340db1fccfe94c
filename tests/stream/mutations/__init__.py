"""Ways to break a good stream: for every rule at least one, with every rule that it breaks declared."""

from tests.stream.mutations import hosted, items, texts, whole
from tests.stream.mutations.tape import END, MUTATIONS, Mutation, Tape, play
from tests.stream.mutations.whole import ENVELOPE

__all__ = ["END", "ENVELOPE", "MUTATIONS", "Mutation", "Tape", "hosted", "items", "play", "texts", "whole"]
