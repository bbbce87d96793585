"""What every `MemoryStore` must do. An adapter's test subclasses `StoreContract` and gives it an empty store:

class TestMyStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[MyStore]:
        yield MyStore()
"""

from tests.conformance.changing import Changing
from tests.conformance.finding import Finding
from tests.conformance.keying import Keying
from tests.conformance.storing import Storing
from tests.conformance.surrounding import Surrounding


class StoreContract(Storing, Keying, Finding, Surrounding, Changing):
    """All facts about a store."""
