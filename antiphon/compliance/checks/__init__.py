"""Every check, one module a group; importing this registers them all."""

from antiphon.compliance import observations as observations
from antiphon.compliance.checks import bodies as bodies
from antiphon.compliance.checks import compaction as compaction
from antiphon.compliance.checks import content as content
from antiphon.compliance.checks import echoes as echoes
from antiphon.compliance.checks import formats as formats
from antiphon.compliance.checks import hosted as hosted
from antiphon.compliance.checks import limits as limits
from antiphon.compliance.checks import official as official
from antiphon.compliance.checks import state as state
from antiphon.compliance.checks import streaming as streaming
from antiphon.compliance.checks import tenants as tenants
from antiphon.compliance.checks import tools as tools
from antiphon.compliance.checks import websocket as websocket
