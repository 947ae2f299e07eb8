/* SPDX-License-Identifier: MIT */
/*
 * audit_cause.h - which errors somebody should hear of who asks what strangers tried.
 */
#ifndef RDMAD_BASE_AUDIT_CAUSE_H
#define RDMAD_BASE_AUDIT_CAUSE_H

/* The audit's word for an RDMAD_E_* code: "limit", "permission". NULL: an honest program's everyday
 * errors, which are nobody's business. */
const char *audit_cause_of(int code);

#endif
