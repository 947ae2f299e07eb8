/* SPDX-License-Identifier: MIT */
/*
 * audit_cause.c - a table.
 */
#include "daemon/base/audit_cause.h"
#include <rdmad/abi.h>
#include <stddef.h>

const char *audit_cause_of(int code) {
    switch (code) {
    case RDMAD_E_LIMIT:
    case RDMAD_E_BUDGET:
        return "limit";
    case RDMAD_E_PERM:
        return "permission";
    case RDMAD_E_NO_LEASE:
        return "secret";
    case RDMAD_E_SCOPE:
        return "scope";
    case RDMAD_E_RIGHTS:
    case RDMAD_E_DELEGATE:
        return "rights";
    case RDMAD_E_FDS:
        return "descriptor";
    case RDMAD_E_RING:
        return "ring";
    case RDMAD_E_FAULT:
        return "memory";
    case RDMAD_E_FABRIC:
        return "fabric";
    case RDMAD_E_VERSION:
        return "version";
    case RDMAD_E_PROTOCOL:
    case RDMAD_E_TYPE:
    case RDMAD_E_LENGTH:
    case RDMAD_E_RESERVED:
        return "protocol";
    default:
        return NULL;
    }
}
