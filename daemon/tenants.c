/* SPDX-License-Identifier: MIT */
/*
 * tenants.c - a listener for each tenant. They need a restart to change, so the number of a tenant
 * is its place among the sockets as they were read at the start. What outlives this life, a session
 * that is resumed in the next, goes by the tenant's name (state/origin.h).
 */
#include "daemon/tenants.h"
#include "daemon/base/capable.h"
#include "daemon/base/log.h"
#include "daemon/config/metrics_at.h"
#include "daemon/config/rules.h"
#include "daemon/ipc/listener.h"
#include "daemon/serve/serve.h"
#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of one that is not given, before it is known to be short enough for a socket's. */
#define TENANT_PATH_MAX \
    (sizeof(((struct config *)0)->runtime_dir) + RDMAD_NAME_MAX + sizeof("/tenants//rdmad.sock"))

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

static int no_directory(const char *path, struct error *err) {
    return error_errno(err, RDMAD_E_CONFIG, "%s: a tenant's socket cannot be made there", path);
}

/* What is to be done about a directory that a socket is to be in. */
typedef int each_directory(const char *path, struct error *err);

/* Whoever may use the socket in it must come by, whatever our umask. */
static int make_directory(const char *path, struct error *err) {
    if (mkdir(path, 0755) ? errno == EEXIST : !chmod(path, 0755))
        return 0;
    return no_directory(path, err);
}

/* It is there, or can be made; where the one above is to be made first, that was looked at. */
static int tenants_check_directory(const char *path, struct error *err) {
    char above[sizeof(((struct rule_socket *)0)->path)];
    struct stat st;
    snprintf(above, sizeof(above), "%s", path);
    if (!stat(path, &st) || !eaccess(dirname(above), W_OK | X_OK) || errno == ENOENT)
        return 0;
    return no_directory(path, err);
}

/* RUNTIME_DIR/tenants/NAME/rdmad.sock: a directory of its own, because it is that which is mounted,
 * so a daemon that starts anew is found by the container. */
static int own_path(const struct state *st, const char *tenant, char *path, size_t size,
                    each_directory *each, struct error *err) {
    int n = snprintf(path, size, "%s/tenants", st->config->runtime_dir);
    int rc = each(path, err);
    if (rc)
        return rc;
    n += snprintf(path + n, size - (size_t)n, "/%s", tenant);
    if ((size_t)n + sizeof("/rdmad.sock") > size)
        return error_set(err, RDMAD_E_CONFIG,
                         "the socket of tenant %s has a path that is too long; give it one by "
                         "\"path\"",
                         tenant);
    if ((rc = each(path, err)))
        return rc;
    strcat(path, "/rdmad.sock");
    return 0;
}

/* path: for what out has of it. */
static int tenant_spec(const struct state *st, const struct rule_socket *s, each_directory *each,
                       char path[sizeof(s->path)], struct listener_spec *out, struct error *err) {
    *out = (struct listener_spec){.path = path,
                                  .type = SOCK_SEQPACKET,
                                  .mode = s->mode,
                                  .group = s->group,
                                  .activated = -1,
                                  .kept = st->kept,
                                  .refused = serve_refuse_tenant};
    snprintf(path, sizeof(s->path), "%s", s->path);
    return s->path[0] ? 0 : own_path(st, s->tenant, path, sizeof(s->path), each, err);
}

static int no_user(uid_t user, const char *path, struct error *err) {
    return error_set(err, RDMAD_E_CONFIG,
                     "%s cannot be given to uid %u (%s), which takes CAP_CHOWN: leave out \"user\" "
                     "and \"uid\", and say by \"mode\" who may connect",
                     path, (unsigned)user, strerror(errno));
}

/* One that the life before has left may be another user's still. */
static int tenant_own_path(const struct rule_socket *s, const char *path, struct error *err) {
    struct stat st;
    uid_t user = s->user == (uid_t)-1 ? geteuid() : s->user;
    bool is_his = !lstat(path, &st) && st.st_uid == user;
    return is_his || !lchown(path, user, (gid_t)-1) ? 0 : no_user(user, path, err);
}

static int tenant_listen(struct tenant *t, struct state *st, const struct rule_socket *s,
                         struct error *err) {
    char path[sizeof(s->path)];
    struct listener_spec spec;
    int rc = tenant_spec(st, s, make_directory, path, &spec, err);
    if (!rc)
        rc = listener_new(st->base, &spec, serve_accept_tenant, &t->door, &t->listener, err);
    if (rc)
        return rc;
    if ((rc = tenant_own_path(s, path, err)))
        return rc;
    LOG(NOTICE, ("tenant %s is served at %s", s->tenant, path));
    return 0;
}

