"""Ids: unlike each other, also those of processes that were one."""

import re
import subprocess
import sys

from antiphon.spec import ids

_FORKING = """
import os
from antiphon.spec.ids import new_id
new_id("x_")
child = os.fork()
os.write(1, new_id(" x_").encode())
if child:
    os.waitpid(child, 0)
"""


def test_ids_have_a_prefix_and_24_digits_and_are_all_different() -> None:
    made = [ids.new_id(ids.RESPONSE) for _ in range(1000)]
    assert all(re.fullmatch(r"resp_[0-9a-f]{24}", one) for one in made)
    assert len({one[-10:] for one in made}) == 1000


def test_a_process_and_its_child_draw_different_chances() -> None:
    done = subprocess.run([sys.executable, "-c", _FORKING], capture_output=True, text=True, check=True)
    one, other = done.stdout.split()
    assert one[-10:] != other[-10:]
