/* SPDX-License-Identifier: MIT */
/*
 * fault_scenario.c - a lease by link and on its own daemon, transfers, rings, notifications, names,
 * a channel, a service's budget: each as far as what it needs came to be.
 */
#include "tests/integration/fault_scenario.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BYTES = 256 << 10, LEASED = 128 << 10, PIECE = 4096, LONG_PIECE = 96 << 10 };
#define HANG_S (10u * test_patience())

struct side {
    rdmad_session *s;
    rdmad_pool *pool;
    rdmad_ring *ring;
    uint8_t *memory;
};

struct run {
    struct side owner, lessee, neighbour; /* the neighbour is at the owner's daemon */
    const struct tdaemon *at_owner, *at_lessee;
    bool strict;
    int call_ms; /* that a call may take */
    struct fault_report *report;
};

/* ---- answers -------------------------------------------------------------------------------- */

static void wrong(struct run *r, const char *step, const char *why) {
    snprintf(r->report->why, sizeof(r->report->why), "%s: %s", step, why);
    _exit(1);
}

static void enter(struct run *r, const char *step) {
    snprintf(r->report->step, sizeof(r->report->step), "%s", step);
    alarm(HANG_S);
}

/* Whether it was done; a refusal has a code and a sentence. */
static bool leave(struct run *r, const char *step, int rc, const char *text) {
    char why[RDMAD_TEXT_MAX + 64];
    alarm(0);
    if (rc >= 0)
        return true;
    snprintf(why, sizeof(why), "%s: %s", rdmad_errname(rc), text);
    bool words = text[0] && strcmp(text, "no error") != 0;
    if (strncmp(rdmad_errname(rc), "RDMAD_E_", 8) != 0 || !words || r->strict)
        wrong(r, step, why);
    if (!r->report->refused++)
        snprintf(r->report->first, sizeof(r->report->first), "%s: %s", step, why);
    r->report->lost += rc == RDMAD_E_DAEMON_LOST;
    return false;
}

static bool asked(struct run *r, const char *step, int rc, const rdmad_session *s) {
    return leave(r, step, rc, rc < 0 ? rdmad_last_error(s) : "");
}

#define ASK(r, s, call) (enter(r, #call), asked(r, #call, call, s))
/* What is given a time to wait need not say why it passed. */
#define WAIT(r, call) (enter(r, #call), leave(r, #call, call, "waited"))

/* The next completion of a ring: it comes, whatever went wrong. */
static bool completes(struct run *r, const char *step, rdmad_ring *ring, struct rdmad_cqe *out) {
    const struct rdmad_cqe *cqe;
    char text[RDMAD_TEXT_MAX + 1];
    enter(r, step);
    int rc = rdmad_ring_wait(ring, (int)HANG_S * 1000 - 500, &cqe);
    if (rc)
        return leave(r, step, rc, rc == RDMAD_E_TIMEOUT ? "" : "no completion");
    *out = *cqe;
    rdmad_ring_explain(ring, cqe, text, sizeof(text));
    rdmad_ring_seen(ring, cqe);
    if ((out->status == 0) != (out->outcome == RDMAD_DONE))
        wrong(r, step, "status and outcome do not agree");
    return leave(r, step, out->status, text);
}

/* ---- what there is -------------------------------------------------------------------------- */

static bool side_open(struct run *r, const struct tdaemon *d, struct side *side) {
    struct rdmad_options options = RDMAD_OPTIONS_INIT;
    options.runtime_dir = tdaemon_dir(d);
    if (!ASK(r, NULL, rdmad_open(&options, &side->s)) ||
        !ASK(r, side->s, rdmad_pool_create(side->s, BYTES, 0, &side->pool)) ||
        !ASK(r, side->s, rdmad_ring_create(side->s, 8, &side->ring)))
        return false;
    side->memory = rdmad_pool_base(side->pool);
    return true;
}

