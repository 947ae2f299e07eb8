/* SPDX-License-Identifier: MIT */
/*
 * drain.h - a daemon that an administrator wants to stop takes nothing new, and sees what it has to
 * its end.
 *
 * The happy path: drain_begin pauses every session, and from then on new sessions, leases,
 * attaches, services and channels are refused; when drain_settled and drain_ops is 0 for each
 * session, no op is in flight and the daemon may be stopped, whenever that is wanted. drain_end
 * takes all of it back. A stop or an upgrade goes on from there, and the next life is not drained.
 *
 * Who was paused by somebody else stays paused after drain_end.
 */
#ifndef RDMAD_STATE_DRAIN_H
#define RDMAD_STATE_DRAIN_H

#include "daemon/state/session.h"

/* uid: whose doing it is. Once more: nothing but that name. */
void drain_begin(struct state *st, uid_t uid);
void drain_end(struct state *st, uid_t uid);
/* All workers have said that they read no ring any more. */
bool drain_settled(const struct state *st);

/* How many ops of the session have to end here: those in flight, but for SENDs that wait for a RECV
 * and are the next daemon's. RECVs and NOTIFIEDs are not counted, nor is what stands in rings. */
uint64_t drain_ops(const struct session *s);
/* Whether some of them may be waiting for a RECV that nobody takes from its ring any more: SENDs,
 * and what stands behind them. */
bool drain_may_stand(const struct session *s);

#endif
