"""Random numbers for which guessing does no harm, such as the jitter of a pause.

They are not those of the `random` module itself, which belong to the program that imports Antiphon: it may
seed them, and expect the same numbers in every run.
"""

from os import register_at_fork
from random import Random

chance = Random()
register_at_fork(after_in_child=chance.seed)
