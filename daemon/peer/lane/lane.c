/* SPDX-License-Identifier: MIT */
/*
 * lane.c - how our workers reach a peer's memory and channels. There is one lane for leases for
 * each worker of ours that needs one; for channels one for each pair of such a worker and a worker
 * of the peer's; and of each kind one for a session that has lanes of its own (peer.private_links).
 *
 * The happy path: the first user (a claim or a channel) makes the lane; the data plane makes our
 * end of a link and a hello; LINK_REQ carries it to the peer, which answers with an offer; the data
 * plane connects by it; the users are told, and claims get their keys. When the last user has left,
 * a lane stays for a moment, in case another comes, and then the peer is told that its end can go.
 *
 * Whatever goes wrong on this way, and a link that breaks later, takes the lane DOWN; after a pause
 * it begins again, as long as it has users and the peer's control connection lives. Meanwhile ops
 * wait. Only if the peer will never fit (another version of fabric or protocol), users that still
 * wait for a first link fail. When the control connection is lost, a lane that leases still use is
 * AWAY, without a link, until the peer is back (return.h) or the last of them has gone; others are
 * dropped when the last handle has drained.
 */
#include "daemon/peer/lane/lane.h"
#include "daemon/base/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/log.h"
#include "daemon/peer/control/conn.h"
#include "daemon/peer/lane/alone.h"
#include "daemon/peer/tables.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*   GREETING --> ASKED --> CONNECTING --> UP
 *      ^           |           |          |
 *      |           v           v          v
 *      +--------- DOWN (also from GREETING): after a pause
 *      ^
 *      +--------- AWAY (from any of them): when the peer is back
 *
 *   any of them --> OVER --> free
 */
enum lane_stage {
    LANE_GREETING,   /* our end is being made */
    LANE_ASKED,      /* LINK_REQ is out */
    LANE_CONNECTING, /* by the peer's offer */
    LANE_UP,
    LANE_DOWN, /* until the timer */
    LANE_AWAY, /* until the peer is back */
    LANE_OVER, /* it takes no more users */
};

struct lane {
    struct peer *peer;
    struct list node;
    uint64_t session; /* whose alone it is; 0: everybody's */
    unsigned worker;
    uint32_t there; /* the worker that it reaches; PEER_ANY_WORKER: that of the leases */
    enum lane_stage stage;
    struct plane_lane *plane; /* NULL once being dropped */
    uint64_t ref;             /* of the LINK_REQ that is out */
    uint64_t number;          /* the peer's, of the link last up; 0: it knows that it is gone */
    bool answering, dropping, unlinking, resting; /* answers of the data plane under way */
    bool still;         /* it rests, and nothing is left of what was posted */
    unsigned busy;      /* users are being told something */
    struct list users;  /* waiting or using */
    struct timer timer; /* DOWN: begin again; else: end, without users */
    uint64_t pause_ns, up_since_ns, rebuilds;
    bool was_up;
    struct quota_charge charge; /* what it holds at a device: its maker's user's */
    struct error trouble;       /* the last */
    bool told;                  /* of that, since it was up last */
    uint64_t trouble_ns;
};

static struct state *lane_state_of(const struct lane *lane) {
    return lane->peer->peers->state;
}

static void lane_enter(struct lane *lane, enum lane_stage stage) {
    const unsigned on_its_way = 1u << LANE_GREETING | 1u << LANE_ASKED | 1u << LANE_CONNECTING;
    const unsigned from[] = {
        [LANE_GREETING] = 1u << LANE_GREETING | 1u << LANE_DOWN | 1u << LANE_AWAY,
        [LANE_ASKED] = 1u << LANE_GREETING,
        [LANE_CONNECTING] = 1u << LANE_ASKED,
        [LANE_UP] = 1u << LANE_CONNECTING,
        [LANE_DOWN] = on_its_way | 1u << LANE_UP,
        [LANE_AWAY] = on_its_way | 1u << LANE_UP | 1u << LANE_DOWN,
        [LANE_OVER] =
            on_its_way | 1u << LANE_UP | 1u << LANE_DOWN | 1u << LANE_AWAY | 1u << LANE_OVER,
    };
    assert(from[stage] & 1u << lane->stage);
    lane->stage = stage;
}

