/* SPDX-License-Identifier: MIT */
/*
 * explain.c - a completion in full words: what was asked, of which lease or on which channel, why
 * it failed, and what became of the target.
 */
#include "common/errors.h"
#include "libclient/base/clock.h"
#include "libclient/channel/channel.h"
#include "libclient/lease/lease.h"
#include "libclient/ring/ring.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct sentence {
    char *buf;
    size_t size, used;
};

static void sentence_add(struct sentence *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void sentence_add(struct sentence *s, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(s->buf + s->used, s->size - s->used, format, ap);
    va_end(ap);
    if (n > 0)
        s->used += (size_t)n < s->size - s->used ? (size_t)n : s->size - s->used - 1;
}

/* What an op looks like in a sentence. */
struct op_words {
    const char *name;
    const char *preposition; /* between it and what it names; NULL: names nothing */
    const char *target;      /* what may have changed; NULL: nothing can */
    bool bytes;
};

static const struct op_words op_words[RDMAD_OP_COUNT] = {
    [RDMAD_OP_NOP] = {"nop", NULL, NULL, false},
    [RDMAD_OP_READ] = {"read", "from", "the buffer", true},
    [RDMAD_OP_WRITE] = {"write", "to", "the lease's memory", true},
    [RDMAD_OP_CAS] = {"compare-and-swap", "on", "the lease's memory", false},
    [RDMAD_OP_FADD] = {"fetch-and-add", "on", "the lease's memory", false},
    [RDMAD_OP_NOTIFY] = {"write with notification", "to", "the lease's memory", true},
    [RDMAD_OP_SEND] = {"send", "to", "the other end's buffer", true},
    [RDMAD_OP_RECV] = {"receive", "from", "the buffer", true},
    [RDMAD_OP_NOTIFIED] = {"wait for a notification", "of", NULL, false},
    [RDMAD_OP_CANCEL] = {"cancel", NULL, NULL, false},
};

static const struct op_words *op_words_of(const struct rdmad_cqe *cqe) {
    static const struct op_words unknown = {"op", "to", "the target", true};
    return cqe->opcode < RDMAD_OP_COUNT ? &op_words[cqe->opcode] : &unknown;
}

static bool is_message(uint8_t opcode) {
    return opcode == RDMAD_OP_SEND || opcode == RDMAD_OP_RECV;
}

/* What we know of what the op names, copied under the lock. */
struct known {
    uint64_t id;     /* the lease's number, or the channel's */
    uint64_t length; /* of the lease, or of the channel's longest message */
    uint64_t ended_ago_ns;
    uint32_t rights;
    bool found;
    bool closing;                   /* the channel, here */
    bool requested;                 /* of a service */
    bool away;                      /* the lease: its rdmad was restarted, and has not got it yet */
    int left;                       /* the channel: why it has not outlived its rdmad, or 0 */
    char node[RDMAD_NAME_MAX + 1];  /* the channel's other end */
    char ended[RDMAD_TEXT_MAX + 1]; /* how the channel did, if it has */
};

static void explain_know_channel(const struct rdmad_ring *r, uint64_t handle, struct known *k) {
    k->id = handle;
    pthread_mutex_lock(&r->session->lock);
    rdmad_control_look(r->session);
    const struct rdmad_channel *c = rdmad_channel_find(r->session, handle);
    if (c) {
        k->found = true;
        k->closing = !rdmad_object_is(&c->object, RDMAD_KIND_CHANNEL);
        k->length = c->max_message;
        memcpy(k->node, c->peer_node, sizeof(k->node));
        k->left = c->left ? c->closed : 0;
        memcpy(k->ended, c->closed_text, sizeof(k->ended));
    }
    pthread_mutex_unlock(&r->session->lock);
}

static struct known explain_know(const struct rdmad_ring *r, const struct rdmad_cqe *cqe,
                                 const struct rdmad_slot *slot) {
    struct known k = {.id = cqe->flags & RDMAD_CQE_IMM ? 0 : cqe->lease_id};
    uint64_t now = rdmad_boottime_ns(), end = 0;
    struct rdmad_lease *lease;

    if (!slot || !slot->object)
        return k;
    if (is_message(slot->opcode)) {
        explain_know_channel(r, slot->object, &k);
        return k;
    }
    pthread_mutex_lock(&r->session->lock);
    lease = rdmad_lease_find(r->session, slot->opcode == RDMAD_OP_NOTIFIED, slot->object);
    if (lease) {
        k.found = true;
        k.id = lease->id;
        k.length = lease->length;
        k.rights = lease->rights;
        k.away = lease->away && !lease->ended;
        k.requested = lease->side == RDMAD_LEASE_REQUESTED;
        end = cqe->status == RDMAD_E_LEASE_EXPIRED ? lease->deadline_ns : lease->ended_ns;
    }
    pthread_mutex_unlock(&r->session->lock);
    if (end && end < now)
        k.ended_ago_ns = now - end;
    return k;
}

static void explain_op(struct sentence *s, const struct rdmad_cqe *cqe,
                       const struct rdmad_slot *slot, const struct known *k) {
    const struct op_words *w = op_words_of(cqe);
    bool batch = slot && slot->members > 1;

    if (batch)
        sentence_add(s, "batch of %u ops, the last a ", slot->members);
    sentence_add(s, "%s", w->name);
    if (!w->preposition)
        return;
    if (slot && w->bytes)
        sentence_add(s, " of %llu bytes", (unsigned long long)slot->length);
    if (k->id && is_message(cqe->opcode)) {
        sentence_add(s, " on channel %llu", (unsigned long long)k->id);
        if (k->node[0])
            sentence_add(s, " %s node %s", w->preposition, k->node);
    } else if (k->id) {
        sentence_add(s, " %s lease %llu", w->preposition, (unsigned long long)k->id);
    }
    if (batch)
        sentence_add(s, ",");
}

/* Of the two ranges of an op, the one that does not fit. */
static void explain_range(struct sentence *s, const struct rdmad_slot *slot,
                          const struct known *k) {
    bool message = is_message(slot->opcode);
    uint64_t end;

    if (message && slot->length > k->length)
        sentence_add(s, " (a message on this channel has at most %llu bytes)",
                     (unsigned long long)k->length);
    else if (!message &&
             (__builtin_add_overflow(slot->lease_offset, slot->length, &end) || end > k->length))
        sentence_add(s, " (offset %llu in a lease of %llu bytes)",
                     (unsigned long long)slot->lease_offset, (unsigned long long)k->length);
    else
        sentence_add(s, " (the buffer reaches beyond its pool)");
}

static void explain_rights(struct sentence *s, uint32_t rights) {
    static const char *const name[] = {"READ", "WRITE", "ATOMIC", "DELEGATE"};
    const char *before = " (it grants ";
    if (!(rights & RDMAD_RIGHTS_ALL))
        return;

    for (unsigned i = 0; i < sizeof(name) / sizeof(*name); i++) {
        if (!(rights & 1u << i))
            continue;
        sentence_add(s, "%s%s", before, name[i]);
        before = ", ";
    }
    sentence_add(s, ")");
}

/* Only receives and waits for notifications are refused for a limit that others can use up. */
static void explain_limit(struct sentence *s, const struct rdmad_cqe *cqe) {
    static const char *const whose[] = {
        [RDMAD_LIMIT_SESSION] = "this session has as many receives and waits for notifications "
                                "posted as it may (limits.waits_per_session)",
        [RDMAD_LIMIT_UID] =
            "this user's sessions have as many receives and waits for notifications "
            "posted as they may (limits.waits_per_uid)",
        [RDMAD_LIMIT_DAEMON] = "all sessions together have as many receives and waits for "
                               "notifications posted as they may (limits.waits)",
    };
    if (cqe->opcode != RDMAD_OP_RECV && cqe->opcode != RDMAD_OP_NOTIFIED)
        return;
    if (cqe->lease_id >= RDMAD_LIMIT_SESSION && cqe->lease_id <= RDMAD_LIMIT_DAEMON)
        sentence_add(s, ": %s; cancel some, or have the limit raised", whose[cqe->lease_id]);
}

/* What the daemon could not find, which knows it by number alone. */
static void explain_missing(struct sentence *s, const struct rdmad_cqe *cqe,
                            const struct known *k) {
    if (cqe->opcode == RDMAD_OP_CANCEL)
        sentence_add(s, ": no op with that user_data is in flight on the ring");
    else if (is_message(cqe->opcode) && (!k->found || k->closing))
        sentence_add(s, ": the channel was closed here before rdmad took the op");
    else
        sentence_add(s, ": the buffer's pool was destroyed before rdmad took the op");
}

static void explain_why(struct sentence *s, const struct rdmad_cqe *cqe,
                        const struct rdmad_slot *slot, const struct known *k) {
    sentence_add(s, " failed: %s", rdmad_error_text(cqe->status));
    if (k->left && cqe->status == k->left) {
        sentence_add(s, ": %s", k->ended);
        return;
    }
    switch (cqe->status) {
    case RDMAD_E_LEASE_EXPIRED:
    case RDMAD_E_LEASE_REVOKED:
    case RDMAD_E_LEASE_RELEASED:
    case RDMAD_E_LEASE_ORPHANED:
    case RDMAD_E_LEASE_ADMIN:
        if (k->ended_ago_ns)
            sentence_add(s, " %llu ms ago", (unsigned long long)(k->ended_ago_ns / 1000000u));
        sentence_add(s, cqe->opcode == RDMAD_OP_NOTIFIED ? "; grant a new one"
                                                         : "; attach to a new one");
        break;
    case RDMAD_E_RANGE:
        if (slot && slot->members == 1 && k->found)
            explain_range(s, slot, k);
        break;
    case RDMAD_E_RIGHTS:
        if (k->found)
            explain_rights(s, k->rights);
        break;
    case RDMAD_E_OPCODE:
        if (slot && slot->members > 1)
            sentence_add(s, " (one of its entries was reserved and not prepared)");
        break;
    case RDMAD_E_HANDLE:
        explain_missing(s, cqe, k);
        break;
    case RDMAD_E_NO_LEASE:
        if (!k->found)
            sentence_add(s, ": it was freed here before rdmad took the op");
        else if (k->away)
            sentence_add(s, ": rdmad was started again, and the lease's owner is not back yet; try "
                            "again");
        break;
    case RDMAD_E_CANCELED:
    case RDMAD_E_CLOSED:
        if (is_message(cqe->opcode) && k->ended[0])
            sentence_add(s, ": %s", k->ended);
        break;
    case RDMAD_E_NO_WAITER:
        sentence_add(s, "%s",
                     k->requested ? " (it was requested of a service, whose owner is told by "
                                    "rdmad_lease_hand_over; until then, send a message)"
                                  : "; try again when its owner has taken some");
        break;
    case RDMAD_E_LIMIT:
        explain_limit(s, cqe);
        break;
    case RDMAD_E_TOO_SMALL:
        if (cqe->opcode == RDMAD_OP_RECV && slot && cqe->bytes > slot->length)
            sentence_add(s, " of %llu bytes", (unsigned long long)cqe->bytes);
        break;
    default:
        break;
    }
}

static void explain_outcome(struct sentence *s, const struct rdmad_cqe *cqe) {
    const char *target = op_words_of(cqe)->target;
    if (!target)
        return;
    if (cqe->outcome == RDMAD_FAILED_UNTOUCHED)
        sentence_add(s, "; nothing was changed");
    else if (cqe->outcome == RDMAD_FAILED_PARTIAL)
        sentence_add(s, "; %s may be partly written", target);
    else if (cqe->outcome == RDMAD_UNKNOWN)
        sentence_add(s, "; whether it was done cannot be known");
}

/* Why there is no daemon any more. */
static void explain_lost(struct sentence *s, struct rdmad_session *session) {
    pthread_mutex_lock(&session->lock);
    if (rdmad_is_lost(session))
        sentence_add(s, ": %s", session->lost_text);
    pthread_mutex_unlock(&session->lock);
}

static const struct rdmad_slot *slot_of_cqe(const struct rdmad_ring *r,
                                            const struct rdmad_cqe *cqe) {
    if (r->told && cqe == r->told_cqe)
        return r->told;
    return r->holding && cqe == &r->current ? &r->slot[r->current_slot] : NULL;
}

void rdmad_ring_explain(const rdmad_ring *r, const struct rdmad_cqe *cqe, char *buf, size_t size) {
    RDMAD_LIVE(r, RING);
    const struct rdmad_slot *slot = slot_of_cqe(r, cqe);
    struct known k = explain_know(r, cqe, slot);
    struct sentence s = {.buf = buf, .size = size};
    if (size == 0)
        return;
    buf[0] = '\0';
    if (cqe->status == RDMAD_E_OPCODE && cqe->opcode == UINT8_MAX) {
        sentence_add(
            &s, "an entry was submitted that was reserved and not prepared, or whose prep failed; "
                "nothing was changed: give such an entry back with rdmad_ring_unreserve");
        return;
    }
    explain_op(&s, cqe, slot, &k);
    if (cqe->status == 0) {
        sentence_add(&s, " done");
        return;
    }
    explain_why(&s, cqe, slot, &k);
    explain_outcome(&s, cqe);
    if (cqe->status == RDMAD_E_DAEMON_LOST)
        explain_lost(&s, r->session);
}
