/* SPDX-License-Identifier: MIT */
/*
 * tenants.c - a listener for each tenant. They need a restart to change, so the number of a tenant
 * is its place among the sockets as they were read at the start. What outlives this life, a session
 * that is resumed in the next, goes by the tenant's name (state/origin.h).
 */
#include "daemon/tenants.h"
#include "daemon/base/log.h"
#include "daemon/config/rules.h"
#include "daemon/ipc/listener.h"
#include "daemon/serve/serve.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct tenant {
    struct serve_door door;
    char name[RDMAD_NAME_MAX + 1];
    struct listener *listener;
};

struct tenants {
    unsigned count;
    struct state *state;
    const char *names[RULE_SOCKETS_MAX + 1]; /* for the state */
    struct tenant tenant[];
};

/* Whoever may use the socket in it must come by, whatever our umask. */
static int make_directory(const char *path, struct error *err) {
    if (mkdir(path, 0755) ? errno == EEXIST : !chmod(path, 0755))
        return 0;
    return error_errno(err, RDMAD_E_CONFIG, "%s: a tenant's socket cannot be made there", path);
}

/* RUNTIME_DIR/tenants/NAME/rdmad.sock: a directory of its own, because it is that which is mounted,
 * so a daemon that starts anew is found by the container. */
static int own_path(const struct state *st, const char *tenant, char *path, size_t size,
                    struct error *err) {
    int n = snprintf(path, size, "%s/tenants", st->config->runtime_dir);
    int rc = make_directory(path, err);
    if (rc)
        return rc;
    n += snprintf(path + n, size - (size_t)n, "/%s", tenant);
    if ((size_t)n + sizeof("/rdmad.sock") > size)
        return error_set(err, RDMAD_E_CONFIG,
                         "the socket of tenant %s has a path that is too long; give it one by "
                         "\"path\"",
                         tenant);
    if ((rc = make_directory(path, err)))
        return rc;
    strcat(path, "/rdmad.sock");
    return 0;
}

static int tenant_listen(struct tenant *t, struct state *st, const struct rule_socket *s,
                         struct error *err) {
    char path[sizeof(s->path)];
    int rc = 0;
    if (s->path[0])
        snprintf(path, sizeof(path), "%s", s->path);
    else if ((rc = own_path(st, s->tenant, path, sizeof(path), err)))
        return rc;
    struct listener_spec spec = {.path = path,
                                 .type = SOCK_SEQPACKET,
                                 .mode = s->mode,
                                 .group = s->group,
                                 .activated = -1,
                                 .kept = st->kept,
                                 .refused = serve_refuse_tenant};
    rc = listener_new(st->base, &spec, serve_accept_tenant, &t->door, &t->listener, err);
    if (rc)
        return rc;
    if (s->user != (uid_t)-1 && chown(path, s->user, (gid_t)-1))
        return error_errno(err, RDMAD_E_CONFIG, "%s: cannot be given to uid %u", path,
                           (unsigned)s->user);
    LOG(NOTICE, ("tenant %s is served at %s", s->tenant, path));
    return 0;
}

int tenants_new(struct state *st, struct tenants **out, struct error *err) {
    const struct rules *rules = st->config->rules;
    unsigned count = rules ? rules->nsockets : 0;
    assert(count <= RULE_SOCKETS_MAX);
    struct tenants *t = calloc(1, sizeof(*t) + count * sizeof(t->tenant[0]));
    if (!t)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for tenants' sockets");
    t->state = st;
    st->tenants = t->names;
    for (unsigned i = 0; i < count; i++) {
        struct tenant *one = &t->tenant[i];
        strcpy(one->name, rules->sockets[i].tenant);
        t->names[i] = one->name;
        one->door = (struct serve_door){.state = st, .tenant = one->name, .number = i + 1};
        t->count++;
        int rc = tenant_listen(one, st, &rules->sockets[i], err);
        if (rc) {
            tenants_free(t);
            return rc;
        }
    }
    *out = t;
    return 0;
}

void tenants_pause(struct tenants *t) {
    for (unsigned i = 0; i < t->count; i++)
        listener_pause(t->tenant[i].listener);
}

void tenants_suspend(struct tenants *t, bool on) {
    for (unsigned i = 0; i < t->count; i++)
        listener_suspend(t->tenant[i].listener, on);
}

void tenants_keep(struct tenants *t, struct kept *kept) {
    for (unsigned i = 0; i < t->count; i++)
        if (!listener_keep(t->tenant[i].listener, kept))
            LOG(WARNING,
                ("tenant %s: its socket cannot be kept open, and is made anew", t->tenant[i].name));
}

void tenants_free(struct tenants *t) {
    if (!t)
        return;
    t->state->tenants = NULL;
    for (unsigned i = 0; i < t->count; i++)
        if (t->tenant[i].listener)
            listener_free(t->tenant[i].listener);
    free(t);
}
