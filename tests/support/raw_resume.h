/* SPDX-License-Identifier: MIT */
/*
 * raw_resume.h - rawclient.h's client shows a later daemon which session it was, and hands back
 * what it has; or says that it was, and had.
 */
#ifndef RDMAD_TEST_RAW_RESUME_H
#define RDMAD_TEST_RAW_RESUME_H

#include "tests/support/harness.h"
#include "tests/support/rawclient.h"

/* A session that can be resumed. The case is skipped where none can. */
int raw_offered(struct tdaemon *d, struct rdmad_resume_proof *proof);
/* A pool of such a session, ready, full of sevens. */
void raw_pool_to_keep(int sock, size_t bytes, struct raw_pool *p);

/* These return the status of the answer; text (RDMAD_TEXT_MAX + 1) says why it was refused. */
int raw_offer(int sock, struct rdmad_resume_proof *out, char *text);
int raw_prove(int sock, const struct rdmad_resume_proof *proof);
/* Handed back, and ready. */
int raw_pool_back(int sock, uint64_t number, const struct raw_pool *p, char *text);
int raw_lease_back(int sock, const struct rdmad_lease_resume_req *req,
                   struct rdmad_lease_grant_rep *out);

#endif
