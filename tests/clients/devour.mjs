// devour-client: models by name, paths from the plural of the type.
import Devour from 'devour-client'
import assert from 'node:assert/strict'

const JsonApi = Devour.default ?? Devour
const api = new JsonApi({ apiUrl: process.env.BASE, logger: false, pluralize: false })
const attributes = { name: '', directory: '' }
api.define('document-collection', attributes, { collectionPath: 'collections' })
const key = 'by-devour'

const created = await api.create('document-collection', { id: key, name: 'Devour', directory: 'content/devour' })
assert.equal(created.data.id, key)

const read = await api.find('document-collection', key)
assert.equal(read.data.directory, 'content/devour')

await api.update('document-collection', { id: key, name: 'Devoured' })
assert.equal((await api.find('document-collection', key)).data.name, 'Devoured')

const list = await api.findAll('document-collection', { 'filter[name]': 'Devoured' })
assert.deepEqual(list.data.map((it) => it.id), [key])

await api.destroy('document-collection', key)
await assert.rejects(api.find('document-collection', key))
