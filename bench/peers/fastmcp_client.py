"""The client of FastMCP, which speaks all eras.

Unless told otherwise it takes the newest that the server has; TOOLRACK_BENCH_ERA=legacy those before 2026-07-28.
`measure.py` says how it is called.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from measure import MAX_PAGES, TIMEOUT_SECONDS, Connection, OnProgress, Target, measure

ERA = os.environ.get("TOOLRACK_BENCH_ERA", "auto")


class Fast:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, name: str, arguments: dict[str, Any], on_progress: OnProgress | None = None) -> str:
        result = await self._client.call_tool(name, arguments, progress_handler=on_progress)
        return result.content[0].text

    async def tools(self) -> list[Any]:
        return await self._client.list_tools(max_pages=MAX_PAGES)


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Connection]:
    # Not kept alive: the server ends with the connection, as it does with the other clients.
    server = target.url or StdioTransport(target.command, target.args, keep_alive=False)
    async with Client(server, mode=ERA, timeout=TIMEOUT_SECONDS) as client:
        yield Fast(client)


measure(connect)
