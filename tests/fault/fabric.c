/* SPDX-License-Identifier: MIT */
/*
 * fabric.c - a fabric between the engine and the real one, whose calls fail on demand (page.h).
 *
 * Who asks for a fabric's table gets ours, by the linker's --wrap; the fabric itself keeps its own.
 * So what the engine and the daemon call comes here first, and what the fabric calls back, too.
 * Every failure is one that fabric.h allows to any fabric, whether the real one has it or not:
 *
 *   host_open, open, memory_add,   refuse, in words
 *   offer, peer_share, link_new
 *   link_open, link_up             it cannot connect, or is lost while it connects
 *   window_open                    it refuses; or is pending, and then tells why it failed
 *   post (full)                    AGAIN, until poll moves something: for links of the local fabric
 *                                  only while an op is posted there
 *   post (refused)                 it takes the op, and gives it back untouched: FABRIC
 *   post (lost)                    PEER_LOST, and the link breaks
 *   complete (lost)                the link breaks when the op is done and before that is known
 *   health                         is not known
 *
 * A link that breaks gives back all its ops and then says so. What follows comes from poll, like a
 * fabric's own news; an eventfd wakes who sleeps.
 */
#include "daemon/fabric/fabric.h"
#include "tests/fault/fails.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct shim {
    struct list node; /* in all */
    const struct fabric_ops *real;
    struct fabric *instance; /* the real one's */
    const struct fabric_env *theirs;
    struct fabric_env env;
    struct list links, refused, pending;
    int event_fd, epoll_fd; /* -1: the real one has no descriptor either */
    bool due;               /* poll has something to tell */
};

struct shim_link {
    struct list node;
    struct shim *shim;
    struct fabric_link *link;
    void *cookie;
    struct fabric_op **posted; /* at the real one */
    size_t count, room;
    bool closing;
    bool broken; /* it takes no post */
    bool told;   /* and that was said */
};

/* A window that is being opened in vain. */
struct shim_window {
    struct fabric_window base;
    struct list node;
    void *cookie;
};

/* Ours are no calls that fail. */
void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
int __real_eventfd(unsigned count, int flags);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *e);
ssize_t __real_read(int fd, void *at, size_t n);
ssize_t __real_write(int fd, const void *at, size_t n);

static void *must(void *block) {
    if (!block)
        abort();
    return block;
}

static bool fabric_fails(const char *call) {
    return fails(FAULT_FABRIC, call);
}

/* ---- which one it is ------------------------------------------------------------------------ */

static struct list all = LIST_INIT(all);
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* workers come and go */

static struct shim *shim_of(const struct fabric *f) {
    struct shim *found = NULL;
    pthread_mutex_lock(&all_lock);
    list_for_each (pos, &all) {
        struct shim *s = list_entry(pos, struct shim, node);
        if (s->instance == f)
            found = s;
    }
    pthread_mutex_unlock(&all_lock);
    return must(found);
}

static struct shim_link *link_of(const struct fabric_link *link) {
    struct shim *s = shim_of(link->fabric);
    list_for_each (pos, &s->links) {
        struct shim_link *l = list_entry(pos, struct shim_link, node);
        if (l->link == link)
            return l;
    }
    abort();
}

static bool is_local(const struct shim *s) {
    return strcmp(s->real->name, "local") == 0;
}

/* The next poll tells it. */
static void due(struct shim *s) {
    const uint64_t one = 1;
    s->due = true;
    if (s->event_fd >= 0 && __real_write(s->event_fd, &one, sizeof(one)) != sizeof(one))
        abort();
}

/* ---- the way of an op ----------------------------------------------------------------------- */

static void op_posted(struct shim_link *l, struct fabric_op *op) {
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 16;
        l->posted = must(__real_reallocarray(l->posted, l->room, sizeof(struct fabric_op *)));
    }
    l->posted[l->count++] = op;
}