static void side_close(struct run *r, struct side *side) {
    if (!side->s)
        return;
    enter(r, "rdmad_close");
    rdmad_close(side->s);
    leave(r, "rdmad_close", 0, "");
}

static rdmad_lease *grant(struct run *r) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    rdmad_lease *l = NULL;
    terms.rights = RDMAD_RIGHTS_ALL;
    terms.flags = RDMAD_LEASE_RENEWABLE;
    terms.name = "fault-lease";
    if (!ASK(r, r->owner.s, rdmad_lease_grant(r->owner.s, r->owner.memory, LEASED, &terms, &l)))
        return NULL;
    return l;
}

/* ---- what an operator asks ------------------------------------------------------------------ */

/* One line comes back, or the connection ends. params is JSON. Whether it was done. */
static bool told(struct run *r, const struct tdaemon *d, const char *method, const char *params) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char line[256];
    enter(r, method);
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%.90s/control.sock", tdaemon_dir(d));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
        wrong(r, method, strerror(errno));
    int n = snprintf(line, sizeof(line),
                     "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"%s\", \"params\": %s}\n",
                     method, params);
    FILE *f = send(fd, line, (size_t)n, MSG_NOSIGNAL) == n ? fdopen(fd, "r") : NULL;
    bool answered = f && fgets(line, sizeof(line), f);
    leave(r, method, answered ? 0 : RDMAD_E_CLOSED, "the connection ended");
    if (answered && line[0] != '{')
        wrong(r, method, "what came back is no object");
    if (f)
        fclose(f);
    else
        close(fd);
    return answered && !strstr(line, "\"error\"");
}

static void all_shown(struct run *r) {
    static const char *const methods[] = {
        "status",      "metrics",    "session.show", "user.show",    "pool.show",
        "lease.show",  "peer.show",  "link.show",    "channel.show", "limit.show",
        "policy.show", "drain.show", "service.show", "device.show",  "config.show"};
    for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        told(r, r->at_owner, methods[i], "{}");
        told(r, r->at_lessee, methods[i], "{}");
    }
}

/* What is set is set back, also where it fails once: the next scenario finds it as it was, and a
 * session that stayed paused would wait for ever. */
static void all_steered(struct run *r) {
    static const struct {
        const char *method, *params;
        bool sets_back;
    } calls[] = {
        {"limit.set", "{\"who\": \"uid:0\", \"set\": \"weight=200\"}", false},
        {"limit.set", "{\"who\": \"uid:0\", \"set\": \"weight=100\"}", true},
        /* None: those that there are become more and more. */
        {"events", "{\"after\": 9007199254740991}", false},
        {"why", "{\"object\": \"lease\", \"id\": 1}", false},
        {"session.pause", "{\"id\": 1}", false},
        {"session.resume", "{\"id\": 1}", true},
        {"log.level", "{\"level\": \"info\"}", false},
        {"reload", "{}", false},
    };
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct tdaemon *const at[] = {r->at_owner, r->at_lessee};
        for (unsigned d = 0; d < 2; d++)
            if (!told(r, at[d], calls[i].method, calls[i].params) && calls[i].sets_back)
                told(r, at[d], calls[i].method, calls[i].params);
    }
}

/* ---- transfers ------------------------------------------------------------------------------ */

static void put_and_get(struct run *r, struct side *by, rdmad_lease *l, size_t bytes) {
    static unsigned char seed;
    uint8_t *to = by->memory, *back = by->memory + LEASED;
    memset(to, ++seed, bytes);
    memset(back, 0, bytes);
    if (ASK(r, by->s, rdmad_write(l, 0, to, bytes)) &&
        ASK(r, by->s, rdmad_read(l, 0, back, bytes)) && memcmp(to, back, bytes) != 0)
        wrong(r, "rdmad_read", "other bytes than were written");
}

