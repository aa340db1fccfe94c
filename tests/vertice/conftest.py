"""A gateway with the `script` provider, and the client that the providers of these tests call it with."""

from tests.client.conftest import gateway as gateway
from tests.client.conftest import no_environment as no_environment
from tests.client.conftest import sync_client as sync_client