static void op_over(struct shim_link *l, const struct fabric_op *op) {
    size_t i = 0;
    while (i < l->count && l->posted[i] != op)
        i++;
    assert(i < l->count);
    l->count--;
    memmove(&l->posted[i], &l->posted[i + 1], (l->count - i) * sizeof(struct fabric_op *));
}

static void link_break(struct shim_link *l) {
    l->broken = true;
    due(l->shim);
}

static void shim_complete(void *user, struct fabric_op *op) {
    struct shim *s = user;
    struct shim_link *l = link_of(op->link);
    op_over(l, op);
    if (op->status == RDMAD_OK && !l->broken && !l->closing && !is_local(s) &&
        fabric_fails("complete (lost)")) {
        op->status = RDMAD_E_PEER_LOST;
        op->outcome = op->opcode == RDMAD_OP_READ ? RDMAD_FAILED_PARTIAL : RDMAD_UNKNOWN;
        link_break(l);
    }
    if (l->broken)
        due(s); /* if it is the last */
    s->theirs->complete(s->theirs->user, op);
}

static bool is_refused(const struct shim *s, const struct fabric_op *op) {
    list_for_each (pos, &s->refused)
        if (list_entry(pos, struct fabric_op, node) == op)
            return true;
    return false;
}

static void give_back(struct shim *s, struct fabric_op *op, int status) {
    list_remove(&op->node);
    op->status = status;
    op->outcome = RDMAD_FAILED_UNTOUCHED;
    s->theirs->complete(s->theirs->user, op);
}

static int shim_post(struct fabric_link *link, struct fabric_op *op) {
    struct shim_link *l = link_of(link);
    struct shim *s = l->shim;
    if (l->broken)
        return RDMAD_E_PEER_LOST;
    if ((!is_local(s) || l->count) && fabric_fails("post (full)")) {
        due(s);
        return RDMAD_E_AGAIN;
    }
    if (!is_local(s) && fabric_fails("post (lost)")) {
        link_break(l);
        return RDMAD_E_PEER_LOST;
    }
    if (fabric_fails("post (refused)")) {
        op->link = link;
        op->fault = NULL;
        list_init(&op->node);
        list_append(&s->refused, &op->node);
        due(s);
        return 0;
    }
    op_posted(l, op); /* it may be over before post is */
    int rc = s->real->post(link, op);
    if (rc < 0)
        op_over(l, op);
    return rc;
}

static void shim_cancel(struct fabric_op *op, int status) {
    struct shim *s = shim_of(op->link->fabric);
    if (is_refused(s, op))
        give_back(s, op, status);
    else
        s->real->cancel(op, status);
}

/* ---- links ---------------------------------------------------------------------------------- */

static int shim_link_new(struct fabric *f, void *cookie, bool secured, struct fabric_link **out,
                         struct fabric_blob *hello, struct error *err) {
    struct shim *s = shim_of(f);
    if (fabric_fails("link_new"))
        return error_set(err, RDMAD_E_NOMEM, "a fault of the test: no memory for a link");
    struct shim_link *l = must(__real_calloc(1, sizeof(*l)));
    l->shim = s;
    l->cookie = cookie;
    list_append(&s->links, &l->node);
    int rc = s->real->link_new(f, l, secured, &l->link, hello, err);
    *out = l->link;
    if (rc) {
        list_remove(&l->node);
        free(l);
    }
    return rc;
}

static int shim_link_open(struct fabric_link *link, const char *host,
                          const struct fabric_blob *offer, struct error *err) {
    struct shim_link *l = link_of(link);
    bool fault = fabric_fails("link_open");
    int rc = l->shim->real->link_open(link, host, offer, err); /* sets its number in any case */
    l->broken = l->told = fault || rc != 0;
    if (fault)
        rc = error_set(err, RDMAD_E_UNREACHABLE, "a fault of the test: no way to the peer");
    return rc;
}

