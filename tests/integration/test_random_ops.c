/* SPDX-License-Identifier: MIT */
/*
 * test_random_ops.c - random operations against a model, many in flight: one-sided ones in all
 * kinds through leases that are revoked, expire and are granted anew meanwhile, messages of random
 * sizes both ways with receives that come late, cancels at any moment. Seeded: RDMAD_TEST_SEED
 * repeats a run's choices.
 *
 * Each op in flight has a slot of near and far memory for itself, so that the model knows what
 * every byte must be when it ends: all new when it is done, all old when the target is untouched,
 * each byte old or new when it is partly written or unknown. Messages carry their number as
 * immediate data: they arrive in order, each whole, none twice, none that its sender was told
 * did not go.
 */
#include "tests/support/client.h"
#include "tests/support/pair.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 24,             /* one-sided ops in flight */
    SLOT_BYTES = 160 << 10, /* each, near and far */
    SENDS = 12,             /* messages in flight, each way */
    RECEIVES = 8,
    MESSAGE_BYTES = 96 << 10,
    ONE_SIDED = SLOTS * SLOT_BYTES,
    POOL = ONE_SIDED + (SENDS + RECEIVES) * MESSAGE_BYTES,
    RING = 64,
    HISTORY = 1024, /* messages back of which the fate is remembered */
};

struct slot {
    bool busy;
    uint8_t opcode;
    size_t at, length;        /* in the slot, the same near and far */
    uint64_t compare, change; /* atomics */
    /* It may still land at the target, until its lease is over: nothing else uses the slot. */
    bool unsettled;
    char story[400]; /* what became of the last ops here */
};

enum fate { FLYING, SENT, WITHDRAWN, UNSURE };

struct sent {
    uint32_t number;
    size_t length;
    enum fate fate;
    bool arrived;
};

/* One direction of the channel. */
struct way {
    rdmad_session *from, *to;
    rdmad_channel *out, *in;
    rdmad_ring *sends, *receives;
    uint8_t *source, *sink; /* message slots */
    bool send_busy[SENDS], receive_busy[RECEIVES];
    uint32_t number_of[SENDS]; /* the message that goes out of the slot */
    size_t size_of[RECEIVES];
    struct sent history[HISTORY];
    uint32_t next, last_arrived;
    uint64_t salt; /* the two ways' messages differ */
};

struct world {
    struct pair p;
    rdmad_ring *ring;
    rdmad_lease *own, *lease; /* of the one-sided part; come and go */
    struct slot slot[SLOTS];
    uint8_t *near_, *far_;
    struct way way[2];
    uint64_t seed, ops, canceled, failed, messages, leases;
};

static size_t random_size(size_t most) {
    static const size_t sizes[] = {0, 1, 8, 64, 200, 4096, 9000, 65536};
    size_t size = sizes[test_random() % 8] + (test_random() % 3 ? 0 : test_random() % 5000);
    return size < most ? size : most;
}

static bool one_in(unsigned n) {
    return test_random() % n == 0;
}

/* ---- leases come and go -------------------------------------------------------------------- */

static void lease_anew(struct world *w) {
    struct rdmad_lease_terms terms = RDMAD_LEASE_TERMS_INIT;
    terms.rights = RDMAD_RIGHTS_ALL;
    terms.ttl_ms = one_in(3) ? 100 + test_random() % 300 : 60000;
    /* Either may find that the machine stood still for as long as the lease lived. */
    int rc = rdmad_lease_grant(w->p.b, w->p.far, ONE_SIDED, &terms, &w->own);
    if (rc) {
        CHECK(rc == RDMAD_E_LEASE_EXPIRED, "%s", rdmad_last_error(w->p.b));
        w->own = NULL;
        return;
    }
    rc = rdmad_lease_attach(w->p.a, rdmad_lease_uri(w->own), 0, &w->lease);
    if (rc) {
        CHECK(rc == RDMAD_E_LEASE_EXPIRED, "%s", rdmad_last_error(w->p.a));
        rdmad_lease_free(w->own);
        w->own = NULL;
        return;
    }
    w->leases++;
}

