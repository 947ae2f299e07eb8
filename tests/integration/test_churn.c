/* SPDX-License-Identifier: MIT */
/*
 * test_churn.c - a crowd of clients on two daemons asks for everything in any order, mostly without
 * waiting for the answer, reads when it likes, and dies at any moment. When it is gone, both
 * daemons have exactly what they had before it came: no object, descriptor or memory more, and no
 * row in any list.
 *
 * Requests name what the daemons said earlier, to this client or to another that may be dead, so
 * most of them make sense and many come too late. Where a sentence of a refusal is required, other
 * tests look at it; here nothing but the end counts.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 24, BAG = 8, URIS = 32, SERVICES = 6, DAEMONS = 2, POOL = 256 << 10 };
#define MS UINT64_C(1000000)

struct bag { /* the last few numbers that were told */
    uint64_t v[BAG];
    unsigned n;
};

struct one {
    int sock; /* -1: dead */
    unsigned daemon;
    bool ringed;
    struct raw_ring ring;
    struct bag pools, rings, leases, handles, channels, services, incomings, of_service, watches;
};

static struct tdaemon *daemons[DAEMONS];
static struct one crowd[CLIENTS];
static char uris[URIS][RDMAD_URI_MAX + 1];
static unsigned nuris;

static uint64_t below(uint64_t n) {
    return test_random() % n;
}

static void put(struct bag *b, uint64_t v) {
    b->v[b->n++ % BAG] = v;
}

/* One that was told; now and then one that nobody told. */
static uint64_t any(const struct bag *b) {
    if (!b->n || !below(32))
        return below(4) ? below(1000) : test_random();
    return b->v[below(b->n < BAG ? b->n : BAG)];
}

static void service_uri(char uri[RDMAD_URI_MAX + 1]) {
    snprintf(uri, RDMAD_URI_MAX + 1, "rdmad://%s/churn-%u", tdaemon_listen(daemons[below(DAEMONS)]),
             (unsigned)below(SERVICES));
}

static void lease_uri(char uri[RDMAD_URI_MAX + 1]) {
    if (nuris)
        memcpy(uri, uris[below(nuris < URIS ? nuris : URIS)], RDMAD_URI_MAX + 1);
    else
        service_uri(uri);
}

static uint64_t some_time(void) {
    static const uint64_t ms[] = {1, 20, 50, 200, 1000};
    return ms[below(sizeof(ms) / sizeof(ms[0]))] * MS;
}

/* ---- what is asked ------------------------------------------------------------------------- */

union body { /* zero where nothing is said */
    struct rdmad_ring_create_req ring;
    struct rdmad_ring_destroy_req ring_destroy;
    struct rdmad_pool_create_req pool;
    struct rdmad_pool_destroy_req pool_destroy;
    struct rdmad_pool_import_req import;
    struct rdmad_lease_grant_req grant;
    struct rdmad_lease_attach_req attach;
    struct rdmad_lease_renew_req renew;
    struct rdmad_lease_release_req release;
    struct rdmad_lease_revoke_req revoke;
    struct rdmad_lease_stat_req stat;
    struct rdmad_lease_delegate_req delegate;
    struct rdmad_lease_request_req request;
    struct rdmad_lease_hand_over_req hand_over;
    struct rdmad_budget_free_req budget_free;
    struct rdmad_lease_keep_req keep;
    struct rdmad_names_list_req list;
    struct rdmad_names_watch_req watch;
    struct rdmad_names_unwatch_req unwatch;
    struct rdmad_service_listen_req listen;
    struct rdmad_service_close_req service_close;
    struct rdmad_channel_connect_req connect;
    struct rdmad_channel_accept_req accept;
    struct rdmad_channel_reject_req reject;
    struct rdmad_channel_close_req close;
};

static void memory_body(const struct one *c, uint16_t type, union body *b) {
    if (type == RDMAD_MSG_RING_CREATE)
        b->ring.sq_entries = 4;
    else if (type == RDMAD_MSG_RING_DESTROY || type == RDMAD_MSG_RING_READY)
        b->ring_destroy.ring = any(&c->rings);
    else if (type == RDMAD_MSG_POOL_CREATE)
        b->pool.bytes = POOL;
    else if (type == RDMAD_MSG_POOL_IMPORT)
        b->import.bytes = POOL;
    else
        b->pool_destroy.pool = any(&c->pools);
}

