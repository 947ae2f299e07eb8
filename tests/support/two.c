/* SPDX-License-Identifier: MIT */
/*
 * two.c - an owner, a lessee, and their leases.
 */
#include "tests/support/two.h"

static struct two two_open(bool link) {
    struct two t = {.a = tdaemon_start("127.0.0.1", NULL)};
    t.b = link ? tdaemon_start("127.0.0.2", NULL) : t.a;
    t.owner = client_with_pool(t.a, TWO_POOL, &t.owner_pool);
    t.lessee = client_with_pool(t.b, TWO_POOL, &t.lessee_pool);
    t.theirs = rdmad_pool_base(t.owner_pool);
    t.mine = rdmad_pool_base(t.lessee_pool);
    return t;
}

static void two_close(struct two *t) {
    rdmad_close(t->lessee);
    rdmad_close(t->owner);
    if (t->b != t->a)
        tdaemon_stop(t->b);
    tdaemon_stop(t->a);
}

void two_each_route(void (*promise)(struct two *t)) {
    for (int link = test_local_route() ? 0 : 1; link < 2; link++) {
        struct two t = two_open(link);
        promise(&t);
        two_close(&t);
    }
}

rdmad_lease *two_grant(struct two *t, uint32_t rights, uint64_t ttl_ms, uint32_t flags) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l;
    terms.ttl_ms = ttl_ms;
    terms.rights = rights;
    terms.flags = flags;
    CHECK(!rdmad_lease_grant(t->owner, t->theirs, TWO_LEASE, &terms, &l), "%s",
          rdmad_last_error(t->owner));
    return l;
}