static bool lease_is_live(struct world *w) {
    struct rdmad_lease_info info = RDMAD_LEASE_INFO_INIT;
    if (!w->own)
        return false;
    rdmad_lease_get_info(w->lease, &info);
    return !info.ended && info.ttl_ms > 0;
}

static void expect_model(const struct world *w, const char *when) {
    for (size_t i = 0; i < ONE_SIDED; i++)
        if (w->p.far[i] != w->far_[i])
            CHECK(0, "%s: byte %zu of far memory (slot %zu) is %u, not %u", when, i, i / SLOT_BYTES,
                  w->p.far[i], w->far_[i]);
}

static void reap(struct world *w, int timeout_ms);
static void adopt(struct world *w, struct slot *s, size_t at);

static bool any_busy(const struct world *w) {
    for (unsigned i = 0; i < SLOTS; i++)
        if (w->slot[i].busy)
            return true;
    return false;
}

/* Ends the lease with ops in flight, by its owner or by the lessee, and gets another. When the
 * revoke has returned no byte changes any more. */
static void lease_turn(struct world *w) {
    if (w->own && one_in(2)) {
        int rc = rdmad_lease_revoke(w->own);
        CHECK(!rc || rc == RDMAD_E_LEASE_EXPIRED || rc == RDMAD_E_NO_LEASE, "revoke: %s",
              rdmad_last_error(w->p.b));
    }
    if (w->own && one_in(2))
        rdmad_lease_free(w->lease), w->lease = NULL;
    while (any_busy(w))
        reap(w, (int)TEST_PATIENCE_MS);
    if (w->own) {
        rdmad_lease_free(w->lease);
        rdmad_lease_free(w->own);
    }
    w->own = w->lease = NULL;
    for (unsigned i = 0; i < SLOTS; i++)
        if (w->slot[i].unsettled)
            adopt(w, &w->slot[i], (size_t)i * SLOT_BYTES + w->slot[i].at);
    expect_model(w, "a lease ended");
    struct rdmad_event event = RDMAD_EVENT_INIT; /* nobody needs them, but they should not gather */
    while (!rdmad_next_event(w->p.a, 0, &event) || !rdmad_next_event(w->p.b, 0, &event))
        ;
    while (!w->own)
        lease_anew(w);
}

/* ---- one-sided ops ------------------------------------------------------------------------- */

static int prepare(struct world *w, struct slot *s, struct rdmad_sqe *sqe, size_t base,
                   uint64_t tag) {
    uint8_t *near = w->p.near + base + s->at;
    uint64_t there = base + s->at;
    switch (s->opcode) {
    case RDMAD_OP_WRITE:
        fill_bytes(near, s->length, ++w->seed);
        memcpy(w->near_ + there, near, s->length);
        return rdmad_prep_write(w->ring, sqe, w->lease, there, near, s->length, tag);
    case RDMAD_OP_READ:
        return rdmad_prep_read(w->ring, sqe, w->lease, there, near, s->length, tag);
    case RDMAD_OP_CAS:
        return rdmad_prep_cas(w->ring, sqe, w->lease, there, s->compare, s->change, tag);
    default:
        return rdmad_prep_fetch_add(w->ring, sqe, w->lease, there, s->change, tag);
    }
}