struct plane_lane *lane_plane(const struct lane *lane) {
    return lane->plane;
}

uint64_t lane_number(const struct lane *lane) {
    return lane->stage == LANE_UP ? lane->number : 0;
}

const struct error *lane_trouble(const struct lane *lane) {
    return &lane->trouble;
}

const char *lane_silent(const struct lane *lane) {
    bool dials = lane->stage == LANE_CONNECTING && !strcmp(peer_fabric(lane->peer)->name, "tcp");
    return dials ? "its data port has not answered (tcp.data_port; a firewall?)" : "";
}

/* ---- the end ----------------------------------------------------------------------------- */

/* Some fabrics cannot see that we closed our end. */
static void lane_tell_gone(struct lane *lane) {
    struct peer_msg m = {.type = PEER_MSG_LINK_GONE, .link_gone.via = lane->number};
    if (lane->number)
        peer_send(lane->peer, &m);
    lane->number = 0;
}

static void lane_check_free(struct lane *lane) {
    struct peer *p = lane->peer;
    if (lane->plane || lane->dropping || lane->answering || lane->unlinking || lane->resting)
        return;
    list_remove(&lane->node);
    quota_discharge(&lane->charge);
    free(lane);
    peer_release(p);
}

static void lane_dropped(void *arg, const struct error *result) {
    struct lane *lane = arg;
    (void)result;
    lane->dropping = false;
    lane_check_free(lane);
}

static void lane_usage(const struct lane *lane) {
    struct usage *usage = &lane_state_of(lane)->usage;
    struct plane_lane_stats stats;
    plane_lane_stats(lane->plane, &stats);
    usage_add_link(&usage->peers[usage_peer(usage, lane->peer->name)].sums, &stats, lane->rebuilds);
}

/* Lets go of a lane that is over and has no users any more. */
static void lane_check_drop(struct lane *lane) {
    if (lane->stage != LANE_OVER || !list_empty(&lane->users) || lane->busy || !lane->plane)
        return;
    struct plane_lane *plane = lane->plane;
    lane_usage(lane);
    lane->plane = NULL;
    lane->dropping = true;
    lane_tell_gone(lane);
    plane_lane_drop(plane, lane_dropped, lane);
}

/* Links have the numbers of their peers. */
static void lane_remember(const struct lane *lane, const char *cause, const char *text) {
    const struct peer *p = lane->peer;
    EVENT("link", cause, peer_who(p), audit_object("link", p->id),
          ("the link to %s at %s: %s", p->name, p->address, text));
}

static void lane_end(struct lane *lane) {
    if (lane->was_up && lane->stage != LANE_OVER)
        lane_remember(lane, "closed",
                      lane->peer->stage == PEER_UP
                          ? "it is closed, as nobody used it, and made anew when it is needed"
                          : "it is closed with the connection to that daemon");
    lane_enter(lane, LANE_OVER);
    timer_unset(&lane_state_of(lane)->timers, &lane->timer);
    lane_check_drop(lane);
}

/* A user left, or there was none to tell: drops the lane if it is not needed. A lane on its way up
 * goes on without users as long as an idle one stays: only when it is up its number is known, and
 * without that the peer cannot be told to let go of its end. */
static void lane_settle(struct lane *lane) {
    struct state *st = lane_state_of(lane);
    if (!list_empty(&lane->users) || lane->busy)
        return;
    bool keep = lane->stage == LANE_UP ? !lane->session
                                       : lane->stage != LANE_DOWN && lane->stage != LANE_AWAY;
    uint64_t until = clock_after(state_now(st), PEER_LANE_IDLE_NS);
    if (lane->stage == LANE_OVER)
        lane_check_drop(lane);
    else if (!keep || timer_set(&st->timers, &lane->timer, until))
        lane_end(lane);
}

