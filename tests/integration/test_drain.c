/* SPDX-License-Identifier: MIT */
/*
 * test_drain.c - rdmactl drain: nothing new is taken, what there is comes to its end, and who asked
 * is told when the daemon may be stopped, or what still holds it.
 */
#include "tests/integration/far_pair.h"
#include "tests/integration/upgrades.h"
#include "tests/support/client.h"
#include "tests/support/pair.h"
#include "tests/support/procs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The exit code of rdmactl -d DIR drain OPTION..., and what it said. */
static int drain(const struct tdaemon *d, const char *option, const char *value, char *said,
                 size_t size) {
    char path[512];
    const char *argv[] = {build_path("rdmactl/rdmactl", path, sizeof(path)),
                          "-d",
                          tdaemon_dir(d),
                          "drain",
                          option,
                          value,
                          NULL};
    return run_program(argv, said, size);
}

static void expect(const struct tdaemon *d, const char *option, const char *value, int code,
                   const char *words) {
    char said[4096] = "";
    int rc = drain(d, option, value, said, sizeof(said));
    CHECK(rc == code && strstr(said, words), "exit %d, \"%s\" does not say \"%s\"", rc, said,
          words);
}

static bool state_is(struct tdaemon *d, const char *state) {
    json_t *status = tdaemon_status(d);
    bool is = !strcmp(json_string_value(json_object_get(status, "state")), state);
    json_decref(status);
    return is;
}

struct one {
    struct tdaemon *d;
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_ring *ring;
    rdmad_lease *granted, *attached;
    char *memory;
};

static void one_up(struct one *o) {
    o->d = tdaemon_start("127.0.0.1", NULL);
    o->s = client_with_pool(o->d, 1 << 20, &o->pool);
    o->ring = client_ring(o->s, 8);
    o->memory = rdmad_alloc(o->pool, 8192);
    CHECK(rdmad_lease_grant(o->s, o->memory, 4096, NULL, &o->granted) == 0, "%s",
          rdmad_last_error(o->s));
    o->attached = client_attach(o->s, rdmad_lease_uri(o->granted));
}

static void one_down(struct one *o) {
    rdmad_close(o->s);
    tdaemon_stop(o->d);
}

static void submit(const struct one *o) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(o->ring);
    CHECK(sqe && rdmad_prep_write(o->ring, sqe, o->attached, 0, o->memory + 4096, 64, 1) == 0 &&
              rdmad_ring_submit(o->ring) == 1,
          "%s", rdmad_last_error(o->s));
}

static void expect_done(const struct one *o) {
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_wait(o->ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "the op has no end");
    CHECK(cqe->status == 0, "%s", rdmad_errname(cqe->status));
    rdmad_ring_seen(o->ring, cqe);
}

static void expect_not_taken(const struct one *o) {
    const struct rdmad_cqe *cqe;
    sleep_ms(100);
    CHECK(rdmad_ring_peek(o->ring, &cqe) == RDMAD_E_AGAIN, "an op was taken by a drained daemon");
}

static void nothing_new_is_taken_until_it_is_off(void) {
    struct one o;
    rdmad_session *none;
    rdmad_lease *no_lease;
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    one_up(&o);
    submit(&o);
    expect_done(&o);
    expect(o.d, NULL, NULL, 0, "no op is in flight, and rdmad may be stopped");
    CHECK(state_is(o.d, "drained"), "status does not say so");
    options.runtime_dir = tdaemon_dir(o.d);
    int rc = rdmad_open(&options, &none);
    client_refused(NULL, rc, RDMAD_E_DAEMON_LOST,
                   "rdmad is drained (rdmactl drain) and takes no new sessions");
    rc = rdmad_lease_grant(o.s, o.memory, 4096, NULL, &no_lease);
    client_refused(o.s, rc, RDMAD_E_SHUTDOWN, "grants no more leases");
    rc = rdmad_lease_attach(o.s, rdmad_lease_uri(o.granted), 0, &no_lease);
    client_refused(o.s, rc, RDMAD_E_SHUTDOWN, "attaches to no more leases");
    submit(&o);
    expect_not_taken(&o);
    CHECK(strstr(client_event(o.s, RDMAD_EVENT_PAUSED).text, "rdmad is drained"),
          "its client is not told why");
    expect(o.d, NULL, NULL, 0, "no op is in flight"); /* once more is no more */
    expect(o.d, "--off", NULL, 0, "rdmad takes new sessions and ops again");
    expect_done(&o);
    CHECK(state_is(o.d, "running"), "status does not say so");
    rdmad_close(client_open(o.d));
    one_down(&o);
}

/* What waits is not lost, whether the daemon is stopped then or becomes the next. */
static void a_drained_daemon_may_be_stopped(void) {
    struct one o;
    need_hole_guard();
    one_up(&o);
    expect(o.d, NULL, NULL, 0, "1 sessions wait, and go on with the next rdmad");
    submit(&o);
    expect_not_taken(&o);
    tdaemon_end(o.d);
    tdaemon_restart(o.d);
    expect_done(&o);
    CHECK(state_is(o.d, "running"), "the next life is drained, too");
    expect(o.d, NULL, NULL, 0, "no op is in flight");
    submit(&o);
    upgrade_now(o.d);
    expect_done(&o);
    one_down(&o);
}

