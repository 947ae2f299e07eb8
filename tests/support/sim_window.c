/* SPDX-License-Identifier: MIT */
/*
 * sim_window.c - sim's windows, at once or with a delay as hardware has them.
 *
 * A lazy window lets accesses through until it has closed, not only until it was told to: whoever
 * takes the call for the end loses bytes here.
 */
#include "daemon/base/clock.h"
#include "tests/support/sim_world.h"
#include <stdlib.h>
#include <string.h>

static struct instance *instance_of(const struct window *window) {
    return container_of(window->base.fabric, struct instance, base);
}

static void put_key(const struct window *window, struct fabric_blob *key) {
    key->size = sizeof(window->handle);
    memcpy(key->bytes, &window->handle, sizeof(window->handle));
}

static void change_later(struct window *window) {
    window->due_ns = sim_later();
    list_append(&instance_of(window)->changing, &window->changing);
}

static int refused(struct error *err) {
    return error_set(err, RDMAD_E_LIMIT, "sim: no more windows, says the script");
}

int sim_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                    struct fabric_window **out, struct fabric_blob *key, struct error *err) {
    const struct sim_script *script = sim_script();
    if (script->refuse_windows && !script->lazy_windows)
        return refused(err);
    struct window *window = calloc(1, sizeof(*window));
    if (!window)
        return error_set(err, RDMAD_E_NOMEM, "sim: out of memory");
    window->base.fabric = f;
    window->spec = *spec;
    window->handle = slots_add(&instance_of(window)->windows, window);
    list_init(&window->changing);
    *out = &window->base;
    if (script->lazy_windows) {
        change_later(window);
        return FABRIC_PENDING;
    }
    put_key(window, key);
    return 0;
}

void sim_window_extend(struct fabric_window *base, uint64_t deadline_ns) {
    container_of(base, struct window, base)->spec.deadline_ns = deadline_ns;
}

/* Accesses under way are answered with the reason; they find the window no more anyhow. */
static void end(struct window *window) {
    struct instance *in = instance_of(window);
    if (!window->handle)
        return;
    sim_cut(in, window->handle, window->reason);
    slots_remove(&in->windows, window->handle);
    window->handle = 0;
}

bool sim_window_close(struct fabric_window *base, int reason) {
    struct window *window = container_of(base, struct window, base);
    list_remove(&window->changing); /* being opened: that comes to nothing */
    window->reason = reason;
    if (sim_script()->lazy_windows) {
        window->closing = true;
        change_later(window);
        return false;
    }
    end(window);
    free(window);
    return true;
}

int sim_window_check(const struct window *window, const struct sim_op *op) {
    const struct fabric_op *fop = op->fop;
    if (!window || window->spec.peer != op->link->peer ||
        (window->spec.via && window->spec.via != op->link->base.number))
        return RDMAD_E_NO_LEASE;
    bool atomic = fop->opcode == RDMAD_OP_CAS || fop->opcode == RDMAD_OP_FADD;
    uint64_t length = atomic ? sizeof(uint64_t) : fop->length;
    uint32_t right = atomic                         ? RDMAD_RIGHT_ATOMIC
                     : fop->opcode == RDMAD_OP_READ ? RDMAD_RIGHT_READ
                                                    : RDMAD_RIGHT_WRITE;
    if (sim_now() >= window->spec.deadline_ns)
        return RDMAD_E_LEASE_EXPIRED;
    if (!(window->spec.rights & right))
        return RDMAD_E_RIGHTS;
    if (fop->offset > window->spec.length || length > window->spec.length - fop->offset)
        return RDMAD_E_RANGE;
    if (atomic && ((uintptr_t)window->spec.base + fop->offset) % sizeof(uint64_t))
        return RDMAD_E_ALIGN;
    const struct sim_script *script = sim_script();
    return sim_chance(script->refuse_ppm) ? script->refuse_status : RDMAD_OK;
}

void sim_window_atomic(const struct window *window, struct sim_op *op) {
    const struct fabric_op *fop = op->fop;
    uint64_t *word = (void *)((uint8_t *)window->spec.base + fop->offset);
    op->value = *word;
    if (fop->opcode == RDMAD_OP_FADD)
        *word += fop->swap;
    else if (*word == fop->compare)
        *word = fop->swap;
    op->moved = sizeof(*word);
    if (sim_script()->placed)
        sim_script()->placed(window->spec.base, fop->offset, sizeof(*word));
    if (window->spec.audit)
        window->spec.audit->last_use_ns = sim_now();
}

static void change(struct window *window) {
    const struct fabric_env *env = instance_of(window)->env;
    void *cookie = window->spec.cookie;
    struct fabric_blob key;
    struct error err;
    if (window->closing || sim_script()->refuse_windows) {
        bool closing = window->closing;
        end(window);
        free(window);
        if (closing) {
            env->window_closed(env->user, cookie);
        } else {
            refused(&err);
            env->window_opened(env->user, cookie, NULL, &err);
        }
        return;
    }
    put_key(window, &key);
    env->window_opened(env->user, cookie, &key, NULL);
}

/* Each callback may open and close others, so the list is read anew. */
static struct window *window_first_due(struct instance *in) {
    list_for_each (pos, &in->changing) {
        struct window *window = list_entry(pos, struct window, changing);
        if (window->due_ns <= sim_now())
            return window;
    }
    return NULL;
}

unsigned sim_windows_change(struct instance *in) {
    unsigned work = 0;
    for (struct window *window; (window = window_first_due(in)); work++) {
        list_remove(&window->changing);
        change(window);
    }
    return work;
}

uint64_t sim_windows_due_ns(struct instance *in) {
    uint64_t due = CLOCK_NEVER;
    list_for_each (pos, &in->changing) {
        const struct window *window = list_entry(pos, struct window, changing);
        if (window->due_ns < due)
            due = window->due_ns;
    }
    return due;
}