static void owner_body(const struct one *c, uint16_t type, union body *b) {
    if (type == RDMAD_MSG_LEASE_RENEW) {
        b->renew.lease = any(&c->leases);
        b->renew.ttl_ns = some_time();
    } else if (type != RDMAD_MSG_LEASE_GRANT) {
        b->revoke.lease = any(&c->leases); /* STAT is the same */
    } else {
        b->grant = (struct rdmad_lease_grant_req){.pool = any(&c->pools),
                                                  .offset = 4096 * below(8),
                                                  .length = 4096 * (1 + below(8)),
                                                  .ttl_ns = some_time(),
                                                  .rights = 1 + (uint32_t)below(15),
                                                  .max_attaches = (uint32_t)below(4),
                                                  .ends_after = (uint32_t)below(3)};
        if (!below(4)) {
            b->grant.flags = 1 + (uint32_t)below(3);
            b->grant.ttl_ns += 1000 * MS; /* which such a lease has at least */
        }
        if (!below(3))
            snprintf(b->grant.name, sizeof(b->grant.name), "churn.lease-%u", (unsigned)below(9));
    }
}

static void lessee_body(const struct one *c, uint16_t type, union body *b) {
    switch (type) {
    case RDMAD_MSG_LEASE_ATTACH:
        b->attach.timeout_ns = some_time();
        lease_uri(b->attach.uri);
        break;
    case RDMAD_MSG_LEASE_DELEGATE:
        b->delegate = (struct rdmad_lease_delegate_req){.handle = any(&c->handles),
                                                        .length = 64,
                                                        .ttl_ns = some_time(),
                                                        .timeout_ns = some_time()};
        break;
    case RDMAD_MSG_LEASE_REQUEST:
        b->request.bytes = 1 + below(3 * POOL / 4);
        b->request.ttl_ns = below(2) ? some_time() : 0;
        b->request.timeout_ns = some_time();
        service_uri(b->request.uri);
        break;
    case RDMAD_MSG_LEASE_KEEP:
        b->keep.handle = any(&c->handles);
        b->keep.on = (uint32_t)below(2);
        break;
    default:
        b->release.handle = any(&c->handles); /* HAND_OVER is the same */
    }
}

static void names_body(const struct one *c, uint16_t type, union body *b) {
    const char *at = tdaemon_listen(daemons[below(DAEMONS)]);
    if (type == RDMAD_MSG_NAMES_UNWATCH) {
        b->unwatch.watch = any(&c->watches);
    } else if (type == RDMAD_MSG_NAMES_WATCH) {
        b->watch.timeout_ns = some_time();
        snprintf(b->watch.where, sizeof(b->watch.where), "rdmad://%s/", at);
    } else {
        b->list.timeout_ns = some_time();
        snprintf(b->list.where, sizeof(b->list.where), "rdmad://%s/", at);
    }
}

static void service_body(const struct one *c, uint16_t type, union body *b) {
    if (type == RDMAD_MSG_SERVICE_LISTEN) {
        b->listen.backlog = (uint32_t)below(4);
        if (below(2)) {
            b->listen.budget_pool = any(&c->pools);
            b->listen.budget_length = POOL / 2;
            b->listen.max_ttl_ns = 200 * MS;
        }
        snprintf(b->listen.name, sizeof(b->listen.name), "churn-%u", (unsigned)below(SERVICES));
    } else if (type == RDMAD_MSG_BUDGET_FREE) {
        b->budget_free.service = any(&c->services);
        b->budget_free.offset = 4096 * below(16);
    } else {
        b->service_close.service = any(&c->services);
    }
}

