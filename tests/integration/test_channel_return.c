/* SPDX-License-Identifier: MIT */
/*
 * test_channel_return.c - the daemon of either end of a channel is lost, and comes back: messages
 * go on in their order, and each comes once if its sender was told that it is done.
 */
#include "daemon/stop.h"
#include "tests/integration/chan_stream.h"
#include "tests/support/client.h"
#include "tests/support/procs.h"
#include "tests/support/runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 64 << 10 };

struct hosts {
    struct tdaemon *a, *b;
    char config[40];
};

static void hosts_up(struct hosts *h, const char *settings) {
    const char *args[] = {"--config", h->config, NULL};
    need_hole_guard();
    *h = (struct hosts){.config = "/tmp/rdmad-channel-XXXXXX"};
    int fd = mkstemp(h->config);
    CHECK(fd >= 0 && dprintf(fd, "%s\n", settings) > 0, "cannot make a file for the settings");
    close(fd);
    h->a = tdaemon_start("127.0.0.1", args);
    h->b = tdaemon_start("127.0.0.2", args);
}

/* Whose other daemon is waited for, however long a busy machine keeps that from its start. */
static void two_hosts(struct hosts *h) {
    hosts_up(h, "{\"peer\": {\"return_ms\": 60000}}");
}

static void hosts_down(struct hosts *h) {
    tdaemon_stop(h->a);
    tdaemon_stop(h->b);
    unlink(h->config);
}

static void kill_daemon(struct tdaemon *d) {
    tdaemon_kill(d);
    tdaemon_restart(d);
}

static void stop_daemon(struct tdaemon *d) {
    tdaemon_end(d);
    tdaemon_restart(d);
}

/* Returns what came of all messages. */
static struct chan_stream_sum stream_while(struct tdaemon *sender, struct tdaemon *receiver,
                                           bool backwards, void (*lose)(struct tdaemon *d),
                                           struct tdaemon *first, struct tdaemon *second) {
    struct chan_stream *s = chan_stream_start(sender, receiver, backwards);
    double pause_ms[1000];
    unsigned n = test_count(40);
    CHECK(n <= 1000, "no room for so many pauses");
    for (unsigned i = 0; i < n; i++) {
        chan_stream_expect_progress(s, "before a daemon is lost");
        sleep_ms((unsigned)test_random() % 50);
        chan_stream_longest_ms(s);
        lose(i % 2 ? second : first);
        chan_stream_expect_progress(s, "after a daemon was lost");
        pause_ms[i] = chan_stream_longest_ms(s);
    }
    print_times("pauses", pause_ms, n);
    return chan_stream_stop(s);
}

static void a_channel_goes_on_when_either_ends_daemon_dies(void) {
    struct hosts h;
    two_hosts(&h);
    stream_while(h.a, h.b, false, kill_daemon, h.a, h.b);
    hosts_down(&h);
}

static void whichever_end_was_connected(void) {
    struct hosts h;
    two_hosts(&h);
    stream_while(h.a, h.b, true, kill_daemon, h.a, h.b);
    hosts_down(&h);
}

static void a_channel_within_a_daemon_goes_on_when_it_dies(void) {
    struct hosts h;
    two_hosts(&h);
    stream_while(h.a, h.a, false, kill_daemon, h.a, h.a);
    hosts_down(&h);
}

static void a_restart_in_order_is_a_pause_and_no_more(void) {
    struct hosts h;
    two_hosts(&h);
    struct chan_stream_sum sum = stream_while(h.a, h.b, false, stop_daemon, h.a, h.b);
    CHECK(sum.unknown + sum.untouched == 0, "sends have failed");
    hosts_down(&h);
}

static void a_restart_in_order_within_a_daemon_is_a_pause_and_no_more(void) {
    struct hosts h;
    two_hosts(&h);
    struct chan_stream_sum sum = stream_while(h.a, h.a, false, stop_daemon, h.a, h.a);
    CHECK(sum.unknown + sum.untouched == 0, "sends have failed");
    hosts_down(&h);
}

