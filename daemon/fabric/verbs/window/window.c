/* SPDX-License-Identifier: MIT */
/*
 * window.c - what the owner of a window is told.
 */
#include "daemon/fabric/verbs/window/window.h"
#include <assert.h>
#include <stdlib.h>

/* The owner may do anything in what it is called for, so that comes last. */
void window_free(struct verbs_window *w) {
    struct vpeer *p = w->peer;
    list_remove(&w->at);
    list_remove(&w->node);
    free(w);
    vpeer_check_free(p);
}

void window_told(struct verbs_window *w, const struct verbs_key *key) {
    const struct fabric_env *env = w->peer->verbs->env;
    struct fabric_blob blob;
    assert(w->state == WINDOW_OPENING && w->by);
    blob_write_key(key, &blob);
    w->state = WINDOW_OPEN;
    env->window_opened(env->user, w->cookie, &blob, NULL);
}

void window_ended(struct verbs_window *w, const struct error *why) {
    const struct fabric_env *env = w->peer->verbs->env;
    void *cookie = w->cookie;
    enum window_state state = w->state;
    assert(w->by);
    list_remove(&w->at);
    w->by = NULL;
    if (state == WINDOW_OPEN) /* gone, its owner will find out */
        return;
    window_free(w);
    if (state == WINDOW_CLOSING)
        env->window_closed(env->user, cookie);
    else
        env->window_opened(env->user, cookie, NULL, why);
}
