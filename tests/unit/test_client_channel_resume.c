/* SPDX-License-Identifier: MIT */
/* librdmad's channels, and the receives on them, when one daemon goes and the next comes. */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/client_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define URI "rdmad://127.0.0.1:1/service"
#define RECEIVES 16384u /* where their buffers begin */

static rdmad_channel *channel;

/* What the fake daemon does not do, or has seen. */
static int refuse_proof, refuse_resume, refuse_attach, refuse_session;
static bool slow_resume, weak, go_for_proof;
static uint32_t peer_flags;
static struct rdmad_channel_resume_req asked[4];
static struct rdmad_channel_close_req closed;
static unsigned nasked, nclosed, nproofs; /* atomic */

static bool refuse(struct fake_daemon *f, const struct rdmad_msg_header *h, int status) {
    if (status)
        fake_refuse(f, h, status, "as the test has it");
    return status;
}

/* It is busy, and shows that it lives. */
static void dawdle(struct fake_daemon *f) {
    struct rdmad_ev_lease_renewed nobodys = {.handle = 999};
    for (unsigned i = 0; i < 25; i++) {
        usleep(20000);
        fake_event(f, RDMAD_EV_LEASE_RENEWED, &nobodys, sizeof(nobodys));
    }
}

static bool connected(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_channel_rep rep = {.channel = 41 + f->nchannels++,
                                    .max_message = 1 << 20,
                                    .kind = weak ? RDMAD_CHANNEL_UNACKED : RDMAD_CHANNEL_RELIABLE,
                                    .peer_uid = 1000,
                                    .flags = peer_flags,
                                    .fabric = "local",
                                    .peer_node = "there"};
    fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

static bool proven(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    __atomic_add_fetch(&nproofs, 1, __ATOMIC_RELEASE);
    if (go_for_proof)
        fake_go(f);
    return go_for_proof || refuse(f, h, refuse_proof);
}

static bool resumed(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    struct rdmad_channel_rep rep = {.max_message = 4096, .fabric = "tcp", .peer_node = "beyond"};
    memcpy(&asked[nasked % 4], body, sizeof(*asked));
    rep.channel = asked[nasked % 4].channel;
    __atomic_add_fetch(&nasked, 1, __ATOMIC_RELEASE);
    if (slow_resume)
        dawdle(f);
    if (!refuse(f, h, refuse_resume))
        fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

static bool note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    switch (h->type) {
    case RDMAD_MSG_CHANNEL_CONNECT:
        return connected(f, h);
    case RDMAD_MSG_CHANNEL_PROOF:
        return proven(f, h);
    case RDMAD_MSG_CHANNEL_RESUME:
        return resumed(f, h, body);
    case RDMAD_MSG_CHANNEL_CLOSE:
        memcpy(&closed, body, sizeof(closed));
        __atomic_add_fetch(&nclosed, 1, __ATOMIC_RELEASE);
        return refuse(f, h, refuse_resume ? RDMAD_E_HANDLE : 0);
    case RDMAD_MSG_ATTACH_RESUME:
        return refuse(f, h, refuse_attach);
    case RDMAD_MSG_SESSION_RESUME:
        return refuse(f, h, refuse_session);
    default:
        return false;
    }
}

static unsigned count_of(const unsigned *count) {
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static void await(const unsigned *count, unsigned value) {
    for (unsigned i = 0; i < 10000 && count_of(count) < value; i++)
        usleep(1000);
    cr_assert_geq(count_of(count), value);
}

static void set_up(void) {
    fake.outlived = true;
    fake.hook = note;
    rig_set_up();
    cr_assert_eq(rdmad_connect(s, URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0, "%s",
                 rdmad_last_error(s));
}

TestSuite(channel_resume, .init = set_up, .fini = rig_tear_down, .timeout = 30);

/* ---- the parts of a case -------------------------------------------------------------------- */

static struct fake_ring *newest(void) {
    return &fake.rings[count_of(&fake.nrings) - 1];
}

static struct rdmad_sqe take(void) {
    struct rdmad_sqe sqe;
    cr_assert(fake_ring_take(newest(), &sqe), "nothing was submitted");
    return sqe;
}

static void answer(const struct rdmad_sqe *sqe, int status, int outcome) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .status = status,
                            .outcome = (uint8_t)outcome,
                            .opcode = sqe->opcode};
    fake_ring_complete(newest(), &cqe);
}

static struct rdmad_sqe *prep_recv(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_not_null(sqe);
    cr_assert_eq(
        rdmad_prep_recv(ring, sqe, channel, memory + RECEIVES + 64 * user_data, 64, user_data), 0,
        "%s", rdmad_last_error(s));
    return sqe;
}

static void submit_recv(uint64_t user_data) {
    prep_recv(user_data);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

static void submit_send(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_send(ring, sqe, channel, memory + RECEIVES, 64, user_data), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

static void submit_cancel(uint64_t target, uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_cancel(ring, sqe, target, user_data), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

/* What is known of the ring's ops is settled, and nothing has completed. */
static void go(void) {
    fake_go(&fake);
    rig_expect_nothing();
    while (rdmad_is_open(s))
        rig_expect_nothing();
    rig_expect_nothing();
}

static struct rdmad_event next_event(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, 10000, &e), 0, "%s", rdmad_last_error(s));
    return e;
}

static void await_resumed(void) {
    struct rdmad_event e = next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
}

/* Until the ring is there again, too. */
static void come_back(void) {
    unsigned rings = count_of(&fake.nrings);
    fake_come_back(&fake);
    await_resumed();
    rig_expect_nothing();
    cr_assert_eq(count_of(&fake.nrings), rings + 1);
}

static void lose(void) {
    struct rdmad_event e;
    refuse_session = RDMAD_E_PERM;
    fake_come_back(&fake);
    e = next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_LOST, "%u: %s", e.type, e.text);
}

static void expect_recv(uint64_t user_data) {
    struct rdmad_sqe sqe = take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_RECV);
    cr_assert_eq(sqe.lease, 41);
    cr_assert_eq(sqe.pool, FAKE_POOL);
    cr_assert_eq(sqe.pool_offset, RECEIVES + 64 * user_data, "offset %llu",
                 (unsigned long long)sqe.pool_offset);
    cr_assert_eq(sqe.length, 64);
    answer(&sqe, 0, RDMAD_DONE);
    cr_assert_eq(rig_reap().user_data, user_data);
}

