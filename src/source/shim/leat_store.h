/* SPDX-License-Identifier: Apache-2.0 */
/* leat_store: object stores behind a C ABI. Implemented by the Rust static library `leat_shim`
 * (OpenDAL and one asynchronous runtime); the only caller is module `source`.
 *
 * Rules that hold for everything below:
 *  - Every function may be called from any thread. None blocks: a request is started and reports by
 *    its callback.
 *  - A callback comes exactly once for each started request, also after a cancel, on one of the
 *    library's threads. It must not block. It may come before the call that started the request has
 *    returned. It may start other requests.
 *  - A leat_outcome, and everything that it points to, belongs to the library and lives until the
 *    callback returns.
 *  - Arguments are copied before a call returns, except the memory that leat_store_read fills,
 * which belongs to the library from the call until the callback has been entered; nothing touches
 * it afterwards.
 *  - Text is UTF-8, not terminated by a zero, never null where its size is above 0.
 *  - The library starts its threads with the first store and keeps them for the life of the
 * process. A process that forks must do so before. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_store leat_store;
typedef struct leat_request leat_request;
typedef struct leat_writer leat_writer; /* an object that comes in parts */

typedef struct leat_text {
  const char* data;
  size_t size;
} leat_text;

typedef struct leat_option {
  leat_text name;
  leat_text value;
} leat_option;

/* A piece of the caller's memory. */
typedef struct leat_memory {
  void* start;
  size_t size;
} leat_memory;

/* Silence limits of one attempt; beyond them it ends as LEAT_UNAVAILABLE. */
typedef struct leat_terms {
  uint32_t first_byte_max_ms; /* until the first byte of an answer, connecting included */
  uint32_t silence_max_ms;    /* between two pieces of it */
} leat_terms;

typedef enum leat_code {
  LEAT_OK = 0,
  LEAT_INTERNAL = 1,          /* an unexpected response */
  LEAT_INVALID_ARGUMENT = 2,  /* the request or the configuration can never succeed */
  LEAT_NOT_FOUND = 3,         /* no such object or bucket */
  LEAT_PERMISSION_DENIED = 4, /* refused, or no credentials */
  LEAT_CHANGED = 5,           /* the object is not the demanded version */
  LEAT_OUT_OF_RANGE = 6,      /* the object is shorter than the range */
  LEAT_UNAVAILABLE = 7,       /* not reached, failing, or a body of the wrong length */
  LEAT_THROTTLED = 8,         /* the store asks for fewer requests */
  LEAT_CANCELLED = 9,         /* by leat_request_cancel */
  LEAT_UNSUPPORTED = 10,      /* the store cannot do it, or cannot address the key */
  LEAT_NOT_DIRECTORY = 11,    /* a listing of what is a file */
  LEAT_EXISTS = 12,           /* it was to be written only if there was none */
  LEAT_UNVERIFIED = 13        /* the response to a read shows no version */
} leat_code;

/* The kind of value that identifies a version of an object. */
typedef enum leat_version_kind {
  LEAT_VERSION_NONE = 0, /* nothing but size and mtime */
  LEAT_VERSION_ETAG = 1,
  LEAT_VERSION_GENERATION = 2
} leat_version_kind;

typedef struct leat_abilities {
  leat_version_kind version;
  uint8_t conditional_read;   /* reads can demand such a version */
  uint8_t lists_from_any_key; /* any key is a token of a listing */
  uint8_t real_directories;   /* they exist by themselves; listings of a missing one fail */
  uint8_t writes;             /* can be changed at all */
  uint8_t write_if_absent;    /* a leat_condition that it knows */
  uint8_t write_if_version;
  uint8_t repeats_parts; /* a part that failed with LEAT_UNAVAILABLE may be appended again */
  uint8_t copies;        /* by itself */
  uint8_t copies_parts;  /* leat_writer_copy */
  uint8_t renames;
  uint8_t metadata;   /* keeps that of a leat_condition, and stat returns it */
  size_t removes_max; /* keys that one request of its own removes; more take more requests */
  size_t part_min;    /* bytes of every part of an object but the last */
  uint32_t parts_max;
} leat_abilities;

/* The condition of a write, and what goes with it; default: none. */
typedef struct leat_condition {
  int if_absent;        /* there is no such object */
  leat_text if_version; /* it is this version; empty: any */
  leat_text metadata;   /* of the new object: lines NAME=VALUE; ignored where not kept */
} leat_condition;