static void channel_body(const struct one *c, uint16_t type, union body *b) {
    unsigned told = c->incomings.n < BAG ? c->incomings.n : BAG;
    unsigned i = told ? (unsigned)below(told) : 0;
    if (type == RDMAD_MSG_CHANNEL_CONNECT) {
        b->connect.timeout_ns = some_time();
        b->connect.kind = (uint32_t)below(3);
        service_uri(b->connect.uri);
    } else if (type == RDMAD_MSG_CHANNEL_CLOSE) {
        b->close.channel = any(&c->channels);
        b->close.abrupt = (uint32_t)below(2);
    } else {
        b->accept.service = c->of_service.v[i];
        b->accept.incoming = c->incomings.v[i]; /* REJECT begins the same */
        if (type == RDMAD_MSG_CHANNEL_ACCEPT)
            b->accept.timeout_ns = some_time();
    }
}

struct kind {
    uint16_t type;
    unsigned weight;
    size_t size;
    void (*fill)(const struct one *c, uint16_t type, union body *b);
};

static const struct kind kinds[] = {
    {RDMAD_MSG_RING_CREATE, 1, sizeof(struct rdmad_ring_create_req), memory_body},
    {RDMAD_MSG_RING_DESTROY, 1, sizeof(struct rdmad_ring_destroy_req), memory_body},
    {RDMAD_MSG_POOL_CREATE, 3, sizeof(struct rdmad_pool_create_req), memory_body},
    {RDMAD_MSG_POOL_DESTROY, 1, sizeof(struct rdmad_pool_destroy_req), memory_body},
    {RDMAD_MSG_POOL_IMPORT, 1, sizeof(struct rdmad_pool_import_req), memory_body},
    /* Of what was never populated, what is ready, what is gone. */
    {RDMAD_MSG_POOL_READY, 1, sizeof(struct rdmad_pool_ready_req), memory_body},
    {RDMAD_MSG_RING_READY, 1, sizeof(struct rdmad_ring_ready_req), memory_body},
    {RDMAD_MSG_LEASE_GRANT, 8, sizeof(struct rdmad_lease_grant_req), owner_body},
    {RDMAD_MSG_LEASE_RENEW, 2, sizeof(struct rdmad_lease_renew_req), owner_body},
    {RDMAD_MSG_LEASE_REVOKE, 2, sizeof(struct rdmad_lease_revoke_req), owner_body},
    {RDMAD_MSG_LEASE_STAT, 1, sizeof(struct rdmad_lease_stat_req), owner_body},
    {RDMAD_MSG_LEASE_ATTACH, 10, sizeof(struct rdmad_lease_attach_req), lessee_body},
    {RDMAD_MSG_LEASE_RELEASE, 2, sizeof(struct rdmad_lease_release_req), lessee_body},
    {RDMAD_MSG_LEASE_DELEGATE, 3, sizeof(struct rdmad_lease_delegate_req), lessee_body},
    {RDMAD_MSG_LEASE_REQUEST, 6, sizeof(struct rdmad_lease_request_req), lessee_body},
    {RDMAD_MSG_LEASE_HAND_OVER, 3, sizeof(struct rdmad_lease_hand_over_req), lessee_body},
    {RDMAD_MSG_LEASE_KEEP, 2, sizeof(struct rdmad_lease_keep_req), lessee_body},
    {RDMAD_MSG_NAMES_LIST, 2, sizeof(struct rdmad_names_list_req), names_body},
    {RDMAD_MSG_NAMES_WATCH, 2, sizeof(struct rdmad_names_watch_req), names_body},
    {RDMAD_MSG_NAMES_UNWATCH, 1, sizeof(struct rdmad_names_unwatch_req), names_body},
    {RDMAD_MSG_SERVICE_LISTEN, 4, sizeof(struct rdmad_service_listen_req), service_body},
    {RDMAD_MSG_SERVICE_CLOSE, 1, sizeof(struct rdmad_service_close_req), service_body},
    {RDMAD_MSG_BUDGET_FREE, 1, sizeof(struct rdmad_budget_free_req), service_body},
    {RDMAD_MSG_CHANNEL_CONNECT, 10, sizeof(struct rdmad_channel_connect_req), channel_body},
    {RDMAD_MSG_CHANNEL_ACCEPT, 10, sizeof(struct rdmad_channel_accept_req), channel_body},
    {RDMAD_MSG_CHANNEL_REJECT, 1, sizeof(struct rdmad_channel_reject_req), channel_body},
    {RDMAD_MSG_CHANNEL_CLOSE, 2, sizeof(struct rdmad_channel_close_req), channel_body},
};

