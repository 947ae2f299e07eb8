/* SPDX-License-Identifier: MIT */
/*
 * fake_plane.c - see fake_plane.h. Objects are small blocks that the ending call frees, so a use
 * after it is an AddressSanitizer report; a session's goes with that call's answer, and a use in
 * between ends the test.
 */
#include "tests/unit/fake_plane.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 16384
#define GONE 1 /* the number of an open whose lane was dropped */

static struct fake_call calls[CALLS_MAX];
static unsigned used;
static uint64_t lane_numbers;
static uint8_t blobs;
bool fake_one_number;
bool fake_atomics_are_cpus = true;
bool fake_grants_at_once = true;
unsigned fake_memories, fake_looks;
int fake_memory_error;
bool fake_worker_stands;
unsigned fake_workers = 1;
unsigned fake_questions;

/* Each object remembers the answers owed about it only through calls[]; its content is a token. */
struct plane_session {
    struct plane_session_stats stats;
    struct plane_failure failures[PLANE_FAILURES]; /* the last of them, the oldest first */
    unsigned nfailures;
    uint64_t failed[PLANE_CODES];
    bool told;
    struct histogram latency;
    bool dropped;
};
struct plane_lane {
    uint64_t number;
    unsigned fabric;
    void *cookie;
};
struct plane_window {
    int token;
};

void fake_reset(void) {
    memset(calls, 0, used * sizeof(calls[0]));
    used = 0;
    lane_numbers = 0;
    blobs = 0;
    fake_memory_error = 0;
    fake_one_number = false;
    fake_atomics_are_cpus = true;
    fake_fabrics[0] = &fake_fabric;
    fake_fabrics[1] = NULL;
    fake_grants_at_once = true;
    fake_looks = 0;
}

static struct fake_call *note(enum fake_kind kind, uint64_t number, const void *object) {
    assert(used < CALLS_MAX);
    struct fake_call *c = &calls[used++];
    *c = (struct fake_call){.kind = kind, .number = number, .object = object};
    return c;
}

/* 0: more is asked of a session that was not dropped. */
static uint64_t live(const struct plane_session *s) {
    assert(s && !s->dropped);
    return 0;
}

static void owe(struct fake_call *c, plane_done *done, void *arg) {
    c->done = done;
    c->arg = arg;
    c->pending = done != NULL;
}

static void owe_blob(struct fake_call *c, plane_blob_done *done, void *arg) {
    c->blob_done = done;
    c->arg = arg;
    c->pending = true;
}

unsigned fake_count(enum fake_kind kind) {
    unsigned n = 0;
    for (unsigned i = 0; i < used; i++)
        n += calls[i].kind == kind;
    return n;
}

unsigned fake_pending(enum fake_kind kind) {
    unsigned n = 0;
    for (unsigned i = 0; i < used; i++)
        n += calls[i].kind == kind && calls[i].pending;
    return n;
}

struct fake_call *fake_call(enum fake_kind kind, int nth) {
    int n = nth < 0 ? nth + (int)fake_count(kind) : nth;
    for (unsigned i = 0; i < used && n >= 0; i++)
        if (calls[i].kind == kind && n-- == 0)
            return &calls[i];
    return NULL;
}

void fake_answer(struct fake_call *c, int code) {
    struct error result = {.code = code};
    struct fabric_blob blob = {.size = 5, .bytes = {'b', 'l', 'o', 'b', blobs}};
    assert(c && c->pending);
    if (code)
        snprintf(result.text, sizeof(result.text), "the data plane says %d", code);
    c->pending = false;
    if (c->kind == FAKE_LANE_OPEN && !code && c->number != GONE)
        ((struct plane_lane *)(uintptr_t)c->object)->number = fake_one_number ? 1 : ++lane_numbers;
    if (c->blob_done && !code)
        blobs++;
    if (c->blob_done)
        c->blob_done(c->arg, &result, &blob);
    else
        c->done(c->arg, &result);
    if (c->kind == FAKE_SESSION_DROP)
        free((void *)(uintptr_t)c->object);
}

