/* SPDX-License-Identifier: MIT */
/*
 * test_doorbells.c - what a client can do with a ring's descriptors for wake-ups: nothing to
 * others.
 *
 * A TCP socket that lingers, with data that nobody reads, makes whoever drops its last reference
 * sleep for as long as its owner has said. A client may ring its doorbell as often as it likes, and
 * let as many wait for its wakeups as it has memory for.
 */
#include "common/ringword.h"
#include "tests/support/bystander.h"
#include "tests/support/many_wait.h"
#include "tests/support/rawclient.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RINGS = 4, LINGER_S = 8, FLOOD_MS = 1500 };

static const struct rdmad_sqe nop = {.opcode = RDMAD_OP_NOP};

static void expect_served(struct raw_ring *r) {
    struct rdmad_cqe cqe;
    raw_ring_put(r, &nop, 1);
    CHECK(raw_ring_take(r, &cqe, (int)TEST_PATIENCE_MS) && cqe.status == 0,
          "the ring is not served any more");
}

/* ---- descriptors ------------------------------------------------------------------------- */

/* Its close takes LINGER_S seconds: far is not read. */
static int lingering(int *far) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&a, size) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&a, &size) == 0 &&
              connect(near, (struct sockaddr *)&a, size) == 0,
          "a pair of TCP sockets: %s", strerror(errno));
    *far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    static const char junk[65536];
    while (send(near, junk, sizeof(junk), MSG_DONTWAIT) > 0)
        ;
    struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    CHECK(setsockopt(near, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0, "SO_LINGER");
    return near;
}

/* Leaves the other side's copy the last one. Returns 0 or errno. */
static int give_away(int sock, int fd) {
    char byte = 0;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    int why = sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
    if (why) { /* or our own close would linger */
        struct linger at_once = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    close(fd);
    return why;
}

static void descriptors_sent_up_a_wakeup_socket_are_refused_and_nobody_waits_for_them(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    int sock = raw_session(tdaemon_dir(d));
    struct raw_ring ring[RINGS];
    int far[RINGS], why[RINGS];
    for (int i = 0; i < RINGS; i++) {
        CHECK(raw_ring_create(sock, 16, &ring[i]) == 0, "a ring");
        why[i] = give_away(ring[i].wakeup, lingering(&far[i]));
        expect_served(&ring[i]);
    }
    sleep_ms(300);
    close(sock); /* and what a ring still holds is dropped with it */
    sleep_ms(300);
    bystander_stop(b, "lingering sockets sent up wakeup sockets");
    for (int i = 0; i < RINGS; i++) {
        CHECK(why[i] == EPIPE, "a descriptor sent up a wakeup socket: %s",
              why[i] ? strerror(why[i]) : "it was taken");
        close(far[i]);
        raw_ring_unmap(&ring[i]);
    }
    tdaemon_stop(d);
}

/* ---- floods ------------------------------------------------------------------------------ */

struct flood {
    pthread_t thread;
    int doorbell;
    bool stop; /* atomic */
    unsigned long rings;
};

static void *ring_on(void *arg) {
    struct flood *f = arg;
    while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 64; i++)
            eventfd_write(f->doorbell, 1);
        f->rings += 64;
    }
    return NULL;
}

static void flood_start(struct flood *f, const struct raw_ring *r) {
    *f = (struct flood){.doorbell = r->doorbell};
    CHECK(pthread_create(&f->thread, NULL, ring_on, f) == 0, "a thread");
}

static void flood_stop(struct flood *f) {
    __atomic_store_n(&f->stop, true, __ATOMIC_RELAXED);
    pthread_join(f->thread, NULL);
}

/* How often the workers went to sleep so far. */
static unsigned long sleeps(struct tdaemon *d) {
    json_t *status = tdaemon_status(d), *traffic = json_object_get(status, "traffic");
    CHECK(json_is_integer(json_object_get(traffic, "sleeps")), "no sleeps in the status");
    unsigned long n = (unsigned long)json_integer_value(json_object_get(traffic, "sleeps"));
    json_decref(status);
    return n;
}

