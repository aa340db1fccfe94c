"""Random numbers for which guessing does no harm, such as the jitter of a pause.

The generator is not the one of the `random` module, which belongs to the program that imports Antiphon: the
program may seed it, and expect the same numbers in every run.
"""

from os import register_at_fork
from random import Random

random_numbers = Random()
register_at_fork(after_in_child=random_numbers.seed)