static void start(struct world *w) {
    static const uint8_t opcodes[] = {RDMAD_OP_WRITE, RDMAD_OP_WRITE, RDMAD_OP_READ,
                                      RDMAD_OP_READ,  RDMAD_OP_CAS,   RDMAD_OP_FADD};
    unsigned i = (unsigned)(test_random() % SLOTS);
    struct slot *s = &w->slot[i];
    size_t base = (size_t)i * SLOT_BYTES;
    struct rdmad_sqe *sqe;
    if (s->busy || s->unsettled || !(sqe = rdmad_ring_reserve(w->ring)))
        return;
    s->busy = true;
    s->opcode = opcodes[test_random() % 6];
    s->compare = s->change = 0;
    if (s->opcode == RDMAD_OP_CAS || s->opcode == RDMAD_OP_FADD) {
        s->length = 8;
        s->at = test_random() % (SLOT_BYTES / 8) * 8;
        memcpy(&s->compare, w->far_ + base + s->at, 8);
        s->compare += one_in(3);
        s->change = test_random();
    } else {
        s->length = random_size(SLOT_BYTES);
        s->at = test_random() % (SLOT_BYTES - s->length + 1);
        if (s->length == 0 && s->at == SLOT_BYTES)
            s->at = 0;
    }
    int rc = prepare(w, s, sqe, base, i);
    CHECK(!rc, "prepare: %s", rdmad_last_error(w->p.a));
    if (one_in(30))
        sqe->timeout_ns = 1 + test_random() % 2000000;
    if (one_in(20))
        rdmad_sqe_set_flags(sqe, RDMAD_SQE_FENCE);
    CHECK(rdmad_ring_submit(w->ring) == 1, "submit: %s", rdmad_last_error(w->p.a));
    w->ops++;
}

/* What an op that did its work leaves in its target. */
static void apply(struct world *w, const struct slot *s, size_t at, uint64_t value) {
    uint64_t is;
    memcpy(&is, w->far_ + at, s->length < 8 ? 0 : 8);
    switch (s->opcode) {
    case RDMAD_OP_WRITE:
        memcpy(w->far_ + at, w->near_ + at, s->length);
        return;
    case RDMAD_OP_READ:
        memcpy(w->near_ + at, w->far_ + at, s->length);
        return;
    default:
        CHECK(value == is, "opcode %d at %zu found %#llx, not %#llx; before it: %s", s->opcode, at,
              (unsigned long long)value, (unsigned long long)is, s->story);
        if (s->opcode == RDMAD_OP_CAS)
            is = is == s->compare ? s->change : is;
        else
            is += s->change;
        memcpy(w->far_ + at, &is, 8);
    }
}

/* Partly done or nobody knows, and nothing of it is under way any more: each byte is old or new.
 * The model takes over what is there. */
static void adopt(struct world *w, struct slot *s, size_t at) {
    s->unsettled = false;
    bool read = s->opcode == RDMAD_OP_READ;
    uint8_t *is = read ? w->p.near : w->p.far, *was = read ? w->near_ : w->far_;
    const uint8_t *new = read ? w->far_ : w->near_;
    uint64_t before, after, now;
    if (s->opcode == RDMAD_OP_READ || s->opcode == RDMAD_OP_WRITE) {
        for (size_t i = at; i < at + s->length; i++)
            CHECK(is[i] == was[i] || is[i] == new[i], "byte %zu is neither old nor new", i);
    } else {
        memcpy(&before, was + at, 8);
        memcpy(&now, is + at, 8);
        after = s->opcode == RDMAD_OP_FADD ? before + s->change
                : before == s->compare     ? s->change
                                           : before;
        CHECK(now == before || now == after, "an atomic of unknown outcome left %#llx",
              (unsigned long long)now);
    }
    memcpy(was + at, is + at, s->length);
}

static void remember(struct slot *s, const struct rdmad_cqe *cqe) {
    size_t n = strlen(s->story);
    if (n > sizeof(s->story) / 2) {
        memmove(s->story, s->story + n / 2, n - n / 2 + 1);
        n -= n / 2;
    }
    snprintf(s->story + n, sizeof(s->story) - n, " [%d at %zu+%zu by %#llx: %d/%d]", s->opcode,
             s->at, s->length, (unsigned long long)s->change, cqe->status, cqe->outcome);
}

