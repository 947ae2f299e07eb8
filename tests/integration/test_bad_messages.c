/* SPDX-License-Identifier: MIT */
/*
 * test_bad_messages.c - every malformed packet on the client socket gets its own error, changes
 * nothing and costs nothing: objects and descriptors are counted before and after each case.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tdaemon *daemon_;
static json_t *objects_;
static unsigned fds_;

static void begin(void) {
    daemon_ = tdaemon_start("127.0.0.1", NULL);
    objects_ = raw_objects_at_rest(daemon_);
    fds_ = tdaemon_fds(daemon_);
}

static void end(void) {
    close(raw_session(tdaemon_dir(daemon_))); /* it still serves */
    tdaemon_expect_objects(daemon_, objects_);
    tdaemon_expect_fds(daemon_, fds_);
    tdaemon_stop(daemon_);
}

/* ---- one bad packet ------------------------------------------------------------------------ */

static const size_t body_sizes[RDMAD_MSG_COUNT] = {
    [RDMAD_MSG_HELLO] = sizeof(struct rdmad_hello_req),
    [RDMAD_MSG_RING_CREATE] = sizeof(struct rdmad_ring_create_req),
    [RDMAD_MSG_RING_DESTROY] = sizeof(struct rdmad_ring_destroy_req),
    [RDMAD_MSG_POOL_CREATE] = sizeof(struct rdmad_pool_create_req),
    [RDMAD_MSG_POOL_DESTROY] = sizeof(struct rdmad_pool_destroy_req),
    [RDMAD_MSG_LEASE_GRANT] = sizeof(struct rdmad_lease_grant_req),
    [RDMAD_MSG_LEASE_ATTACH] = sizeof(struct rdmad_lease_attach_req),
    [RDMAD_MSG_LEASE_RENEW] = sizeof(struct rdmad_lease_renew_req),
    [RDMAD_MSG_LEASE_RELEASE] = sizeof(struct rdmad_lease_release_req),
    [RDMAD_MSG_LEASE_REVOKE] = sizeof(struct rdmad_lease_revoke_req),
    [RDMAD_MSG_LEASE_STAT] = sizeof(struct rdmad_lease_stat_req),
    [RDMAD_MSG_POOL_IMPORT] = sizeof(struct rdmad_pool_import_req),
    [RDMAD_MSG_SERVICE_LISTEN] = sizeof(struct rdmad_service_listen_req),
    [RDMAD_MSG_SERVICE_CLOSE] = sizeof(struct rdmad_service_close_req),
    [RDMAD_MSG_CHANNEL_CONNECT] = sizeof(struct rdmad_channel_connect_req),
    [RDMAD_MSG_CHANNEL_ACCEPT] = sizeof(struct rdmad_channel_accept_req),
    [RDMAD_MSG_CHANNEL_REJECT] = sizeof(struct rdmad_channel_reject_req),
    [RDMAD_MSG_CHANNEL_CLOSE] = sizeof(struct rdmad_channel_close_req),
    [RDMAD_MSG_CHANNEL_STAT] = sizeof(struct rdmad_channel_stat_req),
    [RDMAD_MSG_LEASE_DELEGATE] = sizeof(struct rdmad_lease_delegate_req),
    [RDMAD_MSG_LEASE_REQUEST] = sizeof(struct rdmad_lease_request_req),
    [RDMAD_MSG_LEASE_HAND_OVER] = sizeof(struct rdmad_lease_hand_over_req),
    [RDMAD_MSG_BUDGET_FREE] = sizeof(struct rdmad_budget_free_req),
    [RDMAD_MSG_NAMES_LIST] = sizeof(struct rdmad_names_list_req),
    [RDMAD_MSG_NAMES_WATCH] = sizeof(struct rdmad_names_watch_req),
    [RDMAD_MSG_NAMES_UNWATCH] = sizeof(struct rdmad_names_unwatch_req),
    [RDMAD_MSG_LEASE_KEEP] = sizeof(struct rdmad_lease_keep_req),
    [RDMAD_MSG_POOL_READY] = sizeof(struct rdmad_pool_ready_req),
    [RDMAD_MSG_RING_READY] = sizeof(struct rdmad_ring_ready_req),
    [RDMAD_MSG_LIFELINE] = sizeof(struct rdmad_lifeline_req),
    [RDMAD_MSG_RESUME_OFFER] = sizeof(struct rdmad_resume_offer_req),
    [RDMAD_MSG_SESSION_RESUME] = sizeof(struct rdmad_session_resume_req),
    [RDMAD_MSG_POOL_RESUME] = sizeof(struct rdmad_pool_resume_req),
    [RDMAD_MSG_LEASE_RESUME] = sizeof(struct rdmad_lease_resume_req),
    [RDMAD_MSG_ATTACH_RESUME] = sizeof(struct rdmad_attach_resume_req),
    [RDMAD_MSG_CHANNEL_PROOF] = sizeof(struct rdmad_channel_proof_req),
    [RDMAD_MSG_CHANNEL_KEEPALIVE] = sizeof(struct rdmad_channel_keepalive_req),
    [RDMAD_MSG_SERVICE_RESUME] = sizeof(struct rdmad_service_resume_req),
    [RDMAD_MSG_BUDGET_RESUME] = sizeof(struct rdmad_budget_resume_req),
    [RDMAD_MSG_PART_RESUME] = sizeof(struct rdmad_part_resume_req),
    [RDMAD_MSG_CHANNEL_RESUME] = sizeof(struct rdmad_channel_resume_req),
};

