/* SPDX-License-Identifier: MIT */
/*
 * env.h - what the fabrics call back, and what of a worker that reaches.
 */
#ifndef RDMAD_OP_ENV_H
#define RDMAD_OP_ENV_H

#include "daemon/op/engine/worker.h"

/* Opens a fabric of that kind at the worker. host: NULL if the fabric has none. */
int env_open_fabric(struct worker *w, struct op_fabric *fabric, const struct fabric_ops *ops,
                    struct fabric_host *host, struct error *err);

#endif
