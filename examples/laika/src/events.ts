/** One event of a stream (WHATWG HTML, "Server-sent events"). */
export interface ServerEvent {
  type: string;
  data: string;
  id: string | undefined;
}

/** Yields the events of a stream, each when it is complete. Calls `alive` for every line, comments included. */
export async function* events(stream: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<ServerEvent> {
  let event: { type: string; data: string[]; id: string | undefined } = { type: 'message', data: [], id: undefined };
  for await (const line of lines(stream)) {
    alive();
    if (line === '') {
      if (event.data.length > 0) yield { ...event, data: event.data.join('\n') };
      event = { type: 'message', data: [], id: undefined };
      continue;
    }
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (field === 'event') event.type = value ?? '';
    if (field === 'data') event.data.push(value ?? '');
    if (field === 'id') event.id = value ?? '';
  }
}

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = '';
  for await (const text of stream.pipeThrough<string>(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)) {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    yield* parts.map(line => line.replace(/\r$/, ''));
  }
}