static void shim_link_lost(void *user, void *cookie, const struct error *why) {
    struct shim *s = user;
    struct shim_link *l = cookie;
    bool told = l->told;
    l->broken = l->told = true;
    if (!told)
        s->theirs->link_lost(s->theirs->user, l->cookie, why);
}

static void tell_broken(struct shim_link *l) {
    struct error why;
    error_set(&why, RDMAD_E_PEER_LOST, "a fault of the test: the link broke");
    shim_link_lost(l->shim, l, &why);
}

static void shim_link_up(void *user, void *cookie) {
    struct shim *s = user;
    struct shim_link *l = cookie;
    if (l->broken)
        return;
    if (!is_local(s) && fabric_fails("link_up"))
        tell_broken(l);
    else
        s->theirs->link_up(s->theirs->user, l->cookie);
}

static void shim_link_close(struct fabric_link *link) {
    struct shim_link *l = link_of(link);
    struct shim *s = l->shim;
    l->closing = l->broken = l->told = true;
    list_for_each_safe (pos, &s->refused) {
        struct fabric_op *op = list_entry(pos, struct fabric_op, node);
        if (op->link == link)
            give_back(s, op, RDMAD_E_CANCELED);
    }
    s->real->link_close(link);
    assert(l->count == 0);
    list_remove(&l->node);
    free(l->posted);
    free(l);
}

/* ---- the target's side ---------------------------------------------------------------------- */

static int shim_offer(struct fabric *f, uint64_t peer, bool secured,
                      const struct fabric_blob *hello, struct fabric_blob *out, struct error *err) {
    if (fabric_fails("offer"))
        return error_set(err, RDMAD_E_LIMIT, "a fault of the test: no more connections");
    return shim_of(f)->real->offer(f, peer, secured, hello, out, err);
}

static int shim_peer_share(struct fabric *f, uint64_t peer, const struct fabric_share *share) {
    return fabric_fails("peer_share") ? RDMAD_E_NOMEM
                                      : shim_of(f)->real->peer_share(f, peer, share);
}

static int shim_window_open(struct fabric *f, const struct fabric_window_spec *spec,
                            struct fabric_window **out, struct fabric_blob *key,
                            struct error *err) {
    struct shim *s = shim_of(f);
    if (fabric_fails("window_open"))
        return error_set(err, RDMAD_E_LIMIT, "a fault of the test: no more windows");
    if (is_local(s) || !fabric_fails("window_opened"))
        return s->real->window_open(f, spec, out, key, err);
    struct shim_window *w = must(__real_calloc(1, sizeof(*w)));
    w->base.fabric = f;
    w->cookie = spec->cookie;
    list_append(&s->pending, &w->node);
    *out = &w->base;
    due(s);
    return FABRIC_PENDING;
}

static struct shim_window *pending_window(struct shim *s, const struct fabric_window *w) {
    list_for_each (pos, &s->pending) {
        struct shim_window *pending = list_entry(pos, struct shim_window, node);
        if (&pending->base == w)
            return pending;
    }
    return NULL;
}

static void forget_window(struct shim_window *w) {
    list_remove(&w->node);
    free(w);
}

static void shim_window_extend(struct fabric_window *w, uint64_t deadline_ns) {
    struct shim *s = shim_of(w->fabric);
    if (!pending_window(s, w))
        s->real->window_extend(w, deadline_ns);
}

static bool shim_window_close(struct fabric_window *w, int reason) {
    struct shim *s = shim_of(w->fabric);
    struct shim_window *pending = pending_window(s, w);
    if (!pending)
        return s->real->window_close(w, reason);
    forget_window(pending);
    return true;
}

/* ---- a turn --------------------------------------------------------------------------------- */

static struct shim_link *link_to_tell(struct shim *s) {
    list_for_each (pos, &s->links) {
        struct shim_link *l = list_entry(pos, struct shim_link, node);
        if (l->broken && !l->told && l->count == 0)
            return l;
    }
    return NULL;
}

