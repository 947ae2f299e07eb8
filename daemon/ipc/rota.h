/* SPDX-License-Identifier: MIT */
/*
 * rota.h - whose packets are read in a pass of the control thread's loop: of each user so many,
 * however many connections it has.
 *
 * Each connection of a client is a member. Before it reads it asks how much it may (rota_room) and
 * afterwards says how much it was (rota_used). One that may not read more, though it has more,
 * waits (rota_wait): it stops listening to its socket and is told to go on when it is its turn. All
 * who wait are served in passes, one for each pass of the loop: the users in turn, ROTA_PACKETS of
 * each, and a user's connections in turn, ROTA_AT_ONCE of each. So between two passes the loop
 * serves everything else, and a user who asks without pause has as much of it as any other.
 *
 * While nobody waits nothing here costs more than a comparison.
 */
#ifndef RDMAD_IPC_ROTA_H
#define RDMAD_IPC_ROTA_H

#include "daemon/base/list.h"
#include "daemon/base/send_cost.h"
#include "daemon/base/user_id.h"
#include <stdbool.h>

#define ROTA_PACKETS 32u /* of a user in a pass */
#define ROTA_AT_ONCE 8u  /* of a connection, in turn */
#define ROTA_OF_ALL 512u /* of all users in a pass; who is left out is first in the next */

struct event_base;
struct rota;
struct rota_user;

struct rota_member {
    struct rota_user *user;
    struct list node; /* among those of its user that wait */
    /* It may read: it asks how much, and waits again if it has more than that. It may free itself
     * and other members. */
    void (*go_on)(struct rota_member *m);
};

struct rota *rota_new(struct event_base *base); /* NULL: out of memory */
void rota_free(struct rota *r);                 /* it has no members any more */

/* 0 or RDMAD_E_NOMEM. */
int rota_join(struct rota *r, struct rota_member *m, struct user_id who,
              void (*go_on)(struct rota_member *m));
void rota_leave(struct rota_member *m); /* harmless when it is no member */
unsigned rota_room(const struct rota_member *m);
void rota_used(struct rota_member *m, unsigned packets);
void rota_wait(struct rota_member *m);
/* Of what is sent to its user's connections; as long as it is a member. */
struct send_rest *rota_sends(const struct rota_member *m);
static inline bool rota_waits(const struct rota_member *m) {
    return !list_empty(&m->node);
}

#endif
