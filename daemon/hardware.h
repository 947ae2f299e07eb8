/* SPDX-License-Identifier: MIT */
/*
 * hardware.h - whether this machine has RDMA that rdmad could use, and if not, what is missing.
 */
#ifndef RDMAD_HARDWARE_H
#define RDMAD_HARDWARE_H

#include "daemon/base/error.h"

/* 0, or RDMAD_E_FABRIC with what is missing and the next step. */
int hardware_require(struct error *err);

#endif
