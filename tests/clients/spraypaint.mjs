// spraypaint: numbered pages, filters, sorting and sparse fieldsets in one query.
import spraypaint from 'spraypaint'
import assert from 'node:assert/strict'

const { SpraypaintBase, attr } = spraypaint
const Records = SpraypaintBase.extend({ static: { baseUrl: process.env.BASE, apiNamespace: '' } })
const Documents = Records.extend({
  static: { jsonapiType: 'document-collection', endpoint: '/collections' },
  attrs: { name: attr(), directory: attr() },
})
Documents.logger.level = 'warn'

const created = new Documents({ name: 'Spraypaint', directory: 'content/walls' })
created.id = 'by-spraypaint'
assert.equal(await created.save(), true)

const { data: read } = await Documents.find('by-spraypaint')
assert.equal(read.name, 'Spraypaint')
read.name = 'Graffiti'
assert.equal(await read.save(), true)

const query = Documents.where({ name: 'Graffiti', type: 'document' }).order({ name: 'desc' })
const { data: page } = await query.page(1).per(5).select(['directory']).all()
assert.deepEqual(page.map((it) => [it.id, it.name, it.directory]), [['by-spraypaint', undefined, 'content/walls']])

read.directory = '../outside'
// spraypaint copies the errors of a 422 into the model, and throws the response of a 400.
await assert.rejects(read.save(), (error) => error.response.status === 400)

assert.equal(await read.destroy(), true)
await assert.rejects(Documents.find('by-spraypaint'))