/* Whether a message of that type comes with a descriptor. */
static bool takes_memory(unsigned type) {
    return type == RDMAD_MSG_POOL_IMPORT || type == RDMAD_MSG_POOL_RESUME;
}

struct packet {
    struct rdmad_msg_header header;
    uint8_t body[70000];
};

/* A well-formed packet of the type, to be spoiled. Returns its size. */
static size_t well_formed(struct packet *p, unsigned type) {
    memset(p, 0, sizeof(*p));
    raw_header(&p->header, (uint16_t)type, body_sizes[type]);
    return p->header.length;
}

/*
 * Sends the packet on a session of its own and requires that the answer is an error with this code
 * and a sentence, or the same as the session's end.
 */
static void expect_refusal(const char *what, bool greeted, const void *data, size_t size,
                           const int *fds, unsigned nfds, int code) {
    struct raw_packet reply;
    const char *dir = tdaemon_dir(daemon_);
    int sock = greeted ? raw_session(dir) : raw_connect(dir);
    CHECK(raw_send(sock, data, size, fds, nfds) == 0, "%s: cannot send", what);
    CHECK(raw_recv(sock, &reply, (int)TEST_PATIENCE_MS), "%s: no answer", what);
    CHECK(reply.size == sizeof(reply.header) + sizeof(struct rdmad_msg_error),
          "%s: the answer has %zu bytes", what, reply.size);
    CHECK(reply.header.status == code, "%s: error %d (%s) instead of %d", what, reply.header.status,
          raw_text(&reply), code);
    CHECK(raw_text(&reply)[0], "%s: no sentence", what);
    CHECK(reply.nfds == 0, "%s: descriptors with an error", what);
    close(sock);
}