void fake_answer_all(void) {
    for (unsigned i = 0; i < used; i++)
        if (calls[i].pending)
            fake_answer(&calls[i], RDMAD_OK);
}

/* Whether a worker must have answered c before it answers later: it takes what is asked of an
 * object in order. Only what a channel has sent may take any time; a session goes last. */
static bool goes_first(const struct fake_call *c, const struct fake_call *later) {
    return c->pending && c->object && c->object == later->object &&
           (c->kind != FAKE_CHANNEL_END || !c->linger || later->kind == FAKE_SESSION_DROP);
}

struct fake_call *fake_next(unsigned nth) {
    struct fake_call *found = NULL;
    for (unsigned i = 0; i < used; i++) {
        bool waits = calls[i].pending;
        for (unsigned j = 0; waits && j < i; j++)
            waits = !goes_first(&calls[j], &calls[i]);
        if (!waits)
            continue;
        found = &calls[i];
        if (nth-- == 0)
            break;
    }
    return found;
}

/* ---- plane.h --------------------------------------------------------------------------------- */

static bool atomics_are_cpus(struct fabric_host *host) {
    (void)host;
    return fake_atomics_are_cpus;
}

const struct fabric_ops fake_fabric = {.name = "fake", .atomics_are_cpus = atomics_are_cpus};
const struct fabric_ops *fake_fabrics[PLANE_FABRICS_MAX] = {&fake_fabric};

struct fabric_host *plane_fabric_host(const struct plane *p, unsigned fabric) {
    (void)p, (void)fabric;
    return NULL;
}

const struct fabric_ops *plane_fabric(const struct plane *p, unsigned fabric) {
    (void)p;
    return fabric < PLANE_FABRICS_MAX ? fake_fabrics[fabric] : NULL;
}

uint64_t plane_quiesce_ns(const struct plane *p, unsigned fabric) {
    (void)p, (void)fabric;
    return 0;
}

/* The share that was told last, of whoever. */
struct plane_share fake_share;
uint64_t fake_share_of;

static int take_share(uint64_t of, const struct plane_share *share) {
    fake_share = *share;
    fake_share_of = of;
    return 0;
}

int plane_user_share(struct plane *p, struct user_id user, const struct plane_share *share) {
    (void)p;
    return take_share(user_id_number(user), share);
}

int plane_peer_share(struct plane *p, uint64_t peer, const struct plane_share *share) {
    (void)p;
    return take_share(peer, share);
}

void plane_user_limits(struct plane *p, struct user_id user, const struct plane_limits *limits) {
    (void)p, (void)user, (void)limits;
}

void plane_user_stats(const struct plane *p, struct user_id user, struct plane_user_stats *out) {
    (void)p, (void)user;
    *out = (struct plane_user_stats){.share = PLANE_SHARE_DEFAULT};
}

struct plane_session *plane_session_add(struct plane *p, uint64_t id, struct user_id user,
                                        void *cookie) {
    (void)p, (void)id, (void)user, (void)cookie;
    return calloc(1, sizeof(struct plane_session));
}

const struct plane_session_stats *plane_session_stats(const struct plane_session *s) {
    return &s->stats;
}

void plane_session_latency(const struct plane_session *s, struct histogram *to) {
    histogram_sum(to, &s->latency);
}

void fake_session_did(struct plane_session *s, uint64_t span_ns, uint64_t ops) {
    s->stats.ops += ops;
    histogram_add(&s->latency, span_ns, ops);
}

unsigned plane_worker_of_session(const struct plane_session *s) {
    return (unsigned)live(s);
}

void plane_session_pause(struct plane_session *s, bool pause, plane_done *done, void *arg) {
    owe(note(FAKE_SESSION_PAUSE, pause + live(s), s), done, arg);
}

