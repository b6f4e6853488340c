/**
 * A copy of the served collections, kept up to date by the service's stream, or by polling where streams are
 * blocked. The copy stays readable while the service is down.
 */
import { ServiceUnavailableError } from 'laikacms/core';

import { Client } from './client.js';
import { events, type ServerEvent } from './events.js';

/** A collection as the service represents it. */
export interface Resource {
  type: 'document-collection' | 'media-collection';
  id: string;
  attributes: Record<string, unknown>;
}

/** How long to wait before a retry when the service is down, in milliseconds: at first, and at most. */
const WAIT_MS = { first: 100, max: 5_000 };

/** How long a stream may be silent before it counts as lost, in milliseconds: three heartbeats of the service. */
const SILENCE_MS_MAX = 45_000;

export class Copy {
  private resources = new Map<string, Resource>();
  private listing: Map<string, Resource> | undefined;
  private readonly closing = new AbortController();
  private token: string | undefined;
  private first: Promise<void> | undefined;
  private listeners: Array<() => void> = [];

  constructor(
    private readonly client: Client,
    private readonly pollMs: number,
    private readonly streams: boolean,
  ) {}

  /** Returns all collections. The first call reads them; later calls make no request. */
  async all(): Promise<ReadonlyMap<string, Resource>> {
    this.first ??= new Promise<void>((resolve, reject) => void this.follow(resolve, reject)).catch(error => {
      this.first = undefined;
      throw error;
    });
    await this.first;
    return this.resources;
  }

  /** Stores the answer to a write, so that the writer reads it at once. */
  put(resource: Resource): void {
    this.resources.set(resource.id, resource);
  }

  /** Removes a deleted collection. */
  remove(id: string): void {
    this.resources.delete(id);
  }

  /** Resolves at the next news from the service. */
  news(): Promise<void> {
    return new Promise(resolve => this.listeners.push(resolve));
  }

  close(): void {
    this.closing.abort();
  }

  /** Follows until closed; reports when everything was read for the first time, or that the first attempt failed. */
  private async follow(ready: () => void, failed: (error: unknown) => void): Promise<void> {
    let wait = WAIT_MS.first;
    let isFirst = true;
    while (!this.closing.signal.aborted) {
      try {
        await this.followOnce(() => {
          wait = WAIT_MS.first;
          isFirst = false;
          ready();
        });
      } catch (error) {
        if (isFirst) return failed(error);
        if (!(error instanceof ServiceUnavailableError) && !this.closing.signal.aborted) console.warn(error);
      }
      await this.pause(wait);
      wait = Math.min(wait * 2, WAIT_MS.max);
    }
  }

  private async followOnce(ready: () => void): Promise<void> {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.closing.signal, silence.signal]);
    const watchdog = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const stream = this.streams ? await this.client.stream('/collections', this.token, signal) : undefined;
      if (stream === undefined) return await this.poll(ready);
      for await (const event of events(stream, () => watchdog.refresh())) this.take(event, ready);
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** Applies an event. A new listing replaces the copy only when it is complete. */
  private take(event: ServerEvent, ready: () => void): void {
    switch (event.type) {
      case 'reset':
        this.listing = new Map();
        break;
      case 'collection': {
        const resource: Resource = JSON.parse(event.data);
        (this.listing ?? this.resources).set(resource.id, resource);
        break;
      }
      case 'removed':
        (this.listing ?? this.resources).delete(JSON.parse(event.data).id);
        break;
      case 'ready':
        this.resources = this.listing ?? this.resources;
        this.listing = undefined;
        break;
      default:
        break;
    }
    if (event.id !== undefined) this.token = event.id;
    if (this.token !== undefined) ready();
    this.tell();
  }

  /** Polls for changes until closed. */
  private async poll(ready: () => void): Promise<void> {
    if (this.token === undefined) {
      const token = await this.syncToken();
      const list = await this.client.get('/collections');
      this.resources.clear();
      list.document.data.forEach((resource: Resource) => this.put(resource));
      this.token = token;
    }
    for (;;) {
      ready();
      this.tell();
      await this.pause(this.pollMs);
      if (this.closing.signal.aborted) return;
      await this.catchUp();
    }
  }

  private async catchUp(): Promise<void> {
    const since = encodeURIComponent(this.token ?? '');
    const changes = await this.client.get(`/changes?filter[since]=${since}`);
    for (const { id, attributes } of changes.document.data) {
      if (attributes.deleted) this.remove(id);
      else this.put((await this.client.get(`/collections/${encodeURIComponent(id)}`)).document.data);
    }
    this.token = changes.document.meta.syncToken;
  }

  private async syncToken(): Promise<string> {
    return (await this.client.get('/sync-token')).document.data.attributes.syncToken;
  }

  private tell(): void {
    const listeners = this.listeners;
    this.listeners = [];
    listeners.forEach(listener => listener());
  }

  private pause(ms: number): Promise<void> {
    return new Promise(resolve => {
      const timer = setTimeout(resolve, ms);
      this.closing.signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}