static void count(struct run *r, struct side *by, rdmad_lease *l) {
    uint64_t was = 0, is = 0;
    if (!ASK(r, by->s, rdmad_fetch_add(l, 65536, 0, &was)))
        return;
    if (ASK(r, by->s, rdmad_fetch_add(l, 65536, 3, &is)) && is != was)
        wrong(r, "rdmad_fetch_add", "counted by somebody else");
    else if (ASK(r, by->s, rdmad_cas(l, 65536, was + 3, was, &is)) && is != was + 3 && is != was)
        wrong(r, "rdmad_cas", "a count that nobody made");
}

/* A batch, a write behind a fence, and a wait that is canceled. */
static void by_ring(struct run *r, struct side *by, rdmad_lease *l) {
    struct rdmad_segment segments[2] = {{by->memory, 512, 0}, {by->memory + 512, 512, 8192}};
    struct rdmad_cqe cqe;
    if (!ASK(r, by->s, rdmad_ring_writev(by->ring, l, segments, 2, 1)))
        return;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(by->ring);
    if (!sqe)
        wrong(r, "rdmad_ring_reserve", "an empty ring has no entry");
    ASK(r, by->s, rdmad_prep_read(by->ring, sqe, l, 0, by->memory + LEASED, 1024, 2));
    rdmad_sqe_set_flags(sqe, RDMAD_SQE_FENCE);
    if (!ASK(r, by->s, rdmad_ring_submit(by->ring)))
        return;
    completes(r, "a batch and what is fenced behind it", by->ring, &cqe);
    completes(r, "a batch and what is fenced behind it", by->ring, &cqe);
}

static void canceled(struct run *r, struct side *by, rdmad_lease *own) {
    struct rdmad_cqe cqe;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(by->ring);
    if (!sqe || !ASK(r, by->s, rdmad_prep_notified(by->ring, sqe, own, 9)) ||
        !ASK(r, by->s, rdmad_ring_submit(by->ring)))
        return;
    enter(r, "rdmad_ring_cancel");
    int rc = rdmad_ring_cancel(by->ring, 9, &cqe);
    leave(r, "rdmad_ring_cancel", rc, rdmad_last_error(by->s));
}

static void notified(struct run *r, struct side *by, rdmad_lease *l, rdmad_lease *own) {
    uint32_t imm = 0;
    if (!ASK(r, by->s, rdmad_write_notify(l, 4096, by->memory, 64, 7)))
        return;
    if (WAIT(r, rdmad_wait_notified(own, r->call_ms, &imm, NULL)) && imm != 7)
        wrong(r, "rdmad_wait_notified", "another number than was sent");
}

static void delegated(struct run *r, rdmad_lease *l) {
    char uri[RDMAD_URI_MAX + 1];
    rdmad_lease *part = NULL;
    if (!ASK(r, r->lessee.s, rdmad_lease_delegate(l, 0, PIECE, NULL, 0, uri)) ||
        !ASK(r, r->neighbour.s, rdmad_lease_attach(r->neighbour.s, uri, 0, &part)))
        return;
    put_and_get(r, &r->neighbour, part, 512);
    rdmad_lease_free(part);
}

static void leases(struct run *r) {
    struct rdmad_lease_audit audit = RDMAD_LEASE_AUDIT_INIT;
    rdmad_lease *own = grant(r), *there = NULL, *here = NULL;
    if (!own)
        return;
    canceled(r, &r->owner, own);
    if (ASK(r, r->lessee.s,
            rdmad_lease_attach(r->lessee.s, rdmad_lease_uri(own), r->call_ms, &there))) {
        put_and_get(r, &r->lessee, there, PIECE);
        put_and_get(r, &r->lessee, there, LONG_PIECE);
        all_shown(r);
        all_steered(r);
        count(r, &r->lessee, there);
        by_ring(r, &r->lessee, there);
        notified(r, &r->lessee, there, own);
        ASK(r, r->lessee.s, rdmad_lease_keep(there, 1));
        delegated(r, there);
    }
    if (ASK(r, r->neighbour.s,
            rdmad_lease_attach(r->neighbour.s, rdmad_lease_uri(own), 0, &here))) {
        put_and_get(r, &r->neighbour, here, PIECE);
        count(r, &r->neighbour, here);
        by_ring(r, &r->neighbour, here);
        notified(r, &r->neighbour, here, own);
    }
    ASK(r, r->owner.s, rdmad_lease_get_audit(own, &audit));
    ASK(r, r->owner.s, rdmad_lease_renew(own, 30000));
    enter(r, "rdmad_lease_free");
    rdmad_lease_free(there);
    rdmad_lease_free(here);
    ASK(r, r->owner.s, rdmad_lease_revoke(own));
    rdmad_lease_free(own);
    alarm(0);
}

