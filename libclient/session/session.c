/* SPDX-License-Identifier: MIT */
/*
 * session.c - opening and closing.
 *
 * The happy path of rdmad_open: connect to RUNTIME_DIR/rdmad.sock, say HELLO, keep what the daemon
 * answers. rdmad_close says that channels are closed, so that their other ends do not take it for
 * an accident, and hangs up: the daemon ends everything that belongs to a session when its socket
 * ends, so nothing has to be waited for, and nothing can fail.
 */
#include "common/runtime_dir.h"
#include "common/uri.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/base/sized.h"
#include "libclient/channel/channel.h"
#include "libclient/channel/service.h"
#include "libclient/control/control.h"
#include "libclient/control/event_queue.h"
#include "libclient/control/presence.h"
#include "libclient/lease/lease.h"
#include "libclient/lease/part.h"
#include "libclient/memory/pool.h"
#include "libclient/ring/create.h"
#include "libclient/session/event.h"
#include "libclient/session/fork.h"
#include "libclient/session/hello.h"
#include "libclient/session/lifeline.h"
#include "libclient/session/pause.h"
#include "libclient/session/resumer.h"
#include "libclient/session/watch.h"
#include "libclient/transfer/blocking.h"
#include "libclient/transfer/copies.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CALL_TIMEOUT_MS 30000 /* if the program does not say */
#define OPEN_TRIES 3u         /* of daemons that go while a session is opened */
#define RESUME_CALL_NS UINT64_C(10000000000)
#define MAX_SPIN_NS UINT64_C(10000000) /* whatever anybody advises */

static struct rdmad_session *session_alloc(void) {
    static uint64_t last_serial;
    struct rdmad_session *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    rdmad_object_init(&s->object, RDMAD_KIND_SESSION);
    s->serial = __atomic_add_fetch(&last_serial, 1, __ATOMIC_RELAXED);
    s->sock = s->lifeline = s->epoll = s->event_fd = s->back_fd = -1;
    s->rings_wake_ns = UINT64_MAX;
    s->take_event = rdmad_event_take;
    s->channel_outlives = rdmad_channel_outlives;
    s->channel_left = rdmad_channel_left;
    s->last_source = &s->first_source;
    pthread_mutex_init(&s->lock, NULL);
    rdmad_cond_init(&s->changed);
    rdmad_fork_add(s);
    return s;
}

/* A program's name as a session may have it. */
static void session_clean_name(char out[RDMAD_NAME_MAX + 1], const char *name) {
    size_t n = 0;
    for (; name[n] && n < RDMAD_NAME_MAX; n++) {
        char one[2] = {name[n], '\0'};
        out[n] = name[n];
        if (!rdmad_name_ok(one) && (name[n] != '.' || n == 0))
            out[n] = '_';
    }
    out[n] = '\0';
}

/* Nobody said where it is, and it is nowhere. */
static int session_fail_nowhere(struct rdmad_session *s, const char *path) {
    char own[RDMAD_RUNTIME_DIR_MAX];
    if (!rdmad_user_dir(own))
        return rdmad_fail(s, RDMAD_E_NO_DAEMON,
                          "%s does not exist: start rdmad, or set RDMAD_RUNTIME_DIR to the "
                          "directory of one that runs",
                          path);
    return rdmad_fail(s, RDMAD_E_NO_DAEMON,
                      "neither %s exists, nor a rdmad.sock in %s that is this user's own: start "
                      "rdmad, or set RDMAD_RUNTIME_DIR to the directory of one that runs",
                      path, own);
}

/* Sentences for the ways in which there can be no daemon. */
static int session_fail_dial(struct rdmad_session *s, const char *path) {
    switch (errno) {
    case ENOENT:
        return rdmad_fail(s, RDMAD_E_NO_DAEMON,
                          "%s does not exist: start rdmad, or set RDMAD_RUNTIME_DIR to the "
                          "directory of one that runs",
                          path);
    case ECONNREFUSED:
        return rdmad_fail(
            s, RDMAD_E_NO_DAEMON,
            "no rdmad listens on %s, which a stopped one has left behind: start rdmad", path);
    case EACCES:
    case EPERM:
        return rdmad_fail(s, RDMAD_E_NO_DAEMON,
                          "this user may not open %s: ask for membership of the group that it "
                          "belongs to (ls -l)",
                          path);
    case EAGAIN:
        return rdmad_fail(s, RDMAD_E_NO_DAEMON,
                          "rdmad does not accept connections on %s: it is stopped or overloaded; "
                          "try again, or see what rdmactl doctor says",
                          path);
    default:
        return rdmad_fail_errno(s, RDMAD_E_NO_DAEMON, "cannot connect to %s", path);
    }
}

