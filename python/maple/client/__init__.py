"""A client of the HTTP API, which docs/api.md describes: `maple run --http 127.0.0.1:8653`.

>>> from maple.client import Client
>>> maple = Client(token="…")
>>> for port in maple.ports(kind="edge", sort="-rx_bytes"):
...     print(port["switch"], port["port"])
>>> maple.set("blocked", "00:00:00:00:00:07", True, settled=True)

`AsyncClient` has the same methods as coroutines. Rows and answers are as the API has them; a refusal is an `ApiError`.
"""

from __future__ import annotations

from maple.client._answers import ApiError, Event, NetworkMap, Rows
from maple.client._async_client import AsyncClient
from maple.client._client import Client

__all__ = ["ApiError", "AsyncClient", "Client", "Event", "NetworkMap", "Rows"]
