/* SPDX-License-Identifier: MIT */
/*
 * local.c - instances, links and windows of the local fabric.
 *
 * Nothing is secret here: the worker that posts is the one that opened the window, for a lease that
 * its own tables hold. A key is a window's handle, whose generation makes an old key harmless.
 */
#include "daemon/base/clock.h"
#include "daemon/fabric/local/copy.h"
#include <stdlib.h>
#include <string.h>

#define WINDOWS_MAX (1u << 20)

static struct local *local_of(struct fabric *f) {
    return container_of(f, struct local, base);
}

static int local_open(const struct fabric_env *env, struct fabric **out, struct error *err) {
    struct local *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, RDMAD_E_NOMEM, "fabric local: out of memory");
    l->base.ops = &fabric_local;
    l->env = env;
    list_init(&l->links);
    list_init(&l->connected);
    list_init(&l->shorts);
    list_init(&l->longs);
    list_init(&l->ended);
    slots_init(&l->windows, WINDOWS_MAX);
    *out = &l->base;
    return 0;
}

static void local_close(struct fabric *f) {
    struct local *l = local_of(f);
    slots_fini(&l->windows);
    free(l);
}

/* There is one place to connect to, and no secret to know. */
static int local_offer(struct fabric *f, uint64_t peer, bool secured,
                       const struct fabric_blob *hello, struct fabric_blob *out,
                       struct error *err) {
    (void)secured;
    (void)f;
    (void)peer;
    (void)hello;
    (void)err;
    out->size = 0;
    return 0;
}

static void local_expel(struct fabric *f, uint64_t peer) {
    (void)f;
    (void)peer;
}

static int local_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                          struct fabric_blob *hello, struct error *err) {
    (void)secured;
    struct local_link *link = calloc(1, sizeof(*link));
    if (!link)
        return error_set(err, RDMAD_E_NOMEM, "fabric local: out of memory for a link");
    link->base =
        (struct fabric_link){.fabric = f, .max_message = LOCAL_MAX_MESSAGE, .number = LOCAL_NUMBER};
    link->cookie = cookie;
    list_init(&link->node);
    hello->size = 0;
    *out = &link->base;
    return 0;
}

static int local_link_open(struct fabric_link *base, const char *host,
                           const struct fabric_blob *offer, struct error *err) {
    (void)host;
    (void)offer;
    (void)err;
    struct local_link *link = container_of(base, struct local_link, base);
    list_append(&local_of(base->fabric)->connected, &link->node);
    return 0;
}

static bool on_link(const struct fabric_op *op, const void *link) {
    return op->link == link;
}

static void local_link_close(struct fabric_link *base) {
    struct local *l = local_of(base->fabric);
    struct local_link *link = container_of(base, struct local_link, base);
    struct list mine;
    list_init(&mine);
    local_stop(l, on_link, base, RDMAD_E_CANCELED);
    list_for_each_safe (pos, &l->ended) {
        if (on_link(list_entry(pos, struct fabric_op, node), base)) {
            list_remove(pos);
            list_append(&mine, pos);
        }
    }
    for (struct list *pos; (pos = list_pop(&mine));)
        l->env->complete(l->env->user, list_entry(pos, struct fabric_op, node));
    list_remove(&link->node);
    free(link);
}

static int local_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                             struct fabric_window **out, struct fabric_blob *key,
                             struct error *err) {
    struct local *l = local_of(f);
    struct local_window *window = calloc(1, sizeof(*window));
    if (window)
        window->handle = slots_add(&l->windows, window);
    if (!window || !window->handle) {
        free(window);
        return error_set(err, RDMAD_E_NOMEM, "lease %lu: no room for another local window",
                         (unsigned long)spec->lease_id);
    }
    window->base.fabric = f;
    window->spec = *spec;
    key->size = sizeof(window->handle);
    memcpy(key->bytes, &window->handle, sizeof(window->handle));
    *out = &window->base;
    return 0;
}

static void local_window_extend(struct fabric_window *base, uint64_t deadline_ns) {
    container_of(base, struct local_window, base)->spec.deadline_ns = deadline_ns;
}

static bool in_window(const struct fabric_op *op, const void *handle) {
    return op->scratch[LOCAL_WINDOW] == *(const uint64_t *)handle;
}

static bool local_window_close(struct fabric_window *base, int reason) {
    struct local *l = local_of(base->fabric);
    struct local_window *window = container_of(base, struct local_window, base);
    local_stop(l, in_window, &window->handle, reason);
    slots_remove(&l->windows, window->handle);
    free(window);
    return true;
}

static int local_wait_fd(struct fabric *f) {
    (void)f;
    return -1;
}

static bool local_arm(struct fabric *f, uint64_t *wake_ns) {
    struct local *l = local_of(f);
    *wake_ns = CLOCK_NEVER;
    return list_empty(&l->shorts) && list_empty(&l->longs) && list_empty(&l->ended) &&
           list_empty(&l->connected);
}

const struct fabric_ops fabric_local = {
    .name = "local",
    .open = local_open,
    .close = local_close,
    .offer = local_offer,
    .expel = local_expel,
    .link_new = local_link_new,
    .link_open = local_link_open,
    .link_close = local_link_close,
    .window_open = local_window_open,
    .window_extend = local_window_extend,
    .window_close = local_window_close,
    .post = local_post,
    .cancel = local_cancel,
    .poll = local_poll,
    .wait_fd = local_wait_fd,
    .arm = local_arm,
};
