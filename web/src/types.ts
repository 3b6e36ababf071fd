// SPDX-License-Identifier: Apache-2.0
// The JSON of the daemon's API, as docs/cli.md describes it; only what the page uses.

export interface Mount {
  path: string; path_encoded?: string;
  source: string; source_encoded?: string;
  options: Record<string, string>;
  paths: { path: string; path_encoded?: string; options: Record<string, string> }[];
  freshness: string;
  read_only: boolean; allow_other: boolean; inspection: boolean;
  own_fuse_mount: boolean;
  features: Record<string, boolean>;
  passthrough_off: string;
  passthrough_files: number;
  uid: number; gid: number; umask: string;
}

export interface StoreStats {
  capacity_bytes: number; used_bytes: number; unlinked_bytes: number;
  files: number; packed_objects: number; segments: number;
  evicted_bytes: number; corrupt_blocks: number; admission_rejected_bytes: number;
}

export interface CacheDirectory extends StoreStats {
  path: string; path_encoded?: string;
  state: string; why?: string;
}

export interface Pool {
  id: string;
  mount: string; mount_encoded?: string;
  used_bytes: number; unlinked_bytes: number; quota_bytes: number;
  ttl_seconds: number; priority: string; pinned: boolean; cyclic: boolean;
}

export interface Status {
  version: string; pid: number; supervisor_pid: number; restarts: number;
  uptime_seconds: number; rss_bytes: number;
  open_files: number; open_files_max: number;
  metrics_address: string; log_file: string;
  cache: StoreStats & { directories: CacheDirectory[]; pools: Pool[] };
  fetch: { memory_bytes: number; memory_bytes_max: number; requests_in_flight: number };
  options: Record<string, string>;
  counters: Record<string, number>;
  mounts: Mount[];
}

/** `series`: metric with its labels, and its value at each of the ages. */
export interface History {
  pid: number; step_seconds: number; ages_seconds: number[]; series: Record<string, number[]>;
}

/** Sums over the files below a directory whose names the daemon has in memory. */
export interface TreeSum { files: number; bytes: number; cached_bytes: number; partial: boolean; }

export interface Entry {
  name: string; name_encoded?: string;
  kind: 'file' | 'directory';
  below?: TreeSum;
  size?: number; version?: string; mtime?: string; cached_bytes?: number;
}

export interface Listing {
  path: string; path_encoded?: string;
  kind: 'file' | 'directory';
  entries: Entry[];
  skipped: number;
  next?: string; next_encoded?: string;
}

export interface Stat extends Entry {
  path: string; path_encoded?: string;
  source: string; source_encoded?: string;
  mount: string; mount_encoded?: string;
  fuse_mount: string; fuse_mount_encoded?: string;
  served_by?: 'kernel' | 'daemon';
}

export interface Job {
  id: number; kind: string; path: string; path_encoded?: string;
  state: 'running' | 'done' | 'failed' | 'cancelled';
  planned: boolean;
  files_total: number; files_done: number; files_failed: number;
  bytes_total: number; bytes_done: number; bytes_fetched: number;
  seconds: number; started?: string; errors_total: number; errors: string[]; code?: string;
  added?: number; changed?: number; removed?: number;
}

export interface SlowOperation {
  time: string;
  operation: string;
  path: string;
  path_encoded?: string;
  seconds: number;
  reason: string;
  failure?: string;
}

/** As `leat doctor` has them. */
export interface Finding {
  level: 'ok' | 'note' | 'problem';
  name: string;
  subject: string; subject_encoded?: string;
  what: string; cost: string; action: string;
}

export interface PathError {
  time: string; code: string;
  mount: string; mount_encoded?: string;
  path: string; path_encoded?: string;
  reason: string;
}
