"""jsonapi-client: follows links.self, sends `relationships: {}` and a body with DELETE."""

import os

import requests
from jsonapi_client import Filter, Session
from jsonapi_client.exceptions import DocumentError

KEY = "by-jsonapi-client"
SCHEMA = {"document-collection": {"properties": {"name": {"type": "string"}}}}


class Collections(Session):
    """Uses the path `collections` for all types."""

    def _url_for_resource(self, resource_type, resource_id=None, filter=None):
        return super()._url_for_resource("collections", resource_id, filter)


session = Collections(os.environ["BASE"], schema=SCHEMA)
created = session.create("document-collection", {"name": "Python"})
created.id = KEY
# The client would send a PATCH for a resource with an id, so the method is given explicitly.
session.http_request("post", os.environ["BASE"] + "/collections", {"data": created.json})
session.invalidate()

read = session.get("collections", KEY).resource
assert read.name == "Python", read.name

read.name = "Python again"
read.commit()
session.invalidate()
assert session.get("collections", KEY).resource.name == "Python again"

found = session.get("collections", Filter(name="Python again")).resources
assert [resource.id for resource in found] == [KEY]

gone = session.get("collections", KEY).resource
gone.delete()
try:
    gone.commit()
except requests.exceptions.JSONDecodeError:
    # Version 0.9.10 parses every answer as JSON, even an empty 204; the deletion succeeded.
    pass
session.invalidate()
try:
    session.get("collections", KEY)
except DocumentError as error:
    assert "404" in str(error), error
else:
    raise AssertionError("it is still there")
