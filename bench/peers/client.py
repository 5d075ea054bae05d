"""The client of the official Python SDK, which speaks all eras.

Unless told otherwise it takes the newest that the server has; TOOLRACK_BENCH_ERA=legacy those before 2026-07-28.
`measure.py` says how it is called.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters
from measure import TIMEOUT_SECONDS, Connection, OnProgress, Target, measure

ERA = os.environ.get("TOOLRACK_BENCH_ERA", "auto")


class Official:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, name: str, arguments: dict[str, Any], on_progress: OnProgress | None = None) -> str:
        result = await self._client.call_tool(name, arguments, progress_callback=on_progress)
        if result.is_error:
            raise RuntimeError(f"the tool {name} failed")
        return result.content[0].text

    async def tools(self) -> list[Any]:
        tools = []
        cursor = None
        while True:
            page = await self._client.list_tools(cursor=cursor)
            tools.extend(page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return tools


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Connection]:
    server = target.url or StdioServerParameters(command=target.command, args=target.args)
    async with Client(server, mode=ERA, read_timeout_seconds=TIMEOUT_SECONDS) as client:
        yield Official(client)


measure(connect)
