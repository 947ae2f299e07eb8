/* SPDX-License-Identifier: MIT */
/*
 * test_held_closes.c - a client holds up the last close of what it shares with the daemon: a
 * process of its own waits, and nobody else.
 */
#include "tests/integration/upgrades.h"
#include "tests/support/bystander.h"
#include "tests/support/held_epoll.h"
#include "tests/support/procs.h"
#include "tests/support/rawclient.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RINGS = 8, POOL = 1 << 20 };

static const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};

static void make_held(struct held_epoll *h) {
    if (!held_epoll_make(h))
        skip("this kernel has no userfaultfd, or none for us");
}

static void end_ring(int sock, const struct raw_ring *r) {
    struct rdmad_ring_destroy_req req = {.ring = r->handle};
    struct raw_packet reply;
    CHECK(raw_request(sock, RDMAD_MSG_RING_DESTROY, &req, sizeof(req), &reply) == 0, "destroy");
    raw_drop(&reply);
}

/* A session whose rings have ended, and their doorbells cannot be closed. */
static int hold_doorbells(struct tdaemon *d, struct held_epoll *h) {
    int sock = raw_session(tdaemon_dir(d));
    struct raw_ring rings[RINGS];
    for (int i = 0; i < RINGS; i++) {
        CHECK(raw_ring_create(sock, 8, &rings[i]) == 0, "ring %d", i);
        CHECK(held_epoll_watch(h, rings[i].doorbell), "epoll_ctl");
    }
    for (int i = 0; i < RINGS; i++)
        raw_ring_unmap(&rings[i]); /* the daemon has the last references now */
    held_epoll_hold(h);
    for (int i = 0; i < RINGS; i++)
        end_ring(sock, &rings[i]);
    return sock;
}

static void expect_served(struct tdaemon *d) {
    int sock = raw_session(tdaemon_dir(d));
    struct raw_pool pool;
    struct raw_ring ring;
    struct rdmad_cqe cqe;
    CHECK(raw_pool_create(sock, POOL, 0, &pool) == 0, "no pool");
    CHECK(raw_ring_create(sock, 8, &ring) == 0, "no ring");
    raw_ring_put(&ring, &nop, 1);
    CHECK(raw_ring_take(&ring, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0, "not served");
    raw_ring_unmap(&ring);
    raw_pool_unmap(&pool);
    close(sock);
}

static void who_holds_up_the_close_of_a_doorbell_keeps_nobody_waiting(void) {
    struct held_epoll held;
    make_held(&held);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    json_t *before = tdaemon_objects(d);
    unsigned fds = tdaemon_fds(d);
    struct bystander *b = bystander_start(d);
    int sock = hold_doorbells(d, &held);
    sleep_ms(300);
    expect_served(d); /* of the same user's, in other sessions */
    bystander_stop(b, "doorbells whose close lasts");
    close(sock);
    sleep_ms(100);
    uint64_t rings, sessions, deadline = now_ms() + TEST_PATIENCE_MS;
    while ((rings = tdaemon_used(d, "rings")) > RINGS + 1 ||
           (sessions = tdaemon_used(d, "sessions")) > 2) {
        CHECK(now_ms() < deadline, "what the others had stays charged");
        sleep_ms(5);
    }
    printf("  %d doorbells cannot be closed: %llu rings of %llu sessions are charged\n", RINGS,
           (unsigned long long)rings, (unsigned long long)sessions);
    CHECK(rings == RINGS + 1 && sessions == 2, "what is not closed is not charged");
    held_epoll_let_go(&held);
    tdaemon_expect_objects(d, before);
    tdaemon_expect_fds(d, fds);
    tdaemon_stop(d);
}

static void a_stop_does_not_wait_for_a_close_that_a_client_holds_up(void) {
    struct held_epoll held;
    make_held(&held);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    close(hold_doorbells(d, &held));
    sleep_ms(100);
    uint64_t began = now_ms();
    tdaemon_end(d);
    printf("  it stopped in %llu ms\n", (unsigned long long)(now_ms() - began));
    held_epoll_let_go(&held);
    tdaemon_restart(d);
    tdaemon_stop(d);
}

static int take_lifeline(int sock) {
    struct rdmad_lifeline_req req = {.reserved = 0};
    struct raw_packet reply;
    CHECK(raw_request(sock, RDMAD_MSG_LIFELINE, &req, sizeof(req), &reply) == 0, "lifeline");
    CHECK(reply.nfds == 1, "%u descriptors", reply.nfds);
    return reply.fds[0];
}

/* A session with a ring whose doorbell nobody but the daemon has, and the daemon cannot close. */
static int hold_a_ring(struct tdaemon *d, struct held_epoll *h) {
    struct raw_ring ring;
    int sock = raw_session(tdaemon_dir(d));
    CHECK(raw_ring_create(sock, 8, &ring) == 0, "no ring");
    CHECK(held_epoll_watch(h, ring.doorbell), "epoll_ctl");
    raw_ring_unmap(&ring);
    return sock;
}

/* What he sends lies in the daemon's socket when that dies. */
static int hold_what_was_sent(struct tdaemon *d, struct held_epoll *h) {
    static const char word[] = "a word";
    int sock = raw_session(tdaemon_dir(d)), event = eventfd(0, EFD_CLOEXEC);
    CHECK(event >= 0 && held_epoll_watch(h, event), "eventfd");
    process_stop(tdaemon_pid(d));
    CHECK(raw_send(sock, word, sizeof(word), &event, 1) == 0, "send");
    close(event);
    return sock;
}

static void expect_hung_up(int fd, const char *what) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    CHECK(poll(&p, 1, (int)TEST_PATIENCE_MS) == 1 && p.revents & POLLHUP, "%s is there yet", what);
}