/* A device may keep them for a while. */
static void cancel_all(struct shim *s) {
    list_for_each (pos, &s->links) {
        struct shim_link *l = list_entry(pos, struct shim_link, node);
        for (size_t left = l->broken && !l->told ? l->count : 0; left && left <= l->count; left--)
            s->real->cancel(l->posted[left - 1], RDMAD_E_PEER_LOST);
    }
}

static void tell(struct shim *s) {
    struct error why;
    for (struct list *pos; (pos = list_first(&s->refused));)
        give_back(s, list_entry(pos, struct fabric_op, node), RDMAD_E_FABRIC);
    for (struct list *pos; (pos = list_first(&s->pending));) {
        struct shim_window *w = list_entry(pos, struct shim_window, node);
        void *cookie = w->cookie;
        forget_window(w);
        error_set(&why, RDMAD_E_FABRIC, "a fault of the test: the device opens no window");
        s->theirs->window_opened(s->theirs->user, cookie, NULL, &why);
    }
    cancel_all(s);
    for (struct shim_link *l; (l = link_to_tell(s));)
        tell_broken(l);
}

static unsigned shim_poll(struct fabric *f) {
    struct shim *s = shim_of(f);
    uint64_t count;
    unsigned work = s->real->poll(f);
    if (!s->due)
        return work;
    s->due = false;
    if (s->event_fd >= 0)
        (void)!__real_read(s->event_fd, &count, sizeof(count));
    tell(s);
    return work + 1;
}

static int shim_wait_fd(struct fabric *f) {
    return shim_of(f)->epoll_fd;
}

static bool shim_arm(struct fabric *f, uint64_t *wake_ns) {
    struct shim *s = shim_of(f);
    return s->real->arm(f, wake_ns) && !s->due;
}

static bool shim_health(struct fabric_link *link, struct fabric_health *out) {
    return !fabric_fails("health") && link_of(link)->shim->real->health(link, out);
}

/* ---- what the fabric calls ------------------------------------------------------------------ */

#define THEIRS(type, name, parameters, arguments) \
    static type shim_##name parameters {          \
        const struct shim *s = user;              \
        user = s->theirs->user;                   \
        return s->theirs->name arguments;         \
    }

THEIRS(uint64_t, now_ns, (void *user), (user))
THEIRS(void, window_opened,
       (void *user, void *cookie, const struct fabric_blob *key, const struct error *err),
       (user, cookie, key, err))
THEIRS(void, window_closed, (void *user, void *cookie), (user, cookie))
THEIRS(uint64_t, received,
       (void *user, uint64_t peer, uint64_t number, const void *bytes, size_t size),
       (user, peer, number, bytes, size))
THEIRS(struct fabric_landing *, landing,
       (void *user, uint64_t peer, uint64_t number, const void *head, size_t size, uint64_t length),
       (user, peer, number, head, size, length))
THEIRS(void, landed, (void *user, struct fabric_landing *landing, int status),
       (user, landing, status))
THEIRS(void, memory_fault, (void *user, const void *address), (user, address))
THEIRS(bool, is_hurried, (void *user), (user))
THEIRS(bool, peer_throttled, (void *user, uint64_t peer, bool by_bytes), (user, peer, by_bytes))

/* ---- birth and end -------------------------------------------------------------------------- */

static void shim_free(struct shim *s) {
    if (s->event_fd >= 0)
        close(s->event_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    free(s);
}

static void watch(struct shim *s) {
    struct epoll_event event = {.events = EPOLLIN};
    int fd = s->real->wait_fd(s->instance);
    if (fd < 0)
        return;
    s->event_fd = __real_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->epoll_fd = __real_epoll_create1(EPOLL_CLOEXEC);
    if (s->event_fd < 0 || s->epoll_fd < 0 ||
        __real_epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) ||
        __real_epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->event_fd, &event))
        abort();
}

