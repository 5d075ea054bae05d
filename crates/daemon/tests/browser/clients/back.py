# What an OAuth client of the Python SDK brings: where its answers arrive, and how it opens a browser.
import asyncio
import subprocess
from urllib.parse import parse_qs, urlparse


class Memory:
    """Keeps what a client got, for as long as it runs."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Back:
    """Listens where the browser comes back to."""

    async def start(self):
        self.answer = asyncio.get_running_loop().create_future()
        self.server = await asyncio.start_server(self._heard, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/callback"
        return self

    async def _heard(self, reader, writer):
        line = (await reader.readline()).decode()
        query = parse_qs(urlparse(line.split(" ")[1]).query)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone")
        await writer.drain()
        writer.close()
        if "code" in query and not self.answer.done():
            self.answer.set_result({name: values[0] for name, values in query.items()})

    async def open(self, url):
        subprocess.run(["xdg-open", url], check=True)
