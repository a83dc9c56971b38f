"""The results of a run: a line for each case, tables in the end, and a file."""

import json
from collections import Counter
from dataclasses import asdict, dataclass


@dataclass
class Result:
    client: str
    name: str
    rule: str
    want: str
    got: str
    is_expected: bool
    # Why something else than the rule wants is expected.
    known: str = ""


class Results:
    def __init__(self):
        self.all = []
        self.absent = {}

    def add(self, result):
        self.all.append(result)
        mark = "ok        " if result.is_expected and not result.known else "known     " if result.is_expected else "UNEXPECTED"
        wanted = "" if result.want == result.got else f"; wanted: {result.want}"
        print(f"{mark} {result.client}: {result.name} ({result.rule}): {result.got}{wanted}{'; ' + result.known if result.known else ''}", flush=True)

    @property
    def unexpected(self):
        return [each for each in self.all if not each.is_expected]

    def table(self, versions):
        """A line for each client."""
        all_of, right = Counter(), Counter()
        for each in self.all:
            all_of[each.client] += 1
            right[each.client] += each.is_expected
        rows = [(client, str(versions.get(client.split(":")[0], "")), f"{right[client]}/{count}") for client, count in all_of.items()]
        rows += [(client, "absent", reason) for client, reason in self.absent.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(2)] if rows else []
        lines = [f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows]
        return "\n".join(lines)

    def write(self, path, facts):
        known = [asdict(each) for each in self.all if each.known]
        tallies = {}
        for each in self.all:
            tally = tallies.setdefault(each.client, {"right": 0, "all": 0})
            tally["all"] += 1
            tally["right"] += each.is_expected
        document = {
            "command": "make http3-clients",
            **facts,
            "absent": self.absent,
            "tallies": tallies,
            "cases": [asdict(each) for each in self.all if each.client.endswith(": hostile")],
            "unexpected": [asdict(each) for each in self.unexpected],
            "known": known,
        }
        path.write_text(json.dumps(document, indent=1) + "\n")
