/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - from a host's name to its addresses, by the system's own resolver, on threads that
 * may hang.
 *
 * What `getent ahosts NAME` finds is found here, now: /etc/hosts as it is at the moment, whatever
 * /etc/nsswitch.conf lists, DNS if there is any. No descriptor, cache or nameserver of our own.
 *
 * getaddrinfo cannot be interrupted and may take half a minute for a name whose servers are gone.
 * So each look-up has a thread of its own for as long as it lasts, of which there are
 * RESOLVE_THREADS_MAX, and of each uid RESOLVE_EACH_MAX; what is more waits. While half of them are
 * in use, only a uid that has none begins another: whoever names hosts that never answer keeps
 * nobody else waiting. Nothing ever waits for such a thread: who gives up cancels, and the
 * resolver's end leaves it behind; it is counted until it is really over.
 */
#ifndef RDMAD_BASE_RESOLVE_H
#define RDMAD_BASE_RESOLVE_H

#include "daemon/base/error.h"
#include "daemon/base/mailbox.h"
#include <netdb.h>
#include <stdint.h>
#include <sys/types.h>

#define RESOLVE_THREADS_MAX 32u
#define RESOLVE_EACH_MAX 4u

struct resolver;
struct lookup;

/* getaddrinfo, or what tests have instead. */
typedef int resolve_call(const char *host, const char *service, const struct addrinfo *hints,
                         struct addrinfo **found);

/* All that follows belongs to the thread of reply_to. NULL: out of memory. */
struct resolver *resolver_new(struct mailbox *reply_to, resolve_call *call);
/* No done is called any more. Does not wait for look-ups under way. */
void resolver_free(struct resolver *r);

/* found (freeaddrinfo) is done's from then on; NULL when result has a code. */
typedef void resolve_done(void *arg, const struct error *result, struct addrinfo *found);

/* Looks host up on uid's account. done is called once, through the mailbox, unless it is cancelled
 * first; the lookup is gone then. NULL: out of memory. */
struct lookup *resolver_ask(struct resolver *r, const char *host, uint16_t port, uid_t uid,
                            resolve_done *done, void *arg);
void lookup_cancel(struct lookup *l);
/* Somebody else wants the same: it begins on his account if it could not on the first one's. */
void lookup_wanted_by(struct lookup *l, uid_t uid);
/* For who has waited in vain: what it waits for. */
const char *lookup_waits_for(const struct lookup *l);

#endif