static void wrong_lengths_are_refused(void) {
    static struct packet p;
    begin();
    for (unsigned type = RDMAD_MSG_HELLO; type < RDMAD_MSG_COUNT; type++) {
        bool greeted = type != RDMAD_MSG_HELLO;
        size_t size = well_formed(&p, type);
        p.header.length = (uint32_t)size - 1;
        expect_refusal("a body too short", greeted, &p, size - 1, NULL, 0, RDMAD_E_LENGTH);
        p.header.length = (uint32_t)size + 1;
        expect_refusal("a body too long", greeted, &p, size + 1, NULL, 0, RDMAD_E_LENGTH);
        p.header.length = sizeof(p.header);
        expect_refusal("no body", greeted, &p, sizeof(p.header), NULL, 0, RDMAD_E_LENGTH);
        p.header.length = (uint32_t)size - 8;
        expect_refusal("a length that lies", greeted, &p, size, NULL, 0, RDMAD_E_LENGTH);
        p.header.length = UINT32_MAX;
        expect_refusal("a length that lies grossly", greeted, &p, size, NULL, 0, RDMAD_E_LENGTH);
    }
    size_t size = well_formed(&p, RDMAD_MSG_POOL_CREATE);
    for (size_t n = 1; n < sizeof(p.header); n++)
        expect_refusal("half a header", true, &p, n, NULL, 0, RDMAD_E_LENGTH);
    (void)size;
    for (size_t n = RDMAD_MSG_MAX + 1; n < sizeof(p); n += 9001)
        expect_refusal("an oversized packet", true, &p, n, NULL, 0, RDMAD_E_LENGTH);
    end();
}

static void spoiled_headers_are_refused(void) {
    static struct packet p;
    begin();
    size_t size = well_formed(&p, RDMAD_MSG_POOL_CREATE);
    p.header.magic ^= 1;
    expect_refusal("wrong magic", true, &p, size, NULL, 0, RDMAD_E_PROTOCOL);
    static const uint16_t versions[] = {0, RDMAD_ABI_VERSION + 1, UINT16_MAX};
    for (unsigned i = 0; i < 3; i++) {
        size = well_formed(&p, RDMAD_MSG_HELLO);
        p.header.version = versions[i];
        expect_refusal("wrong version", false, &p, size, NULL, 0, RDMAD_E_VERSION);
    }
    static const uint16_t types[] = {0, RDMAD_MSG_COUNT, RDMAD_MSG_POOL_CREATE | RDMAD_MSG_REPLY,
                                     RDMAD_EV_LEASE_ENDED, UINT16_MAX};
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size = well_formed(&p, RDMAD_MSG_POOL_CREATE);
        p.header.type = types[i];
        expect_refusal("unknown type", true, &p, size, NULL, 0, RDMAD_E_TYPE);
    }
    size = well_formed(&p, RDMAD_MSG_POOL_CREATE);
    p.header.reserved = 1;
    expect_refusal("reserved in the header", true, &p, size, NULL, 0, RDMAD_E_RESERVED);
    size = well_formed(&p, RDMAD_MSG_POOL_CREATE);
    p.header.status = -1;
    expect_refusal("a request with a status", true, &p, size, NULL, 0, RDMAD_E_RESERVED);
    end();
}

static void descriptors_are_refused_and_closed(void) {
    static const unsigned counts[] = {1, 3, 4, 5, 253};
    static struct packet p;
    int fds[253];
    begin();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < 253; i++)
        fds[i] = null;
    for (unsigned type = RDMAD_MSG_HELLO; type < RDMAD_MSG_COUNT; type++)
        for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            size_t size = well_formed(&p, type);
            if (type == RDMAD_MSG_POOL_IMPORT) /* takes one, but not of that kind */
                ((struct rdmad_pool_import_req *)(void *)p.body)->bytes = 4096;
            expect_refusal("descriptors", type != RDMAD_MSG_HELLO, &p, size, fds, counts[i],
                           RDMAD_E_FDS);
        }
    close(null);
    end();
}

static void the_order_of_messages_is_kept(void) {
    static struct packet p;
    begin();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned type = RDMAD_MSG_HELLO + 1; type < RDMAD_MSG_COUNT; type++) {
        size_t size = well_formed(&p, type);
        expect_refusal("before HELLO", false, &p, size, &null, takes_memory(type),
                       RDMAD_E_PROTOCOL);
    }
    close(null);
    size_t size = well_formed(&p, RDMAD_MSG_HELLO);
    expect_refusal("HELLO twice", true, &p, size, NULL, 0, RDMAD_E_PROTOCOL);
    end();
}

