/* SPDX-License-Identifier: MIT */
/*
 * attach.c - the lessee's side: what our sessions want of a peer's leases.
 *
 * The happy path: peer_attach makes a claim on a peer that is up or being dialled; ATTACH_REQ;
 * the answer has the owner's number of it, key and duration; a lane of the session (lane.c), and
 * the key again if it is not good there (key.c); the handle becomes the data plane's; whoever asked
 * is told. Later REVOKED ends the handle, and when
 * it has drained STOPPED is the answer; or the session gives it back, which is RELEASE.
 *
 * Each step before the handle is the data plane's can fail, time out or be given up because the
 * session closes: claim_fail undoes what was done, at the owner too. An answer that comes after we
 * gave up is granted for nothing and released at once, without ending a lease for one lessee.
 */
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/peer/lessee/claim.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct state *state_of(const struct claim *c) {
    return c->peer->peers->state;
}

static struct claim *find(struct peer *p, uint64_t ref) {
    return slots_get(&p->claims, ref);
}

static void claim_free(struct claim *c) {
    struct peer *p = c->peer;
    timer_unset(&state_of(c)->timers, &c->timeout);
    timer_unset(&state_of(c)->timers, &c->key_again);
    list_remove(&c->call.node);
    if (c->lane)
        lane_leave(c->lane, &c->lane_user);
    slots_remove(&p->claims, c->ref);
    free(c);
    liveness_update(p);
    peer_check_free(p);
}

static void send_release(struct claim *c, uint32_t returned) {
    struct peer_msg m = {.type = PEER_MSG_RELEASE,
                         .release = {.owner_ref = c->owner_ref, .returned = returned}};
    peer_send(c->peer, &m);
}

static void send_stopped(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_STOPPED, .stopped.owner_ref = c->owner_ref};
    peer_send(c->peer, &m);
}

/* The owner's daemon cannot see what its device does for us. */
static void say_use(struct claim *c) {
    const struct fabric_audit *use = &c->handle->attachment.audit;
    uint64_t last = __atomic_load_n(&use->last_use_ns, __ATOMIC_RELAXED);
    struct peer_msg m = {.type = PEER_MSG_USED, .used.owner_ref = c->owner_ref};
    if (!last || last == c->said_ns)
        return;
    c->said_ns = last;
    m.used.bytes_read = __atomic_load_n(&use->bytes_read, __ATOMIC_RELAXED);
    m.used.bytes_written = __atomic_load_n(&use->bytes_written, __ATOMIC_RELAXED);
    m.used.ops = __atomic_load_n(&use->ops, __ATOMIC_RELAXED);
    peer_send(c->peer, &m);
}

void claims_say_use(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&p->claims, &cursor, &ref)))
        if (c->stage == CLAIM_LIVE)
            say_use(c);
}

/* The handle, still NEW, goes with it. */
void claim_fail(struct claim *c, const struct error *why) {
    struct session_waiter done = c->done;
    struct handle *h = c->handle;
    struct error copy = *why;

    c->handle = NULL;
    if (c->stage == CLAIM_ASKED && c->peer->stage == PEER_UP) {
        c->stage = CLAIM_ABANDONED;
        timer_unset(&state_of(c)->timers, &c->timeout);
    } else {
        if (c->stage == CLAIM_LINKING && c->revoked)
            send_stopped(c);
        else if (c->stage == CLAIM_LINKING)
            send_release(c, false);
        claim_free(c);
    }
    h->ops = NULL;
    handle_free(h);
    done.done(done.arg, &copy);
}

/* ---- the handle's end -------------------------------------------------------------------- */

static void cancel(struct handle *h) {
    struct error why;
    error_set(&why, RDMAD_E_CANCELED, "the session ended during the attach");
    claim_fail(h->peer_record, &why);
}

/* The owner's answer is awaited without the handle. */
static void hand_over(struct claim *c, struct handle *h) {
    struct state *st = state_of(c);
    list_append(&h->session->calls, &c->call.node);
    c->handing = h->releasing;
    h->releasing.done = NULL;
    c->handle = NULL;
    c->stage = CLAIM_HANDING;
    timer_unset(&st->timers, &c->key_again);
    struct lane *lane = c->lane;
    c->lane = NULL;
    lane_leave(lane, &c->lane_user);
    /* An owner that never says so must not keep our session; without memory for it, it may. */
    timer_set(&st->timers, &c->timeout, clock_after(state_now(st), c->timeout_ns));
    send_release(c, 2);
}