/* The object that a read must find. */
typedef struct leat_expected {
  leat_text version; /* demanded from the store; empty: any */
  uint64_t size;     /* of the whole object; 0: unknown. A part of another size: LEAT_UNSUPPORTED */
  int64_t mtime_s;   /* since 1970; the response must show it, and a size. See has_mtime */
  uint8_t has_mtime; /* no response is used without them (LEAT_UNVERIFIED) */
} leat_expected;

typedef struct leat_entry {
  leat_text key; /* whole key; directories end in '/' */
  uint64_t size;
  leat_text version; /* as leat_store_read takes it; empty where the store has none */
  int64_t mtime_ns;  /* since 1970, as fine as stat and list both have it; see has_mtime */
  uint8_t is_directory;
  uint8_t has_mtime;
  leat_text metadata; /* stat: as in leat_condition */
} leat_entry;

typedef struct leat_outcome {
  leat_code code;
  leat_text message; /* what the store answered, for people; empty on success */
  /* stat: one entry. list: the page, sorted by the bytes of the keys. */
  const leat_entry* entries;
  size_t entry_count;
  leat_text next_token; /* list: empty after the last page */
  /* list: names of the page that are left out because this client cannot address them, and the
   * first of them. */
  size_t left_out;
  leat_text left_out_example;
  uint32_t requests;       /* sent: two if a rejected credential had changed since */
  uint64_t first_byte_us;  /* of the last one, from its start; 0 when no answer came */
  uint64_t retry_after_ms; /* of the last answer; 0 when the store said nothing */
  /* Of a failure, for advice. */
  leat_text store_code;   /* the store's own code; empty where it gave none (HEAD has none) */
  leat_text store_region; /* of the bucket, where a refusal names it */
  leat_text proxy;        /* that sent no response: "HOST:PORT, which https_proxy names" */
  int64_t clock_ahead_s;  /* this machine's clock minus the store's, of a refusal; 0: unknown */
  uint32_t http_status;   /* of the last answer; 0 when none came */
} leat_outcome;

typedef void (*leat_done)(void* user, const leat_outcome* outcome);

/* Reports that `bytes` of a read have arrived, from the first on. They have the demanded version
 * and are not touched again, even if the rest fails. Called any number of times, with more bytes
 * each time, and never after the request has reported. It must not block. Not called for a response
 * with a length or version that is known only at its end. */
typedef void (*leat_arrived)(void* user, size_t bytes);

/* Opens a store; sends nothing. Options:
 *   scheme, bucket    as below; bucket: what the store calls so, container or file system
 *   endpoint          URL; of hdfs and sftp hdfs://HOST:PORT and ssh://[USER@]HOST[:PORT]
 *   anonymous         "true" signs nothing
 * and, by scheme:
 *   s3                region; virtual_host: "true" puts the bucket into the host name; profile of
 *                     the shared credentials file; role to be assumed, role_session, external_id,
 *                     sts_endpoint; sse and sse_kms_key of what is written;
 *                     sse_customer_key_file; requester_pays: "true"
 *   az, abfs          account
 *   b2                bucket_id
 *   webhdfs           user
 *   hdfs
 *   http
 *   hf                commit_lasts_ms: how long a branch stays at its commit         [5000]
 *   sftp              user; key: file of the private key; known_hosts: strict, accept or add
 *   memory            an empty store of its own, for tests
 *   page_entries        entries asked for in a page of a listing                   [1000]
 *   credentials         a file, of all but hdfs, http, sftp and memory. Of s3 in the form of the
 *                       shared credentials file, of gs Google's JSON, of hf a token, else
 *                       NAME=VALUE lines as the environment has them; nothing else is asked
 * Without it credentials come from the environment, the files that belong to the store's own
 * tools, or the machine's role. Files that are replaced are read again.
 * Null on failure, with the reason in `error`, cut to `error_size` and ended by a zero. */
leat_store* leat_store_open(const leat_option* options, size_t option_count, char* error,
                            size_t error_size);
/* Requests in flight are not affected and still report. */
void leat_store_close(leat_store* store);
leat_abilities leat_store_abilities(const leat_store* store);

/* These return a handle, never null, which the caller frees with leat_request_free. */

/* A key that ends in '/' succeeds when it is a directory, or anything is below it. */
leat_request* leat_store_stat(const leat_store* store, leat_text key, leat_terms terms,
                              leat_done done, void* user);
