// A client by openapi-generator, typescript-fetch.
import assert from "node:assert/strict";
import { CollectionsApi, Configuration, HistoryApi } from "./typescript-fetch/index.js";

const configuration = new Configuration({ basePath: process.env.BASE });
const collections = new CollectionsApi(configuration);
const history = new HistoryApi(configuration);

const created = await collections.createCollection({
  createDocument: {
    data: { type: "media-collection", id: "made", attributes: { name: "Made", accept: ["image/*"] } },
    meta: { reason: "Größe" },
  },
});
assert.equal(created.data.id, "made");
assert.equal(created.data.type, "media-collection");
const changed = await collections.updateCollection({
  key: "made",
  updateDocument: { data: { type: "media-collection", id: "made", attributes: { name: "Changed" } } },
});
assert.equal(changed.data.attributes.name, "Changed");
const list = await collections.listCollections();
assert.ok(list.data.some((collection) => collection.id === "made"));
const events = await history.listCollectionEvents({ key: "made" });
assert.equal(events.data.length, 2);
await collections.deleteCollection({ key: "made" });
await assert.rejects(collections.readCollection({ key: "made" }));