static int shim_open(const struct fabric_ops *real, const struct fabric_env *env,
                     struct fabric **out, struct error *err) {
    if (fabric_fails("open"))
        return error_set(err, RDMAD_E_NOMEM, "a fault of the test: no memory for a fabric");
    struct shim *s = must(__real_calloc(1, sizeof(*s)));
    s->real = real;
    s->theirs = env;
    s->event_fd = s->epoll_fd = -1;
    list_init(&s->links);
    list_init(&s->refused);
    list_init(&s->pending);
    s->env = (struct fabric_env){
        .user = s,
        .now_ns = shim_now_ns,
        .complete = shim_complete,
        .link_up = shim_link_up,
        .link_lost = shim_link_lost,
        .window_opened = shim_window_opened,
        .window_closed = shim_window_closed,
        .received = env->received ? shim_received : NULL,
        .landing = env->landing ? shim_landing : NULL,
        .landed = env->landed ? shim_landed : NULL,
        .memory_fault = shim_memory_fault,
        .is_hurried = env->is_hurried ? shim_is_hurried : NULL,
        .peer_throttled = env->peer_throttled ? shim_peer_throttled : NULL,
        .settings = env->settings,
        .host = env->host,
    };
    int rc = real->open(&s->env, &s->instance, err);
    *out = s->instance;
    if (rc) {
        shim_free(s);
        return rc;
    }
    watch(s);
    pthread_mutex_lock(&all_lock);
    list_append(&all, &s->node);
    pthread_mutex_unlock(&all_lock);
    return 0;
}

static void shim_close(struct fabric *f) {
    struct shim *s = shim_of(f);
    s->real->close(f);
    pthread_mutex_lock(&all_lock);
    list_remove(&s->node);
    pthread_mutex_unlock(&all_lock);
    shim_free(s);
}

/* ---- the tables ----------------------------------------------------------------------------- */

extern const struct fabric_ops __real_fabric_local, __real_fabric_tcp, __real_fabric_verbs;
struct fabric_ops __wrap_fabric_local, __wrap_fabric_tcp, __wrap_fabric_verbs;

#define OPEN(name)                                                                                 \
    static int name##_open(const struct fabric_env *env, struct fabric **out, struct error *err) { \
        return shim_open(&__real_fabric_##name, env, out, err);                                    \
    }
OPEN(local)
OPEN(tcp)
OPEN(verbs)

static int shim_host_open(const struct fabric_settings *settings, struct fabric_host **out,
                          struct error *err) {
    if (fabric_fails("host_open"))
        return error_set(err, RDMAD_E_NOMEM, "a fault of the test: no memory for devices");
    return __real_fabric_verbs.host_open(settings, out, err);
}

static int shim_memory_add(struct fabric_host *host, void *base, uint64_t bytes,
                           struct fabric_memory **out, struct error *err) {
    if (fabric_fails("memory_add"))
        return error_set(err, RDMAD_E_NOMEM, "a fault of the test: the device takes no memory");
    return __real_fabric_verbs.memory_add(host, base, bytes, out, err);
}

/* What the real one has not, we have not either. */
#define OURS(member) t->member = t->member ? shim_##member : NULL

static void put_between(struct fabric_ops *t, const struct fabric_ops *real,
                        int (*open)(const struct fabric_env *, struct fabric **, struct error *)) {
    memcpy(t, real, sizeof(*t));
    t->open = open;
    t->close = shim_close;
    OURS(host_open);
    OURS(memory_add);
    OURS(offer);
    OURS(peer_share);
    OURS(link_new);
    OURS(link_open);
    OURS(link_close);
    OURS(window_open);
    OURS(window_extend);
    OURS(window_close);
    OURS(post);
    OURS(cancel);
    OURS(poll);
    OURS(wait_fd);
    OURS(arm);
    OURS(health);
}

static __attribute__((constructor)) void put_between_all(void) {
    put_between(&__wrap_fabric_local, &__real_fabric_local, local_open);
    put_between(&__wrap_fabric_tcp, &__real_fabric_tcp, tcp_open);
    put_between(&__wrap_fabric_verbs, &__real_fabric_verbs, verbs_open);
}