/* How long connect may wait while the backlog is full. */
static struct timeval session_dial_patience(const struct rdmad_session *s) {
    const uint64_t most = 10 * UINT64_C(1000000000);
    uint64_t ns = s->call_timeout_ns < most ? s->call_timeout_ns : most;
    return (struct timeval){.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_usec = (suseconds_t)(ns % 1000000000u / 1000u)};
}

static int session_dial(struct rdmad_session *s, const char *dir, struct sockaddr_un *out) {
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct timeval patience = session_dial_patience(s);
    char own[RDMAD_RUNTIME_DIR_MAX];
    if (!dir || !*dir)
        dir = secure_getenv("RDMAD_RUNTIME_DIR");
    bool anywhere = !dir || !*dir;
    if (anywhere)
        dir = rdmad_default_dir("rdmad.sock", own);
    int n = snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/rdmad.sock", dir);
    if (n < 0 || (size_t)n >= sizeof(sun.sun_path))
        return rdmad_fail(s, RDMAD_E_INVAL,
                          "the runtime directory's name has %zu characters; a socket's path may "
                          "have 107 with /rdmad.sock: choose a shorter one",
                          strlen(dir));
    s->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s->sock < 0)
        return rdmad_fail_errno(s, RDMAD_E_SYSTEM, "cannot make a socket");
    /* A full backlog would let connect wait for ever. */
    setsockopt(s->sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(s->sock, (struct sockaddr *)&sun, sizeof(sun)) < 0)
        return anywhere && errno == ENOENT ? session_fail_nowhere(s, sun.sun_path)
                                           : session_fail_dial(s, sun.sun_path);
    *out = sun;
    return 0;
}

static int session_hello(struct rdmad_session *s, const char *name, int64_t spin_us) {
    struct rdmad_hello_rep reply;
    int rc = rdmad_hello(s, name, &reply);
    if (rc)
        return rc;
    s->id = reply.session;
    s->max_pool_bytes = reply.max_pool_bytes;
    s->default_timeout_ns = reply.default_timeout_ns;
    s->spin_ns = spin_us < 0 ? reply.spin_ns : (uint64_t)spin_us * 1000u;
    if (spin_us > INT64_C(1000000) || s->spin_ns > MAX_SPIN_NS)
        s->spin_ns = MAX_SPIN_NS;
    snprintf(s->node, sizeof(s->node), "%.*s", (int)RDMAD_NAME_MAX, reply.node);
    snprintf(s->fabric, sizeof(s->fabric), "%.*s", (int)sizeof(reply.fabric) - 1, reply.fabric);
    return 0;
}

static bool session_wants_guard(void) {
    const char *value = secure_getenv("RDMAD_GUARD");
    return value && *value && strcmp(value, "0") != 0;
}

/* What shows only later, or never, if it is not looked at here. */
static int session_check_options(const struct rdmad_options *o) {
    if (o->name && strlen(o->name) > RDMAD_NAME_MAX)
        return rdmad_fail(NULL, RDMAD_E_NAME,
                          "the session's name has %zu characters, at most %u are allowed",
                          strlen(o->name), RDMAD_NAME_MAX);
    if (o->ring_entries &&
        (o->ring_entries < RDMAD_RING_MIN_ENTRIES || o->ring_entries > RDMAD_RING_MAX_ENTRIES))
        return rdmad_fail(NULL, RDMAD_E_INVAL,
                          "ring_entries is %u: a ring has %u to %u entries, 0 stands for 64",
                          o->ring_entries, RDMAD_RING_MIN_ENTRIES, RDMAD_RING_MAX_ENTRIES);
    if (o->spin_us < -1)
        return rdmad_fail(NULL, RDMAD_E_INVAL,
                          "spin_us is %lld: it is -1 for what the daemon advises, 0 not to spin, "
                          "or microseconds",
                          (long long)o->spin_us);
    if (o->resume < 0 || o->resume > 1)
        return rdmad_fail(NULL, RDMAD_E_INVAL,
                          "resume is %lld: it is 1 for a session that goes on with the next rdmad, "
                          "0 for one that ends with this one",
                          (long long)o->resume);
    if (o->call_timeout_ms < -1)
        return rdmad_fail(
            NULL, RDMAD_E_INVAL,
            "call_timeout_ms is %lld: it is -1 to wait for a silent rdmad for ever, 0 "
            "for %d, or milliseconds",
            (long long)o->call_timeout_ms, CALL_TIMEOUT_MS);
    return 0;
}

static uint64_t session_patience_ns(int64_t call_timeout_ms) {
    if (call_timeout_ms < 0)
        return UINT64_MAX;
    return rdmad_ms_to_ns(call_timeout_ms ? (uint64_t)call_timeout_ms : CALL_TIMEOUT_MS);
}