/* ---- bad bodies ---------------------------------------------------------------------------- */

/* Spoils a well-formed body at offset and expects the code. */
static void spoil(const char *what, uint16_t type, size_t offset, const void *bytes, size_t count,
                  int code) {
    static struct packet p;
    size_t size = well_formed(&p, type);
    CHECK(offset + count <= body_sizes[type], "the test is wrong");
    memcpy(p.body + offset, bytes, count);
    expect_refusal(what, type != RDMAD_MSG_HELLO, &p, size, NULL, 0, code);
}

#define SPOIL(what, TYPE, STRUCT, field, value, code)                             \
    do {                                                                          \
        __typeof__(((struct STRUCT *)0)->field) v_ = (value);                     \
        spoil(what, TYPE, offsetof(struct STRUCT, field), &v_, sizeof(v_), code); \
    } while (0)

static void bad_texts_are_refused(void) {
    char full[RDMAD_URI_MAX + 1];
    begin();
    memset(full, 'a', sizeof(full));
    spoil("a name without end", RDMAD_MSG_HELLO, 0, full, RDMAD_NAME_MAX + 1, RDMAD_E_PROTOCOL);
    spoil("bytes behind a name", RDMAD_MSG_HELLO, 0, "ab\0cd", 5, RDMAD_E_PROTOCOL);
    spoil("a name with control bytes", RDMAD_MSG_HELLO, 0, "a\033[2Jb", 6, RDMAD_E_NAME);
    spoil("a name with a slash", RDMAD_MSG_HELLO, 0, "../a", 4, RDMAD_E_NAME);
    size_t uri = offsetof(struct rdmad_lease_attach_req, uri);
    spoil("a URI without end", RDMAD_MSG_LEASE_ATTACH, uri, full, sizeof(full), RDMAD_E_PROTOCOL);
    static const char *const uris[] = {
        "",
        "x",
        "http://127.0.0.1:1/lease/1",
        "rdmad://",
        "rdmad://127.0.0.1/lease/1?key=00",
        "rdmad://127.0.0.1:0/lease/1?key=00112233445566778899aabbccddeeff",
        "rdmad://127.0.0.1:99999/lease/1?key=00112233445566778899aabbccddeeff",
        "rdmad://127.0.0.1:1/lease/1?key=00112233445566778899aabbccddeef",
        "rdmad://127.0.0.1:1/lease/1?key=00112233445566778899aabbccddeefg",
        "rdmad://127.0.0.1:1/lease/-1?key=00112233445566778899aabbccddeeff",
        "rdmad://127.0.0.1:1/lease/99999999999999999999?key=00112233445566778899aabbccddeeff",
        "rdmad:///.hidden",
        "rdmad:///a/b",
        "rdmad://[::1/lease/1",
        "rdmad:///a\033[31m"};
    for (unsigned i = 0; i < sizeof(uris) / sizeof(uris[0]); i++)
        spoil(uris[i], RDMAD_MSG_LEASE_ATTACH, uri, uris[i], strlen(uris[i]), RDMAD_E_URI);
    end();
}

