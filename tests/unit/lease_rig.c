/* SPDX-License-Identifier: MIT */
#include "tests/unit/lease_rig.h"
#include "daemon/state/channel.h"
#include <assert.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct rig rig;

static struct session *sessions[16];
static struct pool *pools[16];
static struct rig_peer *peers[64];
static bool closed[16];
static unsigned nsessions, npools, npeers;

static uint64_t scripted_clock(void) {
    return rig.now_ns;
}

void rig_up(void) {
    struct quota_limits limits;
    for (unsigned r = 0; r < QUOTA_COUNT; r++)
        limits.total[r] = limits.uid[r] = limits.session[r] = UINT64_MAX;
    memset(&rig, 0, sizeof(rig));
    fake_reset();
    nsessions = npools = npeers = 0;
    memset(closed, 0, sizeof(closed));
    rig.now_ns = 1000 * NSEC_PER_SEC;
    rig.config.lease_max_ttl_ms = 3600000;
    rig.config.lease_revoke_grace_ms = 100;
    rig.config.lease_tombstones = 8;
    rig.config.attach_timeout_ms = 5000;
    rig.st.config = &rig.config;
    rig.st.clock = scripted_clock;
    strcpy(rig.st.node_name, "rig");
    strcpy(rig.st.listen_host, "127.0.0.1");
    rig.st.listen_port = 7471;
    list_init(&rig.st.sessions);
    timers_init(&rig.st.timers, NULL, NULL);
    slots_init(&rig.st.channels, 1000);
    quota_init(&rig.st.quota, &limits);
    cr_assert_eq(names_new(&rig.st.timers, &rig.st.names), 0);
    cr_assert_eq(leases_new(&rig.st, &rig.st.leases), 0);
}

void rig_down(void) {
    cr_expect_eq(leases_count(rig.st.leases), 0, "a lease is left");
    cr_expect_eq(timers_next(&rig.st.timers), CLOCK_NEVER, "a timer is left");
    cr_expect_eq(rig.st.quota.total.used[QUOTA_LEASES], 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_ATTACHES], 0);
    cr_expect_eq(rig.st.quota.total.used[QUOTA_REGISTERED], 0);
    for (unsigned i = 0; i < npools; i++) {
        cr_expect_eq(pools[i]->refs, 1, "a pool is still referenced");
        cr_expect_eq(pools[i]->leases, 0);
        free(pools[i]->base);
        free(pools[i]);
    }
    for (unsigned i = 0; i < nsessions; i++) {
        cr_expect_eq(sessions[i]->holds, 1, "session %u is held %u times", i, sessions[i]->holds);
        cr_expect_eq(sessions[i]->handles.used, 0);
        cr_expect_eq(sessions[i]->channels.used, 0);
        quota_uid_unref(&rig.st.quota, sessions[i]->uid_account);
        slots_fini(&sessions[i]->handles);
        slots_fini(&sessions[i]->channels);
        free(sessions[i]->plane);
        free(sessions[i]);
    }
    for (unsigned i = 0; i < npeers; i++)
        free(peers[i]);
    leases_free(rig.st.leases);
    names_free(rig.st.names);
    slots_fini(&rig.st.channels);
    timers_fini(&rig.st.timers);
    quota_fini(&rig.st.quota);
}

/* ---- sessions and pools: what lease.c and handle.c need of them ------------------------------ */

struct session *rig_session(uid_t uid) {
    struct session *s = calloc(1, sizeof(*s));
    s->state = &rig.st;
    s->id = nsessions + 1;
    s->uid = uid;
    s->holds = 1;
    s->plane = plane_session_add(NULL, s->id, session_user_id(s), s);
    s->uid_account = quota_uid_ref(&rig.st.quota, uid);
    list_init(&s->leases);
    list_init(&s->handles_ended);
    list_init(&s->late_events);
    list_init(&s->services);
    list_init(&s->others);
    list_init(&s->calls);
    slots_init(&s->handles, 1000);
    slots_init(&s->channels, 1000);
    sessions[nsessions++] = s;
    return s;
}

static void half_closed(void *arg, const struct error *result) {
    struct session *s = arg;
    (void)result;
    if (--s->steps == 0)
        closed[s->id - 1] = true;
}

/* A test of leases alone is linked without channels. */
#pragma weak services_close_session
#pragma weak channels_end_others
#pragma weak channels_release_session

