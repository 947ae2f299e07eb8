/* SPDX-License-Identifier: MIT */
/* librdmad: what a close of a channel says of sends that the daemon has not taken; and that the
 * close of a session waits for nobody, and frees nothing that is still linked. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "libclient/base/clock.h"
#include "libclient/channel/channel.h"
#include "libclient/control/event_queue.h"
#include "tests/unit/client_rig.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static unsigned closes;

static bool count_closes(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    (void)f;
    (void)body;
    closes += h->type == RDMAD_MSG_CHANNEL_CLOSE;
    return false;
}

static void set_up(void) {
    fake.hook = count_closes;
    rig_set_up();
}

TestSuite(channel_close, .init = set_up, .fini = rig_tear_down, .timeout = 20);

Test(channel_close, says_that_sends_were_not_taken_in_time_and_closes_nevertheless) {
    rdmad_channel *channel, *other;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);

    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &other), 0);
    cr_assert_eq(rdmad_prep_send(ring, sqe, channel, memory, 8, 1), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_eq(rdmad_channel_close(other), 0, "a send on another channel is not its own");
    cr_assert_eq(rdmad_channel_close(channel), RDMAD_E_TIMEOUT, "nobody has taken the send");
    cr_assert_not_null(strstr(rdmad_last_error(s), "channel 41 is closed, and rdmad had not taken "
                                                   "all sends on it in 1000 ms"),
                       "%s", rdmad_last_error(s));
    cr_assert_eq(closes, 2);
}

/* ---- while another thread receives ---------------------------------------------------------- */

static struct rdmad_channel *leaves; /* atomic: no ring is made before this is being closed */
static bool begun, ended;            /* atomic: one is being made; what waited for it is over */

static bool make_rings_later(struct fake_daemon *f, const struct rdmad_msg_header *h,
                             const void *body) {
    const struct rdmad_channel *c = __atomic_load_n(&leaves, __ATOMIC_ACQUIRE);
    if (h->type == RDMAD_MSG_RING_CREATE && c) {
        __atomic_store_n(&begun, true, __ATOMIC_RELEASE);
        while (rdmad_object_is(&c->object, RDMAD_KIND_CHANNEL))
            usleep(1000);
    }
    return count_closes(f, h, body);
}

/* The library's. The close gets no further before the other call is over. */
bool __real_rdmad_rings_taken(struct rdmad_session *session, uint64_t channel);
bool __wrap_rdmad_rings_taken(struct rdmad_session *session, uint64_t channel);

bool __wrap_rdmad_rings_taken(struct rdmad_session *session, uint64_t channel) {
    while (leaves && !__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
        usleep(1000);
    return __real_rdmad_rings_taken(session, channel);
}

/* As of a daemon that knows no such channel. */
static bool refuse_messages(struct fake_ring *r, const struct rdmad_sqe *sqe) {
    const struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                                  .opcode = sqe->opcode,
                                  .status = RDMAD_E_HANDLE,
                                  .outcome = RDMAD_FAILED_UNTOUCHED};
    fake_ring_complete(r, &cqe);
    return true;
}

struct ask {
    rdmad_channel *channel;
    int (*it)(rdmad_channel *channel);
    int rc;
    char said[512];
};

static int receive(rdmad_channel *channel) {
    return rdmad_recv(channel, memory, 64, -1, NULL);
}

static int receive_lease(rdmad_channel *channel) {
    rdmad_lease *none;
    return rdmad_recv_lease(channel, -1, &none);
}

static int send_it(rdmad_channel *channel) {
    return rdmad_send(channel, memory, 64);
}

static void *ask_it(void *arg) {
    struct ask *a = arg;
    a->rc = a->it(a->channel);
    snprintf(a->said, sizeof(a->said), "%s", rdmad_last_error(s));
    __atomic_store_n(&ended, true, __ATOMIC_RELEASE);
    return NULL;
}

/* The call has begun, and has no ring yet. */
static struct ask closed_meanwhile(int (*it)(rdmad_channel *channel)) {
    struct ask a = {.it = it};
    pthread_t thread;
    fake.hook = make_rings_later;
    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &a.channel), 0);
    rig_play(refuse_messages);
    __atomic_store_n(&leaves, a.channel, __ATOMIC_RELEASE);
    cr_assert_eq(pthread_create(&thread, NULL, ask_it, &a), 0);
    while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
        usleep(1000);
    cr_expect_eq(rdmad_channel_close(a.channel), 0, "%s", rdmad_last_error(s));
    pthread_join(thread, NULL);
    return a;
}

Test(channel_close, ends_a_receive_that_has_no_ring_yet) {
    struct ask a = closed_meanwhile(receive);
    cr_expect_eq(a.rc, RDMAD_E_CLOSED, "%d: %s", a.rc, a.said);
    cr_expect_not_null(strstr(a.said, "channel 41 failed: the channel was closed here"), "%s",
                       a.said);
}

