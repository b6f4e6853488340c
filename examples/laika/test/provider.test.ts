import { afterEach, describe, expect, it } from 'vitest';
import { runTask } from 'laikacms/compat';
import type { ContentBaseSettings, DocumentCollectionSettings } from 'laikacms/contentbase-settings';
import { AuthenticationError, ForbiddenError, InvalidData, NotFoundError, ServiceUnavailableError, VersionMismatchError } from 'laikacms/core';

import { CollectorySettingsProvider, type CollectoryOptions } from '../src/index.js';
import { Service } from './service.js';

const open: Array<{ end(): Promise<void> }> = [];
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it.end();
});

async function service(auth?: string): Promise<Service> {
  const started = await Service.start(auth);
  open.push(started);
  return started;
}

function provider(options: CollectoryOptions): CollectorySettingsProvider {
  const made = new CollectorySettingsProvider(options);
  open.push({ end: async () => made.close() });
  return made;
}

const posts = (name: string): DocumentCollectionSettings => ({ type: 'document', key: 'posts', name, directory: 'content/posts' });

/** Waits until the running store sees the wanted value. */
async function seen<T>(store: CollectorySettingsProvider, look: () => Promise<T>, wanted: (it: T) => boolean): Promise<void> {
  while (!wanted(await look())) await store.news();
}

const nameIn = async (store: CollectorySettingsProvider) => (await runTask(store.getDocumentCollectionSettings('posts'))).name;

describe('settings', () => {
  it('are kept, each change as a commit', async () => {
    const service_ = await service();
    const store = provider({ url: service_.url });
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    await runTask(store.putDocumentCollectionSettings('posts', { ...posts('All posts'), recursive: true }));
    await runTask(store.putDocumentCollectionSettings('posts', { ...posts('All posts'), recursive: true }));
    expect(await runTask(store.getDocumentCollectionSettings('posts'))).toEqual({ ...posts('All posts'), recursive: true });
    expect(service_.git('log', '--format=%s').split('\n')).toEqual(['Update posts: name, recursive', 'Create posts']);
  });

  it('are put all at once as one commit, or not at all', async () => {
    const service_ = await service();
    const store = provider({ url: service_.url });
    await runTask(store.putDocumentCollectionSettings('old', { type: 'document', key: 'old' }));
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    const all = { collections: { posts: posts('All'), images: { type: 'media', key: 'images', accept: ['image/*'] } } } as ContentBaseSettings;
    await runTask(store.putSettings(all));
    expect(await runTask(store.getSettings())).toEqual(all);
    expect(service_.git('log', '-1', '--format=%s')).toBe('Change 3 collections: images, old, posts');
    const wrong = { collections: { posts: posts('Never'), images: { type: 'media', key: 'images', accept: ['nonsense'] } } } as ContentBaseSettings;
    await expect(runTask(store.putSettings(wrong))).rejects.toBeInstanceOf(InvalidData);
    expect(await nameIn(store)).toBe('All');
  });

  it('that nobody has configured are as those of Laika itself', async () => {
    const store = provider({ url: (await service()).url });
    expect(await runTask(store.getMediaCollectionSettings('uploads'))).toEqual({ type: 'media', key: 'uploads', name: 'Uploads', directory: 'uploads', recursive: true });
  });

  it('have their schemas beside them, which a put of settings leaves alone', async () => {
    const store = provider({ url: (await service()).url });
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    await expect(runTask(store.getCollectionSchema('posts'))).rejects.toBeInstanceOf(NotFoundError);
    await runTask(store.putCollectionSchema('posts', { type: 'object' }));
    await runTask(store.putDocumentCollectionSettings('posts', posts('Others')));
    expect(await runTask(store.getCollectionSchema('posts'))).toEqual({ type: 'object' });
    expect(await runTask(store.getDocumentCollectionSettings('posts'))).toEqual(posts('Others'));
  });
});