static void plane_dropped(void *arg, const struct error *result) {
    struct session *s = arg;
    (void)result;
    s->steps = channels_release_session ? 3 : 2;
    if (channels_release_session)
        channels_release_session(s, half_closed, s);
    leases_end_session(s, RDMAD_E_LEASE_ORPHANED, half_closed, s);
    handles_release_session(s, half_closed, s);
}

static void others_gone(void *arg, const struct error *result) {
    struct session *s = arg;
    struct plane_session *plane = s->leaving;
    (void)result;
    s->leaving = NULL;
    if (plane)
        plane_session_drop(plane, plane_dropped, s);
}

void rig_close(struct session *s) {
    struct error why = {.code = RDMAD_E_CANCELED, .text = "the session ended"};
    struct list *node;
    s->closing = true;
    while ((node = list_pop(&s->calls))) {
        struct session_call *call = list_entry(node, struct session_call, node);
        call->give_up(call, &why);
    }
    s->leaving = s->plane;
    s->plane = NULL;
    if (services_close_session)
        services_close_session(s);
    if (channels_end_others)
        channels_end_others(s, others_gone, s);
    else
        others_gone(s, NULL);
}

bool rig_closed(const struct session *s) {
    return closed[s->id - 1];
}

void session_hold(struct session *s) {
    s->holds++;
}
void session_release(struct session *s) {
    s->holds--;
}

bool session_send(struct session *s, uint16_t type, uint32_t seq, const void *body, size_t size,
                  const int *fds, unsigned nfds) {
    assert(rig.nevents < sizeof(rig.events) / sizeof(rig.events[0]));
    struct rig_event *e = &rig.events[rig.nevents++];
    (void)seq, (void)size, (void)fds, (void)nfds;
    e->session = s;
    e->type = type;
    if (type == RDMAD_EV_LEASE_ENDED) {
        const struct rdmad_ev_lease_ended *m = body;
        e->lease = m->lease;
        e->handle = m->handle;
        e->reason = m->reason;
        strcpy(e->text, m->text);
    } else if (type == RDMAD_EV_CHANNEL_INCOMING) {
        const struct rdmad_ev_channel_incoming *m = body;
        e->handle = m->incoming;
        e->service = m->service;
        e->uid = m->uid;
        e->kind = m->kind;
        strcpy(e->node, m->node);
        strcpy(e->address, m->address);
    } else if (type == RDMAD_EV_INCOMING_GONE) {
        const struct rdmad_channel_reject_req *m = body;
        e->handle = m->incoming;
        e->service = m->service;
    } else if (type == RDMAD_EV_CHANNEL_CLOSED) {
        const struct rdmad_ev_channel_closed *m = body;
        e->handle = m->channel;
        e->reason = m->reason;
        strcpy(e->text, m->text);
    } else if (type == RDMAD_EV_CHANNEL_SILENT) {
        const struct rdmad_ev_channel_silent *m = body;
        e->handle = m->channel;
        e->kind = m->silent;
        e->ttl_ns = m->silent_ns;
    } else if (type == RDMAD_EV_CHANNEL_WAY) {
        const struct rdmad_ev_channel_way *m = body;
        e->handle = m->channel;
        e->kind = m->away;
    } else if (type == RDMAD_EV_LEASE_RENEWED) {
        const struct rdmad_ev_lease_renewed *m = body;
        e->lease = m->lease;
        e->handle = m->handle;
        e->ttl_ns = m->ttl_ns;
    } else if (type == RDMAD_EV_LEASE_PART) {
        const struct rdmad_part *m = body;
        e->lease = m->lease;
        e->handle = m->parent;
    }
    return true;
}

bool session_lags(const struct session *s) {
    (void)s;
    return rig.lags || (rig.lags_after && rig.nevents >= rig.lags_after);
}

void session_send_error(struct session *s, uint16_t type, uint32_t seq, const struct error *why) {
    (void)s, (void)type, (void)seq, (void)why;
}

struct pool *rig_pool(struct session *s) {
    for (unsigned i = 0; i < npools; i++)
        if (pools[i]->session == s)
            return pools[i];
    struct pool *p = calloc(1, sizeof(*p));
    p->session = s;
    p->handle = 77;
    p->bytes = 1 << 20;
    p->base = calloc(1, p->bytes);
    p->memory = (struct fabric_memory *)p; /* never touched here */
    p->refs = 1;
    pools[npools++] = p;
    return p;
}

