/* SPDX-License-Identifier: MIT */
/*
 * A ring as a client may write it: whatever words and entries are in it, the daemon takes only what
 * was published and has room for an answer, or says that the ring is broken; and of what it took
 * exactly those entries become ops that abi.h's table describes, that stay in their pool and lease,
 * and that the lease allows now. The judge here is written from that table, not from validate.c.
 */
#include "common/ringword.h"
#include "daemon/base/clock.h"
#include "daemon/ipc/ring.h"
#include "daemon/op/engine/validate.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/sqe_moves.h"
#include <sys/mman.h>
#include <unistd.h>

#define POOL_BYTES 8192u
#define LEASE_BYTES 4096u
#define LEASE_ID 4711u
#define NOW UINT64_C(1000000000000)
#define MARGIN NSEC_PER_SEC
#define TIMEOUT_MAX UINT64_C(1000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct op_session session;
static struct op_pool pool;
static struct op_lease lease;
static struct op_route route;
static uint64_t pool_handle, lease_handle;
static uint8_t memory[POOL_BYTES];
static const struct plane_settings settings = {
    .default_timeout_ns = 10, .max_timeout_ns = TIMEOUT_MAX, .expiry_margin_ns = MARGIN};

/* ---- what is good, by abi.h ---------------------------------------------------------------- */

static bool is_transfer(uint8_t opcode) {
    return opcode == RDMAD_OP_READ || opcode == RDMAD_OP_WRITE || opcode == RDMAD_OP_NOTIFY;
}

static bool is_atomic(uint8_t opcode) {
    return opcode == RDMAD_OP_CAS || opcode == RDMAD_OP_FADD;
}

static bool is_message(uint8_t opcode) {
    return opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_RECV;
}

static bool lies_in(uint64_t bytes, uint64_t offset, uint64_t length) {
    return length <= bytes && offset <= bytes - length;
}

static bool flags_are_good(const struct rdmad_sqe *q) {
    unsigned may = 0;
    if (is_transfer(q->opcode) || q->opcode == RDMAD_OP_SEND || is_atomic(q->opcode))
        may |= RDMAD_SQE_FENCE | RDMAD_SQE_SILENT | RDMAD_SQE_LINK;
    if (is_transfer(q->opcode) || q->opcode == RDMAD_OP_SEND)
        may |= RDMAD_SQE_MORE;
    if (q->opcode == RDMAD_OP_SEND)
        may |= RDMAD_SQE_IMM | RDMAD_SQE_LEASE;
    bool of_last = q->flags & (RDMAD_SQE_SILENT | RDMAD_SQE_LINK);
    return !(q->flags & ~may) && !(q->flags & RDMAD_SQE_MORE && of_last);
}

/* What the opcode's row of the table leaves empty is 0. */
static bool row_is_good(const struct rdmad_sqe *q) {
    bool imm = q->opcode == RDMAD_OP_NOTIFY || q->flags & RDMAD_SQE_IMM;
    bool buffer = is_transfer(q->opcode) || is_message(q->opcode);
    if (q->reserved0 || (q->imm && !imm))
        return false;
    if (!buffer && !is_atomic(q->opcode) && (q->pool || q->pool_offset || q->length))
        return false;
    if (q->opcode == RDMAD_OP_FADD && q->compare)
        return false;
    if (q->opcode == RDMAD_OP_NOP && q->lease)
        return false;
    return !q->lease_offset || is_transfer(q->opcode) || is_atomic(q->opcode);
}

static bool buffer_is_good(const struct rdmad_sqe *q) {
    if (q->opcode == RDMAD_OP_NOTIFY && !q->pool && !q->pool_offset && !q->length)
        return true;
    return q->pool == pool_handle && lies_in(POOL_BYTES, q->pool_offset, q->length);
}

static bool lease_is_good(const struct rdmad_sqe *q) {
    unsigned right = is_atomic(q->opcode)         ? RDMAD_RIGHT_ATOMIC
                     : q->opcode == RDMAD_OP_READ ? RDMAD_RIGHT_READ
                                                  : RDMAD_RIGHT_WRITE;
    uint64_t left = lease.deadline_ns - NOW;
    if (q->lease != lease_handle || lease.reason || !lease.route || !(lease.rights & right))
        return false;
    return left > (lease.leased_link ? MARGIN : 0) &&
           lies_in(LEASE_BYTES, q->lease_offset, q->length);
}

