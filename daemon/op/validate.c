/* SPDX-License-Identifier: MIT */
/*
 * validate.c - the one place that says whether an sqe may become an op.
 *
 * It looks only at the private copy of the sqe, checks from the general to the particular, and
 * answers with the code of the first thing wrong:
 *
 *   OPCODE            unknown opcode
 *   RESERVED          a flag, a reserved field, or a NOP's unused field is not zero
 *   HANDLE            the pool's handle names nothing of this session
 *   NO_LEASE          the lease's handle names nothing of this session
 *   LEASE_*           the lease ended, and why
 *   LEASE_EXPIRED     its time is up, though nobody said so yet
 *   PEER_LOST         the owner's daemon is gone (a connection that may come back is no reason)
 *   RIGHTS            the lease does not grant the opcode's right
 *   RANGE             outside the pool, or (with the lease's number) outside the lease
 *
 * What it lets through, the fabric checks once more at its own door.
 */
#include "daemon/base/clock.h"
#include "daemon/op/op.h"

/* Whether [offset, offset + length) lies in [0, size). */
static bool covers(uint64_t size, uint64_t offset, uint64_t length) {
    uint64_t end;
    return !__builtin_add_overflow(offset, length, &end) && end <= size;
}

static int check_form(const struct rdmad_sqe *sqe) {
    if (sqe->opcode >= RDMAD_OP_COUNT)
        return RDMAD_E_OPCODE;
    if (sqe->flags || sqe->reserved0 || sqe->imm)
        return RDMAD_E_RESERVED;
    if (sqe->opcode == RDMAD_OP_NOP &&
        (sqe->pool | sqe->pool_offset | sqe->length | sqe->lease | sqe->lease_offset))
        return RDMAD_E_RESERVED;
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
    uint32_t right = sqe->opcode == RDMAD_OP_READ ? RDMAD_RIGHT_READ : RDMAD_RIGHT_WRITE;
    if (!(lease->rights & right))
        return RDMAD_E_RIGHTS;
    if (!covers(lease->length, sqe->lease_offset, sqe->length))
        return RDMAD_E_RANGE;
    return 0;
}

static uint64_t deadline_of(const struct rdmad_sqe *sqe, const struct plane_settings *settings,
                            uint64_t now_ns) {
    uint64_t timeout = sqe->timeout_ns ? sqe->timeout_ns : settings->default_timeout_ns;
    if (timeout > settings->max_timeout_ns)
        timeout = settings->max_timeout_ns;
    return clock_after(now_ns, timeout);
}

int op_validate(const struct op_session *s, const struct plane_settings *settings, uint64_t now_ns,
                const struct rdmad_sqe *sqe, struct op_request *rq, uint64_t *lease_id) {
    *lease_id = 0;
    int status = check_form(sqe);
    if (status || sqe->opcode == RDMAD_OP_NOP)
        return status;

    rq->pool = slots_get(&s->pools, sqe->pool);
    if (!rq->pool)
        return RDMAD_E_HANDLE;
    rq->lease = slots_get(&s->leases, sqe->lease);
    if (!rq->lease)
        return RDMAD_E_NO_LEASE;
    status = check_lease(rq->lease, settings, now_ns, sqe);
    if (status) {
        *lease_id = rq->lease->lease_id;
        return status;
    }
    if (!covers(rq->pool->bytes, sqe->pool_offset, sqe->length))
        return RDMAD_E_RANGE;

    rq->local = rq->pool->base + sqe->pool_offset;
    rq->deadline_ns = deadline_of(sqe, settings, now_ns);
    return 0;
}
