/* SPDX-License-Identifier: MIT */
/*
 * Notices of peers: one that may not come leaves nothing but a count, one that may is kept once,
 * for who is charged for it and can take it, no attach has more waiting than its allowance, and
 * when the owner is gone nothing is left.
 *
 * The input is records of two bytes and, for a message, a length and its bytes. The first byte says
 * what happens: a message, a NOTIFIED of the owner, or a new grant; the second which attach and
 * which peer it is, which the fuzzer need not guess.
 */
#include "common/ringword.h"
#include "daemon/op/engine/account.h"
#include "daemon/op/engine/window.h"
#include "daemon/op/notify/notify_peer.h"
#include "daemon/op/notify/wire.h"
#include "daemon/op/seam/objects.h"
#include "daemon/op/turn/plane.h"
#include "daemon/op/turn/turn.h"
#include "tests/fuzz/one_worker.h"
#include <endian.h>
#include <sys/mman.h>
#include <unistd.h>

#define PEER UINT64_C(7)
#define LEASE UINT64_C(900)
#define HANDLE (UINT64_C(1) << 32)
#define LENGTH UINT64_C(4096)
#define REF UINT64_C(5555)
#define SLOTS 16u
#define ATTACHES 4u /* may write, may too, may only read, has no time left */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct attach {
    struct op_window window;
    struct op_notifier *notifier;
    struct fabric_audit audit;
    uint32_t number; /* the last that it used */
    uint64_t refused;
};

static struct plane *plane;
static struct worker *w;
static struct mailbox control;
static uint64_t now_ns = NSEC_PER_SEC;
static unsigned answers;

static struct plane_session *session;
static struct attach attach[ATTACHES];
static struct ring *ring;
static uint32_t sq_tail, cq_head;
static uint64_t kept, taken;

static void on_done(void *arg, const struct error *result) {
    (void)arg;
    must(result->code == 0);
    answers++;
}

static void turn(void) {
    now_ns += 1000;
    worker_turn(w, now_ns);
    mailbox_drain(&control);
}

static void await(unsigned count) {
    for (unsigned n = 0; answers < count; n++) {
        turn();
        must(n < 1000);
    }
    answers = 0;
}

static void start(void) {
    plane = one_worker_start(&control, now_ns);
    w = &plane->worker[0];
}

static void attach_begin(struct attach *a, unsigned i) {
    *a = (struct attach){.number = 0};
    a->window.worker = w;
    a->window.spec =
        (struct fabric_window_spec){.peer = PEER,
                                    .length = LENGTH,
                                    .rights = i == 2 ? RDMAD_RIGHT_READ : RDMAD_RIGHT_WRITE,
                                    .deadline_ns = i == 3 ? 1 : CLOCK_NEVER,
                                    .lease_id = LEASE,
                                    .audit = &a->audit};
    a->notifier = notifier_new(&session->op, LEASE);
    must(a->notifier != NULL);
    a->notifier->ref = REF + i;
    notifier_hold(a->notifier); /* to be looked at after its window */
    notifier_attach(w, &a->window, a->notifier);
    must(a->window.notifier == a->notifier);
}

static uint32_t waiting_of(const struct attach *a) {
    return __atomic_load_n(&a->notifier->queued, __ATOMIC_ACQUIRE);
}

/* Each notice that waits is one attach's and is charged to the owner's account. */
static void all_charged(void) {
    uint64_t waiting = 0;
    for (unsigned i = 0; i < ATTACHES; i++) {
        must(waiting_of(&attach[i]) <= RDMAD_NOTIFY_DEPTH);
        must(attach[i].audit.refused == attach[i].refused);
        waiting += waiting_of(&attach[i]);
    }
    must(waiting == session->op.account->notices);
    must(waiting == kept - taken);
}

/* As notify_peer.h and wire.h promise, told from the bytes alone. */
static uint64_t expected(struct attach *a, uint64_t peer, const struct notify_message *m) {
    if (!a || peer != PEER)
        return 0;
    uint64_t i = (uint64_t)(a - attach);
    if (m->asks > 1 || m->reserved || m->reserved1 || i > 1 || le64toh(m->length) > LENGTH) {
        a->refused++;
        return 0;
    }
    bool is_new = (int32_t)(le32toh(m->number) - a->number) > 0;
    uint32_t waits = waiting_of(a);
    if (is_new)
        a->number = le32toh(m->number);
    if (is_new && !m->asks && waits == RDMAD_NOTIFY_DEPTH)
        a->refused++;
    else if (is_new && !m->asks)
        kept++, waits++;
    return NOTIFY_KNOWN | (a->number - waits);
}