/* Of a dead process the kernel closes one file after the other, and waits at this one. */
static void gives_way(int (*hold)(struct tdaemon *d, struct held_epoll *h)) {
    struct held_epoll held;
    make_held(&held);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int before = raw_session(tdaemon_dir(d)), after = raw_session(tdaemon_dir(d));
    int line = take_lifeline(after);
    struct raw_ring ring;
    CHECK(raw_ring_create(before, 8, &ring) == 0, "no ring");
    int sock = hold(d, &held);
    held_epoll_hold(&held);
    uint64_t began = now_ms();
    pid_t dead = tdaemon_kill_and_leave(d);
    expect_hung_up(before, "the connection of a session");
    expect_hung_up(after, "the connection of a later session");
    expect_hung_up(line, "its lifeline");
    expect_hung_up(ring.wakeup, "a ring's wakeup");
    uint64_t gone_ms = now_ms() - began;
    tdaemon_restart(d);
    expect_served(d);
    printf("  gone for its clients after %llu ms, the next serves after %llu ms\n",
           (unsigned long long)gone_ms, (unsigned long long)(now_ms() - began));
    CHECK(waitpid(dead, NULL, WNOHANG) == 0, "nothing has held it up");
    held_epoll_let_go(&held);
    CHECK(waitpid(dead, NULL, 0) == dead, "waitpid");
    raw_ring_unmap(&ring);
    close(line);
    close(before);
    close(sock);
    close(after);
    tdaemon_stop(d);
}

static void a_killed_daemon_gives_way_though_a_doorbell_holds_up_its_process(void) {
    gives_way(hold_a_ring);
}

static void a_killed_daemon_gives_way_though_what_was_sent_holds_up_its_process(void) {
    gives_way(hold_what_was_sent);
}

static int neighbours_lifeline;

static void close_lifeline(void *arg) {
    (void)arg;
    sleep_ms(200); /* nobody else has it then */
    close(neighbours_lifeline);
}