static const struct kind *any_kind(void) {
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        sum += kinds[i].weight;
    uint64_t at = below(sum);
    const struct kind *k = kinds;
    while (at >= k->weight)
        at -= k++->weight;
    return k;
}

static int sealed_memory(void) {
    int fd = memfd_create("churn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, POOL) == 0, "memfd: %s", strerror(errno));
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0, "seals");
    return fd;
}

/* ---- one of the crowd ------------------------------------------------------------------------ */

static void die(struct one *c) {
    if (c->ringed)
        raw_ring_unmap(&c->ring);
    close(c->sock);
    *c = (struct one){.sock = -1};
}

static void be_born(struct one *c) {
    struct raw_pool pool;
    *c = (struct one){.daemon = (unsigned)below(DAEMONS)};
    c->sock = raw_session(tdaemon_dir(daemons[c->daemon]));
    if (below(2)) /* with a way to move bytes */
        c->ringed = raw_ring_create(c->sock, 16, &c->ring) == 0;
    if (raw_pool_create(c->sock, POOL, 0, &pool) == 0) {
        put(&c->pools, pool.handle);
        raw_pool_unmap(&pool);
    }
    CHECK(fcntl(c->sock, F_SETFL, O_NONBLOCK) == 0, "%s", strerror(errno));
}

static void ask(struct one *c) {
    struct {
        struct rdmad_msg_header header;
        union body body;
    } m;
    const struct kind *k = any_kind();
    if (k->type == RDMAD_MSG_CHANNEL_ACCEPT && !c->incomings.n)
        return;
    int fd = k->type == RDMAD_MSG_POOL_IMPORT ? sealed_memory() : -1;

    memset(&m, 0, sizeof(m));
    raw_header(&m.header, k->type, k->size);
    k->fill(c, k->type, &m.body);
    int rc = raw_send(c->sock, &m, sizeof(m.header) + k->size, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
    if (rc && rc != -EAGAIN)
        die(c); /* the daemon had enough of it */
}

static void learn_reply(struct one *c, uint16_t type, const void *body) {
    const struct rdmad_lease_grant_rep *grant = body;
    const struct rdmad_names_watch_rep *number = body; /* the first field of most replies */
    switch (type) {
    case RDMAD_MSG_LEASE_GRANT:
        put(&c->leases, grant->lease); /* fall through */
    case RDMAD_MSG_LEASE_DELEGATE:
        memcpy(uris[nuris++ % URIS], grant->uri, sizeof(grant->uri));
        break;
    case RDMAD_MSG_RING_CREATE:
        put(&c->rings, number->watch);
        break;
    case RDMAD_MSG_POOL_CREATE:
    case RDMAD_MSG_POOL_IMPORT:
        put(&c->pools, number->watch);
        break;
    case RDMAD_MSG_LEASE_ATTACH:
    case RDMAD_MSG_LEASE_REQUEST:
        put(&c->handles, number->watch);
        break;
    case RDMAD_MSG_SERVICE_LISTEN:
        put(&c->services, number->watch);
        break;
    case RDMAD_MSG_CHANNEL_CONNECT:
    case RDMAD_MSG_CHANNEL_ACCEPT:
        put(&c->channels, number->watch);
        break;
    case RDMAD_MSG_NAMES_WATCH:
        put(&c->watches, number->watch);
        break;
    default:
        break;
    }
}

static void listen_to(struct one *c) {
    struct raw_packet p;
    for (unsigned n = 0; n < 20 && raw_recv(c->sock, &p, 0); n++) {
        const struct rdmad_ev_channel_incoming *in = raw_body(&p);
        if (!p.size) {
            die(c);
            return;
        }
        if (p.header.type == RDMAD_EV_CHANNEL_INCOMING) {
            put(&c->incomings, in->incoming);
            put(&c->of_service, in->service);
        } else if (p.header.type & RDMAD_MSG_REPLY && p.header.status == 0) {
            learn_reply(c, (uint16_t)(p.header.type & ~RDMAD_MSG_REPLY), in);
        }
        raw_drop(&p);
    }
}

static void submit(struct one *c) {
    struct rdmad_sqe sqe = {.opcode = (uint8_t)(1 + below(RDMAD_OP_COUNT - 1)),
                            .timeout_ns = some_time(),
                            .user_data = below(8)};
    bool message = sqe.opcode == RDMAD_OP_SEND || sqe.opcode == RDMAD_OP_RECV;
    struct rdmad_cqe cqe;
    while (raw_ring_take(&c->ring, &cqe, 0))
        ;
    if (sqe.opcode == RDMAD_OP_NOTIFIED) {
        sqe.lease = any(&c->leases);
    } else if (sqe.opcode == RDMAD_OP_CANCEL) {
        sqe.lease = below(8);
    } else {
        bool atomic = sqe.opcode == RDMAD_OP_CAS || sqe.opcode == RDMAD_OP_FADD;
        sqe.lease = any(message ? &c->channels : &c->handles);
        sqe.pool = atomic ? 0 : any(&c->pools);
        sqe.length = atomic ? 8 : below(4) ? 1 + below(4096) : 1 + below(POOL);
    }
    raw_ring_put(&c->ring, &sqe, 1);
}

static void step(void) {
    struct one *c = &crowd[below(CLIENTS)];
    if (c->sock < 0)
        be_born(c);
    else if (!below(100))
        die(c);
    else if (!below(3))
        listen_to(c);
    else if (c->ringed && below(2))
        submit(c);
    else
        ask(c);
}

/* ---- what is left ---------------------------------------------------------------------------- */

static const char *const lists[] = {"session", "pool", "lease", "service", "channel"};

static void expect_empty(struct tdaemon *d) {
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        char method[32], key[32];
        snprintf(method, sizeof(method), "%s.show", lists[i]);
        snprintf(key, sizeof(key), "%ss", lists[i]);
        json_t *shown = tdaemon_call(d, method, NULL);
        const json_t *rows = json_object_get(shown, key);
        char *text = json_dumps(shown, 0);
        CHECK(rows && json_array_size(rows) == 0, "%s: %s", method, text);
        free(text);
        json_decref(shown);
    }
}

