/* SPDX-License-Identifier: MIT */
/*
 * requests_programs.c - programs and their connections (ipc/conn.h without a socket), and what they
 * are told.
 */
#include "common/uri.h"
#include "daemon/ipc/conn.h"
#include "daemon/serve/serve.h"
#include "daemon/state/origin.h"
#include "tests/fuzz/requests_rig.h"

#define TOLD_MAX 1024u
#define TENANT 3u /* the program that comes by a tenant's socket */

struct conn {
    struct program *program;
    struct conn_peer peer;
    void *unsent; /* a packet whose descriptors were not taken */
    size_t unsent_size;
};

struct program programs[PROGRAMS];
static struct conn conns[PROGRAMS];
static struct program *connecting;
static struct told told[TOLD_MAX];
static unsigned ntold;
static const uid_t uids[PROGRAMS] = {1000, 1000, 1001, 1000};

/* ---- what is told ---------------------------------------------------------------------------- */

void tell(enum thing kind, uint64_t session, uint64_t number, const void *bytes, size_t size) {
    struct told *t = &told[ntold];
    if (ntold == TOLD_MAX || (kind < THING_NUMBERS && was_told(kind, session, number)))
        return;
    must(size <= sizeof(t->bytes));
    *t = (struct told){.kind = kind, .session = session, .number = number, .size = (uint16_t)size};
    memcpy(t->bytes, bytes, size);
    ntold++;
}

static void tell_number(enum thing kind, const struct program *p, uint64_t number) {
    tell(kind, p->session->id, number, &number, sizeof(number));
}

const struct told *told_nth(enum thing kind, unsigned nth) {
    const struct told *first = NULL;
    for (unsigned i = ntold; i-- > 0;) {
        if (told[i].kind != kind)
            continue;
        if (nth-- == 0)
            return &told[i];
        first = &told[i];
    }
    return first;
}

bool was_told_bytes(enum thing kind, uint64_t number, const void *bytes, size_t size) {
    if (ntold == TOLD_MAX)
        return true; /* perhaps */
    for (unsigned i = 0; i < ntold; i++)
        if (told[i].kind == kind && told[i].number == number && told[i].size == size &&
            memcmp(told[i].bytes, bytes, size) == 0)
            return true;
    return false;
}

bool was_told(enum thing kind, uint64_t session, uint64_t number) {
    if (ntold == TOLD_MAX)
        return true; /* perhaps */
    for (unsigned i = 0; i < ntold; i++)
        if (told[i].kind == kind && told[i].session == session && told[i].number == number)
            return true;
    return false;
}

void told_forget(void) {
    ntold = 0;
}

static void tell_lease(const struct program *p, const struct rdmad_lease_grant_rep *rep) {
    struct rdmad_uri uri;
    tell_number(THING_LEASE, p, rep->lease);
    tell(THING_LEASE_URI, p->session->id, rep->lease, rep->uri, strlen(rep->uri));
    must(rdmad_uri_parse(rep->uri, &uri) == NULL);
    tell(THING_LEASE_KEY, p->session->id, rep->lease, uri.key, sizeof(uri.key));
}

static void tell_service(const struct program *p, const struct rdmad_service_listen_rep *rep) {
    struct rdmad_uri uri;
    tell_number(THING_SERVICE, p, rep->service);
    must(rdmad_uri_parse(rep->uri, &uri) == NULL && uri.name[0]);
    tell(THING_SERVICE_URI, p->session->id, rep->service, rep->uri, strlen(rep->uri));
}

static void hear_reply(const struct program *p, uint16_t type, const void *body, const int *fds) {
    uint64_t number = 0;
    if (check_reply_size(type) >= sizeof(number))
        memcpy(&number, body, sizeof(number));
    switch (type) {
    case RDMAD_MSG_RING_CREATE:
        tell_number(THING_RING, p, number);
        memory_keep(fds[0], false, false);
        memory_keep(fds[1], true, false);
        break;
    case RDMAD_MSG_POOL_CREATE:
        memory_keep(fds[0], false, origin_is_set(p->session));
        tell_number(THING_POOL, p, number);
        break;
    case RDMAD_MSG_POOL_IMPORT:
    case RDMAD_MSG_POOL_RESUME:
        tell_number(THING_POOL, p, number);
        break;
    case RDMAD_MSG_LEASE_GRANT:
    case RDMAD_MSG_LEASE_RESUME:
    case RDMAD_MSG_LEASE_DELEGATE:
        tell_lease(p, body);
        break;
    case RDMAD_MSG_LEASE_ATTACH:
    case RDMAD_MSG_ATTACH_RESUME:
    case RDMAD_MSG_LEASE_REQUEST:
        tell_number(THING_HANDLE, p, number);
        break;
    case RDMAD_MSG_SERVICE_LISTEN:
    case RDMAD_MSG_SERVICE_RESUME:
        tell_service(p, body);
        break;
    case RDMAD_MSG_CHANNEL_CONNECT:
    case RDMAD_MSG_CHANNEL_ACCEPT:
    case RDMAD_MSG_CHANNEL_RESUME:
        tell_number(THING_CHANNEL, p, number);
        break;
    case RDMAD_MSG_NAMES_WATCH:
        tell_number(THING_WATCH, p, number);
        break;
    case RDMAD_MSG_RESUME_OFFER:
        tell(THING_PROOF, p->session->id, p->uid, body, sizeof(struct rdmad_resume_proof));
        break;
    case RDMAD_MSG_CHANNEL_PROOF:
        tell(THING_CHANNEL_KEY, p->session->id, p->uid, body, RDMAD_CHANNEL_KEY_BYTES);
        break;
    default:
        break;
    }
}