/* ---- names ---------------------------------------------------------------------------------- */

static void names(struct run *r) {
    char where[96];
    struct rdmad_name listed[4] = {RDMAD_NAME_INIT};
    struct rdmad_event event = RDMAD_EVENT_INIT;
    uint64_t watch = 0;
    size_t n = 0;
    snprintf(where, sizeof(where), "rdmad://%s/", tdaemon_listen(r->at_owner));
    bool watching =
        ASK(r, r->lessee.s, rdmad_names_watch(r->lessee.s, where, "fault-", r->call_ms, &watch));
    rdmad_lease *l = grant(r);
    if (l &&
        ASK(r, r->lessee.s,
            rdmad_names_list(r->lessee.s, where, "fault-", NULL, r->call_ms, listed, 4, &n)) &&
        n != 1)
        wrong(r, "rdmad_names_list", "not the one name that there is");
    while (watching && l && WAIT(r, rdmad_next_event(r->lessee.s, r->call_ms, &event)) &&
           event.type != RDMAD_EVENT_NAME_THERE && event.type != RDMAD_EVENT_NAME_GONE)
        ;
    if (watching)
        ASK(r, r->lessee.s, rdmad_names_unwatch(r->lessee.s, watch));
    rdmad_lease_free(l);
}

/* ---- channels ------------------------------------------------------------------------------- */

struct connecting {
    struct run *r;
    struct side *by;
    const char *uri;
    rdmad_channel *channel;
    int rc;
    char text[RDMAD_TEXT_MAX + 1];
    bool over;
};

