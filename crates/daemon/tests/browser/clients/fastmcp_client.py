# fastmcp's own client with its own OAuth: python fastmcp_client.py URL TOOL
import asyncio
import sys

from fastmcp import Client


async def main(url, tool):
    async with Client(url, auth="oauth") as client:
        result = await client.call_tool(tool, {"text": "from a client"})
        print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
