"""For every rule that a check proves, a server that breaks it, and what else that server breaks."""

from tests.compliance.broken import Fault
from tests.compliance.faults import conduct, requests

FAULTS: dict[str, Fault] = {**requests.FAULTS, **conduct.FAULTS}