static void *connect_there(void *arg) {
    struct connecting *c = arg;
    c->rc = rdmad_connect(c->by->s, c->uri, RDMAD_CHANNEL_RELIABLE, c->r->call_ms, &c->channel);
    snprintf(c->text, sizeof(c->text), "%s", rdmad_last_error(c->by->s));
    __atomic_store_n(&c->over, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool connected(struct run *r, struct connecting *c, rdmad_service *service,
                      rdmad_channel **accepted) {
    pthread_t thread;
    int rc;
    if (pthread_create(&thread, NULL, connect_there, c))
        wrong(r, "pthread_create", "no thread");
    enter(r, "rdmad_accept");
    do {
        rc = rdmad_accept(service, NULL, 20, accepted);
    } while (rc == RDMAD_E_TIMEOUT && !__atomic_load_n(&c->over, __ATOMIC_ACQUIRE));
    if (rc != RDMAD_E_TIMEOUT)
        leave(r, "rdmad_accept", rc, rdmad_last_error(r->owner.s));
    enter(r, "rdmad_connect");
    pthread_join(thread, NULL);
    return leave(r, "rdmad_connect", c->rc, c->text) && rc == 0;
}

/* One message: short ones ride in a SEND, long ones are fetched. */
static void message(struct run *r, struct side *from, rdmad_channel *sends, struct side *to,
                    rdmad_channel *receives, size_t bytes) {
    struct rdmad_cqe cqe;
    struct rdmad_sqe *sqe = rdmad_ring_reserve(to->ring);
    if (!sqe ||
        !ASK(r, to->s, rdmad_prep_recv(to->ring, sqe, receives, to->memory + LEASED, bytes, 5)) ||
        !ASK(r, to->s, rdmad_ring_submit(to->ring)))
        return;
    memset(from->memory, 0x5a, bytes);
    struct rdmad_sqe *send = rdmad_ring_reserve(from->ring);
    if (!send || !ASK(r, from->s, rdmad_prep_send(from->ring, send, sends, from->memory, bytes, 6)))
        return;
    rdmad_sqe_set_deadline(send, (uint64_t)r->call_ms);
    bool sent =
        ASK(r, from->s, rdmad_ring_submit(from->ring)) && completes(r, "a SEND", from->ring, &cqe);
    if (!sent) { /* its receive would wait for ever */
        enter(r, "rdmad_ring_cancel of a RECV");
        int rc = rdmad_ring_cancel(to->ring, 5, &cqe);
        leave(r, "rdmad_ring_cancel of a RECV", rc, rdmad_last_error(to->s));
    } else if (completes(r, "a RECV", to->ring, &cqe) && to->memory[LEASED + bytes - 1] != 0x5a)
        wrong(r, "a RECV", "other bytes than were sent");
}

static void channel(struct run *r, struct side *by, rdmad_service *service) {
    struct connecting c = {.r = r, .by = by, .uri = rdmad_service_uri(service)};
    rdmad_channel *accepted = NULL;
    if (connected(r, &c, service, &accepted)) {
        ASK(r, by->s, rdmad_channel_keepalive(c.channel, 60000, 0));
        message(r, by, c.channel, &r->owner, accepted, 256);
        message(r, &r->owner, accepted, by, c.channel, 32 << 10);
        message(r, by, c.channel, &r->owner, accepted, LONG_PIECE);
    }
    if (c.channel)
        ASK(r, by->s, rdmad_channel_close(c.channel));
    if (accepted)
        ASK(r, r->owner.s, rdmad_channel_close(accepted));
}

static void requested(struct run *r, struct side *by, rdmad_service *service) {
    rdmad_lease *l = NULL;
    if (!ASK(r, by->s,
             rdmad_lease_request(by->s, rdmad_service_uri(service), PIECE, NULL, r->call_ms, &l)))
        return;
    put_and_get(r, by, l, 512);
    if (!ASK(r, by->s, rdmad_lease_hand_over(l)))
        rdmad_lease_free(l);
}

static void services(struct run *r) {
    struct rdmad_service_terms terms = RDMAD_SERVICE_TERMS_INIT;
    rdmad_service *service = NULL;
    terms.budget = r->owner.memory + LEASED + LONG_PIECE;
    terms.budget_bytes = 4 * PIECE;
    if (!ASK(r, r->owner.s, rdmad_listen(r->owner.s, "fault-service", &terms, &service)))
        return;
    channel(r, &r->lessee, service);
    channel(r, &r->neighbour, service);
    requested(r, &r->lessee, service);
    requested(r, &r->neighbour, service);
    enter(r, "rdmad_service_close");
    rdmad_service_close(service);
    alarm(0);
}

void fault_scenario(const struct tdaemon *owner, const struct tdaemon *lessee, bool strict,
                    struct fault_report *report) {
    struct run r = {.at_owner = owner, .at_lessee = lessee, .strict = strict, .report = report};
    r.call_ms =
        2000 * (strict ? (int)test_patience() : 1); /* where a fault has broken a link, too */
    *report = (struct fault_report){.refused = 0};
    bool there = side_open(&r, owner, &r.owner);
    there = side_open(&r, lessee, &r.lessee) && there;
    there = side_open(&r, owner, &r.neighbour) && there;
    if (there) {
        leases(&r);
        names(&r);
        services(&r);
    }
    side_close(&r, &r.lessee);
    side_close(&r, &r.neighbour);
    side_close(&r, &r.owner);
}
