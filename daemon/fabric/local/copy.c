/* SPDX-License-Identifier: MIT */
/*
 * copy.c - the way of an op through the local fabric.
 *
 * The window is the wall: whatever the caller checked before, local_check asks again at every
 * slice whether the range, the right and the time are there.
 */
#include "daemon/fabric/local/copy.h"
#include "daemon/base/clock.h"
#include "daemon/base/guard.h"
#include "daemon/base/probe.h"
#include <string.h>

/* Bytes of short ops in one poll, so that a flood of them lets the long ones move too. */
#define SHORTS_BUDGET LOCAL_SLICE
#define SHORTS_PER_POLL 256u

static struct local *local_of_op(const struct fabric_op *op) {
    return container_of(op->link->fabric, struct local, base);
}

/* Status and outcome of an op that ends now, as it is. */
static void local_settle(struct fabric_op *op, int status) {
    op->status = status;
    if (status == RDMAD_OK)
        op->outcome = RDMAD_DONE;
    else if (op->scratch[LOCAL_MOVED] == 0)
        op->outcome = RDMAD_FAILED_UNTOUCHED;
    else
        op->outcome = RDMAD_FAILED_PARTIAL;
}

int local_post(struct fabric_link *link, struct fabric_op *op) {
    struct local *l = container_of(link->fabric, struct local, base);
    op->link = link;
    op->status = RDMAD_OK;
    op->scratch[LOCAL_MOVED] = 0;
    op->scratch[LOCAL_WINDOW] = 0;
    if (op->opcode == RDMAD_OP_SEND) {
        local_settle(op, RDMAD_E_UNSUPPORTED);
        list_append(&l->ended, &op->node);
        return 0;
    }
    if (op->key->size == sizeof(uint64_t))
        memcpy(&op->scratch[LOCAL_WINDOW], op->key->bytes, sizeof(uint64_t));
    list_append(fabric_op_is_atomic(op) || op->length <= LOCAL_SHORT ? &l->shorts : &l->longs,
                &op->node);
    return 0;
}

static void local_finish(struct local *l, struct fabric_op *op, int status) {
    local_settle(op, status);
    list_remove(&op->node);
    l->env->complete(l->env->user, op);
}

void local_cancel(struct fabric_op *op, int status) {
    /* One that ended in the meantime keeps what it ended with. */
    local_finish(local_of_op(op), op, op->status ? op->status : status);
}

static void local_stop_in(struct local *l, struct list *queue,
                          bool (*which)(const struct fabric_op *, const void *), const void *what,
                          int status) {
    list_for_each_safe (pos, queue) {
        struct fabric_op *op = list_entry(pos, struct fabric_op, node);
        if (!which(op, what))
            continue;
        local_settle(op, status);
        list_remove(pos);
        list_append(&l->ended, pos);
    }
}

void local_stop(struct local *l, bool (*which)(const struct fabric_op *, const void *),
                const void *what, int status) {
    local_stop_in(l, &l->shorts, which, what, status);
    local_stop_in(l, &l->longs, which, what, status);
}

static int local_check(const struct local_window *window, const struct fabric_op *op,
                       uint64_t now_ns) {
    if (!window)
        return RDMAD_E_NO_LEASE;
    const struct fabric_window_spec *spec = &window->spec;
    if (now_ns >= spec->deadline_ns)
        return RDMAD_E_LEASE_EXPIRED;
    uint32_t right = op->opcode == RDMAD_OP_READ ? RDMAD_RIGHT_READ
                     : fabric_op_is_atomic(op)   ? RDMAD_RIGHT_ATOMIC
                                                 : RDMAD_RIGHT_WRITE;
    if (!(spec->rights & right))
        return RDMAD_E_RIGHTS;
    uint64_t end, length = fabric_op_is_atomic(op) ? sizeof(uint64_t) : op->length;
    if (__builtin_add_overflow(op->offset, length, &end) || end > spec->length)
        return RDMAD_E_RANGE;
    if (fabric_op_is_atomic(op) && ((uintptr_t)spec->base + op->offset) % sizeof(uint64_t))
        return RDMAD_E_ALIGN;
    return RDMAD_OK;
}

/* The lease's sessions may be on several workers, all of which count into one audit. */
static void local_count_use(struct fabric_audit *audit, const struct fabric_op *op, uint64_t bytes,
                            uint64_t now_ns) {
    if (!fabric_op_is_atomic(op))
        __atomic_fetch_add(op->opcode == RDMAD_OP_READ ? &audit->bytes_read : &audit->bytes_written,
                           bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&audit->last_use_ns, now_ns, __ATOMIC_RELAXED);
}

static void local_count_end(const struct local_window *window, int status) {
    if (window && window->spec.audit)
        __atomic_fetch_add(status ? &window->spec.audit->refused : &window->spec.audit->ops, 1,
                           __ATOMIC_RELAXED);
}

