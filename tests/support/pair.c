/* SPDX-License-Identifier: MIT */
/*
 * pair.c - two clients and what is between them.
 */
#include "tests/support/pair.h"
#include "tests/support/client.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct connecting {
    struct pair *p;
    unsigned kind;
    rdmad_channel *channel;
    char why[RDMAD_TEXT_MAX + 1];
};

static void *connect_there(void *arg) {
    struct connecting *c = arg;
    if (rdmad_connect(c->p->a, rdmad_service_uri(c->p->service), c->kind, 0, &c->channel))
        snprintf(c->why, sizeof(c->why), "%s", rdmad_last_error(c->p->a));
    return NULL;
}

void pair_connect(struct pair *p, unsigned kind, rdmad_channel **at_a, rdmad_channel **at_b) {
    struct connecting c = {.p = p, .kind = kind};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, connect_there, &c), "no thread");
    int rc = rdmad_accept(p->service, NULL, (int)TEST_PATIENCE_MS, at_b);
    pthread_join(thread, NULL);
    CHECK(c.channel, "connect: %s", c.why);
    CHECK(!rc, "accept: %s", rdmad_last_error(p->b));
    *at_a = c.channel;
}

static void lease_all(struct pair *p, uint32_t rights) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = rights;
    terms.ttl_ms = 3600000;
    CHECK(!rdmad_lease_grant(p->b, p->far, p->bytes, &terms, &p->own), "%s",
          rdmad_last_error(p->b));
    p->lease = client_attach(p->a, rdmad_lease_uri(p->own));
}

enum pair_route pair_first_route(void) {
    return strcmp(test_fabric(), "verbs") ? PAIR_LOCAL : PAIR_LINK;
}

void pair_needs_route(enum pair_route route) {
    if (route < pair_first_route())
        skip("what one daemon does by itself is tested over tcp");
}

void pair_open(struct pair *p, enum pair_route route, size_t bytes, uint32_t rights) {
    *p = (struct pair){.bytes = bytes};
    p->da = tdaemon_start("127.0.0.1", NULL);
    p->db = route == PAIR_LINK ? tdaemon_start("127.0.0.2", NULL) : p->da;
    p->a = client_with_pool(p->da, bytes, &p->pool_a);
    p->b = client_with_pool(p->db, bytes, &p->pool_b);
    p->near = rdmad_pool_base(p->pool_a);
    p->far = rdmad_pool_base(p->pool_b);
    lease_all(p, rights);
    CHECK(!rdmad_listen(p->b, "pair", NULL, &p->service), "%s", rdmad_last_error(p->b));
    pair_connect(p, RDMAD_CHANNEL_RELIABLE, &p->ca, &p->cb);
}

void pair_close(struct pair *p) {
    rdmad_channel_abort(p->ca);
    rdmad_channel_abort(p->cb);
    rdmad_service_close(p->service);
    rdmad_close(p->a);
    rdmad_close(p->b);
    if (p->db != p->da)
        tdaemon_stop(p->db);
    tdaemon_stop(p->da);
}

static uint64_t next(uint64_t *x) {
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *x ^ *x >> 29;
}

void fill_bytes(void *memory, size_t length, uint64_t seed) {
    uint8_t *to = memory;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = next(&seed);
        memcpy(to + i, &word, length - i < 8 ? length - i : 8);
    }
}

bool bytes_are(const void *memory, size_t length, uint64_t seed, size_t *at) {
    const uint8_t *is = memory;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = next(&seed);
        if (memcmp(is + i, &word, length - i < 8 ? length - i : 8) != 0) {
            if (at)
                *at = i;
            return false;
        }
    }
    return true;
}