static void a_channel_goes_on_when_both_ends_daemons_die(void) {
    struct hosts h;
    two_hosts(&h);
    struct chan_stream *s = chan_stream_start(h.a, h.b, false);
    for (unsigned i = 0; i < test_count(20); i++) {
        chan_stream_expect_progress(s, "before both daemons are lost");
        tdaemon_kill(h.a);
        tdaemon_kill(h.b);
        tdaemon_restart(i % 2 ? h.a : h.b);
        sleep_ms((unsigned)test_random() % 100);
        tdaemon_restart(i % 2 ? h.b : h.a);
        chan_stream_expect_progress(s, "after both daemons were lost");
    }
    chan_stream_stop(s);
    hosts_down(&h);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* A channel from one daemon to the other, with nothing under way. */
struct ends {
    struct hosts hosts;
    rdmad_session *from, *to;
    rdmad_pool *from_pool, *to_pool;
    char *out, *in;
    rdmad_service *service;
    rdmad_channel *sends, *receives;
};

static rdmad_session *outliving(const struct tdaemon *d, rdmad_pool **pool, char **memory) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    rdmad_session *s;
    o.runtime_dir = tdaemon_dir(d);
    o.resume = 1;
    CHECK(rdmad_open(&o, &s) == 0, "%s", rdmad_last_error(NULL));
    CHECK(rdmad_pool_create(s, BYTES, 0, pool) == 0, "%s", rdmad_last_error(s));
    *memory = rdmad_pool_base(*pool);
    return s;
}

static void *accept_end(void *arg) {
    struct ends *e = arg;
    CHECK(rdmad_accept(e->service, NULL, (int)TEST_PATIENCE_MS, &e->receives) == 0, "%s",
          rdmad_last_error(e->to));
    return NULL;
}

static void ends_up(struct ends *e, const char *settings) {
    pthread_t thread;
    *e = (struct ends){.from = NULL};
    hosts_up(&e->hosts, settings);
    e->from = outliving(e->hosts.a, &e->from_pool, &e->out);
    e->to = outliving(e->hosts.b, &e->to_pool, &e->in);
    CHECK(rdmad_listen(e->to, "end", NULL, &e->service) == 0, "%s", rdmad_last_error(e->to));
    CHECK(pthread_create(&thread, NULL, accept_end, e) == 0, "no thread");
    CHECK(rdmad_connect(e->from, rdmad_service_uri(e->service), RDMAD_CHANNEL_RELIABLE, 0,
                        &e->sends) == 0,
          "%s", rdmad_last_error(e->from));
    pthread_join(thread, NULL);
}

static void ends_down(struct ends *e) {
    if (e->from)
        rdmad_close(e->from);
    if (e->to)
        rdmad_close(e->to);
    hosts_down(&e->hosts);
}

static void ring_send(struct ends *e, rdmad_ring *ring, uint64_t number) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "no room");
    CHECK(rdmad_prep_send(ring, sqe, e->sends, e->out, 64, number) == 0 &&
              rdmad_ring_submit(ring) == 1,
          "%s", rdmad_last_error(e->from));
}

static void ring_receive(struct ends *e, rdmad_ring *ring, uint64_t number) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    CHECK(sqe, "no room");
    CHECK(rdmad_prep_recv(ring, sqe, e->receives, e->in + 64 * number, 64, number) == 0 &&
              rdmad_ring_submit(ring) == 1,
          "%s", rdmad_last_error(e->to));
}

static struct rdmad_cqe ring_end(rdmad_ring *ring) {
    const struct rdmad_cqe *cqe;
    CHECK(rdmad_ring_wait(ring, (int)TEST_PATIENCE_MS, &cqe) == 0, "an op has no end");
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(ring, cqe);
    return copy;
}

