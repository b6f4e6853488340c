// standardwebhooks (npm): a receiver that verifies three deliveries, refuses the first once, and ends.
import { createServer } from 'node:http'
import assert from 'node:assert/strict'
import { Webhook } from 'standardwebhooks'

const webhook = new Webhook(process.env.SECRET)
const ids = []
let refused = false

const server = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks).toString()
  const told = webhook.verify(body, request.headers)
  assert.throws(() => webhook.verify(`${body} `, request.headers))
  if (!refused) {
    refused = true
    response.writeHead(500).end()
    return
  }
  assert.equal(told.type, `collection.${['created', 'updated', 'deleted'][ids.length]}`)
  assert.equal(told.data.id, request.headers['webhook-id'])
  ids.push(told.data.id)
  response.writeHead(204, { Connection: 'close' }).end()
  if (ids.length === 3) server.close(() => process.exit(0))
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`))