/* ---- the way up -------------------------------------------------------------------------- */

/* Tells every user; each may leave, and free others than itself. */
static void lane_each_user(struct lane *lane, enum lane_event event) {
    struct list todo = LIST_INIT(todo);
    struct list *node;
    lane->busy++; /* keeps it while users leave */
    list_splice(&todo, &lane->users);
    while ((node = list_pop(&todo))) {
        struct lane_user *u = list_entry(node, struct lane_user, node);
        list_append(&lane->users, node);
        u->told(u, event);
    }
    lane->busy--;
}

static void lane_begin(struct lane *lane);

/* It is tried again and again, and one reason need not be told each time. */
static bool lane_has_news(const struct lane *lane, const struct error *why) {
    return !lane->told || strcmp(lane->trouble.text, why->text) != 0;
}

/* It begins again after a pause. The caller settles it. */
static void lane_down(struct lane *lane, const struct error *why) {
    struct state *st = lane_state_of(lane);
    uint64_t again = clock_after(state_now(st), lane->pause_ns);

    if (lane_has_news(lane, why))
        lane_remember(lane, lane->stage == LANE_UP ? "broken" : "failed", why->text);
    lane_enter(lane, LANE_DOWN);
    lane->trouble = *why;
    lane->told = true;
    lane->trouble_ns = state_now(st);
    lane->pause_ns = lane_pause_after(lane->pause_ns);
    lane_tell_gone(lane);
    if (timer_set(&st->timers, &lane->timer, again))
        lane_begin(lane); /* no memory for a pause */
}

/* A link did not come about. */
static void lane_failed(struct lane *lane, const struct error *why) {
    bool never = why->code == RDMAD_E_VERSION || why->code == RDMAD_E_PROTOCOL;
    if (lane_has_news(lane, why))
        LOG_LIMITED_OF(peer_log(lane->peer), INFO, ("%s", why->text),
                       FIELD_U64("PEER", lane->peer->id));
    lane->busy++;
    lane_down(lane, why);
    if (never)
        lane_each_user(lane, LANE_REFUSED);
    lane->busy--;
    lane_settle(lane);
}

/* What the data plane answers is of no use any more. May free a lane that is OVER. */
static bool lane_is_given_up(struct lane *lane) {
    bool given_up = lane->stage == LANE_OVER || lane->stage == LANE_AWAY;
    if (lane->stage == LANE_OVER)
        lane_check_free(lane);
    return given_up;
}

static void lane_opened(void *arg, const struct error *result) {
    struct lane *lane = arg;
    struct peer *p = lane->peer;
    struct error why;

    lane->answering = false;
    if (lane_is_given_up(lane))
        return;
    lane->number = plane_lane_number(lane->plane);
    if (result && result->code) {
        error_set(&why, result->code, "the link to %s at %s does not open: %s", p->name, p->address,
                  result->text);
        lane_failed(lane, &why);
        return;
    }
    lane_enter(lane, LANE_UP);
    lane->still = false; /* that was the link's before */
    lane->up_since_ns = state_now(lane_state_of(lane));
    lane->rebuilds += lane->was_up;
    if (lane->was_up)
        LOG_LIMITED_OF(peer_log(p), INFO, ("the link to %s at %s is up again", p->name, p->address),
                       FIELD_U64("PEER", p->id));
    lane_remember(lane, lane->was_up ? "rebuilt" : "up",
                  lane->was_up ? "it was made anew, and is up again" : "it is up");
    lane->was_up = true;
    lane->told = false;
    lane_each_user(lane, LANE_IS_UP);
    lane_settle(lane);
}

