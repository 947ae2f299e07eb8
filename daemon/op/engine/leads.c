/* SPDX-License-Identifier: MIT */
/*
 * leads.c - see leads.h.
 */
#include "daemon/op/engine/leads.h"
#include "daemon/op/engine/kind.h"

struct op_lane *leads_op(const struct op *op) {
    return op->kind && op->kind->lane ? op->kind->lane(op) : op_lane_of(op);
}

struct op_lane *leads_sqe(const struct worker *w, const struct op_session *s,
                          const struct rdmad_sqe *sqe) {
    if (sqe->opcode >= RDMAD_OP_COUNT)
        return NULL;
    const struct op_kind *kind = w->kinds[sqe->opcode];
    if (kind && kind->lane_named)
        return kind->lane_named(s, sqe);
    const struct op_lease *lease =
        op_is_own_time(sqe->opcode) ? slots_get(&s->leases, sqe->lease) : NULL;
    return lease ? op_route_lane(lease->route) : NULL;
}
