/* SPDX-License-Identifier: MIT */
/*
 * validate.h - whether an sqe may become an op.
 */
#ifndef RDMAD_OP_ENGINE_VALIDATE_H
#define RDMAD_OP_ENGINE_VALIDATE_H

#include "daemon/op/engine/op.h"

/* Returns 0 and fills *rq, or the code of the first thing wrong. *lease_id is the owner's number
 * when the status concerns a lease, else 0. */
int op_validate(const struct op_session *s, const struct plane_settings *settings, uint64_t now_ns,
                const struct rdmad_sqe *sqe, struct op_request *rq, uint64_t *lease_id);

/* The moment from which ops on the lease fail as expired. */
uint64_t op_lease_limit_ns(const struct op_lease *lease, const struct plane_settings *settings);

#endif
