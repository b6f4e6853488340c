// kitsu: sends no `attributes.type` and a body with DELETE.
import Kitsu from 'kitsu'
import assert from 'node:assert/strict'

const api = new Kitsu({ baseURL: process.env.BASE, camelCaseTypes: false, pluralize: false, resourceCase: 'none' })
// kitsu derives path and type from one name; here all types share a path.
api.camel = () => 'document-collection'
const key = 'by-kitsu'

const created = await api.create('collections', { id: key, type: 'document-collection', name: 'Kitsu' })
assert.equal(created.data.id, key)
assert.equal(created.data.name, 'Kitsu')

const read = await api.get(`collections/${key}`)
assert.equal(read.data.name, 'Kitsu')

await api.update('collections', { id: key, type: 'document-collection', name: 'Kitsune' })
assert.equal((await api.get(`collections/${key}`)).data.name, 'Kitsune')

const list = await api.get('collections', { params: { filter: { name: 'Kitsune' } } })
assert.deepEqual(list.data.map((it) => it.id), [key])

await api.delete('collections', key)
await assert.rejects(api.get(`collections/${key}`))
