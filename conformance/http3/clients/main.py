"""HTTP/3 of Fairway with clients that share no code with the proof in Go; README.md says what is shown."""

import argparse
import asyncio
import logging
import os
import pathlib
import shutil
import sys
import tempfile
from importlib.metadata import version

import browser
import curl
from hostile import hostile
from interop import interop
from report import Results
from serving import started

GROUPS = ["interop", "hostile", "curl", "chromium"]


def arguments():
    parser = argparse.ArgumentParser(prog="conformance/http3/clients/run", description=__doc__)
    parser.add_argument("--fairway", required=True, help="the Fairway to test")
    parser.add_argument("--serving", required=True, help="the program that starts it")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the file for the results, JSON")
    parser.add_argument("--revision", default="unknown", help="Fairway's revision, for the results")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, comma-separated: " + ", ".join(GROUPS))
    parser.add_argument("--match", default="", help="only cases whose names contain this")
    parser.add_argument("--chromium", default=os.environ.get("CHROMIUM", "chromium"), help="the Chromium to use [env CHROMIUM]")
    parser.add_argument("--keep", action="store_true", help="keeps the logs")
    return parser.parse_args()


async def run(chosen, serving, results, versions):
    only = chosen.only.split(",")
    if "interop" in only:
        await interop(serving, results, chosen.match)
    if "hostile" in only:
        await hostile(serving, results, chosen.match)
    if "curl" in only:
        versions["curl"] = curl.version()
        if "nghttp3" in versions["curl"]:
            await curl.transfer(serving, results, chosen.match)
        else:
            results.absent["curl"] = f"{versions['curl']} has no HTTP/3"
    if "chromium" in only:
        program = shutil.which(chosen.chromium)
        if program:
            versions["chromium"] = browser.version(program)
            await browser.browse(serving, results, chosen.match, program)
        else:
            results.absent["chromium"] = f"{chosen.chromium} is not installed; --chromium or CHROMIUM names another"


def main():
    chosen = arguments()
    # aioquic logs warnings about faults that the cases make on purpose.
    logging.disable(logging.CRITICAL)
    results, versions = Results(), {"aioquic": version("aioquic")}
    directory = pathlib.Path(tempfile.mkdtemp(prefix="fairway-http3-clients-"))
    with started(chosen.serving, chosen.fairway, directory) as serving:
        asyncio.run(run(chosen, serving, results, versions))
    if chosen.keep or results.unexpected:
        print(f"the logs are in {directory}")
    else:
        shutil.rmtree(directory)
    facts = {"version": serving.version, "revision": chosen.revision, "versions": versions}
    results.write(chosen.out, facts)
    print(f"\n{results.table(versions)}\n\n{len(results.all)} cases, {len(results.unexpected)} unexpected")
    sys.exit(1 if results.unexpected else 0)


if __name__ == "__main__":
    main()
