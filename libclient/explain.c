/* SPDX-License-Identifier: MIT */
/*
 * explain.c - a completion in full words: what was asked, of which lease, why it failed, and what
 * became of the target.
 */
#include "common/errors.h"
#include "libclient/ring.h"

#include <stdarg.h>
#include <stdio.h>

struct sentence {
    char *buf;
    size_t size, used;
};

static void say(struct sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct sentence *s, const char *format, ...) {
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(s->buf + s->used, s->size - s->used, format, ap);
    va_end(ap);
    if (n > 0)
        s->used += (size_t)n < s->size - s->used ? (size_t)n : s->size - s->used - 1;
}

/* What we know of the lease, copied under the lock. */
struct known {
    uint64_t id;
    uint64_t length;
    uint64_t ended_ago_ns;
    uint32_t rights;
    bool found;
};

static struct known know(const struct rdmad_ring *r, const struct rdmad_cqe *cqe,
                         const struct rdmad_slot *slot) {
    struct known k = {.id = cqe->lease_id};
    uint64_t now = rdmad_boottime_ns(), end = 0;
    struct rdmad_lease *lease;

    if (!slot || !slot->lease)
        return k;
    pthread_mutex_lock(&r->session->lock);
    lease = rdmad_lease_find(r->session, false, slot->lease);
    if (lease) {
        k.found = true;
        k.id = lease->id;
        k.length = lease->length;
        k.rights = lease->rights;
        end = cqe->status == RDMAD_E_LEASE_EXPIRED ? lease->deadline_ns : lease->ended_ns;
    }
    pthread_mutex_unlock(&r->session->lock);
    if (end && end < now)
        k.ended_ago_ns = now - end;
    return k;
}

static void say_op(struct sentence *s, const struct rdmad_cqe *cqe, const struct rdmad_slot *slot,
                   const struct known *k) {
    bool read = cqe->opcode == RDMAD_OP_READ;

    if (cqe->opcode == RDMAD_OP_NOP)
        say(s, "nop");
    else if (read || cqe->opcode == RDMAD_OP_WRITE)
        say(s, read ? "read" : "write");
    else
        say(s, "op");
    if (cqe->opcode == RDMAD_OP_NOP)
        return;
    if (slot)
        say(s, " of %llu bytes", (unsigned long long)slot->length);
    if (k->id)
        say(s, " %s lease %llu", read ? "from" : "to", (unsigned long long)k->id);
}

/* Of the two ranges of an op, the one that does not fit. */
static void say_range(struct sentence *s, const struct rdmad_slot *slot, const struct known *k) {
    uint64_t end;

    if (__builtin_add_overflow(slot->lease_offset, slot->length, &end) || end > k->length)
        say(s, " (offset %llu in a lease of %llu bytes)", (unsigned long long)slot->lease_offset,
            (unsigned long long)k->length);
    else
        say(s, " (the buffer reaches beyond its pool)");
}

static void say_why(struct sentence *s, const struct rdmad_cqe *cqe, const struct rdmad_slot *slot,
                    const struct known *k) {
    say(s, " failed: %s", rdmad_error_text(cqe->status));
    switch (cqe->status) {
    case RDMAD_E_LEASE_EXPIRED:
    case RDMAD_E_LEASE_REVOKED:
    case RDMAD_E_LEASE_RELEASED:
    case RDMAD_E_LEASE_ORPHANED:
        if (k->ended_ago_ns)
            say(s, " %llu ms ago", (unsigned long long)(k->ended_ago_ns / 1000000u));
        say(s, "; attach to a new one");
        break;
    case RDMAD_E_RANGE:
        if (slot && k->found)
            say_range(s, slot, k);
        break;
    case RDMAD_E_RIGHTS:
        if (k->found)
            say(s, " (it grants %s)",
                k->rights == RDMAD_RIGHT_READ    ? "reading only"
                : k->rights == RDMAD_RIGHT_WRITE ? "writing only"
                                                 : "both");
        break;
    default:
        break;
    }
}

static void say_outcome(struct sentence *s, const struct rdmad_cqe *cqe) {
    const char *target = cqe->opcode == RDMAD_OP_READ ? "the buffer" : "the lease's memory";

    if (cqe->opcode == RDMAD_OP_NOP)
        return;
    if (cqe->outcome == RDMAD_FAILED_UNTOUCHED)
        say(s, "; nothing was changed");
    else if (cqe->outcome == RDMAD_FAILED_PARTIAL)
        say(s, "; %s may be partly written", target);
    else if (cqe->outcome == RDMAD_UNKNOWN)
        say(s, "; whether it was done cannot be known");
}

void rdmad_ring_explain(const rdmad_ring *r, const struct rdmad_cqe *cqe, char *buf, size_t size) {
    const struct rdmad_slot *slot =
        r->holding && cqe == &r->current ? &r->slot[r->current_slot] : NULL;
    struct known k = know(r, cqe, slot);
    struct sentence s = {.buf = buf, .size = size};

    if (size == 0)
        return;
    say_op(&s, cqe, slot, &k);
    if (cqe->status == 0) {
        say(&s, " done");
        return;
    }
    say_why(&s, cqe, slot, &k);
    say_outcome(&s, cqe);
}
