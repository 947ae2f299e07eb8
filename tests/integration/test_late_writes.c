/* SPDX-License-Identifier: MIT */
/*
 * test_late_writes.c - writes of unknown outcome that the path still has: whatever came of their
 * daemon, they never land over what was written later.
 *
 * Between the two daemons is a path (tests/support/proxy.h) that holds back a connection's bytes.
 * They are let go when newer writes to the same blocks are done.
 */
#include "tests/support/client.h"
#include "tests/support/proxy.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 16, BLOCK = 16384 };

struct scene {
    struct tdaemon *owners, *lessees;
    struct proxy *path;
    rdmad_session *owner, *lessee;
    rdmad_lease *lease, *there;
    char uri[RDMAD_URI_MAX + 1];
    uint8_t *far, *near;
    rdmad_ring *ring;
    unsigned late, rounds;
};

/* So impatient that a path that is cut is given up at once. */
static struct tdaemon *start_impatient(void) {
    char path[128];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/impatient.json", tmp ? tmp : "/tmp");
    FILE *f = fopen(path, "we");
    CHECK(f && fputs("{\"peer\": {\"ping_ms\": 50, \"dead_ms\": 200}}\n", f) > 0 && fclose(f) == 0,
          "%s", path);
    struct tdaemon *d = tdaemon_start("127.0.0.1", (const char *[]){"--config", path, NULL});
    unlink(path);
    return d;
}

static void scene_up(struct scene *c, struct tdaemon *lessees) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_pool *pool;
    *c = (struct scene){.owners = tdaemon_start("127.0.0.2", NULL), .lessees = lessees};
    c->owner = client_open(c->owners);
    CHECK(!rdmad_pool_create(c->owner, BLOCKS * BLOCK, 0, &pool), "%s", rdmad_last_error(c->owner));
    c->far = rdmad_pool_base(pool);
    terms.rights = RDMAD_RIGHT_READ | RDMAD_RIGHT_WRITE;
    terms.ttl_ms = 3600000;
    CHECK(!rdmad_lease_grant(c->owner, c->far, BLOCKS * BLOCK, &terms, &c->lease), "%s",
          rdmad_last_error(c->owner));
    c->path = proxy_start(c->owners);
    proxy_uri(c->path, rdmad_lease_uri(c->lease), c->uri);
}

static void scene_down(struct scene *c, const char *what) {
    printf("  %s: %u of %u blocks in %u rounds had an old value over a newer one\n", what, c->late,
           c->rounds * BLOCKS, c->rounds);
    CHECK(c->late == 0, "%s: %u blocks were written by what was over", what, c->late);
    rdmad_close(c->owner);
    proxy_stop(c->path);
    tdaemon_stop(c->lessees);
    tdaemon_stop(c->owners);
}

static void lessee_up(struct scene *c) {
    rdmad_pool *pool;
    c->lessee = client_open(c->lessees);
    CHECK(!rdmad_pool_create(c->lessee, BLOCKS * BLOCK, 0, &pool), "%s",
          rdmad_last_error(c->lessee));
    c->near = rdmad_pool_base(pool);
    c->ring = client_ring(c->lessee, 2 * BLOCKS);
}

static void attach(struct scene *c) {
    CHECK(!rdmad_lease_attach(c->lessee, c->uri, (int)TEST_PATIENCE_MS, &c->there), "attach: %s",
          rdmad_last_error(c->lessee));
}

static void submit_all(struct scene *c, int value) {
    memset(c->near, value, BLOCKS * BLOCK);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct rdmad_sqe *e = rdmad_ring_reserve(c->ring);
        CHECK(e &&
                  !rdmad_prep_write(c->ring, e, c->there, i * BLOCK, c->near + i * BLOCK, BLOCK, i),
              "write: %s", rdmad_last_error(c->lessee));
    }
    CHECK(rdmad_ring_submit(c->ring) >= 0, "submit: %s", rdmad_last_error(c->lessee));
}

static void await_all(struct scene *c, bool done) {
    const struct rdmad_cqe *cqe;
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(!rdmad_ring_wait(c->ring, (int)TEST_PATIENCE_MS, &cqe), "no completion: %s",
              rdmad_last_error(c->lessee));
        CHECK((cqe->status == RDMAD_OK) == done, "a write ended with %d", cqe->status);
        rdmad_ring_seen(c->ring, cqe);
    }
}

/* The link is up, and then has old values on it that do not get through. */
static void write_into_the_void(struct scene *c) {
    submit_all(c, 1);
    await_all(c, true);
    proxy_hold(c->path);
    submit_all(c, 2);
    for (uint64_t since = now_ms(); proxy_held(c->path) < BLOCKS * BLOCK; sleep_ms(1))
        CHECK(now_ms() - since < TEST_PATIENCE_MS, "%zu bytes have left", proxy_held(c->path));
}

static void write_anew_and_let_go(struct scene *c) {
    submit_all(c, 3);
    await_all(c, true);
    proxy_release(c->path);
    sleep_ms(20);
    c->rounds++;
    for (unsigned i = 0; i < BLOCKS; i++)
        for (unsigned k = 0; k < BLOCK; k++)
            if (c->far[i * BLOCK + k] != 3) {
                c->late++;
                break;
            }
}

static void nothing_of_a_killed_daemon_lands_after_its_successors_writes(void) {
    struct scene c;
    scene_up(&c, tdaemon_start("127.0.0.1", NULL));
    for (unsigned i = 0; i < test_count(100); i++) {
        lessee_up(&c);
        attach(&c);
        write_into_the_void(&c);
        tdaemon_kill(c.lessees);
        await_all(&c, false);
        rdmad_close(c.lessee);
        tdaemon_restart(c.lessees);
        lessee_up(&c);
        attach(&c);
        write_anew_and_let_go(&c);
        rdmad_close(c.lessee);
    }
    scene_down(&c, "killed");
}

static void nothing_of_a_connection_that_was_given_up_lands_after_the_nexts_writes(void) {
    struct scene c;
    scene_up(&c, start_impatient());
    lessee_up(&c);
    for (unsigned i = 0; i < test_count(200); i++) {
        attach(&c);
        write_into_the_void(&c);
        await_all(&c, false);
        rdmad_lease_free(c.there);
        attach(&c);
        write_anew_and_let_go(&c);
        rdmad_lease_free(c.there);
    }
    rdmad_close(c.lessee);
    scene_down(&c, "cut");
}

TEST_MAIN(CASE(nothing_of_a_killed_daemon_lands_after_its_successors_writes),
          CASE(nothing_of_a_connection_that_was_given_up_lands_after_the_nexts_writes))
