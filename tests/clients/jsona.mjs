// jsona: turns documents into models and back. Sparse fieldsets leave out `attributes.type`, which its
// models can't represent.
import { Jsona } from 'jsona'
import assert from 'node:assert/strict'

const jsona = new Jsona()
const key = 'by-jsona'
const fields = 'fields[document-collection]=name,directory'

async function ask(method, path, stuff, status) {
  const body = stuff && JSON.stringify(jsona.serialize({ stuff }))
  const headers = body ? { 'Content-Type': 'application/vnd.api+json' } : {}
  const answer = await fetch(`${process.env.BASE}${path}`, { method, headers, body })
  assert.equal(answer.status, status, `${method} ${path}`)
  return status === 204 ? undefined : jsona.deserialize(await answer.json())
}

const created = await ask('POST', `/collections?${fields}`, { type: 'document-collection', id: key, name: 'Jsona' }, 201)
assert.equal(created.name, 'Jsona')

const model = await ask('GET', `/collections/${key}?${fields}`, undefined, 200)
assert.equal(model.type, 'document-collection')
model.name = 'Jsona again'
const { id, type, name } = model
assert.equal((await ask('PATCH', `/collections/${key}?${fields}`, { id, type, name }, 200)).name, 'Jsona again')

const list = await ask('GET', `/collections?${fields}&filter[name]=Jsona%20again`, undefined, 200)
assert.deepEqual(list.map((it) => it.id), [key])

await ask('DELETE', `/collections/${key}`, undefined, 204)
const gone = await fetch(`${process.env.BASE}/collections/${key}`)
assert.equal(gone.status, 404)
