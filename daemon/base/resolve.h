/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - from a host's name to its addresses, by the system's own resolver, on threads that
 * may hang.
 *
 * It finds what `getent ahosts NAME` finds: /etc/hosts as it is at the moment, whatever
 * /etc/nsswitch.conf lists, DNS if there is any. There is no descriptor, cache or nameserver of our
 * own.
 *
 * getaddrinfo cannot be interrupted and may take half a minute for a name whose servers are gone.
 * So each look-up has a thread of its own as long as it lasts: at most RESOLVE_THREADS_MAX in all
 * and RESOLVE_EACH_MAX for a user; further look-ups wait. While half of the threads are in use,
 * only a user that has none may begin another: so a user who names hosts that never answer keeps
 * nobody else waiting. Nothing ever waits for such a thread: a look-up that is given up is
 * canceled, and the resolver's end leaves threads behind. Each counts until it has really ended.
 */
#ifndef RDMAD_BASE_RESOLVE_H
#define RDMAD_BASE_RESOLVE_H

#include "daemon/base/error.h"
#include "daemon/base/mailbox.h"
#include "daemon/base/user_id.h"
#include <netdb.h>
#include <stdint.h>

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

/* Looks host up on the user's account. done is called once, through the mailbox, unless it is
 * cancelled first; the lookup is gone then. NULL: out of memory. */
struct lookup *resolver_ask(struct resolver *r, const char *host, uint16_t port,
                            struct user_id user, resolve_done *done, void *arg);
void lookup_cancel(struct lookup *l);
/* Another user wants the same: it begins on that account if it could not on the first one's. */
void lookup_wanted_by(struct lookup *l, struct user_id user);
/* What it waits for, for the sentence when that took too long. */
const char *lookup_waits_for(const struct lookup *l);

#endif