static void it_is_closed_in_time_if_the_other_daemon_stays_away(void) {
    struct ends e;
    ends_up(&e, "{\"peer\": {\"return_ms\": 600}}");
    rdmad_ring *ring = client_ring(e.from, 8);
    tdaemon_kill(e.hosts.b);
    uint64_t since = now_ms();
    sleep_ms(100);
    ring_send(&e, ring, 1); /* waits */
    struct rdmad_event closed = client_event(e.from, RDMAD_EVENT_CHANNEL_CLOSED);
    uint64_t took = now_ms() - since;
    CHECK(closed.reason == RDMAD_E_PEER_LOST && strstr(closed.text, "peer.return_ms"), "%s: %s",
          rdmad_errname(closed.reason), closed.text);
    CHECK(took >= 500 && took <= 6000 * test_patience(), "told after %llu ms",
          (unsigned long long)took);
    struct rdmad_cqe cqe = ring_end(ring);
    CHECK(cqe.status == RDMAD_E_PEER_LOST && cqe.outcome == RDMAD_FAILED_UNTOUCHED, "%s",
          rdmad_errname(cqe.status));
    rdmad_ring_destroy(ring);
    tdaemon_restart(e.hosts.b);
    ends_down(&e);
}

/* Its daemon is back, but not the program. */
static void it_is_closed_in_time_if_the_other_program_is_gone(void) {
    struct ends e;
    ends_up(&e, "{\"peer\": {\"return_ms\": 600}}");
    tdaemon_kill(e.hosts.b);
    rdmad_close(e.to);
    e.to = NULL;
    tdaemon_restart(e.hosts.b);
    struct rdmad_event closed = client_event(e.from, RDMAD_EVENT_CHANNEL_CLOSED);
    CHECK(closed.reason == RDMAD_E_PEER_LOST, "%s: %s", rdmad_errname(closed.reason), closed.text);
    ends_down(&e);
}

/* Takes events until one is of that type (true), or the channel has closed. */
static bool await_event(struct ends *e, uint32_t type, int ms, bool *closed) {
    struct rdmad_event event = RDMAD_EVENT_INIT;
    const uint64_t until = now_ms() + (uint64_t)ms;
    for (uint64_t now = now_ms(); now < until; now = now_ms()) {
        if (rdmad_next_event(e->to, (int)(until - now), &event) != 0)
            break;
        if (event.type == RDMAD_EVENT_CHANNEL_CLOSED) {
            CHECK(event.reason == RDMAD_E_PEER_LOST && strstr(event.text, "peer.return_ms"),
                  "%s: %s", rdmad_errname(event.reason), event.text);
            *closed = true;
        }
        if (event.type == type)
            return true;
    }
    return false;
}

/* Each daemon at which it waits is killed before that time is over. */
static void it_is_closed_in_time_however_often_its_own_daemon_dies(void) {
    enum { LIFE_MS = 500, LIVES = 20 };
    struct ends e;
    bool closed = false;
    unsigned lives = 0;
    ends_up(&e, "{\"peer\": {\"return_ms\": 1500}}");
    tdaemon_kill(e.hosts.a);
    rdmad_close(e.from); /* nobody can be told */
    tdaemon_restart(e.hosts.a);
    while (!closed && lives++ < LIVES) {
        kill_daemon(e.hosts.b);
        CHECK(await_event(&e, RDMAD_EVENT_SESSION_RESUMED, (int)TEST_PATIENCE_MS, &closed),
              "the session is not resumed");
        if (!closed)
            await_event(&e, RDMAD_EVENT_CHANNEL_CLOSED, LIFE_MS, &closed);
    }
    printf("  closed after %u lives of %d ms\n", lives, LIFE_MS);
    CHECK(closed, "it still waits for an end that is gone, after %d lives of %d ms", LIVES,
          LIFE_MS);
    e.from = NULL;
    ends_down(&e);
}

static void *close_end(void *arg) {
    const struct ends *e = arg;
    CHECK(rdmad_channel_close(e->sends) == 0, "%s", rdmad_last_error(e->from));
    return NULL;
}

/* ---- a daemon that stops in order ------------------------------------------------------------ */

