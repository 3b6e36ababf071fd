// SPDX-License-Identifier: Apache-2.0
// The mounts as rows; then of each where it is from, how long its names hold, what it uses of the
// kernel and why not more.
import { useStatus } from './feed';
import { passthroughMissing } from './findings';
import { MountTable } from './mount_table';
import { shown, wireOf } from './names';
import { FailureNote, Facts, Name, Panel, Tag } from './parts';
import type { Mount } from './types';

const FEATURES: Record<string, string> = {
  passthrough: 'the kernel reads complete cached files by itself',
  no_open: 'the kernel sends no openss',
  io_uring: 'FUSE over io_uring',
  readdirplus: 'names come with their attributes',
  survives: 'goes on when the daemon dies',
};

function Features(props: { mount: Mount }) {
  const { mount } = props;
  if (!mount.own_fuse_mount) {
    return <span class="muted">shown by the mount around it, which has its own</span>;
  }
  const names = Object.keys(mount.features);
  const missing = names.filter((name) => !mount.features[name]);
  return (
    <>
      <ul class="tags">
        {names.filter((name) => mount.features[name]).map((name) => (
          <li key={name}>
            <Tag tone="ok">{name}</Tag> <span class="muted">{FEATURES[name]}</span>
          </li>
        ))}
      </ul>
      {missing.length > 0 && <span class="muted">not in use: {missing.join(', ')}</span>}
    </>
  );
}

function Options(props: { options: Record<string, string> }) {
  const all = Object.entries(props.options).filter(([name]) => name !== 'folder_profile');
  if (all.length === 0) return <span class="muted">none</span>;
  return (
    <ul class="options">
      {all.map(([name, value]) => <li key={name}><code>{name}={value}</code></li>)}
    </ul>
  );
}

function facts(mount: Mount) {
  const list: (readonly [string, preact.ComponentChildren])[] = [
    ['Source', <Name wire={wireOf(mount, 'source')} />],
    ['Freshness', mount.freshness],
    ['Profile', mount.options['folder_profile'] ?? <span class="muted">none</span>],
    ['Options', <Options options={mount.options} />],
    ['Kernel', <Features mount={mount} />],
  ];
  if (mount.own_fuse_mount && mount.passthrough_off) {
    list.push(['Passthrough', (
      <span class={passthroughMissing(mount) ? 'warn' : ''}>
        off: <bdi>{mount.passthrough_off}</bdi>
        {passthroughMissing(mount) && <span class="muted"> (<code>leat doctor</code> says what
          changes it)</span>}
      </span>
    )]);
  }
  const who = mount.allow_other ? 'other users too' : 'this user only';
  list.push(['Access', `${mount.read_only ? 'read-only, ' : ''}${who}, owner ${mount.uid}:${
    mount.gid}, umask ${mount.umask}`]);
  if (mount.paths.length > 0) {
    list.push(['Paths of their own', (
      <ul class="plain">
        {mount.paths.map((one) => (
          <li key={wireOf(one, 'path')}>
            <Name wire={wireOf(one, 'path')} /> <Options options={one.options} />
          </li>
        ))}
      </ul>
    )]);
  }
  return list;
}

export function MountsPage() {
  const { value: status, failure } = useStatus();
  if (!status) return <FailureNote failure={failure} doing="Asking for the mounts" />;
  return (
    <>
      <Panel title="In use" wide><MountTable status={status} /></Panel>
      <div class="grid">
      {status.mounts.map((mount) => {
        const path = wireOf(mount, 'path');
        return (
          <Panel key={path} title={shown(path)} aside={
            <span class="aside">
              {!mount.own_fuse_mount && <Tag>nested</Tag>} <PathLinkTo path={path} />
            </span>}>
            <Facts facts={facts(mount)} />
          </Panel>
        );
      })}
      </div>
    </>
  );
}

function PathLinkTo(props: { path: string }) {
  return <a href={`#/browse${props.path}`} aria-label={`Browse ${shown(props.path)}`}>Browse</a>;
}

