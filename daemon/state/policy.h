/* SPDX-License-Identifier: MIT */
/*
 * policy.h - who may do what on this node: users, and other daemons by their names.
 *
 * What is said here is the outcome of the configuration's rules (config/rules.h) and of what was
 * set at run time, which counts as a last rule and lasts until the daemon ends. Of the rules that
 * match somebody, the last that sets a key decides it; where none does, a default stands.
 *
 * Who asks enforces it and refuses in words (RDMAD_E_PERM). A struct policy that is NULL is that of
 * a daemon whose configuration has no rules. Control thread only.
 */
#ifndef RDMAD_STATE_POLICY_H
#define RDMAD_STATE_POLICY_H

#include "daemon/config/config.h"
#include "daemon/config/rules.h"
#include "daemon/plane/plane.h"
#include "daemon/state/quota.h"
#include <stdbool.h>
#include <stdint.h>

struct policy;

/* c's rules are read, and stay c's: after they were replaced comes policy_reload, before the old
 * ones are freed. NULL: out of memory. */
struct policy *policy_new(const struct config *c);
void policy_reload(struct policy *p, const struct config *c);
void policy_free(struct policy *p); /* NULL is allowed */

/* ---- users --------------------------------------------------------------------------------- */

/* A user, as the kernel tells of the socket that it came by. */
struct policy_who {
    uid_t uid;
    const gid_t *gids; /* all of them, count of them */
    unsigned ngids;
    const char *socket; /* the tenant whose socket it is; "": rdmad.sock, control.sock */
};

struct policy_value {
    uint64_t number;
    const struct rule_list *list; /* NULL: everything */
    const struct rule *rule;      /* that decided; NULL: the default */
    unsigned line;                /* in the rule's file; 0: set at run time */
};

/* All that is decided of a user, by enum rule_key. Limits that no rule sets have no number: those
 * of the settings hold. Valid until the next policy_reload or policy_set. */
struct user_policy {
    uid_t uid;
    struct policy_value value[RULE_KEYS];
};
void policy_user(const struct policy *p, const struct policy_who *who, struct user_policy *out);

/* Whether who would administer if it were in the group that does: the machine has one, and no rule
 * says otherwise. u is what policy_user said of who. */
bool policy_group_would_do(const struct policy *p, const struct policy_who *who,
                           const struct user_policy *u);

static inline bool policy_allows(const struct user_policy *u, enum rule_key key) {
    return u->value[key].number != 0;
}
static inline enum rule_admin policy_admin(const struct user_policy *u) {
    return (enum rule_admin)u->value[RULE_ADMIN].number;
}
struct plane_share policy_user_share(const struct user_policy *u);

/* Each: 0, or RDMAD_E_PERM and the sentence, with the place of the rule. */
int policy_check_connect(const struct user_policy *u, struct error *err);
/* scope UINT32_MAX: as it was granted before. */
int policy_check_huge_pages(const struct user_policy *u, struct error *err);
int policy_check_grant(const struct user_policy *u, uint32_t scope, uint32_t rights,
                       struct error *err);
int policy_check_attach(const struct user_policy *u, uint32_t rights, struct error *err);
/* The user publishes a name ("" needs no permission); reaches one, here or elsewhere; reaches
 * a peer: by its certificate's name, or by its host as the URI names it if it has none. */
int policy_check_publish(const struct user_policy *u, const char *name, struct error *err);
int policy_check_reach(const struct user_policy *u, const char *name, struct error *err);
int policy_check_peer(const struct user_policy *u, const char *peer, struct error *err);
bool policy_reaches(const struct user_policy *u, const char *name);
bool policy_reaches_peers(const struct user_policy *u); /* any at all */

/* The limits of the user's account and sessions: those of c with what the rules set. Returns
 * whether they set any. */
bool policy_limits(const struct user_policy *u, const struct config *c, struct quota_limits *out);
/* c's settings with the user's limits in their place. */
void policy_settings(const struct user_policy *u, const struct config *c, struct config *out);

/* ---- peers --------------------------------------------------------------------------------- */

/* Beginnings of names. Every name begins with "". */
struct policy_prefixes {
    bool any; /* every name; else those that begin with one of the list */
    const char *const *list;
    unsigned count;
};
bool policy_prefixes_admit(const struct policy_prefixes *p, const char *name);

/*
 * What another daemon may do. Enforced by peer/:
 *
 *   dials      it may connect to this daemon: asked at its hello, when its name is known
 *   dialled    clients here may have it dialled: asked when its name is known, after our hello
 *   attach     its clients may attach to leases here, connect to services and request memory
 *   names      published leases and services here that it may see, attach to and connect to; a
 *              lease without a name is not restricted by it
 *   registered_bytes  of leases here that it may have opened at one time
 *   attaches   to leases here that its clients may hold at one time
 *   notifications     of those that may wait for owners here: RDMAD_NOTIFY_DEPTH of each attach
 *              that may notify, so one that has no room for that is refused
 *   channels   to services here, those that wait to be accepted, too
 *   connections       to this daemon
 *   messages_per_second, questions_per_second  that are heard of all its connections together
 *              (peer/control/rates.h); what is more waits
 *   share      of each worker's and link's bytes and time
 *
 * Each value's place is in value[], for messages: policy_place.
 */
struct peer_policy {
    bool dials, dialled, attach;
    struct policy_prefixes names;
    uint64_t registered_bytes; /* UINT64_MAX: no limit but those of the leases' owners */
    uint64_t attaches, notifications, channels, connections; /* UINT64_MAX: no limit by name */
    uint64_t messages_per_second, questions_per_second;      /* 0: no rate */
    struct plane_share share;
    struct policy_value value[RULE_KEYS];
};

/* name: the peer's, from its certificate; "" is a peer without identity, whatever it calls itself.
 * Never NULL. Valid until the next call, policy_set or reload: copy what is kept, and ask again
 * where it matters. */
const struct peer_policy *policy_peer(const struct policy *p, const char *name);

/* ---- at run time, and for show ------------------------------------------------------------- */

/* Sets a number at run time: of a uid (peer NULL), by whatever socket it comes, or of a peer's name
 * or pattern. 0, or RDMAD_E_INVAL, RDMAD_E_LIMIT or RDMAD_E_NOMEM and why. */
int policy_set(struct policy *p, uid_t uid, const char *peer, enum rule_key key, int64_t value,
               struct error *err);
/* The same of a uid that comes by the tenant's socket: that counts before what is set of the uid,
 * whichever came later. */
int policy_set_tenant(struct policy *p, uid_t uid, const char *tenant, enum rule_key key,
                      int64_t value, struct error *err);

/* Everything that was set at run time, each rule once, in its order. */
const struct rules *policy_live(const struct policy *p);

/* Where a value comes from: "FILE:LINE", "set at run time" or "default". */
const char *policy_place(const struct policy_value *v, char *buf, size_t size);

#endif