static void handed(struct claim *c, const struct error *result) {
    struct session_waiter w = c->handing;
    claim_free(c);
    w.done(w.arg, result);
}

/* Nobody is left to whom the owner's answer matters; the memory is the owner's all the same. */
static void give_up_handing(struct session_call *call, const struct error *why) {
    handed(container_of(call, struct claim, call), why);
}

static void let_go(struct handle *h, bool returned) {
    struct claim *c = h->peer_record;
    struct session_waiter w = h->releasing;

    c->said_ns = CLOCK_NEVER; /* the last may have been of the same moment */
    say_use(c);
    if (h->returned == HANDLE_HANDED_OVER && !c->revoked && c->peer->stage == PEER_UP &&
        !h->session->closing) {
        hand_over(c, h);
        return;
    }
    if (c->revoked)
        send_stopped(c);
    else
        send_release(c, h->returned == HANDLE_HANDED_OVER ? 2 : returned);
    struct error why = c->revoked_why;
    if (h->returned == HANDLE_HANDED_OVER) {
        if (!c->revoked)
            error_set(&why, RDMAD_E_PEER_LOST, "the connection to %s was lost", c->peer->name);
        h->releasing.done = NULL;
    }
    claim_free(c);
    if (h->returned == HANDLE_HANDED_OVER)
        w.done(w.arg, &why);
}

static void keep(struct handle *h) {
    const struct claim *c = h->peer_record;
    struct peer_msg m = {.type = PEER_MSG_KEEP_REQ, .keep_req.owner_ref = c->owner_ref};
    peer_send(c->peer, &m);
}

static const struct handle_ops claim_ops = {.cancel = cancel, .let_go = let_go, .keep = keep};

/* ---- asking ------------------------------------------------------------------------------ */

/* The last that went wrong on the way to a link or key; "" when nothing did. */
static const char *trouble_of(const struct claim *c) {
    if (c->stage != CLAIM_LINKING)
        return "";
    return lane_number(c->lane) ? c->trouble : lane_trouble(c->lane)->text;
}

static void timed_out(struct timer *timer, uint64_t now_ns) {
    static const char *const waiting[] = {
        [CLAIM_WAITING] = "connecting to it",
        [CLAIM_ASKED] = "waiting for its answer",
        [CLAIM_LINKING] = "opening a link to it",
    };
    struct claim *c = container_of(timer, struct claim, timeout);
    const char *trouble = trouble_of(c);
    struct error why;
    (void)now_ns;
    if (c->stage == CLAIM_HANDING) {
        error_set(&why, RDMAD_E_TIMEOUT,
                  "the daemon at %.100s did not say within %" PRIu64 " ms whether it has the "
                  "memory; ask the service",
                  c->peer->dialled, c->timeout_ns / NSEC_PER_MSEC);
        handed(c, &why);
        return;
    }
    if (trouble[0])
        error_set(&why, RDMAD_E_TIMEOUT,
                  "attaching took longer than %" PRIu64 " ms, opening a link: %s",
                  c->timeout_ns / NSEC_PER_MSEC, trouble);
    else
        error_set(&why, RDMAD_E_TIMEOUT,
                  "attaching to a lease of the daemon at %.100s took longer than %" PRIu64
                  " ms, %s; try again or allow more time",
                  c->peer->dialled, c->timeout_ns / NSEC_PER_MSEC, waiting[c->stage]);
    claim_fail(c, &why);
}

static void fill_attach(const struct claim *c, struct peer_msg *m) {
    m->type = PEER_MSG_ATTACH_REQ;
    m->attach_req.lessee_ref = c->ref;
    m->attach_req.lease = c->uri.lease;
    memcpy(m->attach_req.key, c->uri.key, sizeof(m->attach_req.key));
    memcpy(m->attach_req.name, c->uri.name, sizeof(m->attach_req.name));
    m->attach_req.uid = c->uid;
    m->attach_req.via = c->via;
}