static void bad_values_are_refused(void) {
    begin();
    SPOIL("hello reserved", RDMAD_MSG_HELLO, rdmad_hello_req, reserved, 1, RDMAD_E_RESERVED);
    SPOIL("ring reserved", RDMAD_MSG_RING_CREATE, rdmad_ring_create_req, reserved, 1,
          RDMAD_E_RESERVED);
    SPOIL("huge ring", RDMAD_MSG_RING_CREATE, rdmad_ring_create_req, sq_entries, UINT32_MAX,
          RDMAD_E_INVAL);
    SPOIL("pool reserved", RDMAD_MSG_POOL_CREATE, rdmad_pool_create_req, reserved, 1,
          RDMAD_E_RESERVED);
    SPOIL("pool flags", RDMAD_MSG_POOL_CREATE, rdmad_pool_create_req, flags, 0x80000000u,
          RDMAD_E_RESERVED);
    SPOIL("empty pool", RDMAD_MSG_POOL_CREATE, rdmad_pool_create_req, bytes, 0, RDMAD_E_INVAL);
    SPOIL("endless pool", RDMAD_MSG_POOL_CREATE, rdmad_pool_create_req, bytes, UINT64_MAX,
          RDMAD_E_RANGE);
    SPOIL("large pool", RDMAD_MSG_POOL_CREATE, rdmad_pool_create_req, bytes, UINT64_C(1) << 50,
          RDMAD_E_LIMIT);
    SPOIL("attach reserved", RDMAD_MSG_LEASE_ATTACH, rdmad_lease_attach_req, reserved, 1,
          RDMAD_E_RESERVED);
    static const uint64_t handles[] = {0, 1, UINT64_C(1) << 32, UINT64_MAX};
    for (unsigned i = 0; i < 4; i++) {
        SPOIL("no ring", RDMAD_MSG_RING_DESTROY, rdmad_ring_destroy_req, ring, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no pool", RDMAD_MSG_POOL_DESTROY, rdmad_pool_destroy_req, pool, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no ring", RDMAD_MSG_RING_READY, rdmad_ring_ready_req, ring, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no pool", RDMAD_MSG_POOL_READY, rdmad_pool_ready_req, pool, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no attachment", RDMAD_MSG_LEASE_RELEASE, rdmad_lease_release_req, handle, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no lease", RDMAD_MSG_LEASE_REVOKE, rdmad_lease_revoke_req, lease, handles[i],
              RDMAD_E_NO_LEASE);
        SPOIL("no lease", RDMAD_MSG_LEASE_STAT, rdmad_lease_stat_req, lease, handles[i],
              RDMAD_E_NO_LEASE);
        SPOIL("no channel", RDMAD_MSG_CHANNEL_STAT, rdmad_channel_stat_req, channel, handles[i],
              RDMAD_E_HANDLE);
        SPOIL("no channel", RDMAD_MSG_CHANNEL_KEEPALIVE, rdmad_channel_keepalive_req, channel,
              handles[i], RDMAD_E_HANDLE);
    }
    end();
}

/* A grant whose other fields are right, so that the one that is wrong is what is refused. */
static void bad_grants_are_refused(void) {
    begin();
    const char *dir = tdaemon_dir(daemon_);
    int sock = raw_session(dir);
    struct raw_pool pool;
    CHECK(raw_pool_create(sock, 1 << 16, 0, &pool) == 0, "pool");
    const struct rdmad_lease_grant_req good = {.pool = pool.handle,
                                               .length = pool.bytes,
                                               .ttl_ns = UINT64_C(1000000000),
                                               .rights = RDMAD_RIGHTS_ALL};
    struct {
        const char *what;
        struct rdmad_lease_grant_req req;
        int code;
    } bad[16];
    unsigned n = 0;
#define BAD(text, error, ...)                            \
    do {                                                 \
        bad[n].what = (text);                            \
        bad[n].code = (error);                           \
        bad[n].req = good;                               \
        struct rdmad_lease_grant_req *q = &bad[n++].req; \
        __VA_ARGS__;                                     \
    } while (0)
    BAD("another's pool", RDMAD_E_HANDLE, q->pool += 1);
    BAD("beyond the pool", RDMAD_E_RANGE, q->offset = 1);
    BAD("range that overflows", RDMAD_E_RANGE, q->offset = UINT64_MAX - 10);
    BAD("endless range", RDMAD_E_RANGE, q->length = UINT64_MAX);
    BAD("no time", RDMAD_E_INVAL, q->ttl_ns = 0);
    BAD("no rights", RDMAD_E_INVAL, q->rights = 0);
    BAD("unknown rights", RDMAD_E_INVAL, q->rights = RDMAD_RIGHTS_ALL + 1);
    BAD("unknown flags", RDMAD_E_RESERVED, q->flags = RDMAD_LEASE_FLAGS + 1);
    BAD("unknown scope", RDMAD_E_INVAL, q->scope = 77);
    BAD("a peer's address missing", RDMAD_E_INVAL, q->scope = RDMAD_SCOPE_PEER);
    BAD("name", RDMAD_E_NAME, strcpy(q->name, "a/b"));
    BAD("reserved name", RDMAD_E_NAME, strcpy(q->name, "lease"));
    BAD("name without end", RDMAD_E_PROTOCOL, memset(q->name, 'a', sizeof(q->name)));
    for (unsigned i = 0; i < n; i++) {
        struct raw_packet reply;
        int status = raw_request(sock, RDMAD_MSG_LEASE_GRANT, &bad[i].req, sizeof(good), &reply);
        CHECK(status == bad[i].code, "%s: %d (%s) instead of %d", bad[i].what, status,
              status ? raw_text(&reply) : "granted", bad[i].code);
    }
    struct rdmad_lease_grant_rep rep;
    CHECK(raw_grant(sock, &pool, good.ttl_ns, &rep, NULL) == 0, "the good one is granted");
    raw_pool_unmap(&pool);
    close(sock);
    end();
}

