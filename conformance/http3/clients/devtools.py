"""A headless Chromium that is driven through the pipes of its DevTools protocol."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import tempfile

ANSWER_TIMEOUT = 60
IS_COMPLETE = "document.readyState === 'complete'"


class Chromium:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.number = 0

    async def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.writer.write(json.dumps(message).encode() + b"\0")
        async with asyncio.timeout(ANSWER_TIMEOUT):
            while True:
                answer = json.loads((await self.reader.readuntil(b"\0"))[:-1])
                if answer.get("id") == self.number:
                    break
        if "error" in answer:
            raise ConnectionError(f"{method}: {answer['error']}")
        return answer["result"]

    async def page(self, url):
        """A page in a tab of its own."""
        target = await self.call("Target.createTarget", url="about:blank")
        session = (await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True))["sessionId"]
        await self.call("Page.enable", session)
        await self.navigate(session, url)
        return session

    async def navigate(self, session, url):
        found = await self.call("Page.navigate", session, url=url)
        if "errorText" in found:
            raise ConnectionError(f"{url}: {found['errorText']}")
        # The response of the page arrives when it has loaded.
        await self.evaluate(session, f"new Promise(done => {IS_COMPLETE} ? done() : addEventListener('load', () => done()))")

    async def evaluate(self, session, expression):
        """What a JavaScript expression gives, after its promise is kept."""
        found = await self.call("Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise ConnectionError(found["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        return found["result"].get("value")


@contextlib.asynccontextmanager
async def chromium(program, *flags):
    """A Chromium with an empty profile, which ends with the context."""
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="fairway-chromium-", ignore_cleanup_errors=True) as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--remote-debugging-pipe",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", *flags, "about:blank"]
        # It reads from descriptor 3 and writes to 4.
        given = f"exec 3<&{to_browser[0]} 4>&{from_browser[1]}; exec \"$@\""
        process = subprocess.Popen(["bash", "-c", given, "chromium", *command], pass_fds=(to_browser[0], from_browser[1]),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser[0])
        os.close(from_browser[1])
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 26)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_browser[0], "rb"))
        with os.fdopen(to_browser[1], "wb", buffering=0) as writer:
            try:
                yield Chromium(reader, writer)
            finally:
                transport.close()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