static void fill_request(const struct claim *c, struct peer_msg *m) {
    m->type = PEER_MSG_REQUEST_REQ;
    m->request_req = (struct peer_request_req){.lessee_ref = c->ref,
                                               .bytes = c->request.bytes,
                                               .ttl_ns = c->request.ttl_ns,
                                               .rights = c->request.rights,
                                               .uid = c->uid,
                                               .via = c->via};
    memcpy(m->request_req.service, c->uri.name, sizeof(m->request_req.service));
}

static void ask(struct claim *c) {
    struct peer_msg m = {0};
    c->via = lane_number_for(c->peer, c->handle->session);
    if (c->requested)
        fill_request(c, &m);
    else
        fill_attach(c, &m);
    c->stage = CLAIM_ASKED;
    c->asked_ns = state_now(state_of(c));
    peer_send(c->peer, &m);
}

/* Half of a peer's places is the most that one uid can take, with however many sessions. */
static int check_share(const struct peer *p, uid_t uid, struct error *err) {
    uint32_t cursor = 0, most = p->claims.max / 2;
    uint64_t ref;
    const struct claim *c;
    unsigned n = 0;

    if (p->claims.used < most)
        return 0;
    while ((c = slots_next(&p->claims, &cursor, &ref)))
        n += c->uid == uid;
    if (n < most)
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     "uid %u has %u leases at %.100s, at most %u of one daemon are for one uid; "
                     "release some, or allow more with peer.attaches",
                     (unsigned)uid, n, p->dialled, most);
}

/* A claim of h on p, in p's table. */
static struct claim *claim_new(struct peer *p, struct handle *h, const struct rdmad_uri *uri,
                               uint64_t timeout_ns, struct error *err) {
    const struct state *st = p->peers->state;
    if (check_share(p, h->session->uid, err))
        return NULL;
    struct claim *c = calloc(1, sizeof(*c));
    if (!c || !(c->ref = slots_add(&p->claims, c))) {
        error_set(err, c ? RDMAD_E_LIMIT : RDMAD_E_NOMEM,
                  "no room for one more lease at %.100s: %" PRIu32 " of %u are in use; release "
                  "some",
                  p->dialled, p->claims.used, p->claims.max);
        free(c);
        return NULL;
    }
    c->peer = p;
    c->handle = h;
    c->uid = h->session->uid;
    c->uri = *uri;
    c->timeout_ns = timeout_ns;
    list_init(&c->lane_user.node);
    list_init(&c->call.node);
    c->call.give_up = give_up_handing;
    c->lane_user.news = claim_lane_news;
    timer_init(&c->timeout, timed_out);
    timer_init(&c->key_again, key_again);
    if (timer_set(&p->peers->state->timers, &c->timeout, clock_after(state_now(st), timeout_ns))) {
        error_set(err, RDMAD_E_NOMEM, "out of memory for an attach");
        claim_free(c);
        return NULL;
    }
    return c;
}

static bool become_local(struct claim *c);

/* What is wanted of uri, as an attach of h. */
static void claim_begin(struct peers *ps, const struct claim *want, plane_done *done, void *arg) {
    struct handle *h = want->handle;
    struct rdmad_uri uri = want->uri;
    struct claim *c = NULL;
    struct peer *p;
    struct error err;

    if (peers_is_self(ps, &uri))
        peers_own_address(ps, uri.host, &uri.port);
    if (peer_dial(ps, uri.host, uri.port, h->session->uid, &p, &err) == 0)
        c = claim_new(p, h, &uri, want->timeout_ns, &err);
    if (!c) {
        handle_free(h);
        done(arg, &err);
        return;
    }
    c->requested = want->requested;
    c->request = want->request;
    h->ops = &claim_ops;
    h->peer_record = c;
    h->requested = c->requested;
    c->done = (struct session_waiter){done, arg};
    liveness_update(p);
    if (p->stage == PEER_UP && !(p->is_self && become_local(c)))
        ask(c);
}

void peer_attach(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                 uint64_t timeout_ns, plane_done *done, void *arg) {
    struct claim want = {.handle = h, .uri = *uri, .timeout_ns = timeout_ns};
    claim_begin(ps, &want, done, arg);
}