static void one_message(unsigned who, const uint8_t *data, size_t size) {
    uint64_t peer = who & 0x80 ? PEER + 1 : PEER, want = 0;
    uint8_t *bytes = malloc(size ? size : 1); /* ends where the message does */
    must(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    if (size == sizeof(struct notify_message)) {
        struct notify_message m;
        unsigned i = (who & 0x3f) % (ATTACHES + 1); /* the last is nobody's */
        memcpy(&m, bytes, sizeof(m));
        m.ref = htole64(REF + i);
        if (who & 0x40) /* the next of its attach */
            m.number = htole32((i < ATTACHES ? attach[i].number : 0) + 1);
        memcpy(bytes, &m, sizeof(m));
        want = expected(i < ATTACHES ? &attach[i] : NULL, peer, &m);
    }
    must(notify_received(w, peer, bytes, size) == want);
    free(bytes);
    all_charged();
}

/* The owner asks for one. */
static void one_taken(void) {
    struct rdmad_ring_client *words = (void *)(uintptr_t)ring->client;
    struct rdmad_sqe *sqe = (void *)(uintptr_t)ring->sqe;
    if (session->op.account->notices == 0) /* it would wait */
        return;
    sqe[sq_tail % SLOTS] = (struct rdmad_sqe){.opcode = RDMAD_OP_NOTIFIED, .lease = LEASE};
    ringword_publish(&words->sq_tail, ++sq_tail);
    for (unsigned n = 0; ringword_peek(&ring->daemon->cq_tail) == cq_head; n++) {
        turn();
        must(n < 1000);
    }
    const struct rdmad_cqe *cqe = &ring->cqe[cq_head % ring->cq_entries];
    must(cqe->status == RDMAD_OK && cqe->bytes <= LENGTH);
    ringword_publish(&words->cq_head, ++cq_head);
    taken++;
    all_charged();
}

/* With the lease go the notices that nobody took. */
static void grant_anew(void) {
    plane_grant_drop(session, LEASE, RDMAD_E_LEASE_REVOKED, on_done, NULL);
    await(1);
    taken = kept;
    all_charged();
    plane_grant_add(session, LEASE, on_done, NULL);
    await(1);
}

static void play(const uint8_t *data, size_t size) {
    for (size_t at = 0; at + 2 <= size;) {
        uint8_t what = data[at], who = data[at + 1];
        at += 2;
        if (what >= 0xf8) {
            grant_anew();
        } else if (what >= 0xe0) {
            one_taken();
        } else {
            size_t length = what < size - at ? what : size - at;
            one_message(who, data + at, length);
            at += length;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct error err;
    int fds[RING_FDS];
    if (!plane)
        start();
    if (size < 2 || size > 8192)
        return -1;
    kept = taken = 0;
    sq_tail = cq_head = 0;
    session = plane_session_add(plane, 1, (struct user_id){0}, NULL);
    must(session != NULL);
    must(ring_create(SLOTS, 2 * SLOTS, &ring, fds, &err) == 0);
    must(mprotect((void *)(uintptr_t)ring->client, ring->client_bytes, PROT_READ | PROT_WRITE) ==
         0);
    plane_ring_add(session, HANDLE, ring, on_done, NULL);
    plane_grant_add(session, LEASE, on_done, NULL);
    await(2);
    for (unsigned i = 0; i < ATTACHES; i++)
        attach_begin(&attach[i], i);
    play(data, size);
    for (unsigned i = 0; i < ATTACHES; i++)
        notifier_window_closed(w, &attach[i].window);
    all_charged(); /* what an attach left behind is the owner's still */
    plane_session_drop(session, on_done, NULL);
    await(1);
    for (unsigned i = 0; i < ATTACHES; i++) {
        must(waiting_of(&attach[i]) == 0 && attach[i].notifier->refs == 1);
        notifier_drop(attach[i].notifier);
    }
    for (int i = 0; i < RING_FDS; i++)
        close(fds[i]);
    ring_destroy(ring);
    return 0;
}
