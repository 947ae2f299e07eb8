/* SPDX-License-Identifier: MIT */
/*
 * untaken.h - how many notices of a session nobody took, told where its client can read it though
 * the daemon is dead.
 *
 * Notices are the daemon's, and go with it. So that nobody loses any without a word, their number
 * stands in the page of one of the session's rings: of the first that is not being dropped. It is
 * never too small there: what comes is told at once, before who left it hears that it did; what was
 * taken is told when the completion was published. When the session ends, with its daemon perhaps,
 * its rings are being dropped before its leases end, so what stands there stays. A session without
 * a ring takes none, and is told nothing.
 */
#ifndef RDMAD_OP_ENGINE_UNTAKEN_H
#define RDMAD_OP_ENGINE_UNTAKEN_H

#include "daemon/op/engine/worker.h"

/* One more. */
void untaken_came(struct op_session *s);
/* One was taken, which is told by untaken_tell_all. */
void untaken_taken(struct worker *w, struct op_session *s);
/* One is gone with its lease. */
void untaken_gone(struct op_session *s);
/* The session has another first ring, perhaps: before its client knows. */
void untaken_tell(const struct op_session *s);
/* At the end of a turn, after completions were published. */
void untaken_tell_all(struct worker *w);

#endif