static void ended(struct world *w, const struct rdmad_cqe *cqe) {
    CHECK(cqe->user_data < SLOTS && w->slot[cqe->user_data].busy, "a completion of nothing: %llu",
          (unsigned long long)cqe->user_data);
    struct slot *s = &w->slot[cqe->user_data];
    size_t at = cqe->user_data * SLOT_BYTES + s->at;
    const uint8_t *is = s->opcode == RDMAD_OP_READ ? w->p.near : w->p.far;
    const uint8_t *should = s->opcode == RDMAD_OP_READ ? w->near_ : w->far_;
    CHECK((cqe->outcome == RDMAD_DONE) == (cqe->status == 0), "status %d, outcome %d", cqe->status,
          cqe->outcome);
    if (cqe->outcome == RDMAD_DONE)
        apply(w, s, at, cqe->value);
    else if (cqe->outcome != RDMAD_FAILED_UNTOUCHED && s->opcode == RDMAD_OP_READ)
        adopt(w, s, at);
    else if (cqe->outcome != RDMAD_FAILED_UNTOUCHED)
        s->unsettled = true;
    if (!s->unsettled && memcmp(is + at, should + at, s->length) != 0)
        CHECK(0,
              "opcode %d of %zu bytes ended with outcome %d, and its target is something else; "
              "before it: %s",
              s->opcode, s->length, cqe->outcome, s->story);
    remember(s, cqe);
    w->failed += cqe->status != 0;
    s->busy = false;
}

static void reap(struct world *w, int timeout_ms) {
    const struct rdmad_cqe *cqe;
    int rc = rdmad_ring_wait(w->ring, timeout_ms, &cqe);
    CHECK(!rc || !timeout_ms, "no op ended within %d ms: %d", timeout_ms, rc);
    for (; !rc; rc = rdmad_ring_peek(w->ring, &cqe)) {
        struct rdmad_cqe copy = *cqe;
        rdmad_ring_seen(w->ring, cqe);
        ended(w, &copy);
    }
}

static void cancel_one(struct world *w) {
    unsigned i = (unsigned)(test_random() % SLOTS);
    struct rdmad_cqe cqe;
    if (!w->slot[i].busy)
        return;
    int rc = rdmad_ring_cancel(w->ring, i, &cqe);
    if (rc == RDMAD_E_HANDLE)
        return; /* its completion is there already */
    CHECK(!rc, "cancel: %s", rdmad_last_error(w->p.a));
    w->canceled++;
    ended(w, &cqe);
}

/* ---- messages ------------------------------------------------------------------------------ */

static uint64_t seed_of(const struct way *y, uint32_t number) {
    return number * UINT64_C(2654435761) + y->salt;
}

static struct sent *sent(struct way *y, uint32_t number) {
    struct sent *m = &y->history[number % HISTORY];
    CHECK(m->number == number, "message %u is too long ago", number);
    return m;
}

static void send_one(struct way *y) {
    unsigned i = (unsigned)(test_random() % SENDS);
    struct rdmad_sqe *sqe;
    if (y->send_busy[i] || y->next - y->last_arrived > HISTORY / 2 ||
        !(sqe = rdmad_ring_reserve(y->sends)))
        return;
    uint32_t number = ++y->next;
    struct sent *m = &y->history[number % HISTORY];
    uint8_t *source = y->source + (size_t)i * MESSAGE_BYTES;
    *m = (struct sent){.number = number, .length = random_size(MESSAGE_BYTES)};
    fill_bytes(source, m->length, seed_of(y, number));
    int rc = rdmad_prep_send(y->sends, sqe, y->out, source, m->length, i);
    rdmad_sqe_set_imm(sqe, number);
    if (one_in(40))
        sqe->timeout_ns = 1 + test_random() % 3000000;
    CHECK(!rc && rdmad_ring_submit(y->sends) == 1, "send: %s", rdmad_last_error(y->from));
    y->send_busy[i] = true;
    y->number_of[i] = number;
}

static void send_ended(struct way *y, const struct rdmad_cqe *cqe) {
    CHECK(cqe->user_data < SENDS && y->send_busy[cqe->user_data], "a send of nothing ended");
    struct sent *m = sent(y, y->number_of[cqe->user_data]);
    bool small = cqe->status == RDMAD_E_TOO_SMALL;
    m->fate = cqe->outcome == RDMAD_DONE || small      ? SENT
              : cqe->outcome == RDMAD_FAILED_UNTOUCHED ? WITHDRAWN
                                                       : UNSURE;
    if (small)
        m->arrived = true;
    CHECK(!m->arrived || m->fate != WITHDRAWN, "message %u arrived and was said not to have gone",
          m->number);
    CHECK(m->arrived || m->fate != SENT || m->number > y->last_arrived,
          "message %u is said to have arrived, and later ones did before", m->number);
    y->send_busy[cqe->user_data] = false;
}

