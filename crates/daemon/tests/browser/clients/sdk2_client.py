# The OAuth client of the Python SDK 2: python sdk2_client.py URL TOOL
import asyncio
import sys

import httpx2
from back import Back, Memory
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


async def main(url, tool):
    back = await Back().start()

    async def returned():
        answer = await back.answer
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    metadata = OAuthClientMetadata(client_name="Python SDK 2", redirect_uris=[back.url])
    auth = OAuthClientProvider(url, metadata, Memory(), back.open, returned)
    async with httpx2.AsyncClient(auth=auth, follow_redirects=True, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            result = await client.call_tool(tool, {"text": "from a client"})
            print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
