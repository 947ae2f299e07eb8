/* SPDX-License-Identifier: MIT */
/*
 * validate.c - the one place that says whether an sqe may become an op.
 *
 * It looks only at the private copy of the sqe, checks from the general to the particular, and
 * answers with the code of the first thing wrong:
 *
 *   OPCODE         it is unknown
 *   RESERVED       not zero: a flag that is unknown or not of this opcode, a reserved field, or a
 *                  field that the opcode does not use; SILENT or LINK with MORE, because they
 *                  belong on the batch's last entry
 *   ALIGN          CAS, FADD: not 8 bytes, or not at a multiple of 8
 *   HANDLE         the pool's handle names nothing of this session
 *   NO_LEASE       the lease's handle names nothing of this session
 *   LEASE_*        the lease ended, and why
 *   LEASE_EXPIRED  its time is up, though nobody said so yet
 *   PEER_LOST      the owner's daemon is gone (a link that may come back is no reason)
 *   RIGHTS         the lease does not grant the opcode's right
 *   RANGE          outside the pool, or (with the lease's number) outside the lease
 *
 * Channels, grants and batches are asked after it. The fabric checks once more what it lets
 * through.
 */
#include "daemon/op/engine/validate.h"
#include "daemon/base/clock.h"
#include "daemon/op/engine/op.h"

/* What an opcode's sqe looks like; abi.h has it as a table, too. */
struct op_form {
    uint8_t flags;  /* that it may have */
    uint8_t rights; /* that its lease must grant; 0: it names none */
    bool pool;      /* pool and pool_offset are a buffer, length its bytes */
    bool atomic;
    bool imm;     /* always; else SEND's flag tells */
    bool endless; /* has no deadline unless it is given one */
    /* All ones for fields that it leaves unused. */
    uint64_t no_compare, no_swap, no_length, no_lease, no_lease_offset;
};

#define IN_ORDER (RDMAD_SQE_FENCE | RDMAD_SQE_SILENT | RDMAD_SQE_LINK)
#define IN_BATCH (IN_ORDER | RDMAD_SQE_MORE)
#define NO UINT64_MAX

static const struct op_form forms[RDMAD_OP_COUNT] = {
    [RDMAD_OP_NOP] =
        {.no_compare = NO, .no_swap = NO, .no_length = NO, .no_lease = NO, .no_lease_offset = NO},
    [RDMAD_OP_READ] = {.flags = IN_BATCH, .rights = RDMAD_RIGHT_READ, .pool = true},
    [RDMAD_OP_WRITE] = {.flags = IN_BATCH, .rights = RDMAD_RIGHT_WRITE, .pool = true},
    [RDMAD_OP_NOTIFY] = {.flags = IN_BATCH, .rights = RDMAD_RIGHT_WRITE, .pool = true, .imm = true},
    [RDMAD_OP_CAS] = {.flags = IN_ORDER, .rights = RDMAD_RIGHT_ATOMIC, .atomic = true},
    [RDMAD_OP_FADD] = {.flags = IN_ORDER,
                       .rights = RDMAD_RIGHT_ATOMIC,
                       .atomic = true,
                       .no_compare = NO},
    [RDMAD_OP_SEND] = {.flags = IN_BATCH | RDMAD_SQE_IMM | RDMAD_SQE_LEASE,
                       .pool = true,
                       .no_lease_offset = NO},
    [RDMAD_OP_RECV] = {.pool = true, .endless = true, .no_lease_offset = NO},
    [RDMAD_OP_NOTIFIED] =
        {.endless = true, .no_compare = NO, .no_swap = NO, .no_length = NO, .no_lease_offset = NO},
    [RDMAD_OP_CANCEL] = {.no_compare = NO, .no_swap = NO, .no_length = NO, .no_lease_offset = NO},
};

/* Whether [offset, offset + length) lies in [0, size). */
static bool covers(uint64_t size, uint64_t offset, uint64_t length) {
    uint64_t end;
    return !__builtin_add_overflow(offset, length, &end) && end <= size;
}

static bool flags_fit(const struct op_form *form, const struct rdmad_sqe *sqe) {
    const uint8_t of_last = RDMAD_SQE_SILENT | RDMAD_SQE_LINK;
    bool misplaced = sqe->flags & RDMAD_SQE_MORE && sqe->flags & of_last;
    bool imm = form->imm || sqe->flags & RDMAD_SQE_IMM;
    return !(sqe->flags & ~form->flags) && !misplaced && (imm || !sqe->imm);
}

