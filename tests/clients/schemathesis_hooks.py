"""What schemathesis can't know from the document: which texts name something that is there, and
which parameters exclude each other. Requests that are meant to be refused are left alone."""

import json
import os
import urllib.parse
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
    if case.path == "/operations" and isinstance(case.body, dict):
        for operation in case.body.get("atomic:operations", []):
            about_one(operation)
    return case


def one_style(query):
    """A query with the pages of one style."""
    pages = {name for name in query if name.startswith("page[")}
    kept = max(STYLES, key=lambda style: (pages <= style, len(pages & style)))
    return {name: value for name, value in query.items() if name not in pages - kept}


def an_event(text):
    """In place of half of the made-up ids, one of an event that is there."""
    number = sum(map(ord, str(text)))
    return events[number // 2 % len(events)]["id"] if number % 2 else text


def about_one(operation):
    """Makes what an update is aimed at and what it holds the same collection."""
    data = operation.get("data")
    if not isinstance(data, dict) or operation.get("op") != "update" or "id" not in data:
        return
    if "ref" in operation:
        operation["ref"] = {"type": data["type"], "id": data["id"]}
    if "href" in operation:
        operation["href"] = "/collections/" + data["id"]
