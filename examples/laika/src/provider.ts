/**
 * Keeps the settings of a Laika content store in Collectory. Each change is a commit, each hand edit in git is
 * live at once, and a running store reads settings that it already has without the network.
 */
import { Effect } from 'effect';
import type { JSONSchema7 } from 'json-schema';
import {
  type ContentBaseSettings,
  ContentBaseSettingsProvider,
  type DocumentCollectionSettings,
  type MediaCollectionSettings,
} from 'laikacms/contentbase-settings';
import { InvalidData, LaikaError, LaikaTask, NotFoundError, UnknownError, VersionMismatchError } from 'laikacms/core';

import { type Answer, ATOMIC, Client } from './client.js';
import { Copy, type Resource } from './copy.js';

export interface CollectoryOptions {
  /** The URL of the service, including its base path. */
  url: string;
  /** A bearer token with the rights `read`, and `write` for the put operations. */
  token?: string;
  /** The interval between polls where streams are blocked, in milliseconds. */
  pollMs?: number;
  /** Whether to try to use the stream at all. */
  stream?: boolean;
  fetch?: typeof globalThis.fetch;
}

type Settings = DocumentCollectionSettings | MediaCollectionSettings;
type Attributes = Record<string, unknown>;

const POLL_MS = 2_000;

/** The attribute that contains a collection's schema. */
const SCHEMA = 'x-schema';

export class CollectorySettingsProvider extends ContentBaseSettingsProvider {
  private readonly client: Client;
  private readonly copy: Copy;

  constructor(options: CollectoryOptions) {
    super();
    this.client = new Client(options.url, options.token, options.fetch);
    this.copy = new Copy(this.client, options.pollMs ?? POLL_MS, options.stream ?? true);
  }

  /** Ends the stream; the settings read so far stay readable. */
  close(): void {
    this.copy.close();
  }

  /** Resolves at the next news from the service. */
  news(): Promise<void> {
    return this.copy.news();
  }

  getSettings(): LaikaTask.LaikaTask<ContentBaseSettings> {
    return task(async () => {
      const resources = [...(await this.copy.all()).values()];
      return { collections: Object.fromEntries(resources.map(it => [it.id, settingsOf(it)])) } as ContentBaseSettings;
    });
  }

  putSettings(settings: ContentBaseSettings): LaikaTask.LaikaTask<void> {
    return task(() => this.putAll(Object.entries(settings.collections ?? {})));
  }

  getDocumentCollectionSettings(collection: string): LaikaTask.LaikaTask<DocumentCollectionSettings> {
    return task(async () => (await this.settingsOf(collection, 'document')) as DocumentCollectionSettings);
  }

  putDocumentCollectionSettings(collection: string, settings: DocumentCollectionSettings): LaikaTask.LaikaTask<void> {
    return task(() => this.put(collection, settings));
  }

  getMediaCollectionSettings(collection: string): LaikaTask.LaikaTask<MediaCollectionSettings> {
    return task(async () => (await this.settingsOf(collection, 'media')) as MediaCollectionSettings);
  }

  putMediaCollectionSettings(collection: string, settings: MediaCollectionSettings): LaikaTask.LaikaTask<void> {
    return task(() => this.put(collection, settings));
  }

  getCollectionSchema(collection: string): LaikaTask.LaikaTask<JSONSchema7> {
    return task(async () => {
      const schema = (await this.copy.all()).get(collection)?.attributes[SCHEMA];
      if (schema === undefined) throw new NotFoundError(`The collection '${collection}' has no schema.`);
      return schema as JSONSchema7;
    });
  }

  putCollectionSchema(collection: string, schema: JSONSchema7): LaikaTask.LaikaTask<void> {
    return task(async () => {
      const known = (await this.copy.all()).get(collection);
      if (known === undefined) throw new NotFoundError(`There is no collection '${collection}' for the schema.`);
      await this.update(known, { [SCHEMA]: schema });
    });
  }

  private async settingsOf(collection: string, type: Settings['type']): Promise<Settings> {
    const resource = (await this.copy.all()).get(collection);
    if (resource === undefined) return defaults(collection, type);
    const settings = settingsOf(resource);
    if (settings.type !== type) {
      throw new InvalidData(`The collection '${collection}' is of type '${settings.type}', not '${type}'.`);
    }
    return settings;
  }

  private async put(collection: string, settings: Settings): Promise<void> {
    const known = (await this.copy.all()).get(collection);
    const attributes = attributesOf(settings);
    if (known !== undefined) return this.update(known, changes(known.attributes, attributes));
    const data = { type: `${settings.type}-collection`, id: collection, attributes };
    this.take(await this.client.write('POST', '/collections', { data }));
  }

