"""What schemathesis can't know from the document: which texts name something that is there, and
which parameters exclude each other. Requests that are meant to be refused are left alone."""

import hashlib
import json
import os
import urllib.request

import schemathesis
from hypothesis import strategies as st

BASE = os.environ["BASE"]


def get(path):
    with urllib.request.urlopen(BASE + path) as answer:
        return json.load(answer)


events = get("/events?page[size]=100")["data"]
revisions = sorted({event["attributes"]["revision"] for event in events})
token = get("/sync-token")["data"]["attributes"]["syncToken"]

# `format: revision`: a name of a commit that is there, in each way that a commit can be named.
schemathesis.openapi.format(
    "revision",
    st.sampled_from(revisions + [revision[:7] for revision in revisions] + ["main", "2999-01-01T00:00:00Z"]),
)
# `format: sync-token`: one that the service gave out.
schemathesis.openapi.format("sync-token", st.just(token))
# `format: cursor`: a text that only the service can make up; the empty one begins a walk.
schemathesis.openapi.format("cursor", st.just(""))

# Each style of pages excludes the others, as does a page that ends where it begins.
STYLES = [
    {"page[offset]", "page[limit]"},
    {"page[number]", "page[size]"},
    {"page[after]", "page[size]"},
    {"page[before]", "page[size]"},
]


def is_positive(case):
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def map_case(context, case):
    if not is_positive(case):
        return case
    if case.query:
        case.query = one_style(case.query)
    if "id" in case.path_parameters:
        case.path_parameters["id"] = an_event(case.path_parameters["id"])
    if case.headers:
        let_half_of_them_pass(case)
        one_reason(case)
    if case.path == "/operations" and isinstance(case.body, dict):
        about_what_is_there(case.body.get("atomic:operations", []))
    return case


@schemathesis.hook
def filter_case(context, case):
    # Numbers that do not fit into 64 bits are refused wherever they stand, also in members that
    # mean nothing here: a number is never taken for another one.
    return not is_positive(case) or fits(case.body)


def let_half_of_them_pass(case):
    """Made-up entity tags are stale and made-up keys are taken: every second request has neither."""
    request = f"{case.method} {case.path} {case.path_parameters} {case.body} {dict(case.headers)}"
    digest = hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()
    if int(digest[0], 16) % 2 == 0:
        for name, value in {"If-Match": "*", "If-None-Match": '"none"', "Idempotency-Key": digest}.items():
            if name in case.headers:
                case.headers[name] = value


def one_reason(case):
    """Reasons that differ exclude each other."""
    if isinstance(case.body, dict) and "reason" in (case.body.get("meta") or {}):
        case.headers.pop("Commit-Message", None)
        case.headers.pop("Commit-Message-Encoded", None)
    elif "Commit-Message" in case.headers:
        case.headers.pop("Commit-Message-Encoded", None)


def one_style(query):
    """A query with the pages of one style."""
    pages = {name for name in query if name.startswith("page[")}
    kept = max(STYLES, key=lambda style: (pages <= style, len(pages & style)))
    return {name: value for name, value in query.items() if name not in pages - kept}


def an_event(text):
    """In place of half of the made-up ids, one of an event that is there."""
    number = sum(map(ord, str(text)))
    return events[number // 2 % len(events)]["id"] if number % 2 else text


def about_what_is_there(operations):
    """Aims operations at paths of this service, at one collection each, and by names that were
    given before, each once."""
    added = set()
    for operation in operations:
        data = operation.get("data", {})
        if operation.get("op") == "add":
            if data.get("lid") in added:
                del data["lid"]
            added.update({data["lid"]} if "lid" in data else ())
            if "href" in operation:
                operation["href"] = "/collections"
            continue
        for named in [data, operation.get("ref", {})]:
            if "lid" in named and named["lid"] not in added and "id" not in named:
                del named["lid"]
                named["id"] = "posts"
        if "href" in operation:
            operation["href"] = "/collections/" + data.get("id", "posts")
        if "ref" in operation and operation.get("op") == "update":
            operation["ref"] = {name: data[name] for name in ("type", "id", "lid") if name in data}
            if "id" in data:
                operation["ref"].pop("lid", None)


def fits(value):
    if isinstance(value, dict):
        return all(map(fits, value.values()))
    if isinstance(value, list):
        return all(map(fits, value))
    return isinstance(value, bool) or not isinstance(value, int) or -(2**63) <= value < 2**64
