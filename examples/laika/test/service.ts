/** The real service, on its own repository. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const BINARY = [process.env['BINARY'], '../../target/release/collectory', '../../target/debug/collectory']
  .filter(path => path !== undefined)
  .map(path => resolve(import.meta.dirname, '..', path))
  .find(existsSync);

export class Service {
  readonly folder = mkdtempSync(join(tmpdir(), 'collectory-laika-'));
  url = '';
  private process: ChildProcess | undefined;
  private listen = '127.0.0.1:0';

  static async start(auth = 'allow-all'): Promise<Service> {
    const service = new Service();
    await service.run(auth);
    return service;
  }

  /** Starts the service, the next time at the same address. */
  async run(auth = 'allow-all'): Promise<void> {
    if (BINARY === undefined) throw new Error('build collectory first: cargo build');
    const flags = ['serve', '--auth', auth, '--repo', 'settings', '--listen', this.listen];
    const service = spawn(BINARY, flags, { cwd: this.folder, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, COLLECTORY_LOG: 'warn' } });
    this.process = service;
    for await (const line of createInterface({ input: service.stdout! })) {
      this.url = line.replace('listening on ', '');
      this.listen = new URL(this.url).host;
      return;
    }
    throw new Error('the service ended at once');
  }

  /** Stops the service, as an orderly shutdown of the machine does. */
  async stop(): Promise<void> {
    const service = this.process;
    if (service === undefined) return;
    this.process = undefined;
    const ended = new Promise(resolve => service.once('exit', resolve));
    service.kill('SIGTERM');
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  collectory(...args: string[]): string {
    return execFileSync(BINARY!, args, { cwd: this.folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  }

  git(...args: string[]): string {
    const who = ['-c', 'user.name=Mara', '-c', 'user.email=mara@example.org'];
    return execFileSync('git', [...who, ...args], { cwd: join(this.folder, 'settings'), encoding: 'utf8' }).trim();
  }

  /** Saves a collection file by hand. */
  save(key: string, text: string): void {
    writeFileSync(join(this.folder, 'settings/collections', `${key}.yaml`), text);
  }
}