static void local_fail(struct local *l, struct fabric_op *op, const void *fault) {
    op->fault = fault;
    local_finish(l, op, RDMAD_E_FAULT);
    l->env->memory_fault(l->env->user, fault);
}

/* Returns the address that could not be touched. */
static const void *local_run_atomic(struct fabric_op *op, const struct local_window *window) {
    uint64_t *word = (void *)((uint8_t *)window->spec.base + op->offset);
    if (op->opcode == RDMAD_OP_FADD)
        return guard_add(word, op->swap, &op->value);
    return guard_cas(word, op->compare, op->swap, &op->value);
}

/* Does an atomic, or copies up to most bytes more. Returns true when the op has ended. */
static bool local_run(struct local *l, struct fabric_op *op, uint64_t most) {
    uint64_t now_ns = l->env->now_ns(l->env->user);
    struct local_window *window = slots_get(&l->windows, op->scratch[LOCAL_WINDOW]);
    int status = local_check(window, op, now_ns);
    if (status) {
        probe_access_refused(window ? window->spec.lease_id : 0, 0, op->opcode, op->length, status);
        local_count_end(window, status);
        local_finish(l, op, status);
        return true;
    }
    probe_access_begun(window->spec.lease_id, window->spec.peer, op->opcode, op->length);

    uint64_t bytes = 0, *moved = &op->scratch[LOCAL_MOVED];
    const void *fault;
    if (fabric_op_is_atomic(op)) {
        fault = local_run_atomic(op, window);
    } else {
        bytes = op->length - *moved < most ? op->length - *moved : most;
        uint8_t *here = (uint8_t *)op->local + *moved;
        uint8_t *there = (uint8_t *)window->spec.base + op->offset + *moved;
        bool read = op->opcode == RDMAD_OP_READ;
        fault = guard_copy(read ? here : there, read ? there : here, bytes);
        *moved += bytes; /* after a fault: some of them, perhaps */
    }
    if (fault) {
        local_fail(l, op, fault);
        return true;
    }
    if (window->spec.audit)
        local_count_use(window->spec.audit, op, bytes, now_ns);
    if (!fabric_op_is_atomic(op) && *moved < op->length)
        return false;
    local_count_end(window, RDMAD_OK);
    local_finish(l, op, RDMAD_OK);
    return true;
}

static unsigned local_run_shorts(struct local *l) {
    unsigned count = 0;
    uint64_t bytes = 0;
    for (struct list *pos;
         count < SHORTS_PER_POLL && bytes < SHORTS_BUDGET && (pos = list_first(&l->shorts));
         count++) {
        struct fabric_op *op = list_entry(pos, struct fabric_op, node);
        bytes += op->length;
        local_run(l, op, op->length);
    }
    return count;
}

/* As much of the first one as its turn and what is left of the slice allow; afterwards it is
 * another's turn if it has ended, or has used its own. Returns how much was allowed. */
static uint64_t local_run_first(struct local *l, struct list *pos, uint64_t left) {
    struct fabric_op *op = list_entry(pos, struct fabric_op, node);
    uint64_t most = op->length - op->scratch[LOCAL_MOVED];
    if (l->turn == 0)
        l->turn = LOCAL_SLICE;
    most = most < left ? most : left;
    most = most < l->turn ? most : l->turn;
    l->turn -= most;
    if (local_run(l, op, most)) {
        l->turn = 0;
    } else if (l->turn == 0) {
        list_remove(pos);
        list_append(&l->longs, pos);
    }
    return most;
}

/* A slice in all, of the ops whose turn it is. */
static unsigned local_run_longs(struct local *l) {
    unsigned count = 0;
    bool hurried = l->env->is_hurried && l->env->is_hurried(l->env->user);
    uint64_t left = hurried ? LOCAL_HURRY : LOCAL_SLICE;
    for (struct list *pos; left && (pos = list_first(&l->longs)); count++)
        left -= local_run_first(l, pos, left);
    return count;
}

unsigned local_poll(struct fabric *f) {
    struct local *l = container_of(f, struct local, base);
    unsigned work = 0;
    for (struct list *pos; (pos = list_pop(&l->connected)); work++) {
        struct local_link *link = list_entry(pos, struct local_link, node);
        list_append(&l->links, pos);
        l->env->link_up(l->env->user, link->cookie);
    }
    for (struct list *pos; (pos = list_pop(&l->ended)); work++)
        l->env->complete(l->env->user, list_entry(pos, struct fabric_op, node));
    work += local_run_shorts(l);
    /* Whoever polls tells of the short ones before it polls again, and long ones take long. */
    l->longs_waited = work && !l->longs_waited && !list_empty(&l->longs);
    return l->longs_waited ? work : work + local_run_longs(l);
}