/* Whoever has a file last waits for all whose epolls watch it. */
static void no_client_waits_for_who_watches_the_daemons_end(void) {
    struct held_epoll held;
    make_held(&held);
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(d)), other = raw_session(tdaemon_dir(d));
    int line = take_lifeline(sock);
    neighbours_lifeline = take_lifeline(other);
    CHECK(held_epoll_watch(&held, line), "epoll_ctl");
    sleep_ms(200); /* the daemon has closed its own */
    close(line);
    tdaemon_kill(d);
    held_epoll_hold(&held);
    pid_t neighbour = client_fork(close_lifeline, NULL);
    close(neighbours_lifeline);
    uint64_t until = now_ms() + TEST_PATIENCE_MS;
    while (client_running(neighbour) && now_ms() < until)
        sleep_ms(1);
    bool waits = client_running(neighbour);
    held_epoll_let_go(&held);
    CHECK(!waits, "a client waits for another one's epoll");
    client_expect_ok(neighbour);
    close(sock);
    close(other);
    tdaemon_restart(d);
    tdaemon_stop(d);
}

/* A connection that nobody has accepted, with a packet whose descriptor cannot be closed. */
static void leave_held(struct tdaemon *d, const char *tenant, struct held_epoll *h) {
    char dir[256];
    int event = eventfd(0, EFD_CLOEXEC);
    CHECK(event >= 0 && held_epoll_watch(h, event), "epoll_ctl");
    snprintf(dir, sizeof(dir), "%s/tenants/%s", tdaemon_dir(d), tenant);
    int sock = raw_connect(dir);
    CHECK(raw_send(sock, "x", 1, &event, 1) == 0, "it is not sent");
    close(event);
    held_epoll_hold(h);
    close(sock);
}

/* The next life is begun when the test says so: its sockets are there, and nobody accepts. */
static void program_waits(struct program_file *f, char said[2][128]) {
    char script[2048], real[512];
    snprintf(said[0], 128, "%s.waits", f->path);
    snprintf(said[1], 128, "%s.goes", f->path);
    snprintf(script, sizeof(script),
             "#!/bin/sh\ncase \"$*\" in *--check-config | *--version) exec '%s' \"$@\" ;; esac\n"
             "touch '%s'\nwhile [ ! -e '%s' ]; do sleep 0.01; done\nexec '%s' \"$@\"\n",
             build_path("daemon/rdmad", real, sizeof(real)), said[0], said[1], real);
    program_file_script(f, script, 0755);
}

static void what_waits_at_a_removed_tenants_socket_holds_up_nobody(void) {
    struct held_epoll held;
    struct program_file file;
    char config[64], said[2][128], real[512];
    make_held(&held);
    program_file_make(&file, build_path("daemon/rdmad", real, sizeof(real)));
    struct tdaemon *d =
        start_with_settings("127.0.0.1", config, "{\"sockets\": [{\"tenant\": \"red\"}]}");
    program_waits(&file, said);
    settings_write(config, "{}");
    json_decref(tdaemon_call(d, "upgrade", NULL));
    uint64_t deadline = now_ms() + TEST_PATIENCE_MS;
    while (access(said[0], F_OK)) {
        CHECK(now_ms() < deadline, "no next life");
        sleep_ms(5);
    }
    leave_held(d, "red", &held);
    program_file_put(&file, real);
    CHECK(close(creat(said[1], 0600)) == 0, "%s", said[1]);
    json_decref(tdaemon_call(d, "device.show", NULL)); /* by those threads, all of them */
    expect_served(d);
    tdaemon_end(d);
    held_epoll_let_go(&held);
    tdaemon_restart(d);
    tdaemon_stop(d);
    unlink(said[0]);
    unlink(said[1]);
    unlink(config);
    program_file_remove(&file);
}

TEST_MAIN(CASE(who_holds_up_the_close_of_a_doorbell_keeps_nobody_waiting),
          CASE(a_stop_does_not_wait_for_a_close_that_a_client_holds_up),
          CASE(a_killed_daemon_gives_way_though_a_doorbell_holds_up_its_process),
          CASE(a_killed_daemon_gives_way_though_what_was_sent_holds_up_its_process),
          CASE(no_client_waits_for_who_watches_the_daemons_end),
          CASE(what_waits_at_a_removed_tenants_socket_holds_up_nobody))
