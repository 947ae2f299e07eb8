/* SPDX-License-Identifier: MIT */
/*
 * kv_cache - a key-value cache: GET is one READ of the server's memory, which the server does not
 * notice; PUT is a message.
 *
 *   kv_cache serve NAME       publishes the table as NAME and takes PUTs as NAME.put
 *   kv_cache get URI KEY      URI: rdmad://HOST:PORT/NAME, or rdmad:///NAME on the same daemon
 *   kv_cache put URI KEY VALUE
 *
 * A READ may come while the server writes, and nothing says in which order its bytes are taken. So
 * an entry has a version that is odd while it is written, and a sum over all of it: a reader that
 * finds an odd version or a wrong sum reads again.
 */
#include <err.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 1024, KEY = 48, VALUE = 176, ANSWER_MS = 5000 };

struct entry {
    uint64_t version;
    char key[KEY], value[VALUE];
    uint64_t sum;
    char pad[16]; /* entries of 256 bytes are in no two cache lines more than they must be */
};

struct put {
    char key[KEY], value[VALUE];
};

static uint64_t hash(const void *data, size_t size, uint64_t h) {
    for (const unsigned char *p = data; size--; p++)
        h = (h ^ *p) * UINT64_C(1099511628211);
    return h;
}

static size_t slot_of(const char *key) {
    return hash(key, strlen(key), 14695981039346656037u) % ENTRIES;
}

static uint64_t sum_of(const struct entry *e) {
    return hash(e->key, sizeof(e->key) + sizeof(e->value), e->version);
}

static _Noreturn void fail(const rdmad_session *s) {
    errx(1, "%s", rdmad_last_error(s));
}

/* ---- the server ---------------------------------------------------------------------------- */

static void store(struct entry *table, struct put *put) {
    put->key[KEY - 1] = put->value[VALUE - 1] = '\0'; /* a client may send anything */
    struct entry *e = &table[slot_of(put->key)];
    uint64_t version = e->version;
    __atomic_store_n(&e->version, version + 1, __ATOMIC_SEQ_CST);
    memcpy(e->key, put->key, KEY); /* whoever had the slot is gone: it is a cache */
    memcpy(e->value, put->value, VALUE);
    struct entry sum = *e;
    sum.version = version + 2;
    e->sum = sum_of(&sum);
    __atomic_store_n(&e->version, version + 2, __ATOMIC_SEQ_CST);
}

/* Waits for one so long, -1 for ever. Returns 0, or why none came. */
static int serve_one(rdmad_service *service, struct entry *table, struct put *put, int wait_ms) {
    rdmad_channel *c;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    int rc = rdmad_accept(service, NULL, wait_ms, &c);
    if (rc)
        return rc;
    if (!rdmad_recv(c, put, sizeof(*put), ANSWER_MS, &m) && m.length == sizeof(*put)) {
        store(table, put);
        rdmad_send(c, put, 0); /* it is stored */
    }
    rdmad_channel_close(c);
    return 0;
}

static void serve(const char *name) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    char puts_name[80];
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *lease;
    rdmad_service *service;
    snprintf(puts_name, sizeof(puts_name), "%s.put", name);
    if (rdmad_open(NULL, &s) ||
        rdmad_pool_create(s, ENTRIES * sizeof(struct entry) + 8192, 0, &pool))
        fail(NULL);
    struct entry *table = rdmad_alloc(pool, ENTRIES * sizeof(struct entry));
    struct put *put = rdmad_alloc(pool, sizeof(*put));
    memset(table, 0, ENTRIES * sizeof(struct entry));
    terms.name = name;
    terms.rights = RDMAD_RIGHT_READ;
    terms.flags = RDMAD_LEASE_KEEP_ALIVE;
    if (rdmad_listen(s, puts_name, NULL, &service) ||
        rdmad_lease_grant(s, table, ENTRIES * sizeof(struct entry), &terms, &lease))
        fail(s);
    printf("%s\n", rdmad_lease_uri(lease));
    fflush(stdout);
    while (!serve_one(service, table, put, -1))
        ;
    fail(s); /* the session is lost: there is nothing to wait for any more */
}

/* ---- clients ------------------------------------------------------------------------------- */

/* Reads what is in the key's place, as a whole: 0 or RDMAD_E_*. */
static int look_up(rdmad_lease *table, const char *key, struct entry *e) {
    int rc;
    do {
        rc = rdmad_read(table, slot_of(key) * sizeof(*e), e, sizeof(*e));
    } while (!rc && (e->version % 2 || (e->version && e->sum != sum_of(e))));
    return rc;
}

static int is_of(const struct entry *e, const char *key) {
    return e->version && strncmp(e->key, key, KEY) == 0;
}

static int get(const char *uri, const char *key) {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_lease *table;
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 4096, 0, &pool) ||
        rdmad_lease_attach(s, uri, 0, &table))
        fail(NULL);
    struct entry *e = rdmad_alloc(pool, sizeof(*e));
    if (look_up(table, key, e))
        fail(s);
    int found = is_of(e, key);
    if (found)
        printf("%.*s\n", VALUE, e->value);
    rdmad_close(s);
    return !found;
}

/* 0: it is stored. */
static int send_put(rdmad_channel *c, struct put *p) {
    int rc = rdmad_send(c, p, sizeof(*p));
    return rc ? rc : rdmad_recv(c, p, 0, ANSWER_MS, NULL);
}

static void put_fill(struct put *p, const char *key, const char *value) {
    memset(p, 0, sizeof(*p));
    snprintf(p->key, sizeof(p->key), "%s", key);
    snprintf(p->value, sizeof(p->value), "%s", value);
}

static int put(const char *uri, const char *key, const char *value) {
    char puts_uri[RDMAD_URI_MAX + 1];
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_channel *c;
    snprintf(puts_uri, sizeof(puts_uri), "%s.put", uri);
    if (rdmad_open(NULL, &s) || rdmad_pool_create(s, 4096, 0, &pool) ||
        rdmad_connect(s, puts_uri, RDMAD_CHANNEL_RELIABLE, 0, &c))
        fail(NULL);
    struct put *p = rdmad_alloc(pool, sizeof(*p));
    put_fill(p, key, value);
    if (send_put(c, p))
        fail(s);
    rdmad_close(s);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "serve"))
        serve(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "get"))
        return get(argv[2], argv[3]);
    if (argc == 5 && !strcmp(argv[1], "put"))
        return put(argv[2], argv[3], argv[4]);
    errx(2, "usage: kv_cache serve NAME | get URI KEY | put URI KEY VALUE");
}