/* Nothing moves for STOP_STILL_MS; then the channels part, and are cut STOP_CHANNELS_MS later. */
enum { ANSWERS_AFTER_MS = STOP_STILL_MS + STOP_CHANNELS_MS / 2, TRIES = 10 };

static void *go_on_later(void *arg) {
    const struct ends *e = arg;
    sleep_ms(ANSWERS_AFTER_MS);
    process_go_on(tdaemon_pid(e->hosts.b));
    return NULL;
}

/* Whether a message that is on its way then is known to have arrived. */
static bool stop_while_the_peer_stands_still(void) {
    struct ends e;
    pthread_t thread;
    ends_up(&e, "{}");
    rdmad_ring *ring = client_ring(e.from, 8), *receives = client_ring(e.to, 8);
    for (unsigned n = 0; n < 2; n++)
        ring_receive(&e, receives, n);
    ring_send(&e, ring, 0);
    CHECK(ring_end(ring).status == 0 && ring_end(receives).status == 0, "the first message");
    process_stop(tdaemon_pid(e.hosts.b));
    ring_send(&e, ring, 1);
    sleep_ms(20);
    CHECK(pthread_create(&thread, NULL, go_on_later, &e) == 0, "no thread");
    stop_daemon(e.hosts.a);
    pthread_join(thread, NULL);
    struct rdmad_cqe cqe = ring_end(ring);
    rdmad_ring_destroy(ring);
    rdmad_ring_destroy(receives);
    ends_down(&e);
    return cqe.status == 0;
}

/* On a busy machine the answer may come too late: then it is unknown, and tried again. */
static void a_stop_waits_a_moment_for_what_is_on_its_way(void) {
    unsigned tries = 1;
    for (; !stop_while_the_peer_stands_still(); tries++)
        CHECK(tries < TRIES, "it is not waited for");
    printf("  known at the %u. try\n", tries);
}

/* What was sent before is delivered by the next daemon, and then the end is told. */
static void a_close_while_the_other_end_is_away_delivers_first(void) {
    struct ends e;
    struct rdmad_message m = RDMAD_MESSAGE_INIT;
    ends_up(&e, "{}");
    rdmad_ring *ring = client_ring(e.from, 8);
    tdaemon_kill(e.hosts.b);
    sleep_ms(50);
    for (uint64_t n = 0; n < 3; n++)
        ring_send(&e, ring, n);
    sleep_ms(50);
    tdaemon_restart(e.hosts.b);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, close_end, &e) == 0, "no thread");
    for (unsigned n = 0; n < 3; n++)
        CHECK(rdmad_recv(e.receives, e.in, 64, (int)TEST_PATIENCE_MS, &m) == 0, "%s",
              rdmad_last_error(e.to));
    int rc = rdmad_recv(e.receives, e.in, 64, (int)TEST_PATIENCE_MS, &m);
    CHECK(rc == RDMAD_E_CLOSED, "after the last message: %s", rdmad_errname(rc));
    pthread_join(thread, NULL);
    for (unsigned n = 0; n < 3; n++)
        CHECK(ring_end(ring).status == 0, "a send before the close has failed");
    rdmad_ring_destroy(ring);
    ends_down(&e);
}

TEST_MAIN(CASE(a_channel_goes_on_when_either_ends_daemon_dies), CASE(whichever_end_was_connected),
          CASE(a_channel_within_a_daemon_goes_on_when_it_dies),
          CASE(a_channel_goes_on_when_both_ends_daemons_die),
          CASE(a_restart_in_order_is_a_pause_and_no_more),
          CASE(a_restart_in_order_within_a_daemon_is_a_pause_and_no_more),
          CASE(it_is_closed_in_time_if_the_other_daemon_stays_away),
          CASE(it_is_closed_in_time_if_the_other_program_is_gone),
          CASE(it_is_closed_in_time_however_often_its_own_daemon_dies),
          CASE(a_stop_waits_a_moment_for_what_is_on_its_way),
          CASE(a_close_while_the_other_end_is_away_delivers_first))
