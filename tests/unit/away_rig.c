/* SPDX-License-Identifier: MIT */
#include "libclient/base/session.h" /* first: its parameters are named as our globals */

#include "tests/unit/away_rig.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct away away;
rdmad_channel *channel;

static bool refuse(struct fake_daemon *f, const struct rdmad_msg_header *h, int status) {
    if (status)
        fake_refuse(f, h, status, "as the test has it");
    return status;
}

/* It is busy, and shows that it lives. */
static void dawdle(struct fake_daemon *f) {
    struct rdmad_ev_lease_renewed nobodys = {.handle = 999};
    for (unsigned i = 0; i < 1000 && !__atomic_load_n(&away.released, __ATOMIC_ACQUIRE); i++) {
        usleep(10000);
        fake_event(f, RDMAD_EV_LEASE_RENEWED, &nobodys, sizeof(nobodys));
    }
}

static bool connected(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    struct rdmad_channel_rep rep = {.channel = 41 + f->nchannels++,
                                    .max_message = 1 << 20,
                                    .kind =
                                        away.weak ? RDMAD_CHANNEL_UNACKED : RDMAD_CHANNEL_RELIABLE,
                                    .peer_uid = 1000,
                                    .flags = away.peer_flags,
                                    .fabric = "local",
                                    .peer_node = "there"};
    fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

static bool proven(struct fake_daemon *f, const struct rdmad_msg_header *h) {
    __atomic_add_fetch(&away.nproofs, 1, __ATOMIC_RELEASE);
    if (away.go_for_proof)
        fake_go(f);
    return away.go_for_proof || refuse(f, h, away.refuse_proof);
}

static bool made(struct fake_daemon *f) {
    if (!away.go_for_ring)
        return false;
    away.go_for_ring = false;
    fake_go(f);
    fake_come_back(f);
    return true;
}

/* Each daemon gives another number. */
static bool taken_in(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    const struct rdmad_pool_import_req *req = body;
    struct rdmad_pool_create_rep rep = {.pool = AWAY_IMPORTED + f->lives, .bytes = req->bytes};
    __atomic_add_fetch(&away.nimports, 1, __ATOMIC_RELEASE);
    fake_reply(f, h, &rep, sizeof(rep));
    if (away.go_for_pool) {
        away.go_for_pool = false;
        fake_go(f);
        fake_come_back(f);
    }
    return true;
}

static bool brought_back(struct fake_daemon *f) {
    struct rdmad_msg_error why = {.text = "as the test has it"};
    if (away.slow_type == RDMAD_MSG_POOL_RESUME)
        dawdle(f);
    if (!away.end_for_pool)
        return false;
    fake_send(f, RDMAD_EV_SESSION_ENDED, 0, away.end_for_pool, &why, sizeof(why), NULL, 0);
    away.end_for_pool = 0;
    fake_go(f);
    fake_come_back(f);
    return true;
}

static bool populated(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    uint64_t number = ((const struct rdmad_pool_ready_req *)body)->pool;
    bool known = number != away.pool_destroyed &&
                 (number < AWAY_IMPORTED || number == AWAY_IMPORTED + f->lives);
    return refuse(f, h, known ? 0 : RDMAD_E_HANDLE);
}

static bool told_of_pool(struct fake_daemon *f, const struct rdmad_msg_header *h,
                         const void *body) {
    away.pool_destroyed = ((const struct rdmad_pool_destroy_req *)body)->pool;
    __atomic_add_fetch(&away.npool_ends, 1, __ATOMIC_RELEASE);
    return refuse(f, h, 0);
}

static bool resumed(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    struct rdmad_channel_rep rep = {.max_message = 4096, .fabric = "tcp", .peer_node = "beyond"};
    memcpy(&away.asked[away.nasked % 4], body, sizeof(*away.asked));
    rep.channel = away.asked[away.nasked % 4].channel;
    __atomic_add_fetch(&away.nasked, 1, __ATOMIC_RELEASE);
    if (away.slow_type == RDMAD_MSG_CHANNEL_RESUME)
        dawdle(f);
    if (!refuse(f, h, away.refuse_resume))
        fake_reply(f, h, &rep, sizeof(rep));
    return true;
}

/* The number of one that was refused is no service's. */
static bool told_of_service(struct fake_daemon *f, const struct rdmad_msg_header *h,
                            const void *body) {
    memcpy(&away.service_closed, body, sizeof(away.service_closed));
    __atomic_add_fetch(&away.nservice_closes, 1, __ATOMIC_RELEASE);
    return refuse(f, h, away.service_closed.service ? 0 : RDMAD_E_HANDLE);
}

static bool note(struct fake_daemon *f, const struct rdmad_msg_header *h, const void *body) {
    if (h->type == away.leaves_for) {
        away.leaves_for = 0;
        return refuse(f, h, RDMAD_E_SHUTDOWN);
    }
    if (h->type == away.short_for && away.short_times) {
        away.short_times--;
        return refuse(f, h, RDMAD_E_NOMEM);
    }
    switch (h->type) {
    case RDMAD_MSG_CHANNEL_CONNECT:
        return connected(f, h);
    case RDMAD_MSG_RING_CREATE:
        return made(f);
    case RDMAD_MSG_POOL_IMPORT:
        return taken_in(f, h, body);
    case RDMAD_MSG_POOL_RESUME:
        return brought_back(f);
    case RDMAD_MSG_POOL_DESTROY:
        return told_of_pool(f, h, body);
    case RDMAD_MSG_POOL_READY:
        return populated(f, h, body);
    case RDMAD_MSG_CHANNEL_PROOF:
        return proven(f, h);
    case RDMAD_MSG_CHANNEL_RESUME:
        return resumed(f, h, body);
    case RDMAD_MSG_CHANNEL_CLOSE:
        memcpy(&away.closed, body, sizeof(away.closed));
        __atomic_add_fetch(&away.nclosed, 1, __ATOMIC_RELEASE);
        return refuse(f, h, away.refuse_resume ? RDMAD_E_HANDLE : 0);
    case RDMAD_MSG_ATTACH_RESUME:
        if (away.slow_type == RDMAD_MSG_ATTACH_RESUME)
            dawdle(f);
        return false;
    case RDMAD_MSG_SERVICE_RESUME:
        if (away.slow_type == RDMAD_MSG_SERVICE_RESUME)
            dawdle(f);
        return refuse(f, h, away.refuse_service);
    case RDMAD_MSG_SERVICE_CLOSE:
        return told_of_service(f, h, body);
    case RDMAD_MSG_CHANNEL_KEEPALIVE:
        return refuse(f, h, away.refuse_keepalive);
    case RDMAD_MSG_SESSION_RESUME:
        return refuse(f, h, away.refuse_session);
    default:
        return false;
    }
}

unsigned away_count_of(const unsigned *count) {
    return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

void away_await(const unsigned *count, unsigned value) {
    for (unsigned i = 0; i < 10000 && away_count_of(count) < value; i++)
        usleep(1000);
    cr_assert_geq(away_count_of(count), value);
}

void away_set_up(void) {
    fake.outlived = true;
    fake.hook = note;
    rig_set_up();
    cr_assert_eq(rdmad_connect(s, AWAY_URI, RDMAD_CHANNEL_RELIABLE, 0, &channel), 0, "%s",
                 rdmad_last_error(s));
}

/* ---- the parts of a case -------------------------------------------------------------------- */

struct fake_ring *away_newest(void) {
    return &fake.rings[away_count_of(&fake.nrings) - 1];
}

struct rdmad_sqe away_take(void) {
    struct rdmad_sqe sqe;
    cr_assert(fake_ring_take(away_newest(), &sqe), "nothing was submitted");
    return sqe;
}

void away_answer(const struct rdmad_sqe *sqe, int status, int outcome) {
    struct rdmad_cqe cqe = {.user_data = sqe->user_data,
                            .status = status,
                            .outcome = (uint8_t)outcome,
                            .opcode = sqe->opcode};
    fake_ring_complete(away_newest(), &cqe);
}

struct rdmad_sqe *away_prep_recv(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_not_null(sqe);
    cr_assert_eq(
        rdmad_prep_recv(ring, sqe, channel, memory + AWAY_RECEIVES + 64 * user_data, 64, user_data),
        0, "%s", rdmad_last_error(s));
    return sqe;
}

void away_submit_recv(uint64_t user_data) {
    away_prep_recv(user_data);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

void away_submit_send(uint64_t user_data) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(ring);
    cr_assert_eq(rdmad_prep_send(ring, sqe, channel, memory + AWAY_RECEIVES, 64, user_data), 0);
    cr_assert_eq(rdmad_ring_submit(ring), 1);
}

void away_go(void) {
    fake_go(&fake);
    rig_expect_nothing();
    while (rdmad_is_open(s))
        rig_expect_nothing();
    rig_expect_nothing();
}

struct rdmad_event away_next_event(void) {
    struct rdmad_event e = RDMAD_EVENT_INIT;
    cr_assert_eq(rdmad_next_event(s, 10000, &e), 0, "%s", rdmad_last_error(s));
    return e;
}

void away_await_resumed(void) {
    struct rdmad_event e = away_next_event();
    cr_assert_eq(e.type, RDMAD_EVENT_SESSION_RESUMED, "%u: %s", e.type, e.text);
}

void away_come_back(void) {
    unsigned rings = away_count_of(&fake.nrings);
    fake_come_back(&fake);
    away_await_resumed();
    rig_expect_nothing();
    cr_assert_eq(away_count_of(&fake.nrings), rings + 1);
}

void away_expect_end(uint64_t user_data, int status, int outcome) {
    struct rdmad_cqe cqe = rig_reap();
    cr_assert_eq(cqe.user_data, user_data, "%llu", (unsigned long long)cqe.user_data);
    cr_assert_eq(cqe.status, status, "%d", cqe.status);
    cr_assert_eq(cqe.outcome, outcome, "%d", cqe.outcome);
}

void away_without_patience(uint16_t slow_type, void *(*call)(void *), void *arg) {
    pthread_t t;
    away_go();
    away.slow_type = slow_type;
    s->call_timeout_ns = 2 * UINT64_C(1000000000); /* since the call, and the daemon comes then */
    pthread_create(&t, NULL, call, arg);
    fake_come_back(&fake);
    pthread_join(t, NULL);
}