void plane_session_ask_alive(struct plane_session *s, plane_done *done, void *arg) {
    owe(note(FAKE_SESSION_ALIVE, live(s), s), done, arg);
}

void plane_session_drop(struct plane_session *s, plane_done *done, void *arg) {
    owe(note(FAKE_SESSION_DROP, live(s), s), done, arg);
    s->dropped = true; /* what it came to can be read until that is answered */
}

void plane_ring_add(struct plane_session *s, uint64_t handle, struct ring *ring, plane_done *done,
                    void *arg) {
    (void)ring;
    owe(note(FAKE_RING_ADD, handle + live(s), s), done, arg);
}

void plane_ring_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    owe(note(FAKE_RING_DROP, handle + live(s), s), done, arg);
}

struct fabric_memory {
    void *base;
};

int plane_memory_add(struct plane *p, void *base, uint64_t bytes, struct fabric_memory **out,
                     struct error *err) {
    (void)p;
    if (fake_memory_error)
        return error_set(err, fake_memory_error, "%lu bytes cannot be registered with fake0",
                         (unsigned long)bytes);
    *out = malloc(sizeof(**out));
    (*out)->base = base;
    fake_memories++;
    return 0;
}

void plane_memory_remove(struct plane *p, struct fabric_memory *memory) {
    (void)p;
    memset(memory->base, 0, 1); /* it must still be mapped */
    free(memory);
    fake_memories--;
}

void plane_pool_add(struct plane_session *s, uint64_t handle, void *base, uint64_t bytes,
                    struct fabric_memory *memory, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_POOL_ADD, handle + live(s), s);
    (void)base, (void)bytes;
    c->memory = memory;
    owe(c, done, arg);
}

void plane_pool_drop(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    owe(note(FAKE_POOL_DROP, handle + live(s), s), done, arg);
}

void plane_lease_add(struct plane_session *s, uint64_t handle, const struct plane_lease_spec *spec,
                     plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_LEASE_ADD, handle + live(s), s);
    c->spec = *spec;
    owe(c, done, arg);
}

void plane_lease_extend(struct plane_session *s, uint64_t handle, uint64_t deadline_ns) {
    note(FAKE_LEASE_EXTEND, handle + live(s), s)->deadline_ns = deadline_ns;
}

void plane_lease_return(struct plane_session *s, uint64_t handle, uint64_t deadline_ns,
                        uint64_t notify_ref) {
    struct fake_call *c = note(FAKE_LEASE_RETURN, handle + live(s), s);
    c->deadline_ns = deadline_ns;
    c->peer_number = notify_ref;
}

void plane_lease_key(struct plane_session *s, uint64_t handle, const struct fabric_blob *key) {
    note(FAKE_LEASE_KEY, handle + live(s), s)->blob = *key;
}

void plane_lease_end(struct plane_session *s, uint64_t handle, int reason, plane_done *done,
                     void *arg) {
    struct fake_call *c = note(FAKE_LEASE_END, handle + live(s), s);
    c->reason = reason;
    owe(c, done, arg);
}

void plane_lease_forget(struct plane_session *s, uint64_t handle) {
    note(FAKE_LEASE_FORGET, handle + live(s), s);
}

struct plane_lane *plane_lane_new(struct plane *p, unsigned fabric, unsigned worker, bool secured,
                                  void *cookie) {
    struct plane_lane *lane = calloc(1, sizeof(*lane));
    struct fake_call *c = note(FAKE_LANE_NEW, worker, lane);
    (void)p;
    lane->cookie = c->cookie = cookie;
    lane->fabric = c->fabric = fabric;
    c->secured = secured;
    return lane;
}

void plane_lane_peer(struct plane_lane *lane, uint64_t number, const char *node) {
    (void)lane, (void)number, (void)node;
}

const struct fabric_ops *plane_lane_fabric(const struct plane_lane *lane) {
    return fake_fabrics[lane->fabric];
}