static bool is_good(const struct rdmad_sqe *q) {
    if (q->opcode >= RDMAD_OP_COUNT || !flags_are_good(q) || !row_is_good(q))
        return false;
    if (is_atomic(q->opcode) && (q->length != 8 || q->lease_offset % 8))
        return false;
    if ((is_transfer(q->opcode) || is_message(q->opcode)) && !buffer_is_good(q))
        return false;
    return !(is_transfer(q->opcode) || is_atomic(q->opcode)) || lease_is_good(q);
}

static void judge(const struct rdmad_sqe *q) {
    struct op_request rq = {0};
    uint64_t id = 12345;
    int status = op_validate(&session, &settings, NOW, q, &rq, &id);
    must(is_good(q) == !status);
    must(id == 0 || (status && id == LEASE_ID && q->lease == lease_handle));
    must(status <= 0 && status > -(int)PLANE_CODES);
    if (status || q->opcode == RDMAD_OP_NOP)
        return;
    if (rq.local)
        must(rq.local >= memory && q->length <= POOL_BYTES &&
             (size_t)(rq.local - memory) <= POOL_BYTES - q->length);
    bool endless = q->opcode == RDMAD_OP_RECV || q->opcode == RDMAD_OP_NOTIFIED;
    must(rq.deadline_ns >= NOW && (endless || rq.deadline_ns <= NOW + TIMEOUT_MAX));
    must(!rq.lease || rq.lease == &lease);
    must(!rq.pool || rq.pool == &pool);
}

/* ---- a ring -------------------------------------------------------------------------------- */

struct world {
    struct ring *ring;
    struct rdmad_ring_client *words;
    struct rdmad_sqe *sqe;
    int fds[RING_FDS];
    uint32_t taken, pending, ended; /* sqes; ops of them that have no answer; answers */
    uint32_t tail;                  /* as an honest client would count */
};

/* The client may write its half: here it is us. */
static void world_make(struct world *w) {
    struct error err;
    *w = (struct world){0};
    must(ring_create(16, 16, &w->ring, w->fds, &err) == 0);
    must(mprotect(w->ring->client_memory.base, w->ring->client_bytes, PROT_READ | PROT_WRITE) == 0);
    w->words = w->ring->client_memory.base;
    w->sqe = (void *)((uint8_t *)w->ring->client_memory.base + RDMAD_RING_ENTRIES_OFFSET);
}

static void world_end(const struct world *w) {
    ring_destroy(w->ring);
    for (unsigned i = 0; i < RING_FDS; i++)
        close(w->fds[i]);
}

static void lease_make(uint8_t what) {
    lease = (struct op_lease){.lease_id = LEASE_ID,
                              .length = LEASE_BYTES,
                              .deadline_ns = NOW + (what & SQE_LEASE_ENDED ? 0 : MARGIN),
                              .rights = what & RDMAD_RIGHTS_ALL,
                              .route = what & SQE_LEASE_GONE ? NULL : &route,
                              .reason = what & SQE_LEASE_REASON ? RDMAD_E_LEASE_REVOKED : 0,
                              .leased_link = what & SQE_LEASE_LINK};
    if (what & RDMAD_RIGHT_DELEGATE)
        lease.deadline_ns += 1;
}

static void start(void) {
    slots_init(&session.pools, 16);
    slots_init(&session.leases, 16);
    pool = (struct op_pool){.base = memory, .bytes = POOL_BYTES};
    for (unsigned i = 0; i < 3; i++) { /* not the first handles */
        slots_remove(&session.pools, slots_add(&session.pools, &pool));
        slots_remove(&session.leases, slots_add(&session.leases, &lease));
    }
    pool_handle = slots_add(&session.pools, &pool);
    lease_handle = slots_add(&session.leases, &lease);
    must(pool_handle && lease_handle && pool_handle != lease_handle + 1);
}

