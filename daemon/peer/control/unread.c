/* SPDX-License-Identifier: MIT */
/*
 * unread.c - who has asked how much of what waits for a peer.
 */
#include "daemon/peer/control/unread.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/control/transport.h"
#include <stdlib.h>

struct unread_asker {
    struct list node; /* in the peer's list */
    struct user_id user;
    size_t bytes;
};

static struct unread_asker *unread_find(const struct peer *p, struct user_id user) {
    list_for_each (node, &p->askers) {
        struct unread_asker *a = list_entry(node, struct unread_asker, node);
        if (user_id_same(a->user, user))
            return a;
    }
    return NULL;
}

/* What the peer has read since was as much everybody's as what it has not. */
static void unread_settle(struct peer *p, size_t all) {
    size_t sum = 0;
    list_for_each (node, &p->askers)
        sum += list_entry(node, struct unread_asker, node)->bytes;
    if (sum <= all)
        return;
    list_for_each_safe (node, &p->askers) {
        struct unread_asker *a = list_entry(node, struct unread_asker, node);
        a->bytes = (size_t)((double)a->bytes * (double)all / (double)sum);
        if (a->bytes)
            continue;
        list_remove(node);
        free(a);
    }
}

int unread_check(struct peer *p, struct user_id user, struct error *err) {
    if (p->stage != PEER_UP || p->ending)
        return 0;
    size_t most = p->output_max / 4, all = transport_unsent(p->way);
    unread_settle(p, all);
    const struct unread_asker *a = unread_find(p, user);
    size_t own = a ? a->bytes : 0;
    if (all + own <= most)
        return 0;
    return error_set(err, RDMAD_E_BUSY,
                     "the daemon at %.100s does not read just now: %zu bytes wait for it, %zu of "
                     "them are questions of uid %u; questions may bring it to %zu, and those of "
                     "one uid to half of what others leave; try again",
                     p->dialled, all, own, (unsigned)user.uid, most);
}

/* Without memory for it its questions count for nobody: what waits in all is bounded all the same.
 */
void unread_ask(struct peer *p, struct user_id user, const struct peer_msg *question) {
    struct unread_asker *a = unread_find(p, user);
    size_t before = p->way ? transport_unsent(p->way) : 0;
    peer_send(p, question);
    if (!p->way)
        return;
    if (!a && (a = calloc(1, sizeof(*a)))) {
        a->user = user;
        list_append(&p->askers, &a->node);
    }
    if (a)
        a->bytes += transport_unsent(p->way) - before;
}

void unread_forget(struct peer *p) {
    struct list *node;
    while ((node = list_pop(&p->askers)))
        free(list_entry(node, struct unread_asker, node));
}
