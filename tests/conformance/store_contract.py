"""What every `MemoryStore` must do. An adapter's test subclasses `StoreContract` and gives it an empty store:

class TestMyStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[MyStore]:
        yield MyStore()
"""

from tests.conformance.changing import Changing
from tests.conformance.finding import Finding
from tests.conformance.storing import Storing


class StoreContract(Storing, Finding, Changing):
    """All facts about a store."""
