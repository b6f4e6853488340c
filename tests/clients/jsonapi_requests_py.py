"""jsonapi-requests: endpoints by path, objects by hand."""

import os

import jsonapi_requests

KEY = "by-jsonapi-requests"
api = jsonapi_requests.Api.config({"API_ROOT": os.environ["BASE"], "VALIDATE_SSL": False, "TIMEOUT": 10, "APPEND_SLASH": False})
collections, one = api.endpoint("collections"), api.endpoint(f"collections/{KEY}")


def resource(**attributes):
    return jsonapi_requests.JsonApiObject(type="document-collection", id=KEY, attributes=attributes)


created = collections.post(object=resource(name="Requests"))
assert created.status_code == 201, created.status_code
assert one.get().data.attributes["name"] == "Requests"
assert one.patch(object=resource(name="Requests again")).data.attributes["name"] == "Requests again"
listed = collections.get(params={"filter[name]": "Requests again"}).data
assert [item.id for item in listed] == [KEY]
assert one.delete().status_code == 204
try:
    one.get()
except jsonapi_requests.request_factory.ApiClientError as error:
    assert error.status_code == 404, error
else:
    raise AssertionError("it is still there")
