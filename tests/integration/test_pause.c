/* SPDX-License-Identifier: MIT */
/*
 * test_pause.c - session pause and resume with real daemons and programs: what waits, what lives
 * on, who is told, and that nothing waits for a resume that never comes.
 */
#include "tests/support/two.h"

#include <pthread.h>
#include <rdmad/rdmad.h>
#include <stdio.h>
#include <string.h>

static struct rdmad_session_info session_of(rdmad_session *s) {
    struct rdmad_session_info info = RDMAD_SESSION_INFO_INIT;
    rdmad_session_get_info(s, &info);
    return info;
}

static void steer(struct tdaemon *d, rdmad_session *s, const char *method) {
    json_decref(tdaemon_call(d, method, json_pack("{s:I}", "id", (json_int_t)session_of(s).id)));
}

static json_t *row_of(struct tdaemon *d, rdmad_session *s) {
    json_t *reply = tdaemon_call(d, "session.show", NULL), *row, *found = NULL;
    size_t i;
    json_array_foreach(json_object_get(reply, "sessions"), i, row) {
        if ((uint64_t)json_integer_value(json_object_get(row, "id")) == session_of(s).id)
            found = json_incref(row);
    }
    CHECK(found, "the session is not shown");
    json_decref(reply);
    return found;
}

static void expect_state(struct tdaemon *d, rdmad_session *s, const char *state) {
    json_t *row = row_of(d, s);
    const char *shown = json_string_value(json_object_get(row, "state"));
    CHECK(shown && !strcmp(shown, state), "shown as %s, not %s", shown ? shown : "nothing", state);
    bool paused = !strcmp(state, "paused");
    CHECK(json_is_null(json_object_get(row, "paused_by")) == !paused, "paused_by");
    json_decref(row);
}

/* ---- a call in the pause --------------------------------------------------------------------- */

struct call {
    rdmad_session *session;
    rdmad_lease *lease;
    char *mine;
    int rc;
    bool over; /* atomic */
    pthread_t thread;
};

static void *write_once(void *arg) {
    struct call *c = arg;
    c->rc = rdmad_write(c->lease, 0, c->mine, 8);
    __atomic_store_n(&c->over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static void call_begin(struct call *c, struct two *t, rdmad_lease *lease) {
    *c = (struct call){.session = t->lessee, .lease = lease, .mine = t->mine};
    CHECK(!pthread_create(&c->thread, NULL, write_once, c), "no thread");
}

static void paused_and_resumed(struct two *t) {
    rdmad_lease *l = two_grant(t, 0, 0, 0), *there = client_attach(t->lessee, rdmad_lease_uri(l));
    struct rdmad_event e;
    struct call call;

    steer(t->b, t->lessee, "session.pause");
    e = client_event(t->lessee, RDMAD_EVENT_PAUSED);
    CHECK(strstr(e.text, "paused the session"), "it is told: %s", e.text);
    expect_state(t->b, t->lessee, "paused");
    memcpy(t->mine, "in pause", 8);
    call_begin(&call, t, there);
    sleep_ms(300);
    CHECK(!__atomic_load_n(&call.over, __ATOMIC_SEQ_CST), "a write was done in the pause: %d",
          call.rc);
    CHECK(memcmp(t->theirs, "in pause", 8) != 0, "a write got through in the pause");

    /* What goes over the socket, and what others do, lives on. */
    rdmad_pool *pool;
    rdmad_lease *own;
    CHECK(!rdmad_pool_create(t->lessee, 4096, 0, &pool), "%s", rdmad_last_error(t->lessee));
    char *memory = rdmad_alloc(pool, 64);
    CHECK(!rdmad_lease_grant(t->lessee, memory, 64, NULL, &own), "%s", rdmad_last_error(t->lessee));
    rdmad_lease *others = client_attach(t->owner, rdmad_lease_uri(own));
    memcpy(t->theirs, "from there", 10);
    CHECK(!rdmad_write(others, 0, t->theirs, 10), "%s", rdmad_last_error(t->owner));
    CHECK(!memcmp(memory, "from there", 10), "nobody reaches its memory");
    CHECK(!rdmad_lease_revoke(own), "%s", rdmad_last_error(t->lessee));
    rdmad_lease_free(others);
    rdmad_lease_free(own);

    steer(t->b, t->lessee, "session.resume");
    pthread_join(call.thread, NULL);
    CHECK(call.rc == 0, "after the pause: %s", rdmad_errname(call.rc));
    CHECK(!memcmp(t->theirs, "in pause", 8), "what waited was not done");
    (void)client_event(t->lessee, RDMAD_EVENT_RESUMED);
    expect_state(t->b, t->lessee, "open");
    CHECK(!rdmad_read(there, 0, t->mine, 8), "%s", rdmad_last_error(t->lessee));
    rdmad_lease_free(there);
    rdmad_lease_free(l);
}

static void what_is_submitted_waits_and_all_else_lives_on(void) {
    two_each_route(paused_and_resumed);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void kicked(struct two *t) {
    rdmad_lease *l = two_grant(t, 0, 0, 0), *there = client_attach(t->lessee, rdmad_lease_uri(l));
    struct call call;
    steer(t->b, t->lessee, "session.pause");
    call_begin(&call, t, there);
    sleep_ms(100);
    steer(t->b, t->lessee, "session.kick");
    pthread_join(call.thread, NULL);
    CHECK(call.rc == RDMAD_E_DAEMON_LOST || call.rc == RDMAD_E_PERM, "it hears %s",
          rdmad_errname(call.rc));
    rdmad_lease_free(there);
    CHECK(!rdmad_lease_revoke(l), "%s", rdmad_last_error(t->owner));
    rdmad_lease_free(l);
}

static void a_kick_ends_a_paused_session(void) {
    two_each_route(kicked);
}

static void a_daemon_stops_with_a_paused_session(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(d, 1 << 20, &pool);
    rdmad_ring *ring = client_ring(s, 16);
    char *memory = rdmad_alloc(pool, 64);
    rdmad_lease *own;
    CHECK(!rdmad_lease_grant(s, memory, 64, NULL, &own), "%s", rdmad_last_error(s));
    (void)client_attach(s, rdmad_lease_uri(own));
    steer(d, s, "session.pause");
    for (int i = 0; i < 10; i++)
        rdmad_prep_nop(ring, rdmad_ring_reserve(ring), 1);
    CHECK(rdmad_ring_submit(ring) == 10, "%s", rdmad_last_error(s));
    sleep_ms(50);
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_peek(ring, &cqe) == RDMAD_E_AGAIN, "something was done in the pause");
    tdaemon_stop(d); /* in time, and with nothing left */
    rdmad_close(s);  /* and its leases: to free them first would wait for another daemon */
}

static void a_paused_program_that_dies_leaves_nothing(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    rdmad_pool *pool;
    rdmad_session *s = client_with_pool(d, 1 << 20, &pool);
    rdmad_ring *ring = client_ring(s, 16);
    for (int i = 0; i < 20; i++) {
        steer(d, s, i % 3 == 2 ? "session.resume" : "session.pause");
        if (rdmad_ring_reserve(ring))
            (void)rdmad_ring_submit(ring);
    }
    rdmad_close(s);
    tdaemon_expect_objects(d, before);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(what_is_submitted_waits_and_all_else_lives_on), CASE(a_kick_ends_a_paused_session),
          CASE(a_daemon_stops_with_a_paused_session),
          CASE(a_paused_program_that_dies_leaves_nothing))