static int session_connect(struct rdmad_session *s, const struct rdmad_options *o) {
    char name[RDMAD_NAME_MAX + 1] = "";
    struct sockaddr_un address;
    int rc = rdmad_pause_new(s);
    s->call_timeout_ns = session_patience_ns(o->call_timeout_ms);
    s->resume_call_ns = RESUME_CALL_NS;
    session_clean_name(name, o->name ? o->name : program_invocation_short_name);
    if (!rc)
        rc = session_dial(s, o->runtime_dir, &address);
    if (!rc)
        rc = session_hello(s, name, o->spin_us);
    if (!rc)
        rc = rdmad_lifeline_take(s);
    if (!rc && o->resume)
        rc = rdmad_resumer_watch(s, &address, name);
    if (rc)
        return rc;
    rdmad_presence_begin(s);
    s->blocking_entries = o->ring_entries ? o->ring_entries : 64;
    s->guard = session_wants_guard();
    rc = rdmad_blocking_new(s);
    return rc ? rc : rdmad_copies_new(s);
}

static int session_open(const struct rdmad_options *o, struct rdmad_session **out) {
    struct rdmad_session *s = session_alloc();
    if (!s)
        return rdmad_fail(NULL, RDMAD_E_NOMEM, "out of memory for a session");
    int rc = session_connect(s, o);
    if (rc)
        rdmad_close(s);
    else
        *out = s;
    return rc;
}

/* The session has nothing yet, so the next daemon is as good. */
static bool daemon_has_gone(int rc) {
    return rc == RDMAD_E_SHUTDOWN || rc == RDMAD_E_DAEMON_LOST;
}

int rdmad_open(const struct rdmad_options *options, rdmad_session **out) {
    struct rdmad_options o = RDMAD_OPTIONS_INIT;
    *out = NULL;
    if (rdmad_sized_read(NULL, &rdmad_sized_options, options, &o))
        return RDMAD_E_INVAL;
    int rc = session_check_options(&o);
    if (rc)
        return rc;
    for (unsigned tries = 0; tries == 0 || (daemon_has_gone(rc) && tries < OPEN_TRIES); tries++)
        rc = session_open(&o, out);
    return rc;
}

void rdmad_close(rdmad_session *s) {
    if (!s)
        return;
    RDMAD_LIVE(s, SESSION);
    if (rdmad_is_inherited(s))
        return;                   /* the parent's, see fork.c */
    pthread_mutex_lock(&s->lock); /* another daemon may just take it over */
    uint64_t id = s->id;
    pthread_mutex_unlock(&s->lock);
    rdmad_object_end(&s->object, RDMAD_KIND_SESSION, id, __func__);
    rdmad_fork_remove(s);
    if (s->sock >= 0) {
        pthread_mutex_lock(&s->lock);
        if (rdmad_is_open(s))
            rdmad_channels_post_close(s);
        rdmad_control_lose(s, RDMAD_E_DAEMON_LOST, "the session was closed");
        pthread_mutex_unlock(&s->lock);
        rdmad_resumer_leave(s);
        close(s->sock);
    }
    rdmad_blocking_free(s->blocking);
    rdmad_copies_free(s->copies);
    while (s->rings) {
        rdmad_object_end(&s->rings->object, RDMAD_KIND_RING, s->rings->handle, __func__);
        rdmad_ring_dispose(s->rings);
    }
    while (s->pools)
        rdmad_pool_dispose(s->pools, __func__);
    rdmad_pause_free(s);
    rdmad_watches_dispose(s); /* walks the queue of sources, of which the others are */
    rdmad_event_unqueue_all(s);
    rdmad_leases_dispose(s);
    rdmad_parts_dispose(s);
    rdmad_channels_dispose(s);
    rdmad_services_dispose(s);
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->event_fd >= 0)
        close(s->event_fd);
    if (s->back_fd >= 0)
        close(s->back_fd);
    if (s->lifeline >= 0)
        close(s->lifeline);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    rdmad_object_retire(&s->object, sizeof(*s));
}

void rdmad_session_get_info(const rdmad_session *s, struct rdmad_session_info *out) {
    RDMAD_LIVE(s, SESSION);
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&s->lock;
    rdmad_sized_must(&rdmad_sized_session_info, out, __func__);
    pthread_mutex_lock(lock); /* another daemon may just take it over */
    const struct rdmad_session_info full = {.id = s->id,
                                            .max_pool_bytes = s->max_pool_bytes,
                                            .default_timeout_ms =
                                                rdmad_ns_to_ms(s->default_timeout_ns),
                                            .node = s->node,
                                            .fabric = s->fabric};
    pthread_mutex_unlock(lock);
    rdmad_sized_fill(&rdmad_sized_session_info, out, &full);
}