void lane_take_link_rep(struct peer *p, const struct peer_msg *msg) {
    const struct peer_link_rep *m = &msg->link_rep;
    struct error why;
    list_for_each (node, &tables_of(p)->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->ref != m->ref || lane->stage != LANE_ASKED)
            continue;
        if (m->status == RDMAD_OK) {
            lane_enter(lane, LANE_CONNECTING);
            lane->answering = true;
            plane_lane_open(lane->plane, p->ip, &m->offer, lane_opened, lane);
        } else {
            error_set(&why, m->status, "%s at %s offers no link: %s", p->name, p->address, m->text);
            lane_failed(lane, &why);
        }
        return;
    }
}

static void lane_greeted(void *arg, const struct error *result, const struct fabric_blob *hello) {
    struct lane *lane = arg;
    struct peer *p = lane->peer;
    struct peer_msg m = {.type = PEER_MSG_LINK_REQ};
    struct error why;

    lane->answering = false;
    if (lane_is_given_up(lane))
        return;
    if (result && result->code) {
        error_set(&why, result->code, "no link to %s at %s: %s", p->name, p->address, result->text);
        lane_failed(lane, &why);
    } else {
        lane_enter(lane, LANE_ASKED);
        lane->ref = m.link_req.ref = p->peers->next_ref++;
        m.link_req.worker = lane->there;
        m.link_req.hello = *hello; /* NOLINT: there whenever it went well */
        peer_send(p, &m);
    }
}

static void lane_begin(struct lane *lane) {
    lane_enter(lane, LANE_GREETING);
    lane->answering = true;
    plane_lane_hello(lane->plane, lane_greeted, lane);
}

/* DOWN for long enough, or idle for long enough. */
static void lane_timer(struct timer *timer, uint64_t now_ns) {
    struct lane *lane = container_of(timer, struct lane, timer);
    (void)now_ns;
    if (lane->stage == LANE_DOWN)
        lane_begin(lane);
    else
        lane_end(lane);
}

/* ---- users come and go ------------------------------------------------------------------- */

static struct lane *lane_find(struct peer *p, const struct session *s, uint32_t there) {
    bool alone = lane_is_alone(s);
    unsigned worker = plane_worker_of_session(s->plane);
    list_for_each (node, &tables_of(p)->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->worker == worker && lane->there == there &&
            lane->session == (alone ? s->id : 0) && lane->stage != LANE_OVER)
            return lane;
    }
    return NULL;
}

uint64_t lane_number_for(struct peer *p, const struct session *s) {
    const struct lane *lane = s->closing ? NULL : lane_find(p, s, PEER_ANY_WORKER);
    return lane ? lane_number(lane) : 0;
}

static struct lane *lane_no_memory(const struct peer *p, struct quota_charge *charge,
                                   struct lane *lane, struct error *err) {
    error_set(err, RDMAD_E_NOMEM, "out of memory for a link to %s", p->name);
    quota_discharge(charge);
    free(lane);
    return NULL;
}

static struct lane *lane_new(struct peer *p, struct session *s, uint32_t there, struct error *err) {
    bool alone = lane_is_alone(s);
    uint64_t bytes = peer_fabric(p)->link_bytes;
    struct quota_charge charge = {0};
    assert(p->outgoing && p->stage == PEER_UP);
    if (bytes && quota_charge(&s->state->quota, &s->account, s->uid_account, QUOTA_REGISTERED,
                              bytes, &charge, err))
        return NULL;
    struct lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return lane_no_memory(p, &charge, NULL, err);
    lane->worker = plane_worker_of_session(s->plane);
    lane->plane = plane_lane_new(s->state->plane, p->fabric, lane->worker, p->secured, lane);
    if (!lane->plane)
        return lane_no_memory(p, &charge, lane, err);
    plane_lane_peer(lane->plane, p->id, p->name);
    quota_keep(&charge, QUOTA_REGISTERED, &lane->charge);
    lane->peer = p;
    lane->there = there;
    lane->session = alone ? s->id : 0;
    lane->pause_ns = PEER_RETRY_MIN_NS;
    list_init(&lane->users);
    timer_init(&lane->timer, lane_timer);
    list_append(&tables_of(p)->lanes, &lane->node);
    peer_hold(p);
    lane_begin(lane);
    return lane;
}