static void phase(unsigned steps, json_t *const before[DAEMONS]) {
    for (unsigned i = 0; i < steps; i++)
        step();
    for (unsigned i = 0; i < CLIENTS; i++)
        if (crowd[i].sock >= 0)
            die(&crowd[i]);
    for (unsigned i = 0; i < DAEMONS; i++) {
        tdaemon_expect_objects(daemons[i], json_incref(before[i]));
        expect_empty(daemons[i]);
    }
}

static void a_crowd_that_dies_at_any_moment_leaves_nothing(void) {
    static const char *const hosts[DAEMONS] = {"127.0.0.1", "127.0.0.2"};
    char path[128];
    const char *tmp = getenv("TMPDIR");
    json_t *before[DAEMONS];
    uint64_t settled[DAEMONS] = {0};
    unsigned steps = test_count(200000) / 4;

    snprintf(path, sizeof(path), "%s/churn.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"peer\": {\"idle_ms\": 100}}\n", f) > 0 && fclose(f) == 0, "%s", path);
    for (unsigned i = 0; i < DAEMONS; i++) {
        daemons[i] = tdaemon_start(hosts[i], (const char *[]){"--config", path, NULL});
        before[i] = tdaemon_objects(daemons[i]);
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        crowd[i].sock = -1;
    for (unsigned round = 0; round < 4; round++) {
        phase(steps, before);
        for (unsigned i = 0; i < DAEMONS; i++) {
            uint64_t rss = tdaemon_rss_bytes(daemons[i]);
            printf("  round %u: %u steps, daemon %u then has %lu KiB\n", round, steps, i,
                   (unsigned long)(rss >> 10));
            if (round == 1)
                settled[i] = rss;
            if (round == 3 && !test_sanitized())
                CHECK(rss < settled[i] + (4u << 20), "memory grows: %lu, then %lu bytes",
                      (unsigned long)settled[i], (unsigned long)rss);
        }
    }
    for (unsigned i = 0; i < DAEMONS; i++) {
        json_decref(before[i]);
        tdaemon_stop(daemons[i]);
    }
    unlink(path);
}

TEST_MAIN(CASE(a_crowd_that_dies_at_any_moment_leaves_nothing))
