/* SPDX-License-Identifier: MIT */
/*
 * test_channel_return.c - the daemon of either end of a channel is lost, and comes back: messages
 * go on in their order, and each comes once if its sender was told that it is done.
 */
#include "tests/integration/chan_stream.h"
#include "tests/support/client.h"
#include "tests/support/runner.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void need_hole_guard(void) {
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
    if (fd < 0)
        skip("no userfaultfd: sessions end with their daemon");
    close(fd);
}

struct hosts {
    struct tdaemon *a, *b;
};

static struct hosts two_hosts(void) {
    need_hole_guard();
    return (struct hosts){.a = tdaemon_start("127.0.0.1", NULL),
                          .b = tdaemon_start("127.0.0.2", NULL)};
}

static void hosts_down(struct hosts *h) {
    tdaemon_stop(h->a);
    tdaemon_stop(h->b);
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
    struct hosts h = two_hosts();
    stream_while(h.a, h.b, false, kill_daemon, h.a, h.b);
    hosts_down(&h);
}

static void whichever_end_was_connected(void) {
    struct hosts h = two_hosts();
    stream_while(h.a, h.b, true, kill_daemon, h.a, h.b);
    hosts_down(&h);
}

static void a_channel_within_a_daemon_goes_on_when_it_dies(void) {
    struct hosts h = two_hosts();
    stream_while(h.a, h.a, false, kill_daemon, h.a, h.a);
    hosts_down(&h);
}

static void a_restart_in_order_is_a_pause_and_no_more(void) {
    struct hosts h = two_hosts();
    struct chan_stream_sum sum = stream_while(h.a, h.b, false, stop_daemon, h.a, h.b);
    CHECK(sum.unknown + sum.untouched == 0, "sends have failed");
    hosts_down(&h);
}

static void a_restart_in_order_within_a_daemon_is_a_pause_and_no_more(void) {
    struct hosts h = two_hosts();
    struct chan_stream_sum sum = stream_while(h.a, h.a, false, stop_daemon, h.a, h.a);
    CHECK(sum.unknown + sum.untouched == 0, "sends have failed");
    hosts_down(&h);
}

TEST_MAIN(CASE(a_channel_goes_on_when_either_ends_daemon_dies), CASE(whichever_end_was_connected),
          CASE(a_channel_within_a_daemon_goes_on_when_it_dies),
          CASE(a_restart_in_order_is_a_pause_and_no_more),
          CASE(a_restart_in_order_within_a_daemon_is_a_pause_and_no_more))