struct lane *lane_of(struct peer *p, struct session *s, uint32_t there, struct error *err) {
    struct lane *lane = lane_find(p, s, there);
    return lane ? lane : lane_new(p, s, there, err);
}

void lane_join(struct lane *lane, struct lane_user *u) {
    assert(list_empty(&u->node));
    list_append(&lane->users, &u->node);
    if (lane->stage != LANE_DOWN)
        timer_unset(&lane_state_of(lane)->timers, &lane->timer);
    if (lane->stage == LANE_UP)
        u->told(u, LANE_IS_UP);
}

void lane_relied_on(struct lane *lane) {
    if (lane->stage != LANE_DOWN || lane->trouble.code != RDMAD_E_NO_LEASE)
        return;
    timer_unset(&lane_state_of(lane)->timers, &lane->timer);
    lane->pause_ns = PEER_RETRY_MIN_NS;
    lane_begin(lane);
}

void lane_leave(struct lane *lane, struct lane_user *u) {
    assert(!list_empty(&u->node));
    list_remove(&u->node);
    lane_settle(lane);
}

/* ---- losses ------------------------------------------------------------------------------ */

static void lane_lose_link(struct lane *lane, const struct error *why) {
    struct state *st = lane_state_of(lane);
    if (lane->stage == LANE_UP && clock_left(lane->up_since_ns, state_now(st)) >= PEER_STEADY_NS)
        lane->pause_ns = PEER_RETRY_MIN_NS;
    LOG_LIMITED_OF(peer_log(lane->peer), NOTICE, ("%s; it is made anew", why->text),
                   FIELD_U64("PEER", lane->peer->id));
    lane->busy++;
    lane_down(lane, why);
    lane_each_user(lane, LANE_IS_DOWN);
    lane->busy--;
    lane_settle(lane);
}

void lane_renew(struct lane *lane, const struct error *why) {
    if (lane->stage == LANE_UP) /* else it is being made anew already */
        lane_lose_link(lane, why);
}

/* In the other stages the link is one that we have given up already, or the data plane's answer
 * says the same. */
void peers_lane_lost(struct peers *ps, void *lane_cookie, const struct error *why) {
    struct lane *lane = lane_cookie;
    struct error named;
    (void)ps;
    if (lane->stage != LANE_UP && lane->stage != LANE_ASKED)
        return;
    error_set(&named, RDMAD_E_PEER_LOST, "the link to %s at %s broke: %s", lane->peer->name,
              lane->peer->address, why->text);
    lane_lose_link(lane, &named);
}

/* ---- the peer goes, and comes back --------------------------------------------------------- */

static bool lane_has_leases(const struct lane *lane) {
    list_for_each (node, &lane->users) {
        if (!list_entry(node, struct lane_user, node)->is_channel)
            return true;
    }
    return false;
}

static void lane_rested(void *arg, const struct error *result) {
    struct lane *lane = arg;
    lane->resting = false;
    lane->still = !result->code;
    if (lane->stage == LANE_OVER)
        lane_check_free(lane);
}

void lanes_rest(struct peer *p) {
    list_for_each (node, &tables_of(p)->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->stage != LANE_UP || lane->resting || lane->still || !lane_has_leases(lane))
            continue;
        lane->resting = true;
        plane_lane_rest(lane->plane, lane_rested, lane);
    }
}

bool lanes_are_still(struct peer *p) {
    list_for_each (node, &tables_of(p)->lanes) {
        const struct lane *lane = list_entry(node, struct lane, node);
        if (lane->stage == LANE_UP && !lane->still && lane_has_leases(lane))
            return false;
    }
    return true;
}