static void who_was_paused_before_stays_so(void) {
    struct one o;
    one_up(&o);
    json_t *rows = tdaemon_call(o.d, "session.show", NULL);
    json_int_t id = json_integer_value(
        json_object_get(json_array_get(json_object_get(rows, "sessions"), 0), "id"));
    json_decref(rows);
    json_decref(tdaemon_call(o.d, "session.pause", json_pack("{s:I}", "id", id)));
    expect(o.d, NULL, NULL, 0, "no op is in flight");
    expect(o.d, "--off", NULL, 0, "again");
    submit(&o);
    expect_not_taken(&o);
    json_decref(tdaemon_call(o.d, "session.resume", json_pack("{s:I}", "id", id)));
    expect_done(&o);
    one_down(&o);
}

/* ---- what holds it --------------------------------------------------------------------------- */

static void *read_far(void *arg) {
    struct far_pair *p = arg;
    (void)rdmad_read(p->attached, 0, p->buffer, 4096);
    return NULL;
}

static bool ops_in_flight(struct tdaemon *d) {
    json_t *objects = tdaemon_objects(d);
    bool some = json_integer_value(json_object_get(objects, "ops_inflight")) > 0;
    json_decref(objects);
    return some;
}

/* An op whose other end says nothing. When that goes on, the op ends, and nothing holds the daemon.
 */
static void what_holds_it_is_named(void) {
    struct far_pair p;
    pthread_t thread;
    char words[64];
    far_pair_up(&p, "{}", 0, 1);
    process_stop(tdaemon_pid(p.far));
    CHECK(pthread_create(&thread, NULL, read_far, &p) == 0, "thread");
    while (!ops_in_flight(p.near))
        sleep_ms(5);
    snprintf(words, sizeof(words), "pid %d, ", (int)getpid());
    expect(p.near, "--wait", "300ms", 1, words);
    expect(p.near, "--wait", "0", 1, "1 ops are in flight after");
    process_go_on(tdaemon_pid(p.far));
    expect(p.near, NULL, NULL, 0, "no op is in flight");
    pthread_join(thread, NULL);
    expect(p.far, NULL, NULL, 0, "1 leases of theirs are attached to from other nodes");
    expect(p.far, "--off", NULL, 0, "again");
    expect(p.near, "--off", NULL, 0, "again");
    far_pair_works(&p, 3);
    far_pair_down(&p);
}

/* ---- how long a stop waits ------------------------------------------------------------------- */

static void *read_to_its_end(void *arg) {
    const struct pair *p = arg;
    CHECK(!rdmad_read(p->lease, 0, p->near, 4096), "%s", rdmad_last_error(p->a));
    return NULL;
}

static void *upgrade_meanwhile(void *arg) {
    upgrade_now(arg);
    return NULL;
}

/* A channel with nothing to send is no reason to cut other ops short. */
static void an_upgrade_waits_for_a_read_of_who_has_a_channel(void) {
    struct pair p;
    pthread_t reader, upgrader;
    need_hole_guard();
    pair_open(&p, PAIR_LINK, 1 << 20, RDMAD_RIGHTS_ALL);
    process_stop(tdaemon_pid(p.db));
    CHECK(pthread_create(&reader, NULL, read_to_its_end, &p) == 0, "thread");
    while (!ops_in_flight(p.da))
        sleep_ms(5);
    CHECK(pthread_create(&upgrader, NULL, upgrade_meanwhile, p.da) == 0, "thread");
    sleep_ms(500);
    process_go_on(tdaemon_pid(p.db));
    pthread_join(reader, NULL);
    pthread_join(upgrader, NULL);
    pair_close(&p);
}

/* A session that may not be resumed ends with the daemon, and whoever drains it hears so. */
static void who_would_be_lost_is_counted(void) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    o.runtime_dir = tdaemon_dir(d);
    o.resume = 0;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    expect(d, NULL, NULL, 0, "1 sessions end with this one");
    rdmad_close(s);
    tdaemon_stop(d);
}

static void ask_as_nobody(void *arg) {
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
    expect(arg, NULL, NULL, 1, "changes the daemon");
    expect(arg, "--off", NULL, 1, "changes the daemon");
}

static void others_than_administrators_are_refused(void) {
    if (geteuid())
        skip("only root can be another user");
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    CHECK(chmod(tdaemon_dir(d), 0755) == 0, "%s", strerror(errno));
    client_expect_ok(client_fork(ask_as_nobody, d));
    CHECK(state_is(d, "running"), "it is drained");
    tdaemon_stop(d);
}

TEST_MAIN(CASE(nothing_new_is_taken_until_it_is_off), CASE(a_drained_daemon_may_be_stopped),
          CASE(who_was_paused_before_stays_so), CASE(what_holds_it_is_named),
          CASE(an_upgrade_waits_for_a_read_of_who_has_a_channel),
          CASE(who_would_be_lost_is_counted), CASE(others_than_administrators_are_refused))