/* Looked at each millisecond, whatever its client does: not woken by any of a million rings. */
static void doorbells_in_vain_do_not_keep_the_daemon_awake(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    int sock = raw_session(tdaemon_dir(d));
    struct raw_ring ring;
    struct flood flood;
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "a ring");
    expect_served(&ring);
    sleep_ms(100);
    uint64_t ticks = tdaemon_cpu_ticks(d), start = now_ms();
    unsigned long before = sleeps(d);
    flood_start(&flood, &ring);
    unsigned long all_ms;
    do { /* whoever floods needs the processor now and then, which a busy machine has for others */
        sleep_ms(FLOOD_MS);
        all_ms = (unsigned long)(now_ms() - start);
    } while (flood.rings <= 10 * all_ms && all_ms < TEST_PATIENCE_MS);
    unsigned long woken = sleeps(d) - before;
    all_ms = (unsigned long)(now_ms() - start);
    uint64_t busy_ms = (tdaemon_cpu_ticks(d) - ticks) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    printf(
        "%lu rings of a doorbell in %lu ms woke the daemon %lu times and cost it %lu ms of CPU\n",
        flood.rings, all_ms, woken, (unsigned long)busy_ms);
    CHECK(flood.rings > 10 * all_ms, "that was no flood");
    CHECK(woken < 3 * all_ms, "%lu rings in vain woke the daemon %lu times in %lu ms", flood.rings,
          woken, all_ms);
    expect_served(&ring); /* if not as soon as others */
    flood_stop(&flood);
    for (int i = 0; i < 100; i++)
        expect_served(&ring);
    raw_ring_unmap(&ring);
    close(sock);
    tdaemon_stop(d);
}

static void doorbells_in_vain_cost_a_neighbour_nothing(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    int sock = raw_session(tdaemon_dir(d));
    struct raw_ring ring[RINGS];
    struct flood flood;
    for (int i = 0; i < RINGS; i++)
        CHECK(raw_ring_create(sock, 16, &ring[i]) == 0, "a ring");
    flood_start(&flood, &ring[0]);
    for (uint64_t end = now_ms() + FLOOD_MS; now_ms() < end;) /* the others ring in turn */
        for (int i = 1; i < RINGS; i++)
            eventfd_write(ring[i].doorbell, 1);
    flood_stop(&flood);
    bystander_stop(b, "doorbells in vain");
    for (int i = 0; i < RINGS; i++)
        raw_ring_unmap(&ring[i]);
    close(sock);
    tdaemon_stop(d);
}

/* ---- many who wait ------------------------------------------------------------------------ */

/* Says that it sleeps, and does not. Returns how often it was woken. */
static unsigned long wakeups_of_one_op(struct raw_ring *r) {
    char bytes[64];
    struct rdmad_cqe cqe;
    raw_ring_put(r, &nop, 1);
    for (uint64_t until = now_ms() + TEST_PATIENCE_MS;
         ringword_arm_and_peek(&r->client->cq_wait, &r->daemon->cq_tail) == r->cq_head;)
        CHECK(now_ms() < until, "the ring is not served any more");
    CHECK(raw_ring_take(r, &cqe, 0), "there was one");
    ssize_t n = recv(r->wakeup, bytes, sizeof(bytes), MSG_DONTWAIT);
    return n > 0 ? (unsigned long)n : 0;
}

static void who_lets_very_many_wait_for_its_wakeups_is_woken_rarely(void) {
    struct tdaemon *d = tdaemon_start("127.0.0.1", NULL);
    struct bystander *b = bystander_start(d);
    int sock = raw_session(tdaemon_dir(d));
    struct raw_ring ring;
    struct many_wait many;
    unsigned long ops = 0, woken = 0;
    CHECK(raw_ring_create(sock, 16, &ring) == 0, "a ring");
    CHECK(many_wait_begin(&many, ring.wakeup), "epoll_ctl: %s", strerror(errno));
    for (uint64_t end = now_ms() + FLOOD_MS; now_ms() < end; ops++)
        woken += wakeups_of_one_op(&ring);
    bystander_stop(b, "wakeups for which very many wait");
    printf("  woken %lu times in %lu ops, each of which wanted it\n", woken, ops);
    CHECK(woken && woken < ops / 4, "woken %lu times in %lu ops", woken, ops);
    many_wait_end(&many);
    raw_ring_unmap(&ring);
    close(sock);
    tdaemon_stop(d);
}

TEST_MAIN(CASE(who_lets_very_many_wait_for_its_wakeups_is_woken_rarely),
          CASE(descriptors_sent_up_a_wakeup_socket_are_refused_and_nobody_waits_for_them),
          CASE(doorbells_in_vain_do_not_keep_the_daemon_awake),
          CASE(doorbells_in_vain_cost_a_neighbour_nothing))