static void lane_check_begin(struct lane *lane) {
    if (lane->stage == LANE_AWAY && !lane->unlinking && lane->peer->stage == PEER_UP)
        lane_begin(lane);
}

static void lane_unlinked(void *arg, const struct error *result) {
    struct lane *lane = arg;
    (void)result;
    lane->unlinking = false;
    if (lane->stage == LANE_OVER)
        lane_check_free(lane);
    else
        lane_check_begin(lane);
}

static void lane_go_away(struct lane *lane) {
    lane_enter(lane, LANE_AWAY);
    timer_unset(&lane_state_of(lane)->timers, &lane->timer);
    lane->number = 0; /* the link is gone there, too */
    lane->told = false;
    lane->unlinking = true;
    plane_lane_unlink(lane->plane, lane_unlinked, lane);
}

void lanes_lose(struct peer *p) {
    list_for_each_safe (node, &tables_of(p)->lanes) {
        struct lane *lane = list_entry(node, struct lane, node);
        if (lane->stage == LANE_AWAY) /* it is p's, and has not begun again */
            continue;
        if (lane->stage != LANE_OVER && lane_has_leases(lane))
            lane_go_away(lane);
        else
            lane_end(lane);
    }
}

int lane_return(struct lane *lane, struct peer *p, struct error *err) {
    struct peer *was = lane->peer;
    if (was == p)
        return 0;
    assert(lane->stage == LANE_AWAY && was->stage == PEER_LOST && p->stage == PEER_UP);
    if (p->fabric != was->fabric || p->secured != was->secured)
        return error_set(err, RDMAD_E_PEER_LOST,
                         "%s at %s has come back, and is reached by another way than before",
                         p->name, p->address);
    if (p->secured && strcmp(p->name, was->name) != 0)
        return error_set(err, RDMAD_E_PEER_LOST,
                         "%s answers at %s now, where %s was: its leases are not that one's",
                         p->name, p->address, was->name);
    list_remove(&lane->node);
    list_append(&tables_of(p)->lanes, &lane->node);
    peer_hold(p);
    lane->peer = p;
    lane->pause_ns = PEER_RETRY_MIN_NS;
    peer_release(was);
    lane_check_begin(lane);
    return 0;
}

/* ---- for show ---------------------------------------------------------------------------- */

static const char *lane_state_name(const struct lane *lane) {
    if (lane->stage == LANE_OVER)
        return "closing";
    if (lane->stage == LANE_UP)
        return list_empty(&lane->users) ? "idle" : "up";
    return lane->was_up ? "rebuilding" : "opening";
}

/* Of the link that it has. */
static const char *lane_encryption(const struct lane *lane) {
    return lane->stage == LANE_UP ? fabric_encryption_name(plane_lane_encryption(lane->plane)) : "";
}

void lanes_each(struct peer *p, void (*each)(void *arg, const struct link_view *v), void *arg) {
    const struct state *st = p->peers->state;
    list_for_each (node, &tables_of(p)->lanes) {
        const struct lane *lane = list_entry(node, struct lane, node);
        struct link_view v = {
            .peer = p->id,
            .node = p->name,
            .worker = lane->worker,
            .session = lane->session,
            .fabric = peer_fabric(p)->name,
            .state = lane_state_name(lane),
            .encryption = lane_encryption(lane),
            .quiesce_ns = plane_quiesce_ns(st->plane, p->fabric),
            .rebuilds = lane->rebuilds,
            .last_error = lane->trouble.text,
            .last_error_ns = lane->trouble_ns,
            .address = p->address,
            .lane = lane->plane,
        };
        list_for_each (at, &lane->users) {
            bool channel = list_entry(at, struct lane_user, node)->is_channel;
            v.channels += channel;
            v.handles += !channel;
        }
        each(arg, &v);
    }
}