/* What a worker does with a ring in its turn. False: it is broken. */
static bool take_all(struct world *w) {
    uint32_t count, published = ringword_peek(&w->words->sq_tail) - w->taken;
    int rc = ring_available(w->ring, &count);
    must(rc == 0 || rc == RDMAD_E_RING);
    if (published > w->ring->sq_entries)
        must(rc == RDMAD_E_RING);
    must(rc == 0 || count == 0);
    must(count <= published && w->pending + count <= w->ring->cq_entries);
    while (count--) {
        struct rdmad_sqe copy;
        must(ring_next_opcode(w->ring) == w->sqe[w->taken % w->ring->sq_entries].opcode);
        ring_take(w->ring, &copy);
        must(memcmp(&copy, &w->sqe[w->taken % w->ring->sq_entries], sizeof(copy)) == 0);
        w->taken++;
        w->pending++;
        judge(&copy);
    }
    must(w->ring->sq_head == w->taken && w->ring->cq_reserved == w->pending);
    return rc == 0;
}

static void end_one(struct world *w, bool silent) {
    const struct rdmad_cqe cqe = {.status = -1};
    if (!w->pending)
        return;
    if (silent) {
        ring_release(w->ring);
    } else {
        must(w->ended - w->ring->cq_head_seen < w->ring->cq_entries);
        ring_complete(w->ring, &cqe);
        w->ended++;
    }
    w->pending--;
}

static void look(struct world *w) {
    (void)ring_ask_alive(w->ring);
    ring_tell_crowded(w->ring, w->pending & 1);
    if (ring_arm(w->ring)) {
        must(ringword_peek(&w->words->sq_tail) == w->taken || w->pending + w->ended > 0);
        ring_disarm(w->ring);
    }
    must(w->ring->daemon->ask != UINT32_MAX);
}

/* ---- the input ----------------------------------------------------------------------------- */

struct input {
    const uint8_t *data;
    size_t size;
};

/* Zeros behind its end. */
static void read_bytes(struct input *in, void *to, size_t n) {
    size_t there = n < in->size ? n : in->size;
    memset(to, 0, n);
    memcpy(to, in->data, there);
    in->data += there;
    in->size -= there;
}

static uint32_t read_u32(struct input *in) {
    uint32_t v;
    read_bytes(in, &v, sizeof(v));
    return v;
}

static void read_sqe(struct input *in, struct rdmad_sqe *to, bool handles) {
    read_bytes(in, to, sizeof(*to));
    if (!handles)
        return;
    if (to->pool && !is_atomic(to->opcode))
        to->pool = pool_handle;
    if (to->lease)
        to->lease = lease_handle;
}

static void move(struct world *w, uint8_t what, struct input *in) {
    bool handles = what & SQE_HANDLES;
    uint32_t mask = w->ring->sq_entries - 1;
    switch (what % SQE_MOVES) {
    case SQE_SUBMIT:
        read_sqe(in, &w->sqe[w->tail++ & mask], handles);
        ringword_publish(&w->words->sq_tail, w->tail);
        break;
    case SQE_TAIL:
        w->tail = read_u32(in);
        ringword_publish(&w->words->sq_tail, w->tail);
        break;
    case SQE_HEAD:
        ringword_publish(&w->words->cq_head, handles ? w->ring->cq_tail_published : read_u32(in));
        break;
    case SQE_WORDS:
        ringword_publish(&w->words->cq_wait, read_u32(in));
        ringword_publish(&w->words->alive, read_u32(in));
        break;
    case SQE_FLUSH:
        (void)ring_flush(w->ring, true);
        break;
    case SQE_END:
        end_one(w, handles);
        break;
    case SQE_LOOK:
        look(w);
        break;
    default:
        read_sqe(in, &w->sqe[w->taken & mask], handles);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, size};
    struct world w;
    uint8_t byte;
    if (!pool_handle)
        start();
    if (size < 2 || size > 8192)
        return -1;
    read_bytes(&in, &byte, 1);
    lease_make(byte);
    world_make(&w);
    do {
        read_bytes(&in, &byte, 1);
        move(&w, byte, &in);
    } while (take_all(&w) && in.size);
    ring_leave(w.ring, size & 1);
    ring_tell_untaken(w.ring, w.pending);
    ring_let_go(w.ring);
    world_end(&w);
    return 0;
}