  private async update(known: Resource, patch: Attributes): Promise<void> {
    if (Object.keys(patch).length === 0) return;
    const etag = await this.versionOf(known);
    const data = { type: known.type, id: known.id, attributes: patch };
    this.take(await this.client.write('PATCH', path(known.id), { data }, { 'If-Match': etag }));
  }

  /** Puts all settings in one commit, or none of them. */
  private async putAll(wanted: Array<[string, Settings]>): Promise<void> {
    const known = await this.copy.all();
    const keys = new Set(wanted.map(([key]) => key));
    const operations: unknown[] = [];
    for (const [id, settings] of wanted) {
      const data = { type: `${settings.type}-collection`, id, attributes: attributesOf(settings) };
      const before = known.get(id);
      if (before === undefined) {
        operations.push({ op: 'add', data });
        continue;
      }
      const attributes = changes(before.attributes, data.attributes);
      if (Object.keys(attributes).length === 0) continue;
      operations.push({ op: 'update', data: { ...data, attributes }, meta: { ifMatch: await this.versionOf(before) } });
    }
    for (const gone of [...known.values()].filter(it => !keys.has(it.id))) {
      const ref = { type: gone.type, id: gone.id };
      operations.push({ op: 'remove', ref, meta: { ifMatch: await this.versionOf(gone) } });
    }
    if (operations.length === 0) return;
    const answer = await this.client.write('POST', '/operations', { 'atomic:operations': operations }, {
      'Content-Type': ATOMIC,
      Accept: ATOMIC,
    });
    for (const result of answer.document['atomic:results']) if (result.data) this.copy.put(result.data);
    for (const gone of [...known.keys()].filter(key => !keys.has(key))) this.copy.remove(gone);
  }

  /** Returns the entity tag of what the store has read; fails if that has changed, so that nothing is overwritten. */
  private async versionOf(known: Resource): Promise<string> {
    const now = await this.client.get(path(known.id)).catch(error => {
      if (error instanceof NotFoundError) throw changed(known.id);
      throw error;
    });
    const resource: Resource = now.document.data;
    if (now.etag === null || !isSame(resource.attributes, known.attributes)) {
      this.copy.put(resource);
      throw changed(known.id);
    }
    return now.etag;
  }

  private take(answer: Answer): void {
    if (answer.document?.data) this.copy.put(answer.document.data);
  }
}

function changed(collection: string): VersionMismatchError {
  return new VersionMismatchError(`The collection '${collection}' has changed since it was read.`);
}

function path(key: string): string {
  return `/collections/${encodeURIComponent(key)}`;
}

/** Returns Laika's settings of a collection, without the `x-` attributes, which are not Laika's. */
function settingsOf(resource: Resource): Settings {
  const own = Object.entries(resource.attributes).filter(([name]) => !name.startsWith('x-'));
  return { ...Object.fromEntries(own), key: resource.id } as Settings;
}

function attributesOf(settings: Settings): Attributes {
  const { key: _key, ...attributes } = settings as Settings & Attributes;
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

/** Returns the patch from one state to the other; it removes no `x-` attributes. */
function changes(before: Attributes, after: Attributes): Attributes {
  const gone = Object.keys(before).filter(name => !name.startsWith('x-') && !(name in after));
  const other = Object.entries(after).filter(([name, value]) => !isSame(before[name], value));
  return Object.fromEntries([...other, ...gone.map(name => [name, null] as const)]);
}

function isSame(one: unknown, two: unknown): boolean {
  return sorted(one) === sorted(two);
}

function sorted(value: unknown): string {
  const isObject = (it: unknown): it is object => typeof it === 'object' && it !== null && !Array.isArray(it);
  return JSON.stringify(value, (_, it) => isObject(it) ? Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1))) : it) ?? '';
}

/** Returns what Laika's own provider returns for a collection without settings. */
function defaults(collection: string, type: Settings['type']): Settings {
  const name = collection.charAt(0).toUpperCase() + collection.slice(1);
  const shared = { key: collection, name, directory: collection, recursive: true };
  return type === 'media'
    ? { type, ...shared }
    : { type, ...shared, revisionDirectory: `.contentbase/revisions/${collection}` };
}

function task<A>(run: () => Promise<A>): LaikaTask.LaikaTask<A> {
  const fatal = (error: unknown) => error instanceof LaikaError ? error : new UnknownError(String(error));
  return LaikaTask.make(() => Effect.tryPromise({ try: run, catch: fatal }));
}
