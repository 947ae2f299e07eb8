/* SPDX-License-Identifier: MIT */
/*
 * test_verbs_resources.c - what the kernel counts on both devices (`rdma resource show`): as many
 * queue pairs for 200 client sessions as for one, and nothing left when they are gone, when the
 * daemons stop, and when a daemon is killed.
 */
#include "tests/support/harness.h"
#include "tests/support/rdma.h"

#include <rdmad/rdmad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BYTES = 64 << 10, MANY = 200, SOME = 20 };

static const char *const devices[2] = {"rxe0", "rxe1"};

struct client {
    rdmad_session *session;
    rdmad_pool *pool;
    rdmad_lease *lease;
};

static void client_open(struct client *c, const struct tdaemon *d) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(d);
    CHECK(!rdmad_open(&options, &c->session), "%s", rdmad_last_error(NULL));
    CHECK(!rdmad_pool_create(c->session, BYTES, 0, &c->pool), "%s", rdmad_last_error(c->session));
}

static void client_attach(struct client *c, const char *uri, unsigned i) {
    uint8_t *memory = rdmad_pool_base(c->pool);
    CHECK(!rdmad_lease_attach(c->session, uri, 0, &c->lease), "client %u: %s", i,
          rdmad_last_error(c->session));
    memset(memory, (int)i + 1, 256);
    CHECK(!rdmad_write(c->lease, 256 * (uint64_t)(i % 200), memory, 256), "client %u: %s", i,
          rdmad_last_error(c->session));
    memset(memory, 0, 256);
    CHECK(!rdmad_read(c->lease, 256 * (uint64_t)(i % 200), memory, 256), "client %u: %s", i,
          rdmad_last_error(c->session));
    for (unsigned n = 0; n < 256; n++)
        CHECK(memory[n] == (uint8_t)(i + 1), "client %u reads another's bytes", i);
}

struct scene {
    struct tdaemon *daemon[2]; /* the owner's on rxe0, the lessees' on rxe1 */
    struct client owner, lessee[MANY];
    char uri[RDMAD_URI_MAX + 1];
    /* Before the daemons, with daemons alone, with one lessee. */
    struct rdma_resources before[2], idle[2], one[2];
};

static void look(struct rdma_resources into[2]) {
    for (unsigned i = 0; i < 2; i++)
        into[i] = rdma_resources(devices[i]);
}

static void expect(const struct rdma_resources want[2], const char *when) {
    for (unsigned i = 0; i < 2; i++)
        rdma_expect_resources(devices[i], &want[i], when);
}

static void open_owner(struct scene *s) {
    rdmad_lease *own;
    client_open(&s->owner, s->daemon[0]);
    CHECK(!rdmad_lease_grant(s->owner.session, rdmad_pool_base(s->owner.pool), BYTES, NULL, &own),
          "%s", rdmad_last_error(s->owner.session));
    snprintf(s->uri, sizeof(s->uri), "%s", rdmad_lease_uri(own));
}

static void open_lessees(struct scene *s, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; i++) {
        client_open(&s->lessee[i], s->daemon[1]);
        client_attach(&s->lessee[i], s->uri, i);
    }
}

static void close_lessees(struct scene *s, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        rdmad_close(s->lessee[i].session);
}

static struct scene *scene_open(void) {
    struct scene *s = calloc(1, sizeof(*s));
    struct rlimit files = {8192, 8192};
    CHECK(s && setrlimit(RLIMIT_NOFILE, &files) == 0, "no room");
    look(s->before);
    s->daemon[0] = tdaemon_start("127.0.0.1", NULL);
    s->daemon[1] = tdaemon_start("127.0.0.2", NULL);
    look(s->idle);
    open_owner(s);
    open_lessees(s, 0, 1);
    look(s->one);
    for (unsigned i = 0; i < 2; i++)
        CHECK(s->one[i].qp > s->idle[i].qp, "no queue pair on %s: is this verbs?", devices[i]);
    return s;
}

static void expect_queue_pairs_of_one(const struct scene *s) {
    for (unsigned i = 0; i < 2; i++) {
        struct rdma_resources now = rdma_resources(devices[i]);
        printf("  %s: 1 session: qp %u cq %u pd %u mr %u; %u sessions: qp %u cq %u pd %u mr %u\n",
               devices[i], s->one[i].qp, s->one[i].cq, s->one[i].pd, s->one[i].mr, MANY, now.qp,
               now.cq, now.pd, now.mr);
        CHECK(now.qp == s->one[i].qp && now.cq == s->one[i].cq && now.pd == s->one[i].pd &&
                  now.ctx == s->one[i].ctx,
              "%s: queue pairs, completion queues or domains grow with sessions", devices[i]);
    }
}

static void many_sessions_use_the_queue_pairs_of_one(void) {
    struct scene *s = scene_open();
    open_lessees(s, 1, MANY);
    expect_queue_pairs_of_one(s);
    close_lessees(s, MANY);
    rdmad_close(s->owner.session);
    expect(s->idle, "the sessions closed");
    tdaemon_stop(s->daemon[1]);
    tdaemon_stop(s->daemon[0]);
    expect(s->before, "the daemons stopped");
    free(s);
}

/* Again and again in one pair of daemons: nothing grows. */
static void sessions_that_come_and_go_leave_nothing(void) {
    struct scene *s = scene_open();
    for (unsigned round = 0; round < test_count(100); round++) {
        open_lessees(s, 1, 10);
        close_lessees(s, 10);
        open_lessees(s, 0, 1);
        expect(s->one, "nine sessions came and went");
    }
    close_lessees(s, 1);
    rdmad_close(s->owner.session);
    expect(s->idle, "the sessions closed");
    tdaemon_stop(s->daemon[1]);
    tdaemon_stop(s->daemon[0]);
    expect(s->before, "the daemons stopped");
    free(s);
}

/* victim: 0 the owner's daemon, 1 the lessees'. The other's links to it go, and nothing else. */
static void a_daemon_is_killed(unsigned victim) {
    struct scene *s = scene_open();
    open_lessees(s, 1, SOME);
    tdaemon_kill(s->daemon[victim]);
    rdma_expect_resources(devices[victim], &s->before[victim], "its daemon was killed");
    close_lessees(s, SOME);
    rdmad_close(s->owner.session);
    rdma_expect_resources(devices[!victim], &s->idle[!victim], "the other daemon was killed");
    tdaemon_restart(s->daemon[victim]); /* and all works again */
    expect(s->idle, "a restart");
    open_owner(s);
    open_lessees(s, 0, 1);
    close_lessees(s, 1);
    rdmad_close(s->owner.session);
    expect(s->idle, "a session after the restart");
    tdaemon_kill(s->daemon[0]);
    tdaemon_kill(s->daemon[1]);
    expect(s->before, "both daemons were killed");
    tdaemon_stop(s->daemon[1]);
    tdaemon_stop(s->daemon[0]);
    free(s);
}

static void a_killed_owners_daemon_leaves_nothing(void) {
    a_daemon_is_killed(0);
}
static void a_killed_lessees_daemon_leaves_nothing(void) {
    a_daemon_is_killed(1);
}

TEST_MAIN(CASE(many_sessions_use_the_queue_pairs_of_one),
          CASE(sessions_that_come_and_go_leave_nothing),
          CASE(a_killed_owners_daemon_leaves_nothing), CASE(a_killed_lessees_daemon_leaves_nothing))