/* `prefix` is empty or ends in '/'; the store's listing of a file's key, as a prefix, has that file
 * first. `token` is empty or the next_token of the page before; it does
 * not expire. A page has as many entries as the store gives in one answer;
 * where directories are real, a level is one page. */
leat_request* leat_store_list(const leat_store* store, leat_text prefix, int recursive,
                              leat_text token, leat_terms terms, leat_done done, void* user);
/* One GET from `offset` of as many bytes as the pieces of `into` hold together, which must not be
 * none, straight into them in their order; succeeds only if exactly these came, of such an object.
 * The array is copied, the memory is not. `arrived` may be null. */
leat_request* leat_store_read(const leat_store* store, leat_text key, uint64_t offset,
                              const leat_memory* into, size_t into_count, leat_expected expected,
                              leat_terms terms, leat_arrived arrived, leat_done done, void* user);
/* Changes. What is written is there as a whole or not at all; an outcome that is not LEAT_OK, or a
 * cancel, leaves open whether it is. Content is copied before the call returns. Of a write, a copy
 * and a finish the outcome has one entry: what is there now, its mtime only if the response has
 * it. LEAT_UNSUPPORTED where the abilities say no. */

/* A whole object in one request. A key that ends in '/' makes a directory and has no content. */
leat_request* leat_store_write(const leat_store* store, leat_text key, leat_text content,
                               leat_condition condition, leat_terms terms, leat_done done,
                               void* user);
/* Within the store; replaces what is at `to` unless `if_absent`. */
leat_request* leat_store_copy(const leat_store* store, leat_text from, leat_text to, int if_absent,
                              leat_terms terms, leat_done done, void* user);
/* In one step; replaces a file. Both keys end in '/', or neither. */
leat_request* leat_store_rename(const leat_store* store, leat_text from, leat_text to,
                                leat_terms terms, leat_done done, void* user);
/* All keys, in as few requests as the store allows; those that are not there are no failure. A
 * directory has to be empty. After a failure any of them may be gone. */
leat_request* leat_store_remove(const leat_store* store, const leat_text* keys, size_t key_count,
                                leat_terms terms, leat_done done, void* user);

/* Bytes of one version of an object. */
typedef struct leat_range {
  leat_text key;
  leat_text version;
  uint64_t offset;
  uint64_t size;
} leat_range;

/* An object in parts. Sends nothing; never null; whatever is wrong with key or condition is the
 * outcome of the first request. Requests of one writer follow one another. */
leat_writer* leat_writer_open(const leat_store* store, leat_text key, leat_condition condition);
/* The next part, of at least part_min bytes unless it is the last. Eight parts may be in flight: a
 * failure may be that of an earlier part, and then this part is not accepted. */
leat_request* leat_writer_append(const leat_writer* writer, leat_text part, leat_terms terms,
                                 leat_done done, void* user);
/* A part that the store copies from this version of an object. As for a part that is sent, a
 * failure may be that of an earlier part. */
leat_request* leat_writer_copy(const leat_writer* writer, leat_range from, leat_terms terms,
                               leat_done done, void* user);
/* Evaluates the condition. After a success only leat_writer_close may be called. */
leat_request* leat_writer_finish(const leat_writer* writer, leat_terms terms, leat_done done,
                                 void* user);
/* Removes the parts. */
leat_request* leat_writer_abandon(const leat_writer* writer, leat_terms terms, leat_done done,
                                  void* user);
/* Frees the handle, also with requests under way; what is then neither finished nor abandoned is
 * abandoned in the background. */
void leat_writer_close(leat_writer* writer);

/* HTTP traffic since the process started, of all stores together, credentials included. Not
 * counted: requests by which a redirection is followed, CONNECTs of proxies. Bodies count as far as
 * they were received, in the bytes that they represent. */
typedef struct leat_http_traffic {
  uint64_t requests[6]; /* GET, HEAD, PUT, POST, DELETE, others; those that found a connection */
  uint64_t received_bytes;
  uint64_t sent_bytes; /* of requests that were sent; those cut short count whole */
  uint64_t connections;
} leat_http_traffic;

leat_http_traffic leat_http_traffic_now(void);

/* Asks the request to end soon. The callback still comes, with LEAT_CANCELLED unless the request
 * ended by itself at the same moment. May be called at any time until leat_request_free. */
void leat_request_cancel(const leat_request* request);
/* Frees the handle, before or after the callback. The request itself continues. */
void leat_request_free(leat_request* request);

#ifdef __cplusplus
}
#endif
