/* SPDX-License-Identifier: MIT */
/*
 * requests_guests.c - programs of another daemon that come to leases and services of this one, as
 * peer/owner and peer/channel let them: attached by a window, or asking for memory or a channel.
 */
#include "daemon/peer/peer.h"
#include "daemon/state/budget.h"
#include "tests/fuzz/requests_rig.h"

#define GUEST_PEER 9u
#define GUEST_ADDRESS "10.0.0.9"

/* Of all that can be come to, which is the nth. */
struct pick {
    unsigned nth, seen;
};

struct guest {
    struct list node; /* in guests */
    struct attachment attachment;
    struct incoming incoming;
    bool attached, offered;
    bool is_to_stop; /* its answer is awaited */
};

static struct list guests;
static const struct lessee guest_who = {.peer = GUEST_PEER, .address = GUEST_ADDRESS};

void guests_up(void) {
    list_init(&guests);
}

void guests_down(void) {
    must(list_empty(&guests));
}

static struct guest *guest_new(void) {
    struct guest *g = calloc(1, sizeof(*g));
    must(g);
    list_init(&g->node);
    list_append(&guests, &g->node);
    return g;
}

static void guest_free(struct guest *g) {
    list_remove(&g->node);
    free(g);
}

/* ---- leases ---------------------------------------------------------------------------------- */

static void guest_stop(struct attachment *a, int reason) {
    must(reason);
    container_of(a, struct guest, attachment)->is_to_stop = true;
}

static void guest_renewed(struct attachment *a) {
    must(a->lease->stage == LEASE_LIVE);
}

static void guest_gone(struct attachment *a, int reason) {
    (void)reason;
    guest_free(container_of(a, struct guest, attachment));
}

static const struct attachment_ops guest_ops = {
    .stop = guest_stop, .renewed = guest_renewed, .gone = guest_gone};

static void window_opened(void *arg, const struct error *result, const struct fabric_blob *key) {
    (void)arg, (void)result, (void)key;
}

static int guest_attach(struct guest *g, struct lease *l, struct error *err) {
    int rc = lease_attach(l, &guest_who, &g->attachment, &guest_ops, err);
    if (rc)
        return rc;
    struct fabric_window_spec spec = {.peer = GUEST_PEER, .audit = &g->attachment.audit};
    g->attached = true;
    must(l->terms.scope != RDMAD_SCOPE_UID);
    must((g->attachment.window = plane_window_open(NULL, 0, &spec, NULL, window_opened, NULL)));
    return 0;
}

static void come_to_lease(struct lease *l) {
    struct guest *g = guest_new();
    struct error err;
    if (guest_attach(g, l, &err))
        guest_free(g);
}

/* ---- services -------------------------------------------------------------------------------- */

static void guest_granted(void *arg, struct lease *l, const struct error *result) {
    struct guest *g = arg;
    struct error err;
    if (l && !guest_attach(g, l, &err))
        return;
    must(l || result->code);
    guest_free(g);
    if (l)
        lease_end(l, RDMAD_E_LEASE_RELEASED, NULL, NULL);
}

static void guest_accepted(struct incoming *in, struct channel *end, uint64_t timeout_ns) {
    struct guest *g = container_of(in, struct guest, incoming);
    must(timeout_ns && end->stage == CHANNEL_NEW);
    guest_free(g);
    peers_accept(end);
}

static void guest_refused(struct incoming *in, const struct error *why) {
    must(why->code);
    guest_free(container_of(in, struct guest, incoming));
}

static const struct incoming_ops incoming_ops = {.accept = guest_accepted, .refuse = guest_refused};

static void come_to_service(struct service *sv, bool for_memory) {
    struct guest *g = guest_new();
    struct error err;
    if (for_memory && sv->budget) {
        struct budget_ask ask = {.bytes = 4096,
                                 .rights = RDMAD_RIGHTS_DEFAULT,
                                 .who = guest_who,
                                 .uid = 7,
                                 .node = "guest"};
        budget_request(sv->budget, &ask, guest_granted, g);
        return;
    }
    g->incoming = (struct incoming){.kind = RDMAD_CHANNEL_RELIABLE,
                                    .uid = 7,
                                    .peer = GUEST_PEER,
                                    .node_name = "guest",
                                    .address = GUEST_ADDRESS,
                                    .ops = &incoming_ops};
    g->offered = service_offer(sv, &guest_who, &g->incoming, &err) == 0;
    if (!g->offered)
        guest_free(g);
}

/* ---- they come and go ------------------------------------------------------------------------ */

static bool picked(struct pick *p) {
    return p->seen++ == p->nth;
}

void guests_come(unsigned nth, bool for_memory) {
    struct pick p = {.nth = nth % 8};
    list_for_each (node, &st.sessions) {
        const struct session *s = list_entry(node, struct session, node);
        list_for_each (l, &s->leases) {
            struct lease *lease = list_entry(l, struct lease, owner_node);
            if (!lease->requested && picked(&p)) {
                come_to_lease(lease);
                return;
            }
        }
        list_for_each (sv, &s->services) {
            if (picked(&p)) {
                come_to_service(list_entry(sv, struct service, node), for_memory);
                return;
            }
        }
    }
}

bool guests_answer(void) {
    list_for_each (node, &guests) {
        struct guest *g = list_entry(node, struct guest, node);
        if (!g->is_to_stop)
            continue;
        g->is_to_stop = false;
        attachment_stopped(&g->attachment);
        return true;
    }
    return false;
}

static void guest_leaves(struct guest *g, bool lost) {
    if (g->offered) {
        incoming_withdraw(&g->incoming);
        guest_free(g);
    } else if (!g->attached || g->attachment.stage != ATTACHMENT_HELD) {
        return;
    } else if (lost) {
        attachment_drop(&g->attachment);
    } else if (g->attachment.lease->requested) {
        attachment_hand_over(&g->attachment);
    } else {
        attachment_release(&g->attachment);
    }
}

void guests_leave(unsigned nth, bool lost) {
    list_for_each (node, &guests) {
        if (nth-- == 0) {
            guest_leaves(list_entry(node, struct guest, node), lost);
            return;
        }
    }
}