describe('a store that runs', () => {
  it('sees an edit by hand, saved or committed', async () => {
    const service_ = await service();
    const store = provider({ url: service_.url });
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    service_.save('posts', 'type: document\nname: By hand\n');
    await seen(store, () => nameIn(store), name => name === 'By hand');
    service_.git('checkout', '--quiet', '.');
    await seen(store, () => nameIn(store), name => name === 'Posts');
    service_.git('rm', '--quiet', 'collections/posts.yaml');
    service_.git('commit', '--quiet', '-m', 'gone');
    await seen(store, () => runTask(store.getSettings()), settings => Object.keys(settings.collections ?? {}).length === 0);
  });

  it('asks no network for what it has', async () => {
    const service_ = await service();
    let requests = 0;
    const fetch: typeof globalThis.fetch = (...args) => (requests++, globalThis.fetch(...args));
    const store = provider({ url: service_.url, fetch });
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    const before = requests;
    for (let n = 0; n < 1000; n++) await nameIn(store);
    expect(requests).toBe(before);
  });

  it('asks for changes where streams do not pass', async () => {
    const service_ = await service();
    const store = provider({ url: service_.url, stream: false, pollMs: 20 });
    const other = provider({ url: service_.url });
    await runTask(other.putDocumentCollectionSettings('posts', posts('Posts')));
    await seen(store, () => nameIn(store), name => name === 'Posts');
    await runTask(other.putSettings({ collections: {} }));
    await seen(store, () => runTask(store.getSettings()), settings => Object.keys(settings.collections ?? {}).length === 0);
  });

  it('keeps what it has while the service is away, and hears of what changed meanwhile', async () => {
    const service_ = await service();
    const store = provider({ url: service_.url });
    await runTask(store.putDocumentCollectionSettings('posts', posts('Posts')));
    await service_.stop();
    expect(await nameIn(store)).toBe('Posts');
    await expect(runTask(store.putDocumentCollectionSettings('posts', posts('Lost')))).rejects.toBeInstanceOf(ServiceUnavailableError);
    service_.save('posts', 'type: document\nname: Meanwhile\n');
    await service_.run();
    await seen(store, () => nameIn(store), name => name === 'Meanwhile');
  });
});

describe('nobody', () => {
  it('overwrites what another store has changed', async () => {
    const { url } = await service();
    const [one, two] = [provider({ url }), provider({ url, stream: false, pollMs: 60_000 })];
    await runTask(one.putDocumentCollectionSettings('posts', posts('Posts')));
    expect(await nameIn(two)).toBe('Posts');
    await runTask(one.putDocumentCollectionSettings('posts', posts('One')));
    await expect(runTask(two.putDocumentCollectionSettings('posts', posts('Two')))).rejects.toBeInstanceOf(VersionMismatchError);
    expect(await nameIn(two)).toBe('One');
    await runTask(two.putDocumentCollectionSettings('posts', posts('Two')));
    await seen(one, () => nameIn(one), name => name === 'Two');
  });

  it('wins over another who writes at the same time, unseen', async () => {
    const service_ = await service();
    const stores = [provider({ url: service_.url }), provider({ url: service_.url })];
    await runTask(stores[0]!.putDocumentCollectionSettings('posts', posts('Posts')));
    await seen(stores[1]!, () => nameIn(stores[1]!), name => name === 'Posts');
    const writes = stores.map((store, n) => runTask(store.putDocumentCollectionSettings('posts', posts(`Store ${n}`))));
    const ended = await Promise.allSettled(writes);
    const refused = ended.filter(it => it.status === 'rejected').map(it => it.reason);
    refused.forEach(error => expect(error).toBeInstanceOf(VersionMismatchError));
    expect(refused.length).toBeLessThan(2);
    expect(service_.git('rev-list', '--count', 'HEAD')).toBe(String(1 + 2 - refused.length));
  });

  it('does more than the token allows', async () => {
    const service_ = await service();
    const token = service_.collectory('token', 'reader', '--policy', 'policy.yaml', '--may', 'read', '--keys', '*').trim();
    await service_.stop();
    await service_.run('policy.yaml');
    await expect(runTask(provider({ url: service_.url }).getSettings())).rejects.toBeInstanceOf(AuthenticationError);
    const reader = provider({ url: service_.url, token });
    expect(await runTask(reader.getSettings())).toEqual({ collections: {} });
    await expect(runTask(reader.putDocumentCollectionSettings('posts', posts('Posts')))).rejects.toBeInstanceOf(ForbiddenError);
  });
});