static int check_form(const struct op_form *form, const struct rdmad_sqe *sqe) {
    uint64_t unused = (sqe->compare & form->no_compare) | (sqe->swap & form->no_swap) |
                      (sqe->length & form->no_length) | (sqe->lease & form->no_lease) |
                      (sqe->lease_offset & form->no_lease_offset) | sqe->reserved0;
    if (unused || ((sqe->flags | sqe->imm) && !flags_fit(form, sqe)))
        return RDMAD_E_RESERVED;
    if (form->atomic && (sqe->length != 8 || sqe->lease_offset % 8))
        return RDMAD_E_ALIGN;
    return 0;
}

uint64_t op_lease_limit_ns(const struct op_lease *lease, const struct plane_settings *settings) {
    /* A local copy stops at the deadline itself. Bytes on their way to a peer need time to stop. */
    if (!lease->leased_link)
        return lease->deadline_ns;
    uint64_t margin = settings->expiry_margin_ns;
    return lease->deadline_ns > margin ? lease->deadline_ns - margin : 0;
}

static int check_lease(const struct op_lease *lease, const struct plane_settings *settings,
                       uint64_t now_ns, const struct rdmad_sqe *sqe) {
    if (lease->reason)
        return lease->reason;
    if (now_ns >= op_lease_limit_ns(lease, settings))
        return RDMAD_E_LEASE_EXPIRED;
    if (!lease->route)
        return RDMAD_E_PEER_LOST;
    if (!(lease->rights & forms[sqe->opcode].rights))
        return RDMAD_E_RIGHTS;
    if (!covers(lease->length, sqe->lease_offset, sqe->length))
        return RDMAD_E_RANGE;
    return 0;
}

static uint64_t deadline_of(const struct rdmad_sqe *sqe, const struct plane_settings *settings,
                            uint64_t now_ns) {
    uint64_t timeout = sqe->timeout_ns;
    if (forms[sqe->opcode].endless)
        return timeout ? clock_after(now_ns, timeout) : CLOCK_NEVER;
    if (!timeout)
        timeout = settings->default_timeout_ns;
    if (timeout > settings->max_timeout_ns)
        timeout = settings->max_timeout_ns;
    return clock_after(now_ns, timeout);
}

/* A NOTIFY of no bytes needs no buffer. */
static bool has_pool(const struct op_form *form, const struct rdmad_sqe *sqe) {
    return form->pool && !(form->imm && !(sqe->length | sqe->pool | sqe->pool_offset));
}

static int find_pool(const struct op_session *s, const struct rdmad_sqe *sqe,
                     struct op_request *rq) {
    rq->pool = slots_get(&s->pools, sqe->pool);
    return rq->pool ? 0 : RDMAD_E_HANDLE;
}

static int find_range(const struct rdmad_sqe *sqe, struct op_request *rq) {
    if (!covers(rq->pool->bytes, sqe->pool_offset, sqe->length))
        return RDMAD_E_RANGE;
    rq->local = rq->pool->base + sqe->pool_offset;
    return 0;
}

static int find_lease(const struct op_session *s, const struct plane_settings *settings,
                      uint64_t now_ns, const struct rdmad_sqe *sqe, struct op_request *rq,
                      uint64_t *lease_id) {
    rq->lease = slots_get(&s->leases, sqe->lease);
    if (!rq->lease)
        return RDMAD_E_NO_LEASE;
    int status = check_lease(rq->lease, settings, now_ns, sqe);
    if (status)
        *lease_id = rq->lease->lease_id;
    return status;
}

int op_validate(const struct op_session *s, const struct plane_settings *settings, uint64_t now_ns,
                const struct rdmad_sqe *sqe, struct op_request *rq, uint64_t *lease_id) {
    *lease_id = 0;
    if (sqe->opcode >= RDMAD_OP_COUNT)
        return RDMAD_E_OPCODE;
    const struct op_form *form = &forms[sqe->opcode];
    int status = check_form(form, sqe);
    if (status || sqe->opcode == RDMAD_OP_NOP)
        return status;

    *rq = (struct op_request){.order = rq->order, .batch = rq->batch};
    bool pool = has_pool(form, sqe);
    if (pool && (status = find_pool(s, sqe, rq)))
        return status;
    if (form->rights && (status = find_lease(s, settings, now_ns, sqe, rq, lease_id)))
        return status;
    if (pool && (status = find_range(sqe, rq)))
        return status;
    rq->deadline_ns = deadline_of(sqe, settings, now_ns);
    return 0;
}
