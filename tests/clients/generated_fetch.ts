// Types by openapi-typescript, requests by openapi-fetch.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./schema";

const client = createClient<paths>({
  baseUrl: process.env.BASE,
  headers: { "Content-Type": "application/vnd.api+json" },
});

const created = await client.POST("/collections", {
  body: {
    data: { type: "document-collection", id: "typed", attributes: { name: "Typed" } },
    meta: { reason: "Größe – 日本語" },
  },
});
assert.equal(created.data?.data.attributes.name, "Typed", JSON.stringify(created.error));
const one = await client.GET("/collections/{key}", { params: { path: { key: "typed" } } });
assert.equal(one.data?.data.id, "typed");
const changed = await client.PATCH("/collections/{key}", {
  params: { path: { key: "typed" }, header: { "If-Match": one.response.headers.get("ETag")! } },
  body: { data: { type: "document-collection", id: "typed", attributes: { name: null } } },
});
assert.equal(changed.data?.data.attributes.name, undefined);
const list = await client.GET("/collections", { params: { query: { "page[size]": 1, "filter[type]": "document" } } });
assert.equal(list.data?.data.length, 1);
const events = await client.GET("/collections/{key}/events", { params: { path: { key: "typed" } } });
assert.equal(events.data?.data.at(-1)?.attributes?.reason, "Größe – 日本語");
const token = await client.GET("/sync-token", {});
const gone = await client.DELETE("/collections/{key}", { params: { path: { key: "typed" } } });
assert.equal(gone.response.status, 204);
const since = token.data!.data.attributes!.syncToken!;
const news = await client.GET("/changes", { params: { query: { "filter[since]": since } } });
assert.deepEqual(news.data?.data.map((change) => [change.id, change.attributes?.deleted]), [["typed", true]]);
