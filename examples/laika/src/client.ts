/**
 * The HTTP client: requests with a token, retries with an idempotency key, and the mapping of the service's
 * answers to Laika's errors.
 */
import {
  AuthenticationError,
  BadRequestError,
  ConflictError,
  ForbiddenError,
  InternalError,
  InvalidData,
  LaikaError,
  NotFoundError,
  ServiceUnavailableError,
  TooManyRequestsError,
  UnknownError,
  VersionMismatchError,
} from 'laikacms/core';

export const JSON_API = 'application/vnd.api+json';
export const ATOMIC = 'application/vnd.api+json;ext="https://jsonapi.org/ext/atomic"';

/** Maximum attempts of a write, including the first one. */
const TRIES_MAX = 4;

/** The wait before the second attempt, in milliseconds; each further wait is twice as long. */
const RETRY_WAIT_MS = 100;

export interface Answer {
  status: number;
  etag: string | null;
  document: any;
}

export class Client {
  constructor(
    private readonly url: string,
    private readonly token: string | undefined,
    private readonly fetch: typeof globalThis.fetch = globalThis.fetch,
  ) {}

  /** Reads a document. */
  get(path: string): Promise<Answer> {
    return this.ask(path, { headers: this.headers() });
  }

  /** Writes, and retries while the service is unavailable. The idempotency key ensures that it happens once. */
  async write(method: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const key = crypto.randomUUID();
    const request = {
      method,
      headers: this.headers({ 'Content-Type': JSON_API, 'Idempotency-Key': key, ...headers }),
      body: JSON.stringify(body),
    };
    for (let tried = 1; ; tried++) {
      try {
        return await this.ask(path, request);
      } catch (error) {
        if (!(error instanceof ServiceUnavailableError) || tried === TRIES_MAX) throw error;
        await new Promise(resolve => setTimeout(resolve, RETRY_WAIT_MS * 2 ** (tried - 1)));
      }
    }
  }

  /** Opens a stream of events; `undefined` where a proxy blocks streams. */
  async stream(path: string, lastEventId: string | undefined, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined> {
    const headers = this.headers({ Accept: 'text/event-stream' });
    if (lastEventId !== undefined) headers['Last-Event-ID'] = lastEventId;
    const response = await this.send(path, { headers, signal });
    if (!response.ok) throw await failure(response);
    const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream');
    if (isStream && response.body) return response.body;
    await response.body?.cancel();
    return undefined;
  }

  private headers(more: Record<string, string> = {}): Record<string, string> {
    const authorization: Record<string, string> = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    return { Accept: JSON_API, ...authorization, ...more };
  }

  private async ask(path: string, request: RequestInit): Promise<Answer> {
    const response = await this.send(path, request);
    if (!response.ok) throw await failure(response);
    const text = await response.text().catch(unreachable);
    return { status: response.status, etag: response.headers.get('ETag'), document: text ? JSON.parse(text) : null };
  }

  private send(path: string, request: RequestInit): Promise<Response> {
    return this.fetch(`${this.url.replace(/\/+$/, '')}${path}`, request).catch(unreachable);
  }
}

function unreachable(error: unknown): never {
  const cause = error instanceof Error ? error.message : String(error);
  throw new ServiceUnavailableError(`the settings service does not answer: ${cause}`);
}

/** Converts an unsuccessful answer to an error of Laika. */
async function failure(response: Response): Promise<LaikaError> {
  const text = await response.text().catch(() => '');
  let detail = `the settings service answers ${response.status}`;
  try {
    const details = JSON.parse(text).errors?.map((error: { detail?: string }) => error.detail).filter(Boolean);
    if (details?.length) detail = details.join(' ');
  } catch {
    // A proxy answered, not the service; the status must do.
  }
  switch (response.status) {
    case 400: return new InvalidData(detail);
    case 401: return new AuthenticationError(detail);
    case 403: return new ForbiddenError(detail);
    case 404: return new NotFoundError(detail);
    case 409: return new ConflictError(detail);
    case 412: return new VersionMismatchError(detail);
    case 429: return new TooManyRequestsError(detail);
    case 502: case 503: case 504: return new ServiceUnavailableError(detail);
    case 500: return new InternalError(detail);
    default: return response.status < 500 ? new BadRequestError(detail) : new UnknownError(detail);
  }
}
