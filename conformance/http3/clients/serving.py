"""Fairway with an endpoint behind it, as the program in serving/ starts them."""

import contextlib
import json
import subprocess
from dataclasses import dataclass

STOP_TIMEOUT = 60


@dataclass(frozen=True)
class Serving:
    port: int
    version: str
    authority: str
    leaf: str
    log: str


@contextlib.contextmanager
def started(program, fairway, directory):
    """Gives where Fairway serves, and ends it. That it ends badly, or has ended before, is an error."""
    command = [program, "-fairway", fairway, "-directory", str(directory)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("http3-clients: Fairway does not serve")
        yield Serving(**json.loads(line))
    finally:
        process.stdin.close()
        status = process.wait(STOP_TIMEOUT)
    if status:
        raise SystemExit(f"http3-clients: Fairway ended badly; its log is in {directory}")
