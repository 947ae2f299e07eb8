/* SPDX-License-Identifier: MIT */
/*
 * window.c - the owner's table of windows, and the one place that decides about an access.
 *
 * A window is named by its slot and a random 64-bit key of its own, and may be used only on the
 * connections of one peer, or on the one whose number it was opened for: what is still to come by
 * an older connection, given up since, cannot use it. Closing it first lets go of everything that a
 * connection still reads from or writes to its range (target.c), then forgets it: whoever
 * names it later is told that there is no such lease.
 */
#include "daemon/fabric/tcp/window.h"
#include "daemon/base/clock.h"
#include "daemon/base/probe.h"
#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

int window_add(struct tcp *t, const struct fabric_window_spec *spec, struct tcp_window **out,
               struct error *err) {
    struct tcp_window *w = calloc(1, sizeof *w);
    if (!w)
        return error_set(err, RDMAD_E_NOMEM, "no memory for a window of lease %lu",
                         (unsigned long)spec->lease_id);
    *w = (struct tcp_window){.base.fabric = &t->base, .spec = *spec};
    if (getrandom(&w->key, sizeof w->key, 0) != (ssize_t)sizeof w->key) {
        free(w);
        return error_errno(err, RDMAD_E_SYSTEM, "no random bytes for the key of lease %lu",
                           (unsigned long)spec->lease_id);
    }
    w->handle = slots_add(&t->windows, w);
    if (!w->handle) {
        free(w);
        return error_set(err, RDMAD_E_LIMIT,
                         "no room for a window of lease %lu: %u of at most %u are open on this "
                         "worker; end some leases first",
                         (unsigned long)spec->lease_id, t->windows.used, t->windows.max);
    }
    *out = w;
    return 0;
}

void window_remove(struct tcp *t, struct tcp_window *w) {
    assert(w->queued == 0);
    slots_remove(&t->windows, w->handle);
    free(w);
}

void tcp_window_extend(struct fabric_window *fw, uint64_t deadline_ns) {
    container_of(fw, struct tcp_window, base)->spec.deadline_ns = deadline_ns;
}

/* Only this worker writes; others read at any time. No locked instruction is needed. */
static void audit_counter_add(uint64_t *counter, uint64_t n) {
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

static uint8_t opcode_of(const struct frame *f) {
    static const uint8_t opcodes[UINT8_MAX + 1] = {[FRAME_READ] = RDMAD_OP_READ,
                                                   [FRAME_WRITE] = RDMAD_OP_WRITE,
                                                   [FRAME_CAS] = RDMAD_OP_CAS,
                                                   [FRAME_FADD] = RDMAD_OP_FADD};
    return opcodes[f->type];
}

/* The checks are in the order in which a peer may learn things: that the lease exists at all comes
 * first. */
struct tcp_window *window_check(struct tcp *t, uint64_t peer, uint64_t number,
                                const struct frame *f, int *status) {
    struct tcp_window *w = f->slot < t->windows.size ? t->windows.slot[f->slot].ptr : NULL;
    if (!w || w->key != f->key || w->spec.peer != peer || (w->spec.via && w->spec.via != number)) {
        *status = RDMAD_E_NO_LEASE;
        probe_access_refused(0, peer, opcode_of(f), f->length, RDMAD_E_NO_LEASE);
        return NULL;
    }
    const struct fabric_window_spec *s = &w->spec;
    bool atomic = frame_is_atomic(f->type);
    uint32_t right = f->type == FRAME_READ ? RDMAD_RIGHT_READ
                     : atomic              ? RDMAD_RIGHT_ATOMIC
                                           : RDMAD_RIGHT_WRITE;
    uint64_t end;
    if (tcp_look_at_clock(t) >= s->deadline_ns)
        *status = RDMAD_E_LEASE_EXPIRED;
    else if ((s->rights & right) == 0)
        *status = RDMAD_E_RIGHTS;
    else if (__builtin_add_overflow(f->offset, atomic ? FRAME_WORD : f->length, &end) ||
             end > s->length)
        *status = RDMAD_E_RANGE;
    else if (atomic && ((uintptr_t)s->base + f->offset) % FRAME_WORD)
        *status = RDMAD_E_ALIGN;
    else {
        probe_access_begun(s->lease_id, peer, opcode_of(f), f->length);
        return w;
    }
    probe_access_refused(s->lease_id, peer, opcode_of(f), f->length, *status);
    audit_counter_add(&s->audit->refused, 1);
    return NULL;
}

/* An op that was let in. Its bytes count when it starts: an owner wants to see who had access. */
void window_count(const struct tcp *t, struct tcp_window *w, const struct frame *f) {
    struct fabric_audit *a = w->spec.audit;
    audit_counter_add(&a->ops, 1);
    if (!frame_is_atomic(f->type))
        audit_counter_add(f->type == FRAME_READ ? &a->bytes_read : &a->bytes_written, f->length);
    __atomic_store_n(&a->last_use_ns, t->now_ns, __ATOMIC_RELAXED);
}
