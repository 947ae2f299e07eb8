/* SPDX-License-Identifier: MIT */
/*
 * weak_qp.h - QPs of weak messages (wire/page.h), for both ends: one of a kind in INIT, and from
 * there to RTS.
 */
#ifndef RDMAD_FABRIC_VERBS_INSTANCE_WEAK_QP_H
#define RDMAD_FABRIC_VERBS_INSTANCE_WEAK_QP_H

#include "daemon/fabric/verbs/instance/qp.h"
#include "daemon/fabric/verbs/wire/page.h"

int weak_qp_make(struct verbs *v, struct queue *q, enum weak_kind kind, const struct qp_spec *spec,
                 struct error *err);
/* path is a QP that is connected to the same port there. 0 or an errno, as is weak_qp_path, which
 * has the AV and PATH_MTU of it. */
int weak_qp_open(struct queue *q, enum weak_kind kind, const struct queue *path, uint32_t other,
                 uint32_t psn);
int weak_qp_path(const struct queue *path, struct ibv_qp_attr *out);

#endif