struct pool *pool_find(struct session *s, uint64_t handle, struct error *err) {
    (void)err;
    cr_assert_eq(handle, 77);
    return rig_pool(s);
}

bool pool_covers(const struct pool *p, uint64_t offset, uint64_t length) {
    return offset <= p->bytes && length <= p->bytes - offset;
}
void pool_ref(struct pool *p) {
    p->refs++;
}
void pool_unref(struct pool *p) {
    p->refs--;
}

/* ---- shorthand ------------------------------------------------------------------------------- */

void rig_advance(uint64_t ns) {
    rig.now_ns += ns;
    timers_run(&rig.st.timers, rig.now_ns);
}

struct lease_terms rig_terms(uint64_t ttl_ms) {
    return (struct lease_terms){
        .offset = 4096, .length = 8192, .ttl_ns = ttl_ms * MS, .rights = RDMAD_RIGHTS_ALL};
}

struct lease *rig_grant_terms(struct session *owner, const struct lease_terms *terms) {
    struct lease *l = NULL;
    struct error err = {0};
    cr_assert_eq(lease_grant(rig_pool(owner), terms, &l, &err), 0, "%s", err.text);
    return l;
}

struct lease *rig_grant(struct session *owner, uint64_t ttl_ms) {
    struct lease_terms terms = rig_terms(ttl_ms);
    return rig_grant_terms(owner, &terms);
}

unsigned rig_events(const struct session *s, uint16_t type) {
    unsigned n = 0;
    for (unsigned i = 0; i < rig.nevents; i++)
        n += rig.events[i].session == s && rig.events[i].type == type;
    return n;
}

const struct rig_event *rig_last_event(const struct session *s) {
    for (unsigned i = rig.nevents; i-- > 0;)
        if (rig.events[i].session == s)
            return &rig.events[i];
    cr_assert_fail("no event for session %lu", (unsigned long)s->id);
    return NULL;
}

static void peer_stop(struct attachment *a, int reason) {
    struct rig_peer *p = container_of(a, struct rig_peer, a);
    p->stopped = true;
    p->reason = reason;
    if (p->answer_at_once)
        attachment_stopped(a);
}
static void peer_renewed(struct attachment *a) {
    container_of(a, struct rig_peer, a)->renewed = true;
}
static void peer_gone(struct attachment *a, int reason) {
    struct rig_peer *p = container_of(a, struct rig_peer, a);
    p->gone = true;
    p->reason = reason;
}
struct rdmad_uri rig_uri(const struct lease *l) {
    struct rdmad_uri u;
    char text[RDMAD_URI_MAX + 1];
    lease_uri(l, text);
    cr_assert_null(rdmad_uri_parse(text, &u), "%s", text);
    return u;
}

int rig_find_error(const struct rdmad_uri *u, struct error *err) {
    struct lease *l;
    return lease_find(rig.st.leases, u, &l, err);
}

void rig_finish(struct lease *l) {
    lease_end(l, RDMAD_E_LEASE_REVOKED, NULL, NULL);
    rig_advance(MS * 100);
    fake_answer_all();
}

static void opened(void *arg, const struct error *result, const struct fabric_blob *blob) {
    (void)arg, (void)result, (void)blob;
}

int rig_peer_try(struct rig_peer *p, struct lease *l, const char *address, struct error *err) {
    static const struct attachment_ops ops = {
        .stop = peer_stop, .renewed = peer_renewed, .gone = peer_gone};
    struct lessee who = {.peer = 5, .address = address};
    int rc = lease_attach(l, &who, &p->a, &ops, err);
    if (rc)
        return rc;
    struct fabric_window_spec spec = {.peer = 5, .audit = &p->a.audit};
    p->a.window = plane_window_open(NULL, 0, &spec, NULL, opened, p);
    fake_answer(fake_call(FAKE_WINDOW_OPEN, -1), 0);
    return 0;
}

struct rig_peer *rig_peer(struct lease *l, const char *address) {
    struct rig_peer *p = calloc(1, sizeof(*p));
    struct error err = {0};
    peers[npeers++] = p;
    cr_assert_eq(rig_peer_try(p, l, address, &err), 0, "%s", err.text);
    return p;
}

void rig_done(void *arg, const struct error *result) {
    struct rig_done *d = arg;
    d->calls++;
    d->code = result ? result->code : 0;
    strcpy(d->text, result ? result->text : "");
}