static void receive_one(struct way *y) {
    unsigned i = (unsigned)(test_random() % RECEIVES);
    struct rdmad_sqe *sqe;
    if (y->receive_busy[i] || !(sqe = rdmad_ring_reserve(y->receives)))
        return;
    y->size_of[i] = one_in(10) ? random_size(MESSAGE_BYTES) : MESSAGE_BYTES;
    int rc = rdmad_prep_recv(y->receives, sqe, y->in, y->sink + (size_t)i * MESSAGE_BYTES,
                             y->size_of[i], i);
    CHECK(!rc && rdmad_ring_submit(y->receives) == 1, "recv: %s", rdmad_last_error(y->to));
    y->receive_busy[i] = true;
}

static void received(struct world *w, struct way *y, const struct rdmad_cqe *cqe) {
    unsigned i = (unsigned)cqe->user_data;
    size_t at;
    CHECK(i < RECEIVES && y->receive_busy[i], "a receive of nothing ended");
    y->receive_busy[i] = false;
    if (cqe->status == RDMAD_E_CANCELED)
        return;
    if (cqe->status == RDMAD_E_TOO_SMALL) {
        CHECK(cqe->bytes > y->size_of[i], "%llu bytes fit well", (unsigned long long)cqe->bytes);
        return;
    }
    CHECK(!cqe->status && (cqe->flags & RDMAD_CQE_IMM), "a receive ended with %d", cqe->status);
    uint32_t number = (uint32_t)cqe->imm;
    struct sent *m = sent(y, number);
    CHECK(number > y->last_arrived, "message %u after message %u", number, y->last_arrived);
    for (uint32_t n = y->last_arrived + 1; n < number; n++)
        if (sent(y, n)->fate == SENT && !sent(y, n)->arrived)
            sent(y, n)->arrived = true; /* one that was too small for it: both were told */
    y->last_arrived = number;
    CHECK(m->fate != WITHDRAWN, "message %u was said not to have gone, and arrived", number);
    CHECK(cqe->bytes == m->length, "message %u has %llu bytes, not %zu", number,
          (unsigned long long)cqe->bytes, m->length);
    CHECK(bytes_are(y->sink + (size_t)i * MESSAGE_BYTES, m->length, seed_of(y, number), &at),
          "message %u of %zu bytes differs at %zu", number, m->length, at);
    m->arrived = true;
    w->messages++;
}

/* What the receives' ring has, and what a cancel brought (may be NULL), which may belong anywhere
 * between: in the order of the messages. */
static void reap_receives(struct world *w, struct way *y, const struct rdmad_cqe *out_of_turn) {
    struct rdmad_cqe all[RECEIVES + 1];
    const struct rdmad_cqe *cqe;
    unsigned n = 0;
    if (out_of_turn)
        all[n++] = *out_of_turn;
    for (; n <= RECEIVES && !rdmad_ring_peek(y->receives, &cqe); n++) {
        all[n] = *cqe;
        rdmad_ring_seen(y->receives, cqe);
    }
    if (out_of_turn && !all[0].status)
        for (unsigned i = 1; i < n && (all[i].status || all[i].imm < all[i - 1].imm); i++) {
            struct rdmad_cqe later = all[i - 1];
            all[i - 1] = all[i];
            all[i] = later;
        }
    for (unsigned i = 0; i < n; i++)
        received(w, y, &all[i]);
}

static void cancel_message(struct world *w, struct way *y) {
    unsigned i = (unsigned)(test_random() % RECEIVES);
    struct rdmad_cqe cqe;
    if (one_in(2)) {
        if (y->receive_busy[i] && !rdmad_ring_cancel(y->receives, i, &cqe))
            reap_receives(w, y, &cqe);
    } else if (y->send_busy[i] && !rdmad_ring_cancel(y->sends, i, &cqe)) {
        send_ended(y, &cqe);
    }
}