void plane_lane_hello(struct plane_lane *lane, plane_blob_done *done, void *arg) {
    struct fake_call *c = note(FAKE_LANE_HELLO, 0, lane);
    c->cookie = lane->cookie;
    lane->number = 0;
    owe_blob(c, done, arg);
}

void plane_lane_open(struct plane_lane *lane, const char *host, const struct fabric_blob *offer,
                     plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_LANE_OPEN, 0, lane);
    (void)host;
    c->cookie = lane->cookie;
    c->blob = *offer;
    owe(c, done, arg);
}

uint64_t plane_lane_number(const struct plane_lane *lane) {
    return lane->number;
}

uint64_t plane_lane_datagram(const struct plane_lane *lane) {
    return lane->number ? FAKE_DATAGRAM : 0;
}

enum fabric_encryption plane_lane_encryption(const struct plane_lane *lane) {
    return lane->number ? FABRIC_OPENSSL : FABRIC_CLEAR;
}

unsigned plane_session_failures(const struct plane_session *s,
                                struct plane_failure out[PLANE_FAILURES]) {
    memcpy(out, s->failures, s->nfailures * sizeof(*out));
    return s->nfailures;
}

void plane_session_failed(const struct plane_session *s, uint64_t out[PLANE_CODES]) {
    memcpy(out, s->failed, sizeof(s->failed));
}

void plane_session_by_status(const struct plane_session *s, uint64_t failed[PLANE_CODES]) {
    memcpy(failed, s->failed, sizeof(s->failed));
}

void plane_session_hear_failures(struct plane_session *s) {
    fake_looks++;
    s->told = false;
}

bool fake_fail(struct plane_session *s, const struct plane_failure *f) {
    if (s->nfailures == PLANE_FAILURES) {
        s->nfailures--;
        memmove(s->failures, s->failures + 1, s->nfailures * sizeof(*f));
    }
    s->failures[s->nfailures] = *f;
    s->failures[s->nfailures++].nth = ++s->failed[-f->status];
    bool news = !s->told;
    s->told = true;
    return news;
}

void plane_lane_stats(const struct plane_lane *lane, struct plane_lane_stats *out) {
    (void)lane;
    *out = (struct plane_lane_stats){.ops = 1};
}

void plane_lane_rest(struct plane_lane *lane, plane_done *done, void *arg) {
    owe(note(FAKE_LANE_REST, 0, lane), done, arg);
}

void plane_lane_unlink(struct plane_lane *lane, plane_done *done, void *arg) {
    lane->number = 0;
    owe(note(FAKE_LANE_UNLINK, 0, lane), done, arg);
}

void plane_lane_drop(struct plane_lane *lane, plane_done *done, void *arg) {
    for (unsigned i = 0; i < used; i++) /* what is still owed about it */
        if (calls[i].object == lane && calls[i].kind == FAKE_LANE_OPEN)
            calls[i].number = GONE;
    owe(note(FAKE_LANE_DROP, 0, lane), done, arg);
    free(lane);
}

unsigned plane_worker_of_peer(const struct plane *p, uint64_t peer) {
    (void)p, (void)peer;
    return 0;
}

unsigned plane_workers(const struct plane *p) {
    (void)p;
    return fake_workers;
}

void plane_offer_on(struct plane *p, unsigned fabric, unsigned worker, uint64_t peer, bool secured,
                    const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    struct fake_call *c = note(FAKE_OFFER, peer, NULL);
    c->secured = secured;
    (void)p;
    c->fabric = fabric;
    c->count = worker;
    c->blob = *hello;
    owe_blob(c, done, arg);
}

void plane_offer(struct plane *p, unsigned fabric, uint64_t peer, bool secured,
                 const struct fabric_blob *hello, plane_blob_done *done, void *arg) {
    plane_offer_on(p, fabric, plane_worker_of_peer(p, peer), peer, secured, hello, done, arg);
}

