/* SPDX-License-Identifier: MIT */
/*
 * lane.c - where our workers reach a peer's memory: one lane for each worker that needs one.
 *
 * The happy path: the first claim of a worker's session makes the lane, LINK_REQ asks the peer for
 * an offer, the fabric connects with it (plane_lane_open), the waiting claims go on.
 *
 * A lane that cannot be opened, or is lost, fails its waiting claims and ends the handles on it;
 * when the last of them has drained it is dropped. A later attach makes a new one.
 */
#include "daemon/peer/claim.h"
#include "daemon/peer/internal.h"
#include <inttypes.h>
#include <stdlib.h>

enum lane_stage { LANE_ASKED, LANE_CONNECTING, LANE_UP, LANE_LOST };

struct lane {
    struct peer *peer;
    struct list node;
    uint64_t ref; /* in LINK_REQ and LINK_REP */
    unsigned worker;
    enum lane_stage stage;
    struct plane_lane *plane;
    bool opening, dropping; /* answers of the data plane under way */
    unsigned busy;          /* claims are being told of its loss */
    struct list claims;     /* waiting or using */
};

struct plane_lane *lane_plane(const struct lane *lane) {
    return lane->plane;
}

static void lane_dropped(void *arg, const struct error *result) {
    struct lane *lane = arg;
    struct peer *p = lane->peer;
    (void)result;
    lane->dropping = false;
    if (lane->opening) /* its answer frees the lane */
        return;
    list_remove(&lane->node);
    free(lane);
    peer_check_free(p);
}

/* Lets go of a lost lane that nobody is on any more. */
static void lane_check_drop(struct lane *lane) {
    if (lane->stage != LANE_LOST || !list_empty(&lane->claims) || lane->dropping)
        return;
    lane->dropping = true;
    struct plane_lane *plane = lane->plane;
    lane->plane = NULL;
    if (plane)
        plane_lane_drop(plane, lane_dropped, lane);
    else
        lane_dropped(lane, NULL);
}

/* Everybody on the lane hears why; who still drains leaves later. */
static void lane_lose(struct lane *lane, const struct error *why) {
    struct list todo = LIST_INIT(todo);
    struct list *node;

    if (lane->stage == LANE_LOST)
        return;
    lane->stage = LANE_LOST;
    lane->busy++; /* keeps it while the claims leave */
    list_splice(&todo, &lane->claims);
    while ((node = list_pop(&todo))) {
        list_append(&lane->claims, node);
        claim_lane_lost(list_entry(node, struct claim, lane_node), why);
    }
    lane->busy--;
    lane_check_drop(lane);
}

static void lane_hello(void *arg, const struct error *result, const struct fabric_blob *hello) {
    struct lane *lane = arg;
    lane->opening = false;
    if (lane->stage == LANE_LOST) {
        if (!lane->plane && !lane->dropping)
            lane_dropped(lane, NULL);
    } else if (result && result->code) {
        lane_lose(lane, result);
    } else {
        struct peer_msg m = {.type = PEER_MSG_LINK_REQ, .link_req = {lane->ref, *hello}};
        peer_send(lane->peer, &m);
    }
}

struct lane *lane_of(struct peer *p, unsigned worker) {
    list_for_each (node, &p->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->worker == worker && lane->stage != LANE_LOST)
            return lane;
    }
    struct lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->peer = p;
    lane->worker = worker;
    lane->ref = p->peers->next_ref++;
    list_init(&lane->claims);
    list_append(&p->lanes, &lane->node);
    lane->plane = plane_lane_new(p->peers->state->plane, worker, lane);
    if (!lane->plane) {
        list_remove(&lane->node);
        free(lane);
        return NULL;
    }
    lane->opening = true;
    plane_lane_hello(lane->plane, lane_hello, lane);
    return lane;
}

void lane_join(struct lane *lane, struct claim *c) {
    list_append(&lane->claims, &c->lane_node);
    if (lane->stage == LANE_UP)
        claim_lane_up(c);
}

void lane_leave(struct lane *lane, struct claim *c) {
    list_remove(&c->lane_node);
    if (lane->busy)
        return;
    /* Nobody waits for the offer any more: if it still comes, it finds no lane. */
    if (lane->stage == LANE_ASKED && list_empty(&lane->claims))
        lane->stage = LANE_LOST;
    lane_check_drop(lane);
}

static void lane_opened(void *arg, const struct error *result) {
    struct lane *lane = arg;
    struct list todo = LIST_INIT(todo);
    struct list *node;

    lane->opening = false;
    if (lane->stage == LANE_LOST) {
        if (!lane->plane && !lane->dropping)
            lane_dropped(lane, NULL);
        return;
    }
    if (result && result->code) {
        lane_lose(lane, result);
        return;
    }
    lane->stage = LANE_UP;
    list_splice(&todo, &lane->claims);
    while ((node = list_pop(&todo))) {
        list_append(&lane->claims, node);
        claim_lane_up(list_entry(node, struct claim, lane_node));
    }
}

static void lane_connect(struct lane *lane, const struct fabric_blob *offer) {
    lane->stage = LANE_CONNECTING;
    lane->opening = true;
    plane_lane_open(lane->plane, lane->peer->ip, offer, lane_opened, lane);
}

void lane_link_rep(struct peer *p, const struct peer_link_rep *m) {
    struct error why;
    list_for_each (node, &p->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->ref != m->ref || lane->stage != LANE_ASKED)
            continue;
        if (m->status == RDMAD_OK) {
            lane_connect(lane, &m->offer);
        } else {
            error_set(&why, m->status, "%s at %s offers no link: %.150s", p->name, p->address,
                      m->text);
            lane_lose(lane, &why);
        }
        return;
    }
}

void lanes_lost(struct peer *p, const struct error *why) {
    list_for_each_safe (node, &p->lanes) {
        lane_lose(list_entry(node, struct lane, node), why);
    }
}

void peers_lane_lost(struct peers *ps, void *lane_cookie, const struct error *why) {
    struct lane *lane = lane_cookie;
    struct error named;
    (void)ps;
    error_set(&named, RDMAD_E_PEER_LOST, "the link to %s at %s broke: %.150s", lane->peer->name,
              lane->peer->address, why->text);
    lane_lose(lane, &named);
}

void lanes_each(struct peer *p, void (*each)(void *arg, const struct link_view *v), void *arg) {
    static const char *const stages[] = {"asked", "connecting", "up", "closing"};
    const struct state *st = p->peers->state;
    list_for_each (node, &p->lanes) {
        const struct lane *lane = list_entry(node, struct lane, node);
        struct link_view v = {
            .peer = p->id,
            .worker = lane->worker,
            .fabric = plane_fabric(st->plane)->name,
            .state = stages[lane->stage],
            .quiesce_ns = plane_quiesce_ns(st->plane),
        };
        list_for_each (at, &lane->claims)
            v.handles++;
        each(arg, &v);
    }
}
