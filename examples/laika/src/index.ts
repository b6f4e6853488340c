export { CollectorySettingsProvider, type CollectoryOptions } from './provider.js';