static void hear_event(const struct program *p, const struct rdmad_msg_header *h,
                       const void *body) {
    must(h->seq == 0);
    if (h->type == RDMAD_EV_CHANNEL_INCOMING) {
        const struct rdmad_ev_channel_incoming *ev = body;
        must(was_told(THING_SERVICE, p->session->id, ev->service));
        tell_number(THING_INCOMING, p, ev->incoming);
    } else if (h->type == RDMAD_EV_LEASE_PART) {
        const struct rdmad_part *part = body;
        if (part->lease && part->parent)
            tell(THING_PART, p->session->id, part->lease, part, sizeof(*part));
    } else if (h->type == RDMAD_EV_NAME) {
        const struct rdmad_ev_name *ev = body;
        must(was_told(THING_WATCH, p->session->id, ev->watch));
    } else if (h->type == RDMAD_EV_LEASE_ENDED) {
        const struct rdmad_ev_lease_ended *ev = body;
        must(ev->reason && (!ev->handle || was_told(THING_HANDLE, p->session->id, ev->handle)));
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static struct asked *take_asked(struct program *p, uint16_t type, uint32_t seq) {
    for (unsigned i = 0; i < p->nwaiting; i++) {
        struct asked *a = p->waiting[i];
        if (a->type != type || a->seq != seq)
            continue;
        p->waiting[i] = p->waiting[--p->nwaiting];
        return a;
    }
    return NULL;
}

static void hear_answer(struct program *p, const struct rdmad_msg_header *h, const void *body,
                        const int *fds, unsigned nfds) {
    uint16_t type = (uint16_t)(h->type & ~RDMAD_MSG_REPLY);
    struct asked *a = take_asked(p, type, h->seq);
    must(a); /* else it was answered before, or nobody asked */
    size_t want = h->status ? sizeof(struct rdmad_msg_error) : check_reply_size(type);
    must(h->status <= 0 && h->length == sizeof(*h) + want);
    must(nfds == (h->status ? 0 : check_reply_fds(type)));
    if (!h->status)
        hear_reply(p, type, body, fds);
    p->services +=
        !h->status && (type == RDMAD_MSG_SERVICE_LISTEN || type == RDMAD_MSG_SERVICE_RESUME);
    check_answer(p, a, h->status, body);
    free(a);
}

/* A program may guess the number of its own that the packet would have told. */
static void guess_unsent(const struct program *p, uint16_t type, uint64_t number) {
    if (type == (RDMAD_MSG_REPLY | RDMAD_MSG_RING_CREATE))
        tell_number(THING_RING, p, number);
    else if (type == (RDMAD_MSG_REPLY | RDMAD_MSG_POOL_CREATE))
        tell_number(THING_POOL, p, number);
}

bool conn_send(struct conn *c, const void *data, size_t size, const int *fds, unsigned nfds) {
    struct program *p = c->program;
    struct rdmad_msg_header h;
    union {
        uint64_t aligned[RDMAD_MSG_MAX / sizeof(uint64_t)];
        uint8_t bytes[RDMAD_MSG_MAX];
    } body;
    must(p->connected && size >= sizeof(h) && size <= RDMAD_MSG_MAX);
    memcpy(&h, data, sizeof(h));
    memcpy(body.bytes, (const char *)data + sizeof(h), size - sizeof(h));
    must(h.magic == RDMAD_WIRE_MAGIC && h.length == size && !h.reserved);
    if (nfds && p->loses_fds && !c->unsent) {
        p->loses_fds = false;
        must((c->unsent = malloc(size)));
        memcpy(c->unsent, data, size);
        c->unsent_size = size;
        guess_unsent(p, h.type, body.aligned[0]);
        return false;
    }
    if (h.type & RDMAD_MSG_REPLY) {
        hear_answer(p, &h, body.bytes, fds, nfds);
    } else {
        must(h.type & RDMAD_MSG_EVENT);
        if (p->session && h.type != RDMAD_EV_SESSION_ENDED)
            hear_event(p, &h, body.bytes);
    }
    return true;
}

int conn_new(struct event_base *base, struct porter *porter, struct rota *rota, int fd,
             uint32_t tenant, const struct conn_events *events, void *user, struct conn **out) {
    (void)base, (void)porter, (void)rota, (void)fd, (void)tenant, (void)user;
    struct program *p = connecting;
    struct conn *c = &conns[p - programs];
    static gid_t groups[] = {77};
    *p = (struct program){.connected = true, .uid = uids[p - programs], .events = events};
    *c = (struct conn){
        .program = p,
        .peer = {.uid = p->uid, .gid = 50, .pid = 1, .groups = groups, .ngroups = p->uid == 1001}};
    *out = c;
    return 0;
}

void conn_set_user(struct conn *c, void *user) {
    c->program->session = user;
}

const struct conn_peer *conn_peer(const struct conn *c) {
    return &c->peer;
}

bool conn_peer_in(const struct conn_peer *peer, gid_t group) {
    return peer->ngroups && peer->groups[0] == group;
}

bool conn_lags(const struct conn *c) {
    return c->program->lags;
}

void conn_rest(struct conn *c, uint64_t ns) {
    c->program->rests_until_ns = clock_after(world_now_ns, ns);
}

void conn_wait(struct conn *c, bool wait) {
    must(wait || c->program->waits);
    c->program->waits += wait ? 1u : -1u;
}

void conn_close(struct conn *c) {
    struct program *p = c->program;
    must(p->connected);
    while (p->nwaiting)
        free(p->waiting[--p->nwaiting]);
    free(c->unsent);
    *p = (struct program){.connected = false};
    *c = (struct conn){.program = p};
}

/* ---- what programs do ------------------------------------------------------------------------ */

void program_connect(unsigned who) {
    static struct serve_door door = {&st, "blue", 1};
    connecting = &programs[who % PROGRAMS];
    if (connecting->connected)
        return;
    if (who % PROGRAMS == TENANT)
        serve_accept_tenant(&door, -1);
    else
        serve_accept(&st, -1);
    must(connecting->connected == (connecting->session != NULL));
}

void program_find_no_place(unsigned who) {
    static struct serve_door door = {&st, "blue", 1};
    connecting = &programs[who % PROGRAMS];
    if (connecting->connected)
        return;
    if (who % PROGRAMS == TENANT)
        serve_refuse_tenant(&door, -1);
    else
        serve_refuse(&st, -1);
    must(!connecting->connected);
}

void program_go(struct program *p, bool lost) {
    struct session *s = p->session;
    const struct conn_events *events = p->events;
    if (lost) { /* the callee closes */
        events->lost(s);
        must(!p->connected);
    } else {
        conn_close(&conns[p - programs]);
        events->closed(s, "end of file");
    }
}

/* Descriptors that could not be sent are told of in a later turn. */
static bool program_hear_unsent(struct program *p) {
    struct conn *c = &conns[p - programs];
    void *packet = c->unsent;
    if (!packet)
        return false;
    c->unsent = NULL;
    p->events->unsent(p->session, packet, c->unsent_size, "too many are on their way");
    free(packet);
    return true;
}

bool programs_turn(void) {
    bool more = false;
    for (unsigned i = 0; i < PROGRAMS; i++)
        more |= program_hear_unsent(&programs[i]);
    return more;
}

void program_read_again(struct program *p) {
    p->lags = false;
    program_hear_unsent(p);
    if (p->connected)
        p->events->drained(p->session);
}

bool program_is_heard(const struct program *p) {
    return p->connected && !p->lags && !p->waits && p->rests_until_ns <= world_now_ns;
}

void program_send(struct program *p, const void *packet, size_t size, int *fds, unsigned nfds) {
    struct rdmad_msg_header h;
    struct asked *a = calloc(1, sizeof(*a));
    must(a && size >= sizeof(h) && size <= RDMAD_MSG_MAX && p->nwaiting < WAITING_MAX);
    memcpy(&h, packet, sizeof(h));
    a->type = (uint16_t)(h.type & ~RDMAD_MSG_REPLY);
    a->seq = h.seq;
    a->size = size - sizeof(h);
    memcpy(a->body.bytes, (const char *)packet + sizeof(h), a->size);
    check_asked(a);
    p->waiting[p->nwaiting++] = a;
    p->events->packet(p->session, packet, size, fds, nfds);
    program_hear_unsent(p);
}
