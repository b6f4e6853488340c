/** Laika's own contract tests of its documents and assets repositories, with their settings in the real service. */
import { afterAll } from 'vitest';
import { runTask } from 'laikacms/compat';
import { ContentBaseAssetsRepository } from 'laikacms/assets/contentbase';
import { runAssetsRepositoryContract } from 'laikacms/assets/testing';
import { type ContentBaseSettings, defaultUnpublishedStatuses } from 'laikacms/contentbase-settings';
import { ContentBaseDocumentsRepository } from 'laikacms/documents/contentbase';
import { runDocumentsRepositoryContract } from 'laikacms/documents/testing';

// The package does not export it.
import { InMemoryStorageRepository } from '../node_modules/laikacms/dist/domain/storage/testing/in-memory-storage.js';
import { CollectorySettingsProvider } from '../src/index.js';
import { Service } from './service.js';

const service = await Service.start();
const settings = new CollectorySettingsProvider({ url: service.url });
await runTask(settings.putSettings({
  collections: {
    posts: {
      type: 'document',
      key: 'posts',
      name: 'Posts',
      directory: 'posts',
      unpublishedStatuses: { ...defaultUnpublishedStatuses },
      revisionDirectory: '.contentbase/posts/revisions',
    },
    uploads: { type: 'media', key: 'uploads', name: 'Uploads', directory: 'uploads' },
  },
} as ContentBaseSettings));
afterAll(async () => {
  settings.close();
  await service.end();
});

runDocumentsRepositoryContract({
  name: 'documents over in-memory storage, settings in Collectory',
  makeRepo: () => new ContentBaseDocumentsRepository(new InMemoryStorageRepository(), settings),
});

runAssetsRepositoryContract({
  name: 'assets over in-memory storage, settings in Collectory',
  makeRepo: () => new ContentBaseAssetsRepository(new InMemoryStorageRepository(), settings),
});