void peer_request(struct peers *ps, struct handle *h, const struct rdmad_uri *uri,
                  const struct request_terms *terms, uint64_t timeout_ns, plane_done *done,
                  void *arg) {
    struct claim want = {
        .handle = h, .uri = *uri, .timeout_ns = timeout_ns, .requested = true, .request = *terms};
    claim_begin(ps, &want, done, arg);
}

void claims_begin(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&p->claims, &cursor, &ref))) {
        if (c->stage == CLAIM_WAITING)
            ask(c);
    }
    liveness_update(p);
}

/* ---- the answer -------------------------------------------------------------------------- */

bool claim_is_closing(struct claim *c) {
    if (!c->handle->session->closing)
        return false;
    cancel(c->handle);
    return true;
}

static void claim_granted(struct claim *c, const struct peer_attach_rep *m) {
    struct error err;
    if (m->text[0]) /* what it is without */
        LOG_LIMITED(NOTICE, ("%s", m->text), FIELD_U64("PEER", c->peer->id));
    c->stage = CLAIM_LINKING;
    c->owner_ref = m->owner_ref;
    c->spec = (struct plane_lease_spec){
        .lease_id = m->lease,
        .length = m->length,
        .rights = m->rights,
        .deadline_ns = clock_after(c->asked_ns, m->ttl_ns),
        .key = m->key,
        .audit = &c->handle->attachment.audit,
        .notify_ref = c->requested ? 0 : m->owner_ref, /* its owner takes none */
    };
    if (claim_is_closing(c))
        return;
    struct lane *lane = lane_of(c->peer, c->handle->session, PEER_ANY_WORKER);
    if (!lane) {
        error_set(&err, RDMAD_E_NOMEM, "out of memory for a link to %s", c->peer->name);
        claim_fail(c, &err);
        return;
    }
    c->lane = lane;
    lane_join(lane, &c->lane_user);
}

void claim_attach_rep(struct peer *p, const struct peer_attach_rep *m) {
    struct claim *c = find(p, m->lessee_ref);
    struct error why = {.code = m->status};

    if (!c || (c->stage != CLAIM_ASKED && c->stage != CLAIM_ABANDONED)) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "an answer to an attach that nobody waits for");
    } else if (c->stage == CLAIM_ABANDONED) {
        c->owner_ref = m->owner_ref;
        if (m->status == RDMAD_OK)
            send_release(c, false);
        claim_free(c);
    } else if (m->status == RDMAD_OK) {
        claim_granted(c, m);
    } else {
        memcpy(why.text, m->text, sizeof(why.text));
        c->stage = CLAIM_WAITING; /* nothing to undo at the owner */
        claim_fail(c, &why);
    }
}

void claim_usable(struct claim *c) {
    timer_unset(&state_of(c)->timers, &c->timeout);
    c->stage = CLAIM_LIVE;
    c->spec.lane = lane_plane(c->lane);
    handle_attach_remote(c->handle, &c->spec, &claim_ops, c, c->done.done, c->done.arg);
}

/* ---- news from the owner ------------------------------------------------------------------ */

static void set_deadline(struct claim *c, uint64_t deadline_ns) {
    c->spec.deadline_ns = deadline_ns;
    if (c->stage == CLAIM_LIVE)
        handle_renewed(c->handle, deadline_ns);
}

static void ask_ttl(struct claim *c) {
    struct peer_msg m = {.type = PEER_MSG_TTL_REQ, .ttl.ref = c->owner_ref};
    if (c->ttl_asked) {
        c->ttl_again = true;
        return;
    }
    c->ttl_asked = true;
    c->asked_ns = state_now(state_of(c));
    peer_send(c->peer, &m);
}

