"""A client by openapi-python-client."""

import os

from collectory_client import Client
from collectory_client.api.collections import (
    create_collection,
    delete_collection,
    list_collections,
    read_collection,
    update_collection,
)
from collectory_client.api.history import list_collection_events
from collectory_client.models import (
    CreateDocument,
    DocumentAttributesCreate,
    DocumentAttributesUpdate,
    DocumentCollectionCreate,
    DocumentCollectionUpdate,
    RequestMeta,
    UpdateDocument,
)

client = Client(base_url=os.environ["BASE"])
data = DocumentCollectionCreate(
    type_="document-collection", id="python", attributes=DocumentAttributesCreate(name="Python")
)
body = CreateDocument(data=data, meta=RequestMeta(reason="Größe – 日本語"))
created = create_collection.sync_detailed(client=client, body=body)
assert created.status_code == 201, created
assert created.parsed.data.attributes.name == "Python"
update = DocumentCollectionUpdate(
    type_="document-collection", id="python", attributes=DocumentAttributesUpdate(name="Changed")
)
changed = update_collection.sync_detailed("python", client=client, body=UpdateDocument(data=update))
assert changed.parsed.data.attributes.name == "Changed", changed
keys = [collection.id for collection in list_collections.sync(client=client).data]
assert "python" in keys, keys
events = list_collection_events.sync("python", client=client).data
assert events[-1].attributes.reason == "Größe – 日本語", events
assert delete_collection.sync_detailed("python", client=client).status_code == 204
assert read_collection.sync_detailed("python", client=client).status_code == 404
