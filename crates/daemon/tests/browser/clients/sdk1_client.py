# The OAuth client of the Python SDK 1: python sdk1_client.py URL TOOL
import asyncio
import sys

from back import Back, Memory
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata


async def main(url, tool):
    back = await Back().start()

    async def returned():
        answer = await back.answer
        return answer["code"], answer.get("state")

    metadata = OAuthClientMetadata(client_name="Python SDK 1", redirect_uris=[back.url])
    auth = OAuthClientProvider(url, metadata, Memory(), back.open, returned)
    async with streamablehttp_client(url, auth=auth) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            result = await session.call_tool(tool, {"text": "from a client"})
            print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