void claim_revoked(struct peer *p, const struct peer_revoked *m) {
    struct claim *c = find(p, m->lessee_ref);
    if (!c || c->stage == CLAIM_ABANDONED)
        return; /* we let go first, RELEASE is on its way */
    struct error why = {.code = m->reason};
    memcpy(why.text, m->text, sizeof(why.text));
    if (c->stage == CLAIM_HANDING) { /* reason RELEASED: as we asked; else it ended before */
        if (why.code == RDMAD_E_LEASE_RELEASED)
            why.code = RDMAD_OK;
        handed(c, &why);
        return;
    }
    if (c->stage != CLAIM_LINKING && c->stage != CLAIM_LIVE) {
        peer_refuse(p, RDMAD_E_PROTOCOL, "REVOKED of an attach that was not granted");
        return;
    }
    c->revoked = true;
    c->revoked_why = why;
    if (c->stage == CLAIM_LIVE)
        handle_end(c->handle, m->reason, m->text);
    else
        claim_fail(c, &why);
}

/* ---- what a lessee asks of its lease -------------------------------------------------------- */

/* A claim whose handle the client uses; NULL: there is none, any more. */
static struct claim *find_live(struct peer *p, uint64_t ref) {
    struct claim *c = find(p, ref);
    return c && c->stage == CLAIM_LIVE ? c : NULL;
}

void claim_keep_rep(struct peer *p, const struct peer_keep_rep *m) {
    struct claim *c = find_live(p, m->lessee_ref);
    struct error result = {.code = m->status};
    if (!c)
        return;
    memcpy(result.text, m->text, sizeof(result.text));
    if (!m->status)
        ask_ttl(c);
    handle_kept(c->handle, &result);
}

struct session *claim_session(struct peer *p, uint64_t ref) {
    const struct claim *c = find(p, ref);
    return c && c->handle ? c->handle->session : NULL;
}

/* A shorter life holds at once. A longer one must be asked for: counted from now, it would end
 * later here than at the owner. */
void claim_renewed(struct peer *p, const struct peer_ttl *m) {
    struct claim *c = find(p, m->ref);
    if (!c || (c->stage != CLAIM_LINKING && c->stage != CLAIM_LIVE))
        return;
    uint64_t latest = clock_after(state_now(state_of(c)), m->ttl_ns);
    if (latest < c->spec.deadline_ns)
        set_deadline(c, latest);
    ask_ttl(c);
}

void claim_ttl_rep(struct peer *p, const struct peer_ttl *m) {
    struct claim *c = find(p, m->ref);
    if (!c || !c->ttl_asked)
        return;
    c->ttl_asked = false;
    set_deadline(c, clock_after(c->asked_ns, m->ttl_ns));
    if (c->ttl_again) {
        c->ttl_again = false;
        ask_ttl(c);
    }
}

/* ---- losses ------------------------------------------------------------------------------ */

void claim_lane_refused(struct claim *c) {
    if (c->stage == CLAIM_LINKING)
        claim_fail(c, lane_trouble(c->lane));
}

void claims_lost(struct peer *p, const struct error *why) {
    struct error lost = *why;
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;

    if (lost.code == RDMAD_OK)
        lost.code = RDMAD_E_PEER_LOST;
    while ((c = slots_next(&p->claims, &cursor, &ref))) {
        if (c->stage == CLAIM_ABANDONED)
            claim_free(c);
        else if (c->stage == CLAIM_HANDING)
            handed(c, &lost);
        else if (c->stage == CLAIM_LIVE)
            handle_end(c->handle, RDMAD_E_PEER_LOST, lost.text);
        else
            claim_fail(c, &lost);
    }
}

/* ---- ourselves ------------------------------------------------------------------------------ */

/* What is wanted of this daemon under another name. false: it is to be had by link only, or what it
 * is of cannot be found, which the other end can say. */
static bool become_local(struct claim *c) {
    struct leases *ls = state_of(c)->leases;
    struct session_waiter done = c->done;
    struct handle *h = c->handle;
    struct rdmad_uri uri = c->uri;
    struct error err;
    struct lease *l;

    if (h->session->closing || c->requested || lease_find(ls, &uri, &l, &err) ||
        handle_goes_by_link(state_of(c), l->terms.rights))
        return false;
    h->ops = NULL;
    claim_free(c);
    if (handle_attach_local(h, l, done.done, done.arg, &err) == 0)
        return true;
    handle_free(h);
    done.done(done.arg, &err);
    return true;
}

void claims_become_local(struct peer *p) {
    uint32_t cursor = 0;
    uint64_t ref;
    struct claim *c;
    while ((c = slots_next(&p->claims, &cursor, &ref)))
        become_local(c);
}
