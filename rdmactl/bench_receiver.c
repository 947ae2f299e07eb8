/* SPDX-License-Identifier: MIT */
/*
 * bench_receiver.c - the server's side of bench send (bench_messages.h tells the protocol): takes
 * messages, with a window of receives posted, and answers each when the client plays ping-pong.
 */
#include "rdmactl/bench_messages.h"
#include "rdmactl/cli.h"
#include <stdio.h>
#include <string.h>

#define GREETING_MS 5000
#define RECEIVER_WAIT_MS 200
#define MOST_BYTES (UINT64_C(256) << 20) /* of a client's buffers */
#define MOST_ENTRIES 4096u               /* of a ring */
#define ANSWERS 8u                       /* entries for answers that have not ended */

struct receiver {
    rdmad_session *session;
    rdmad_channel *channel;
    rdmad_pool *pool;
    rdmad_ring *ring;
    uint8_t *slots; /* receives of them, and one to answer from */
    uint64_t stride;
    uint32_t receives;
    bool answers;
    bool (*over)(void *user);
    void *user;
};

static int receiver_complain(const struct receiver *v, const char *what) {
    cli_note("a client of bench send %s", what ? what : rdmad_last_error(v->session));
    return RDMAD_E_PROTOCOL;
}

static int receiver_post(struct receiver *v, uint32_t slot) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(v->ring);
    if (!sqe)
        return receiver_complain(v, "has more messages under way than it said");
    int rc =
        rdmad_prep_recv(v->ring, sqe, v->channel, v->slots + slot * v->stride, v->stride, slot);
    return rc ? receiver_complain(v, NULL) : 0;
}

static int receiver_answer(struct receiver *v, uint64_t bytes) {
    struct rdmad_sqe *sqe = rdmad_ring_reserve(v->ring);
    if (!sqe)
        return receiver_complain(v, "does not take its answers");
    uint8_t *from = v->slots + v->receives * v->stride;
    int rc = rdmad_prep_send(v->ring, sqe, v->channel, from, bytes, v->receives);
    return rc ? receiver_complain(v, NULL) : 0;
}

/* What one completion asks for: the receive is posted again, the message answered. The answer to
 * the message before has arrived, or this one would not have come; its completion may come later.
 */
static int receiver_handle(struct receiver *v, const struct rdmad_cqe *cqe) {
    struct rdmad_cqe copy = *cqe;
    rdmad_ring_seen(v->ring, cqe);
    if (copy.status)
        return copy.status;
    if (copy.opcode != RDMAD_OP_RECV)
        return 0;
    int rc = receiver_post(v, (uint32_t)copy.user_data);
    return !rc && v->answers ? receiver_answer(v, copy.bytes) : rc;
}

static int receiver_turn(struct receiver *v) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(v->ring, RECEIVER_WAIT_MS, &cqe);
    if (rc == RDMAD_E_TIMEOUT)
        return v->over(v->user) ? RDMAD_E_CANCELED : 0;
    for (unsigned i = 0; !rc && i < 64; i++) {
        rc = receiver_handle(v, cqe);
        if (!rc && rdmad_ring_peek(v->ring, &cqe))
            break;
    }
    int submitted = rc ? 0 : rdmad_ring_submit(v->ring);
    return submitted < 0 ? submitted : rc;
}

static int receiver_run(struct receiver *v) {
    int rc = 0;
    for (uint32_t i = 0; !rc && i < v->receives; i++)
        rc = receiver_post(v, i);
    if (!rc && rdmad_ring_submit(v->ring) < 0)
        rc = RDMAD_E_DAEMON_LOST;
    for (unsigned turns = 0; !rc; turns++) {
        rc = receiver_turn(v);
        if (!rc && turns % 4096 == 0 && v->over(v->user))
            rc = RDMAD_E_CANCELED;
    }
    return rc;
}

static int receiver_set_up(struct receiver *v, uint64_t max_message) {
    struct bench_greeting greeting;
    rdmad_pool *small;
    int rc = rdmad_pool_create(v->session, 4096, 0, &small);
    if (rc)
        return receiver_complain(v, NULL);
    rc = rdmad_recv(v->channel, rdmad_pool_base(small), sizeof(greeting), GREETING_MS, NULL);
    memcpy(&greeting, rdmad_pool_base(small), sizeof(greeting));
    rdmad_pool_destroy(small);
    if (rc || greeting.magic != BENCH_MAGIC || greeting.bytes > max_message || !greeting.depth ||
        greeting.depth > 4096)
        return receiver_complain(v, rc ? NULL
                                       : "asks for what bench serve does not give (larger -s?)");
    v->stride = (greeting.bytes + 63) & ~UINT64_C(63);
    v->stride = v->stride ? v->stride : 64;
    uint64_t most = MOST_BYTES / v->stride;
    most = most < MOST_ENTRIES - ANSWERS ? most : MOST_ENTRIES - ANSWERS;
    v->receives = greeting.depth < most ? greeting.depth : most ? (uint32_t)most : 1;
    v->answers = greeting.depth == 1;
    if (rdmad_pool_create(v->session, (v->receives + 1) * v->stride, 0, &v->pool) ||
        rdmad_ring_create(v->session, v->receives + ANSWERS, &v->ring))
        return receiver_complain(v, NULL);
    v->slots = rdmad_pool_base(v->pool);
    return 0;
}

void bench_messages_serve(rdmad_session *session, rdmad_service *service, uint64_t max_message,
                          bool (*over)(void *user), void *user) {
    struct receiver v = {.session = session, .over = over, .user = user};
    if (rdmad_accept(service, NULL, 0, &v.channel))
        return;
    if (!receiver_set_up(&v, max_message))
        receiver_run(&v);
    rdmad_channel_abort(v.channel);
    rdmad_ring_destroy(v.ring);
    if (v.pool)
        rdmad_pool_destroy(v.pool);
}
