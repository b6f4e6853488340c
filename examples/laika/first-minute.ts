/** Prints the settings of a content store, and prints them again after every change. */
import { runTask } from 'laikacms/compat';

import { CollectorySettingsProvider } from './src/index.js';

const url = process.argv[2] ?? 'http://127.0.0.1:8080';
const settings = new CollectorySettingsProvider({ url, token: process.env.TOKEN });
for (;;) {
  const { collections = {} } = await runTask(settings.getSettings());
  for (const [key, { type, directory }] of Object.entries(collections)) console.log(key, type, directory ?? '');
  console.log('--');
  await settings.news();
}