static void expect_end(uint64_t user_data, int status, int outcome) {
    struct rdmad_cqe cqe = rig_reap();
    cr_assert_eq(cqe.user_data, user_data, "%llu", (unsigned long long)cqe.user_data);
    cr_assert_eq(cqe.status, status, "%d", cqe.status);
    cr_assert_eq(cqe.outcome, outcome, "%d", cqe.outcome);
}

/* ---- receives ------------------------------------------------------------------------------- */

Test(channel_resume, a_receive_that_was_taken_is_given_to_the_next_daemon) {
    submit_recv(1);
    struct rdmad_sqe old = take();
    go();
    come_back();
    struct rdmad_sqe new = take();
    cr_assert_eq(memcmp(&old, &new, sizeof(new)), 0);
    answer(&new, 0, RDMAD_DONE);
    expect_end(1, 0, RDMAD_DONE);
    submit_recv(2); /* in the same slot, which knows nothing of the one before */
    new = take();
    answer(&new, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    expect_end(2, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

/* Slots are free in another order than that of the entries. */
static void shuffle(unsigned turns) {
    struct rdmad_sqe sqe[3];
    for (unsigned i = 0; i < 3; i++)
        rig_submit_write(90 + i);
    for (unsigned i = 0; i < 3; i++)
        sqe[i] = rig_take();
    for (unsigned i = 0; i < 3; i++) {
        rig_complete(&sqe[(i + 1) % 3], 0);
        rig_reap();
    }
    for (; turns > 0; turns--) {
        rig_submit_write(99);
        sqe[0] = rig_take();
        rig_complete(&sqe[0], 0);
        rig_reap();
    }
}

/* As many as there are entries: two that were taken, one submitted meanwhile, one just reserved. */
static void full_ring_goes_on(unsigned turns) {
    shuffle(turns);
    submit_recv(1);
    submit_recv(2);
    take();
    take();
    go();
    submit_recv(3);
    prep_recv(4);
    come_back();
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    cr_assert_null(rdmad_ring_reserve(ring));
    for (uint64_t i = 1; i <= 4; i++)
        expect_recv(i);
    cr_assert_not(fake_ring_has(newest()));
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(channel_resume, a_full_ring_goes_on_in_order_from_its_beginning) {
    full_ring_goes_on(1);
}

Test(channel_resume, a_full_ring_goes_on_in_order_from_its_second_entry) {
    full_ring_goes_on(2);
}

Test(channel_resume, a_full_ring_goes_on_in_order_from_its_third_entry) {
    full_ring_goes_on(3);
}

Test(channel_resume, a_full_ring_goes_on_in_order_from_its_last_entry) {
    full_ring_goes_on(4);
}

Test(channel_resume, receives_are_kept_as_often_as_daemons_go) {
    shuffle(0);
    for (uint64_t i = 1; i <= 3; i++)
        submit_recv(i);
    for (unsigned i = 0; i < 3; i++)
        take();
    go();
    come_back();
    go(); /* this one has looked at nothing */
    come_back();
    expect_recv(1);
    take();
    submit_recv(4);
    go();
    fake_come_back(&fake);
    await_resumed();
    fake_go(&fake); /* nobody has looked at the ring meanwhile */
    while (rdmad_is_open(s))
        usleep(100);
    come_back();
    for (uint64_t i = 2; i <= 4; i++)
        expect_recv(i);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(channel_resume, receives_come_before_what_a_stopping_daemon_has_not_taken) {
    submit_recv(1);
    submit_recv(2);
    rig_submit_write(3);
    take();
    __atomic_store_n(&newest()->daemon->sq_left, 1, __ATOMIC_RELEASE);
    go();
    come_back();
    expect_recv(1);
    expect_recv(2);
    struct rdmad_sqe sqe = take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_WRITE);
    answer(&sqe, 0, RDMAD_DONE);
    expect_end(3, 0, RDMAD_DONE);
}

Test(channel_resume, a_buffer_that_a_daemon_had_may_be_partly_written) {
    submit_recv(1);
    submit_recv(2);
    take();
    take();
    go();
    submit_recv(3);
    come_back();
    struct rdmad_sqe first = take();
    answer(&first, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    expect_end(1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL);
    __atomic_store_n(&newest()->daemon->sq_left, 1, __ATOMIC_RELEASE);
    go();
    lose();
    expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    expect_end(3, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_UNTOUCHED);
}

Test(channel_resume, receives_end_with_a_session_that_is_lost) {
    submit_recv(1);
    take();
    go();
    lose();
    expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(channel_resume, sends_and_writes_that_were_taken_end_unknown) {
    submit_send(1);
    rig_submit_write(2);
    take();
    take();
    fake_go(&fake);
    expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    come_back();
    cr_assert_not(fake_ring_has(newest()));
}

Test(channel_resume, a_receive_in_a_batch_ends) {
    prep_recv(1)->flags |= RDMAD_SQE_MORE;
    prep_recv(2);
    cr_assert_eq(rdmad_ring_submit(ring), 2);
    take();
    take();
    fake_go(&fake);
    expect_end(2, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    come_back();
    cr_assert_not(fake_ring_has(newest()));
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

Test(channel_resume, the_rest_of_a_batch_is_not_taken_for_a_receive) {
    submit_recv(1);
    rig_prep_write(2)->flags |= RDMAD_SQE_MORE;
    cr_assert_eq(rdmad_ring_submit(ring), 1);
    take();
    take();
    go();
    rig_prep_write(3);
    cr_assert_eq(rdmad_ring_submit(ring), RDMAD_E_DAEMON_LOST);
    expect_end(3, RDMAD_E_DAEMON_LOST, RDMAD_UNKNOWN);
    come_back();
    expect_recv(1);
    cr_assert_not(fake_ring_has(newest()));
}

/* ---- cancels -------------------------------------------------------------------------------- */

Test(channel_resume, a_cancel_goes_with_the_receive_that_it_names) {
    submit_recv(1);
    submit_cancel(1, 2);
    take();
    take();
    go();
    submit_cancel(1, 3);
    come_back();
    struct rdmad_sqe recv = take(), kept = take(), later = take();
    cr_assert_eq(recv.opcode, RDMAD_OP_RECV);
    cr_assert_eq(kept.opcode, RDMAD_OP_CANCEL);
    cr_assert_eq(kept.lease, recv.user_data);
    cr_assert_eq(later.opcode, RDMAD_OP_CANCEL);
    cr_assert_eq(later.lease, recv.user_data);
    answer(&kept, 0, RDMAD_DONE);
    expect_end(2, 0, RDMAD_DONE);
    answer(&recv, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    expect_end(1, RDMAD_E_CANCELED, RDMAD_FAILED_PARTIAL);
    answer(&later, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    expect_end(3, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
}

Test(channel_resume, a_cancel_of_anything_else_ends) {
    submit_send(1);
    submit_cancel(1, 2);
    submit_recv(3);
    for (unsigned i = 0; i < 3; i++)
        take();
    fake_go(&fake);
    cr_assert_eq(rig_reap().status, RDMAD_E_DAEMON_LOST);
    cr_assert_eq(rig_reap().status, RDMAD_E_DAEMON_LOST);
    come_back();
    expect_recv(3);
    cr_assert_not(fake_ring_has(newest()));
}

Test(channel_resume, a_receive_whose_cancel_is_done_ends) {
    submit_recv(1);
    submit_cancel(1, 2);
    take();
    struct rdmad_sqe cancel = take();
    answer(&cancel, 0, RDMAD_DONE);
    expect_end(2, 0, RDMAD_DONE);
    fake_go(&fake);
    expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    come_back();
    submit_recv(3); /* in the same slot */
    take();
    go();
}

static void *take_and_cancel(void *unused) {
    (void)unused;
    struct rdmad_sqe recv = take(), cancel = take();
    cr_assert_eq(cancel.lease, recv.user_data);
    fake_go(&fake);
    usleep(300000);
    fake_come_back(&fake);
    while (count_of(&fake.nrings) < 2)
        usleep(100);
    recv = take();
    cancel = take();
    cr_assert_eq(cancel.lease, recv.user_data);
    answer(&cancel, 0, RDMAD_DONE);
    answer(&recv, RDMAD_E_CANCELED, RDMAD_FAILED_UNTOUCHED);
    return NULL;
}

Test(channel_resume, a_blocking_cancel_sleeps_and_asks_the_next_daemon) {
    struct timespec used;
    struct rdmad_cqe cqe;
    pthread_t t;
    submit_recv(1);
    pthread_create(&t, NULL, take_and_cancel, NULL);
    cr_assert_eq(rdmad_ring_cancel(ring, 1, &cqe), 0, "%s", rdmad_last_error(s));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    pthread_join(t, NULL);
    cr_assert_eq(cqe.status, RDMAD_E_CANCELED);
    cr_assert(used.tv_sec == 0 && used.tv_nsec < 150000000, "%ld ns", used.tv_nsec);
    rig_expect_nothing();
    cr_assert_eq(rig_free_entries(), RIG_ENTRIES);
}

static void *receive(void *rc) {
    *(int *)rc = rdmad_recv(channel, memory, 64, -1, NULL);
    return NULL;
}

Test(channel_resume, a_blocking_receive_just_goes_on) {
    int rc = 1;
    pthread_t t;
    pthread_create(&t, NULL, receive, &rc);
    while (count_of(&fake.nrings) < 2)
        usleep(100);
    take();
    fake_go(&fake);
    usleep(20000);
    fake_come_back(&fake);
    while (count_of(&fake.nrings) < 3)
        usleep(100);
    struct rdmad_sqe sqe = take();
    cr_assert_eq(sqe.opcode, RDMAD_OP_RECV);
    answer(&sqe, 0, RDMAD_DONE);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%d: %s", rc, rdmad_last_error(s));
}

/* ---- channels ------------------------------------------------------------------------------- */

Test(channel_resume, an_end_is_handed_back_as_it_was) {
    struct rdmad_channel_info info = RDMAD_CHANNEL_INFO_INIT;
    uint8_t key[RDMAD_CHANNEL_KEY_BYTES];
    memset(key, 41, sizeof(key));
    go();
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.closed, 0, "it is only away");
    come_back();
    cr_assert_eq(nasked, 1);
    cr_assert_eq(asked[0].channel, 41);
    cr_assert_eq(memcmp(asked[0].key, key, sizeof(key)), 0);
    cr_assert_eq(asked[0].accepted, 0);
    cr_assert_eq(asked[0].peer_uid, 1000);
    cr_assert_eq(asked[0].flags, 0);
    cr_assert_str_eq(asked[0].peer_node, "there");
    cr_assert_str_eq(asked[0].uri, URI);
    rdmad_channel_get_info(channel, &info);
    cr_assert_eq(info.closed, 0);
    cr_assert_eq(info.max_message, 4096, "it may have another way now");
    cr_assert_str_eq(info.fabric, "tcp");
    cr_assert_str_eq(info.peer_node, "there");
    go();
    come_back();
    cr_assert_eq(nasked, 2, "each daemon is asked once");
}

Test(channel_resume, who_the_other_end_had_proven_to_be_it_has_to_prove_again) {
    rdmad_channel_abort(channel);
    peer_flags = RDMAD_CHANNEL_PEER_PROVEN;
    cr_assert_eq(rdmad_connect(s, URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0);
    go();
    come_back();
    cr_assert_eq(asked[0].channel, 42);
    cr_assert_eq(asked[0].flags, RDMAD_CHANNEL_PEER_PROVEN);
}

Test(channel_resume, an_accepted_end_names_its_service) {
    struct rdmad_ev_channel_incoming e = {.service = 51, .incoming = 7};
    rdmad_service *service;
    rdmad_channel *c;
    cr_assert_eq(rdmad_listen(s, "a.service", NULL, &service), 0);
    fake_event(&fake, RDMAD_EV_CHANNEL_INCOMING, &e, sizeof(e));
    cr_assert_eq(rdmad_accept(service, NULL, 1000, &c), 0);
    rdmad_channel_abort(channel);
    go();
    come_back();
    cr_assert_eq(nasked, 1);
    cr_assert_eq(asked[0].channel, 42);
    cr_assert_eq(asked[0].accepted, 1);
    cr_assert_str_eq(asked[0].uri, "a.service");
}

static void expect_closed(int reason, const char *text) {
    struct rdmad_event e = next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_CHANNEL_CLOSED, "%u: %s", e.type, e.text);
    cr_assert_eq(e.channel, channel);
    cr_assert_eq(e.reason, reason);
    cr_assert_not_null(strstr(e.text, text), "%s", e.text);
}

/* An entry on it is refused by a daemon that does not know it. */
static void expect_unknown(uint64_t user_data, int status, const char *text) {
    const struct rdmad_cqe *cqe;
    char buf[512];
    struct rdmad_sqe sqe = take();
    answer(&sqe, RDMAD_E_HANDLE, RDMAD_FAILED_UNTOUCHED);
    cr_assert_eq(rdmad_ring_wait(ring, 2000, &cqe), 0);
    cr_assert_eq(cqe->user_data, user_data);
    cr_assert_eq(cqe->status, status, "%d", cqe->status);
    rdmad_ring_explain(ring, cqe, buf, sizeof(buf));
    cr_assert_not_null(strstr(buf, text), "%s", buf);
    rdmad_ring_seen(ring, cqe);
}

Test(channel_resume, one_without_a_key_is_closed_with_its_daemon) {
    char before[256];
    unsigned closes;
    rdmad_channel_abort(channel);
    refuse_proof = RDMAD_E_UNSUPPORTED;
    snprintf(before, sizeof(before), "%s", rdmad_last_error(s));
    cr_assert_eq(rdmad_connect(s, URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0);
    cr_assert_str_eq(rdmad_last_error(s), before, "nothing has failed");
    submit_recv(1);
    take();
    fake_go(&fake);
    expect_end(1, RDMAD_E_DAEMON_LOST, RDMAD_FAILED_PARTIAL);
    fake_come_back(&fake);
    expect_closed(RDMAD_E_DAEMON_LOST, "is gone: connect again");
    await_resumed();
    cr_assert_eq(nasked, 0);
    rig_expect_nothing();
    submit_send(2);
    expect_unknown(2, RDMAD_E_DAEMON_LOST, "is gone: connect again");
    closes = nclosed;
    cr_assert_eq(rdmad_channel_close(channel), 0);
    cr_assert_eq(nclosed, closes, "nobody knows it");
}

static void refused(int status, int reason) {
    submit_recv(1);
    take();
    go();
    refuse_resume = status;
    fake_come_back(&fake);
    expect_closed(reason, "does not outlive its rdmad: as the test has it");
    await_resumed();
    rig_expect_nothing();
    expect_unknown(1, reason, "does not outlive its rdmad: as the test has it");
    cr_assert_eq(rdmad_channel_close(channel), 0);
    cr_assert_eq(nclosed, 0, "nobody knows it");
}

Test(channel_resume, one_that_is_refused_says_why) {
    refused(RDMAD_E_NO_SERVICE, RDMAD_E_NO_SERVICE);
}

Test(channel_resume, one_that_no_daemon_can_take_back_was_lost_with_its_own) {
    refused(RDMAD_E_TYPE, RDMAD_E_DAEMON_LOST);
}

/* The other end's close is told by the daemon that has the channel. */
Test(channel_resume, one_that_had_been_closed_is_not_handed_back) {
    struct rdmad_ev_channel_closed e = {.channel = 41, .reason = RDMAD_E_CLOSED};
    fake_event(&fake, RDMAD_EV_CHANNEL_CLOSED, &e, sizeof(e));
    expect_closed(RDMAD_E_CLOSED, "");
    submit_recv(1);
    take();
    go();
    come_back();
    cr_assert_eq(nasked, 0);
    expect_unknown(1, RDMAD_E_CLOSED, "closed");
    cr_assert_eq(rdmad_channel_close(channel), 0);
}

Test(channel_resume, one_whose_daemon_goes_before_it_gives_a_key_was_connected) {
    rdmad_channel_abort(channel);
    go_for_proof = true;
    cr_assert_eq(rdmad_connect(s, URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0, "%s",
                 rdmad_last_error(s));
    fake_come_back(&fake);
    expect_closed(RDMAD_E_DAEMON_LOST, "is gone: connect again");
    await_resumed();
    cr_assert_eq(nasked, 0);
}

Test(channel_resume, kinds_without_acknowledgements_need_no_key) {
    rdmad_channel *c;
    cr_assert_eq(nproofs, 1);
    weak = true;
    cr_assert_eq(rdmad_connect(s, URI, RDMAD_CHANNEL_UNACKED, 0, &c), 0);
    cr_assert_eq(nproofs, 1);
}

/* ---- closed meanwhile ----------------------------------------------------------------------- */

static void *close_it(void *rc) {
    *(int *)rc = rdmad_channel_close(channel);
    return NULL;
}

Test(channel_resume, a_close_waits_for_the_end_to_be_back) {
    int rc = 1;
    pthread_t t;
    go();
    pthread_create(&t, NULL, close_it, &rc);
    usleep(20000);
    cr_assert_eq(nclosed, 0);
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%s", rdmad_last_error(s));
    cr_assert_eq(nasked, 1);
    cr_assert_eq(nclosed, 1);
    cr_assert_eq(closed.channel, 41);
    cr_assert_eq(closed.abrupt, 0);
}

Test(channel_resume, a_close_of_one_that_is_refused_is_done) {
    int rc = 1;
    pthread_t t;
    go();
    pthread_create(&t, NULL, close_it, &rc);
    usleep(20000);
    refuse_resume = RDMAD_E_NO_SERVICE;
    fake_come_back(&fake);
    pthread_join(t, NULL);
    cr_assert_eq(rc, 0, "%d", rc);
}

/* It has waited for as long as it may, and the daemon that has the channel now hears of it. */
static void impatient(unsigned wait_for) {
    int rc = 1;
    pthread_t t;
    go();
    s->call_timeout_ns = UINT64_C(200000000);
    pthread_create(&t, NULL, close_it, &rc);
    fake_come_back(&fake);
    await(&nasked, wait_for);
    pthread_join(t, NULL);
    cr_assert_eq(rc, RDMAD_E_DAEMON_LOST);
    await(&nclosed, 1);
    cr_assert_eq(closed.channel, 41);
    cr_assert_eq(closed.abrupt, 1);
    await_resumed();
}

Test(channel_resume, a_close_without_patience_is_told_when_the_end_is_back) {
    refuse_attach = RDMAD_E_NO_LEASE; /* so the session is not opened yet */
    impatient(1);
}

Test(channel_resume, a_close_without_patience_is_told_when_the_end_comes_back) {
    slow_resume = true;
    impatient(1);
}
