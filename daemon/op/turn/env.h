/* SPDX-License-Identifier: MIT */
/*
 * env.h - what the fabrics call, and whom of a worker that reaches.
 */
#ifndef RDMAD_OP_ENV_H
#define RDMAD_OP_ENV_H

#include "daemon/op/engine/worker.h"

/* A fabric of that kind at the worker, which it calls back. host: NULL when it has none. */
int env_open_fabric(struct worker *w, struct op_fabric *fabric, const struct fabric_ops *ops,
                    struct fabric_host *host, struct error *err);

#endif