static int tenant_check(const struct state *st, const struct rule_socket *s, struct error *err) {
    char path[sizeof(s->path)], dir[sizeof(s->path)];
    struct listener_spec spec;
    struct stat is;
    int rc = tenant_spec(st, s, tenants_check_directory, path, &spec, err);
    snprintf(dir, sizeof(dir), "%s", path);
    if (!rc && (s->path[0] || !stat(dirname(dir), &is))) /* or else nothing is there yet */
        rc = listener_check(&spec, err);
    errno = EPERM;
    if (!rc && s->user != (uid_t)-1 && st->kept && !capable_of_user(s->user))
        rc = no_user(s->user, path, err);
    return rc;
}

/* ---- a place of its own ------------------------------------------------------------------- */

static void tenant_path(const struct state *st, const struct rule_socket *s,
                        char path[TENANT_PATH_MAX]) {
    if (s->path[0])
        snprintf(path, TENANT_PATH_MAX, "%s", s->path);
    else
        snprintf(path, TENANT_PATH_MAX, "%s/tenants/%s/rdmad.sock", st->config->runtime_dir,
                 s->tenant);
}

/* However the paths are written. */
static bool tenants_same_place(const char *a, const char *b) {
    char one[TENANT_PATH_MAX], other[TENANT_PATH_MAX];
    struct stat is, other_is;
    const char *name = strrchr(a, '/'), *other_name = strrchr(b, '/');
    if (!name || !other_name || strcmp(name, other_name) != 0)
        return false;
    snprintf(one, sizeof(one), "%.*s/", (int)(name - a), a);
    snprintf(other, sizeof(other), "%.*s/", (int)(other_name - b), b);
    return !strcmp(one, other) || (!stat(one, &is) && !stat(other, &other_is) &&
                                   is.st_dev == other_is.st_dev && is.st_ino == other_is.st_ino);
}

static int check_not_ours(const struct state *st, const char *tenant, const char *path,
                          struct error *err) {
    static const char *const ours[] = {"rdmad.sock", "control.sock", "metrics.sock"};
    char own[TENANT_PATH_MAX];
    struct metrics_at metrics;
    unsigned count = sizeof(ours) / sizeof(*ours);
    if (metrics_at_parse(st->config->metrics_listen, &metrics) || !metrics.local)
        count--;
    for (unsigned i = 0; i < count; i++) {
        snprintf(own, sizeof(own), "%s/%s", st->config->runtime_dir, ours[i]);
        if (tenants_same_place(own, path))
            return error_set(err, RDMAD_E_CONFIG,
                             "the socket of tenant %s cannot be at %s, where rdmad's own is; give "
                             "it another path",
                             tenant, path);
    }
    return 0;
}

/* Found before one is made: by then it would be said that somebody answers there. Our own sockets
 * that the life before has left are in nobody's way, but in those of others. */
static int tenants_check_places(const struct state *st, struct error *err) {
    const struct rules *rules = st->config->rules;
    char path[TENANT_PATH_MAX], other[TENANT_PATH_MAX];
    int rc = 0;
    for (unsigned i = 0; rules && i < rules->nsockets && !rc; i++) {
        const struct rule_socket *s = &rules->sockets[i];
        tenant_path(st, s, path);
        rc = check_not_ours(st, s->tenant, path, err);
        for (unsigned k = 0; k < i && !rc; k++) {
            tenant_path(st, &rules->sockets[k], other);
            if (tenants_same_place(path, other))
                rc = error_set(err, RDMAD_E_CONFIG,
                               "tenants %s and %s cannot both have a socket at %s; give one of "
                               "them another path",
                               rules->sockets[k].tenant, s->tenant, path);
        }
    }
    return rc;
}

int tenants_check(const struct state *st, struct error *err) {
    const struct rules *rules = st->config->rules;
    int rc = tenants_check_places(st, err);
    for (unsigned i = 0; rules && i < rules->nsockets && !rc; i++)
        rc = tenant_check(st, &rules->sockets[i], err);
    return rc;
}

int tenants_new(struct state *st, struct tenants **out, struct error *err) {
    const struct rules *rules = st->config->rules;
    unsigned count = rules ? rules->nsockets : 0;
    assert(count <= RULE_SOCKETS_MAX);
    int rc = tenants_check_places(st, err);
    if (rc)
        return rc;
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
        rc = tenant_listen(one, st, &rules->sockets[i], err);
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

void tenants_tell(const struct tenants *t, struct kept *kept) {
    for (unsigned i = 0; i < t->count; i++)
        (void)listener_tell(t->tenant[i].listener, kept);
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