Test(channel_close, ends_a_receive_of_a_lease_likewise) {
    struct ask a = closed_meanwhile(receive_lease);
    cr_expect_eq(a.rc, RDMAD_E_CLOSED, "%d: %s", a.rc, a.said);
}

Test(channel_close, leaves_a_send_that_comes_after_it_undelivered) {
    struct ask a = closed_meanwhile(send_it);
    cr_expect_eq(a.rc, RDMAD_E_HANDLE, "%d: %s", a.rc, a.said);
    cr_expect_not_null(strstr(a.said, "closed here before rdmad took the op"), "%s", a.said);
}

/* ---- of a session --------------------------------------------------------------------------- */

static void resumable_set_up(void) {
    fake.outlived = true;
    rig_set_up();
}

TestSuite(session_close, .init = resumable_set_up, .fini = rig_tear_down, .timeout = 60);

static int seqpacket_socket(void) {
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

/* The next daemon is stopped, and has as many connections as it may. Returns how long a close of
 * the session takes, whose thread has found it. */
static uint64_t close_at_a_full_backlog(void) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int listener = seqpacket_socket(), first = seqpacket_socket();
    snprintf(sun.sun_path, sizeof(sun.sun_path), "%.63s/rdmad.sock", fake.dir);
    fake_go(&fake);
    while (rdmad_is_open(s))
        usleep(1000);
    cr_assert_eq(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    cr_assert_eq(listen(listener, 0), 0);
    cr_assert_eq(connect(first, (struct sockaddr *)&sun, sizeof(sun)), 0);
    usleep(400000); /* it looks again after a quarter of a second at most */
    uint64_t began_ns = rdmad_monotonic_ns();
    rdmad_close(s);
    uint64_t took_ns = rdmad_monotonic_ns() - began_ns;
    close(first);
    close(listener);
    unlink(sun.sun_path);
    return took_ns;
}

/* Once of three times at least nothing else keeps it waiting. */
Test(session_close, does_not_wait_for_room_in_the_next_daemons_backlog) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    uint64_t least_ns = UINT64_MAX;
    o.runtime_dir = fake.dir;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t took_ns = close_at_a_full_backlog();
        least_ns = took_ns < least_ns ? took_ns : least_ns;
        fake_come_back(&fake);
        cr_assert_eq(rdmad_open(&o, &s), 0, "%s", rdmad_last_error(NULL));
    }
    cr_expect_lt(least_ns, 1000 * RDMAD_NS_PER_MS, "it took %llu ms",
                 (unsigned long long)(least_ns / RDMAD_NS_PER_MS));
}

/* ---- what of it is freed -------------------------------------------------------------------- */

static unsigned retired, linked; /* objects; those that a source in the queue lies in */

/* The library's, which frees old ones: what is linked then is written to after that. */
void __real_rdmad_object_retire(struct rdmad_object *o, size_t size);
void __wrap_rdmad_object_retire(struct rdmad_object *o, size_t size);

void __wrap_rdmad_object_retire(struct rdmad_object *o, size_t size) {
    const char *from = (const char *)o;
    for (struct rdmad_event_source *at = s ? s->first_source : NULL; at; at = at->next)
        linked += (const char *)at >= from && (const char *)at < from + size;
    retired++;
    __real_rdmad_object_retire(o, size);
}

/* Each has something to tell, and nobody takes it. */
static void queue_events(void) {
    const struct rdmad_ev_channel_closed closed = {.channel = 41, .reason = RDMAD_E_CLOSED};
    const struct rdmad_ev_channel_incoming incoming = {.service = 51, .incoming = 7};
    fake_lease_ended(&fake, 7, 31, RDMAD_E_LEASE_REVOKED);
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &closed, sizeof(closed));
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &incoming, sizeof(incoming));
}

Test(session_close, frees_nothing_that_is_still_linked) {
    rdmad_channel *channel;
    rdmad_service *service;
    rdmad_lease *granted;
    cr_assert_eq(rdmad_connect(s, "rdmad://h:1/x", 0, 0, &channel), 0);
    cr_assert_eq(rdmad_listen(s, "service", NULL, &service), 0, "%s", rdmad_last_error(s));
    queue_events();
    /* its reply lies behind them */
    cr_assert_eq(rdmad_lease_grant(s, memory, 4096, NULL, &granted), 0);
    unsigned queued = 0;
    for (const struct rdmad_event_source *at = s->first_source; at; at = at->next)
        queued++;
    cr_assert_eq(queued, 3, "%u", queued);
    rdmad_close(s);
    s = NULL;
    cr_expect_eq(retired, 7, "%u", retired);
    cr_expect_eq(linked, 0, "%u objects are freed with a source in the queue", linked);
}