static void reap_messages(struct world *w, struct way *y) {
    const struct rdmad_cqe *cqe;
    reap_receives(w, y, NULL);
    while (!rdmad_ring_peek(y->sends, &cqe)) {
        struct rdmad_cqe copy = *cqe;
        rdmad_ring_seen(y->sends, cqe);
        send_ended(y, &copy);
    }
}

/* ---- the run ------------------------------------------------------------------------------- */

static void way_open(struct way *y, struct pair *p, bool back) {
    *y = (struct way){.from = back ? p->b : p->a,
                      .to = back ? p->a : p->b,
                      .out = back ? p->cb : p->ca,
                      .in = back ? p->ca : p->cb,
                      .source = (back ? p->far : p->near) + ONE_SIDED,
                      .salt = back,
                      .sink = (back ? p->near : p->far) + ONE_SIDED + SENDS * MESSAGE_BYTES};
    y->sends = client_ring(y->from, RING);
    y->receives = client_ring(y->to, RING);
}

static void world_open(struct world *w, enum pair_route route) {
    *w = (struct world){.seed = test_random()};
    pair_open(&w->p, route, POOL, RDMAD_RIGHT_READ);
    w->near_ = malloc(ONE_SIDED);
    w->far_ = malloc(ONE_SIDED);
    CHECK(w->near_ && w->far_, "out of memory");
    fill_bytes(w->p.near, ONE_SIDED, ++w->seed);
    fill_bytes(w->p.far, ONE_SIDED, ++w->seed);
    memcpy(w->near_, w->p.near, ONE_SIDED);
    memcpy(w->far_, w->p.far, ONE_SIDED);
    w->ring = client_ring(w->p.a, RING);
    way_open(&w->way[0], &w->p, false);
    way_open(&w->way[1], &w->p, true);
    while (!w->own)
        lease_anew(w);
}

static void step(struct world *w) {
    unsigned what = (unsigned)(test_random() % 100);
    struct way *y = &w->way[test_random() % 2];
    if (what < 45)
        start(w);
    else if (what < 65)
        send_one(y);
    else if (what < 85)
        receive_one(y);
    else if (what < 88)
        cancel_one(w);
    else if (what < 90)
        cancel_message(w, y);
    reap(w, 0);
    reap_messages(w, &w->way[0]);
    reap_messages(w, &w->way[1]);
    unsigned unsettled = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        unsettled += w->slot[i].unsettled;
    if (one_in(4000) || unsettled > SLOTS / 2 || !lease_is_live(w))
        lease_turn(w);
}

static void run(enum pair_route route, uint64_t ms) {
    static struct world w;
    world_open(&w, route);
    uint64_t until = now_ms() + ms, turns = 0;
    while (now_ms() < until) {
        for (unsigned i = 0; i < 64; i++, turns++)
            step(&w);
        if (turns % 4096 == 0)
            sched_yield();
    }
    lease_turn(&w);
    printf("  %llu ops, %llu failed, %llu canceled, %llu leases, %llu messages\n",
           (unsigned long long)w.ops, (unsigned long long)w.failed, (unsigned long long)w.canceled,
           (unsigned long long)w.leases, (unsigned long long)w.messages);
    CHECK(w.ops > 100 && w.messages > 100 && w.leases > 1, "nearly nothing happened");
    free(w.near_);
    free(w.far_);
    pair_close(&w.p);
}

/* 10 minutes in the soak, 30 s in ./check (10 s in its other builds and in its guest), half each.
 */
static uint64_t half(void) {
    bool again = test_sanitized() || strcmp(test_fabric(), "tcp") != 0;
    return test_scale() > 1 ? 300000 : again ? 5000 : 15000;
}

static void random_operations_on_one_daemon(void) {
    run(PAIR_LOCAL, half());
}

static void random_operations_between_two_daemons(void) {
    run(PAIR_LINK, half());
}

TEST_MAIN(CASE(random_operations_on_one_daemon), CASE(random_operations_between_two_daemons))
