/* SPDX-License-Identifier: MIT */
/*
 * lease_table.h - leases by number and by name, and what is remembered of those that ended.
 */
#ifndef RDMAD_STATE_LEASE_TABLE_H
#define RDMAD_STATE_LEASE_TABLE_H

#include "common/uri.h"
#include "daemon/state/lease_types.h"
#include "daemon/state/renewal.h"

int leases_new(struct state *st, struct leases **out);
void leases_free(struct leases *ls); /* every lease has ended */

struct renewals *leases_renewals(struct leases *ls);

/* The number that a lease of that life (0: it has none) gets after the one with that number; 0: it
 * is the first. No two lives have one in common, and all are less than 2^53, so JSON has them
 * exactly. */
uint64_t lease_number_after(uint32_t life, uint64_t number);
/* Numbers l, gives it a secret and puts it in, also under its name if it has one.
 * RDMAD_E_EXISTS when the name is taken. */
int lease_table_add(struct leases *ls, struct lease *l, struct error *err);
/* The same with the number and secret that it had at an earlier life of the daemon. RDMAD_E_EXISTS
 * when the number is alive; why it ended, if it has at this life. */
int lease_table_add_again(struct leases *ls, struct lease *l, uint64_t id, struct error *err);
/* Takes l out and remembers it. */
void lease_table_retire(struct leases *ls, const struct lease *l);

/* By number and secret, or by name. Tells tombstones from leases that never were. */
int lease_find(struct leases *ls, const struct rdmad_uri *uri, struct lease **out,
               struct error *err);
struct lease *lease_by_id(struct leases *ls, uint64_t id); /* alive or ending */

/* For show: live ones, and what is remembered of the ended. */
struct lease_view {
    uint64_t id, owner_session, offset, length, pool, ttl_ns, ended_ago_ns;
    uint64_t parent; /* 0: none */
    uint32_t rights, flags, scope, attached, attached_total;
    bool requested;
    uid_t owner_uid;
    uint32_t owner_tenant;
    int reason; /* 0: alive */
    char name[RDMAD_NAME_MAX + 1];
    struct fabric_audit audit;
    struct lease_said said;
    const struct lease *lease; /* NULL: it has ended, and is not there any more */
};
/* wanted is asked first: what a lease was used for is added up of those only. Then audit and said
 * are not set yet. */
void leases_view(struct leases *ls, bool with_ended,
                 bool (*wanted)(void *arg, const struct lease_view *view),
                 void (*each)(void *arg, const struct lease_view *view), void *arg);
/* What is remembered of one that ended; false when nothing is. */
bool lease_ended_view(struct leases *ls, uint64_t id, struct lease_view *out);
unsigned leases_count(const struct leases *ls);
void lease_view_of(const struct lease *l, uint64_t now_ns, struct lease_view *out);

#endif