/* ---- noise --------------------------------------------------------------------------------- */

/* A packet of noise: half of them with a good header, so that it gets further. */
static size_t noise(struct packet *p) {
    size_t size = test_random() % 1200;
    for (size_t i = 0; i < sizeof(p->header) + size; i += 8) {
        uint64_t r = test_random();
        memcpy((uint8_t *)p + i, &r, sizeof(r));
    }
    if (test_random() % 2) {
        uint16_t type = (uint16_t)(test_random() % (RDMAD_MSG_COUNT + 1));
        if (type > 0 && type < RDMAD_MSG_COUNT && test_random() % 4)
            size = body_sizes[type];
        raw_header(&p->header, type, size);
        if (test_random() % 2) /* small numbers reach further than large ones */
            for (size_t i = 0; i < size; i++)
                p->body[i] &= p->body[i] >> 1 & p->body[i] >> 3;
    }
    return sizeof(p->header) + size;
}

/* Once what the noise happened to get is back: a packet in some thousands asks for a large pool. */
static uint64_t settled_rss(void) {
    tdaemon_expect_objects(daemon_, json_incref(objects_));
    return tdaemon_rss_bytes(daemon_);
}

static void ten_thousand_packets_of_noise_change_nothing(void) {
    static struct packet p;
    begin();
    const char *dir = tdaemon_dir(daemon_);
    int sock = raw_session(dir), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uint64_t rss = 0;
    for (unsigned i = 0; i < 10000; i++) {
        struct raw_packet reply;
        size_t size = noise(&p);
        int fds[4] = {null, null, null, null};
        unsigned nfds = test_random() % 8 ? 0 : (unsigned)(test_random() % 5);
        int rc = raw_send(sock, &p, size, fds, nfds);
        bool ended = rc != 0;
        while (!ended && raw_recv(sock, &reply, 0)) {
            ended = reply.size == 0;
            raw_drop(&reply);
        }
        if (ended || i % 100 == 99) {
            close(sock);
            if (i == 4999)
                rss = settled_rss();
            sock = raw_session(dir);
        }
    }
    close(sock);
    close(null);
    if (!test_sanitized())
        CHECK(settled_rss() < rss + (8u << 20), "memory grows under noise");
    end();
}

TEST_MAIN(CASE(wrong_lengths_are_refused), CASE(spoiled_headers_are_refused),
          CASE(descriptors_are_refused_and_closed), CASE(the_order_of_messages_is_kept),
          CASE(bad_texts_are_refused), CASE(bad_values_are_refused), CASE(bad_grants_are_refused),
          CASE(ten_thousand_packets_of_noise_change_nothing))
