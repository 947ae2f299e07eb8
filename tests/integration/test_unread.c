/* SPDX-License-Identifier: MIT */
/*
 * test_unread.c - a client that reads nothing while much of what is its own ends at once: it is not
 * closed for that, and hears of every end, once, when it reads again.
 *
 * A raw client's socket and the daemon's queue behind it hold about a thousand events; here are
 * three times as many.
 */
#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEASES = 3000, ROUNDS = 2 };

static struct tdaemon *start(void) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/unread.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fprintf(f,
                       "{\"limits\": {\"leases_per_session\": %d, \"attaches_per_session\": %d}}\n",
                       LEASES, LEASES) > 0,
          "%s", path);
    CHECK(fclose(f) == 0, "%s", path);
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

/* Leases for one lessee each, which attaches to all. */
static void grant_and_attach(int owner, const struct raw_pool *pool, int lessee, uint64_t *leases,
                             uint64_t *handles) {
    struct rdmad_lease_grant_req req = {.pool = pool->handle,
                                        .length = pool->bytes,
                                        .ttl_ns = UINT64_C(600000000000),
                                        .rights = RDMAD_RIGHTS_DEFAULT,
                                        .max_attaches = 1};
    for (int i = 0; i < LEASES; i++) {
        struct rdmad_lease_grant_rep granted;
        struct rdmad_lease_attach_rep attached;
        struct raw_packet reply;
        char text[RDMAD_TEXT_MAX + 1];
        int status = raw_request(owner, RDMAD_MSG_LEASE_GRANT, &req, sizeof(req), &reply);
        CHECK(status == 0, "grant %d: %s", i, raw_text(&reply));
        memcpy(&granted, raw_body(&reply), sizeof(granted));
        status = raw_attach(lessee, granted.uri, &attached, text);
        CHECK(status == 0, "attach %d: %s", i, text);
        leases[i] = granted.lease;
        handles[i] = attached.handle;
    }
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Each of expected, once, and nothing else. */
static void expect_ends(int sock, uint64_t *expected, bool of_handles, int reason) {
    static uint64_t told[LEASES];
    for (int i = 0; i < LEASES; i++) {
        struct rdmad_ev_lease_ended ev;
        struct raw_packet p;
        CHECK(raw_recv(sock, &p, (int)TEST_PATIENCE_MS) && p.size,
              "%d ends of %d were told, then %s", i, LEASES, p.size ? "nothing" : "end of file");
        CHECK(p.header.type == RDMAD_EV_LEASE_ENDED, "event %d is of type %u", i, p.header.type);
        memcpy(&ev, raw_body(&p), sizeof(ev));
        CHECK(ev.reason == reason, "event %d: %s", i, ev.text);
        told[i] = of_handles ? ev.handle : ev.lease;
    }
    qsort(told, LEASES, sizeof(told[0]), by_number);
    qsort(expected, LEASES, sizeof(expected[0]), by_number);
    for (int i = 0; i < LEASES; i++)
        CHECK(told[i] == expected[i], "the end of %llu was told, that of %llu not",
              (unsigned long long)told[i], (unsigned long long)expected[i]);
}

struct parties {
    struct tdaemon *d;
    int owner, lessee;
    struct raw_pool pool;
    uint64_t leases[LEASES], handles[LEASES];
};

/* What ended waits to be told, so it is still charged to who does not read. */
static json_t *objects_but(struct tdaemon *d, const char *untold) {
    json_t *objects = tdaemon_objects(d);
    json_object_del(objects, untold);
    return objects;
}

static void meet(struct parties *p) {
    p->d = start();
    p->owner = raw_session(tdaemon_dir(p->d));
    p->lessee = raw_session(tdaemon_dir(p->d));
    CHECK(raw_pool_create(p->owner, 4096, 0, &p->pool) == 0, "pool");
}

static void part(struct parties *p) {
    raw_pool_unmap(&p->pool);
    close(p->owner);
    close(p->lessee);
    tdaemon_stop(p->d);
}

/* In the second round nothing of the first is charged any more: it takes all that is allowed. */
static void an_owner_hears_of_all_leases_that_ended_while_it_did_not_read(void) {
    static struct parties p;
    meet(&p);
    for (int round = 0; round < ROUNDS; round++) {
        json_t *before = objects_but(p.d, "leases");
        grant_and_attach(p.owner, &p.pool, p.lessee, p.leases, p.handles);
        close(p.lessee);
        p.lessee = raw_session(tdaemon_dir(p.d));
        tdaemon_expect_objects(p.d, before);
        expect_ends(p.owner, p.leases, false, RDMAD_E_LEASE_RELEASED);
    }
    part(&p);
}

static void a_lessee_hears_of_all_leases_that_ended_while_it_did_not_read(void) {
    static struct parties p;
    meet(&p);
    for (int round = 0; round < ROUNDS; round++) {
        json_t *before = objects_but(p.d, "attaches");
        grant_and_attach(p.owner, &p.pool, p.lessee, p.leases, p.handles);
        raw_pool_unmap(&p.pool);
        close(p.owner);
        p.owner = raw_session(tdaemon_dir(p.d));
        CHECK(raw_pool_create(p.owner, 4096, 0, &p.pool) == 0, "pool");
        tdaemon_expect_objects(p.d, before);
        expect_ends(p.lessee, p.handles, true, RDMAD_E_LEASE_ORPHANED);
    }
    part(&p);
}

/* Nor does it leave anything behind when it goes without having read. */
static void who_never_reads_leaves_nothing(void) {
    static struct parties p;
    p.d = start();
    json_t *before = tdaemon_objects(p.d);
    unsigned fds = tdaemon_fds(p.d);
    p.owner = raw_session(tdaemon_dir(p.d));
    p.lessee = raw_session(tdaemon_dir(p.d));
    CHECK(raw_pool_create(p.owner, 4096, 0, &p.pool) == 0, "pool");
    grant_and_attach(p.owner, &p.pool, p.lessee, p.leases, p.handles);
    close(p.lessee);
    sleep_ms(200);
    close(p.owner);
    tdaemon_expect_objects(p.d, before);
    tdaemon_expect_fds(p.d, fds);
    raw_pool_unmap(&p.pool);
    tdaemon_stop(p.d);
}

TEST_MAIN(CASE(an_owner_hears_of_all_leases_that_ended_while_it_did_not_read),
          CASE(a_lessee_hears_of_all_leases_that_ended_while_it_did_not_read),
          CASE(who_never_reads_leaves_nothing))