void plane_forget(struct plane *p, unsigned fabric, uint64_t peer, uint64_t number,
                  plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_FORGET, number, NULL);
    c->fabric = fabric;
    (void)p, (void)peer;
    owe(c, done, arg);
}

void plane_expel(struct plane *p, unsigned fabric, uint64_t peer, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_EXPEL, peer, NULL);
    (void)p;
    c->fabric = fabric;
    owe(c, done, arg);
}

struct plane_window *plane_window_open(struct plane *p, unsigned fabric,
                                       const struct fabric_window_spec *spec,
                                       const struct plane_window_notify *notify,
                                       plane_blob_done *done, void *arg) {
    struct plane_window *w = calloc(1, sizeof(*w));
    (void)p;
    if (!w)
        return NULL;
    struct fake_call *c = note(FAKE_WINDOW_OPEN, spec->peer, w);
    c->window = *spec;
    if (notify)
        c->notify = *notify;
    c->fabric = fabric;
    owe_blob(c, done, arg);
    return w;
}

void plane_window_reopen(struct plane_window *w, uint64_t via, plane_blob_done *done, void *arg) {
    owe_blob(note(FAKE_WINDOW_REOPEN, via + (uint64_t)w->token, w), done, arg);
}

void plane_window_extend(struct plane_window *w, uint64_t deadline_ns) {
    note(FAKE_WINDOW_EXTEND, (uint64_t)w->token, w)->deadline_ns = deadline_ns;
}

void plane_window_close(struct plane_window *w, int reason, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_WINDOW_CLOSE, (uint64_t)w->token, w);
    c->reason = reason;
    owe(c, done, arg);
    free(w);
}

void plane_grant_add(struct plane_session *s, uint64_t lease_id, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_GRANT_ADD, lease_id + live(s), s);
    owe(c, done, arg);
    if (fake_grants_at_once)
        fake_answer(c, 0);
}

void plane_grant_drop(struct plane_session *s, uint64_t lease_id, int reason, plane_done *done,
                      void *arg) {
    struct fake_call *c = note(FAKE_GRANT_DROP, lease_id + live(s), s);
    c->reason = reason;
    owe(c, done, arg);
    if (fake_grants_at_once)
        fake_answer(c, 0);
}

/* ---- channels -------------------------------------------------------------------------------- */

void plane_channel_add(struct plane_session *s, uint64_t handle,
                       const struct plane_channel_spec *spec, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_CHANNEL_ADD, handle + live(s), s);
    c->channel = *spec;
    c->cookie = spec->cookie;
    owe(c, done, arg);
}

void plane_channel_open(struct plane_session *s, uint64_t handle, uint64_t peer_number,
                        struct plane_session *peer) {
    struct fake_call *c = note(FAKE_CHANNEL_OPEN, handle + live(s), s);
    c->peer_number = peer_number;
    c->other_end = peer;
}

void plane_channel_rest(struct plane_session *s, uint64_t handle, plane_done *done, void *arg) {
    owe(note(FAKE_CHANNEL_REST, handle + live(s), s), done, arg);
}

void plane_channel_way(struct plane_session *s, uint64_t handle, uint64_t number,
                       struct plane_lane *lane, uint64_t peer_in, plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_CHANNEL_WAY, handle + live(s), s);
    c->channel = (struct plane_channel_spec){.number = number, .lane = lane, .peer_in = peer_in};
    owe(c, done, arg);
}

void plane_channel_end(struct plane_session *s, uint64_t handle, int reason, bool linger,
                       plane_done *done, void *arg) {
    struct fake_call *c = note(FAKE_CHANNEL_END, handle + live(s), s);
    c->reason = reason;
    c->linger = linger;
    owe(c, done, arg);
}

void plane_channel_forget(struct plane_session *s, uint64_t handle) {
    note(FAKE_CHANNEL_FORGET, handle + live(s), s);
}

bool plane_worker_turns(struct plane *p, unsigned worker) {
    (void)p;
    fake_questions++;
    return !(worker == 1 && fake_worker_stands);
}
