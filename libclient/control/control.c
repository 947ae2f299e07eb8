/* SPDX-License-Identifier: MIT */
/*
 * control.c - requests, replies and events on the session's socket.
 *
 * The happy path: a call is put into the list of those that wait and its packet is sent; some
 * thread sleeps on the socket on behalf of all (the receiving one), takes in every packet that
 * comes and hands it to its call or to take_event; the caller finds its call done. When the
 * receiving thread has what it wanted, another takes its place. So several threads may have
 * requests under way, and events are never lost behind a reply.
 *
 * Failures: a packet that the wire does not allow ends the session on our side: every waiting call
 * returns RDMAD_E_DAEMON_LOST, the socket is shut down so that whoever polls it wakes, and rings
 * complete what they have in flight. So does an end of file in a session that cannot be resumed.
 * A reply whose descriptors this process has no room for ends its call alone.
 * One that can is away with it; calls wait for the next daemon, and ask that.
 *
 * A daemon that hangs is told from one that is busy by a question that is answered at once. A
 * caller waits by quarters of the session's patience. When nothing has come in the first it asks,
 * when nothing has come in three more the daemon hangs, and the session ends on our side: so no
 * late reply is taken for another's, and what it made ends with the session when the daemon goes
 * on. Quarters are counted, not time, so a machine or a program that was stopped itself still
 * listens before it judges.
 */
#include "libclient/control/control.h"
#include "common/fdmsg.h"
#include "libclient/base/clock.h"
#include "libclient/base/error.h"
#include "libclient/control/event_queue.h"
#include "libclient/control/request_words.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define QUARTERS 4u
#define TRIES 3u /* of one call, with as many daemons */
#define SHORTS 10u
#define SHORT_MS 20

static const char hung_up[] =
    "rdmad closed the connection: it was stopped or has ended this session";

struct control_packet {
    struct rdmad_msg_header header;
    union { /* aligned as the bodies are */
        uint64_t align;
        char body[RDMAD_MSG_MAX - sizeof(struct rdmad_msg_header)];
    };
    size_t body_size;
    int fds[RDMAD_MSG_MAX_FDS];
    unsigned nfds;
    bool lacks_fds; /* some came, and could not be had */
};

/* Whether there is a daemon at the other end of the socket. */
static bool control_hears(const struct rdmad_session *s) {
    return s->state == RDMAD_SESSION_OPEN || s->state == RDMAD_SESSION_RESUMING;
}

/* Whether this thread may ask, and read the socket. With the lock. */
static bool control_is_ours(const struct rdmad_session *s) {
    return s->state == RDMAD_SESSION_OPEN || (s->state == RDMAD_SESSION_RESUMING &&
                                              pthread_equal(s->resuming_thread, pthread_self()));
}

/* With the lock: nothing more comes on this socket. */
static void control_leave(struct rdmad_session *s, enum rdmad_session_state state, int reason,
                          const char *text) {
    s->lost_reason = reason;
    if (s->state == RDMAD_SESSION_OPEN)
        __atomic_store_n(&s->let_go_by_ns, rdmad_ns_later(rdmad_monotonic_ns(), s->call_timeout_ns),
                         __ATOMIC_RELEASE);
    snprintf(s->lost_text, sizeof(s->lost_text), "%s", text);
    __atomic_store_n(&s->state, (int)state, __ATOMIC_RELEASE);
    for (struct rdmad_call *c = s->calls; c; c = c->next) {
        c->done = true;
        c->cut = state == RDMAD_SESSION_AWAY;
        c->status = RDMAD_E_DAEMON_LOST;
        snprintf(c->text, sizeof(c->text), "%s", text);
    }
    s->calls = NULL;
    shutdown(s->sock, SHUT_RDWR);
    pthread_cond_broadcast(&s->changed);
    rdmad_event_signal(s);
    rdmad_event_back(s);
}

void rdmad_control_lose(struct rdmad_session *s, int reason, const char *text) {
    if (!rdmad_is_lost(s))
        control_leave(s, RDMAD_SESSION_LOST, reason, text);
}

void rdmad_control_gone(struct rdmad_session *s, const char *text) {
    if (!s->resume) {
        rdmad_control_lose(s, RDMAD_E_DAEMON_LOST, text);
    } else if (control_hears(s)) {
        rdmad_event_unwatch(s, s->sock);
        control_leave(s, RDMAD_SESSION_AWAY, RDMAD_E_DAEMON_LOST, text);
    }
}

bool rdmad_control_drained(struct rdmad_session *s, int rc) {
    if (rc != RDMAD_E_SHUTDOWN || s->state != RDMAD_SESSION_RESUMING)
        return false;
    rdmad_control_gone(s, "the rdmad that has come is drained (rdmactl drain)");
    return true;
}

int rdmad_fail_lost(struct rdmad_session *s) {
    char text[sizeof(s->lost_text)];
    pthread_mutex_lock(&s->lock);
    memcpy(text, s->lost_text, sizeof(text));
    pthread_mutex_unlock(&s->lock);
    return rdmad_fail(s, RDMAD_E_DAEMON_LOST, "%s", text);
}

bool rdmad_check_gone(struct rdmad_session *s) {
    struct pollfd p = {.fd = s->sock, .events = POLLRDHUP};
    uint32_t resumes = rdmad_resumes(s);
    if (!rdmad_is_open(s))
        return true;
    if (poll(&p, 1, 0) <= 0)
        return false;
    /* The daemon may have said why before it hung up. The next one's socket is others' to read. */
    pthread_mutex_lock(&s->lock);
    if (s->resumes == resumes)
        rdmad_control_receive(s);
    pthread_mutex_unlock(&s->lock);
    return !rdmad_is_open(s);
}

/* NULL, or what is wrong with the packet. */
static const char *packet_check(const struct rdmad_session *s, const struct control_packet *p,
                                size_t size) {
    const struct rdmad_msg_header *h = &p->header;
    if (size < sizeof(*h) || h->magic != RDMAD_WIRE_MAGIC || h->length != size)
        return "rdmad sent a packet that is no message of ours; the session is closed";
    /* What refuses us before we have agreed is the same in all versions (wire.h). */
    if (h->version != s->version && (s->greeted || !h->status))
        return "rdmad sent a message of another version than was agreed on; the session is closed";
    if (h->reserved || h->status > 0)
        return "rdmad sent a message with reserved bits set; the session is closed";
    return NULL;
}

/* It is answered, without the descriptors; so the caller knows what the daemon has made. */
static void call_lacks_fds(struct rdmad_call *c) {
    c->lacks_fds = true;
    snprintf(c->text, sizeof(c->text),
             "rdmad was asked to %s, and there is no descriptor for what it made: this process has "
             "as many as it may; close some, or raise the limit (ulimit -n)",
             rdmad_request_words(c->type));
}

/* Takes what the reply brings over into the call. Returns a sentence when it does not fit it. */
static const char *call_complete(struct rdmad_session *s, struct rdmad_call *c,
                                 struct control_packet *p) {
    static const char bad[] = "rdmad sent a reply of the wrong shape; the session is closed";

    if (p->header.type != (c->type | RDMAD_MSG_REPLY))
        return bad;
    if (p->header.status) {
        if (p->body_size != sizeof(struct rdmad_msg_error) || p->nfds || p->lacks_fds)
            return bad;
        memcpy(c->text, p->body, sizeof(c->text));
        c->text[sizeof(c->text) - 1] = '\0';
    } else {
        if (p->body_size != c->reply_size || (p->lacks_fds ? !c->nfds : p->nfds != c->nfds))
            return bad;
        if (c->reply_size)
            memcpy(c->reply, p->body, c->reply_size);
        for (unsigned i = 0; i < p->nfds; i++)
            c->fds[i] = p->fds[i];
        p->nfds = 0; /* the caller's now */
        if (p->lacks_fds)
            call_lacks_fds(c);
        else if (c->accept)
            c->accept(s, c);
    }
    c->status = c->lacks_fds ? RDMAD_E_SYSTEM : p->header.status;
    c->version = p->header.version;
    c->resumes = s->resumes;
    c->done = true;
    pthread_cond_broadcast(&s->changed);
    return NULL;
}

static const char *packet_dispatch(struct rdmad_session *s, struct control_packet *p) {
    s->heard++;
    if (p->header.type & RDMAD_MSG_EVENT)
        return s->take_event(s, &p->header, p->body);
    for (struct rdmad_call **at = &s->calls; *at; at = &(*at)->next) {
        struct rdmad_call *c = *at;
        if (c->seq != p->header.seq)
            continue;
        const char *why = call_complete(s, c, p);
        if (!why)
            *at = c->next;
        return why;
    }
    return NULL; /* nobody waits for what was posted */
}

void rdmad_control_receive(struct rdmad_session *s) {
    struct control_packet p;
    while (control_is_ours(s)) {
        size_t size = RDMAD_MSG_MAX;
        int rc = rdmad_fdmsg_recv(s->sock, &p, &size, p.fds, RDMAD_MSG_MAX_FDS, &p.nfds);
        const char *why;

        if (rc == RDMAD_E_AGAIN)
            break;
        if (rc == 0 && size == 0) {
            rdmad_control_gone(s, hung_up);
            break;
        }
        p.lacks_fds = rc == RDMAD_E_FDS;
        if (rc && !p.lacks_fds)
            why = "reading from rdmad failed; the session is closed";
        else
            why = packet_check(s, &p, size);
        if (!why) {
            p.body_size = size - sizeof(p.header);
            why = packet_dispatch(s, &p);
        }
        for (unsigned i = 0; i < p.nfds; i++)
            close(p.fds[i]);
        if (why)
            rdmad_control_lose(s, RDMAD_E_DAEMON_LOST, why);
    }
    rdmad_event_signal(s);
}

void rdmad_control_look(struct rdmad_session *s) {
    if (!s->receiving)
        rdmad_control_receive(s);
}

void rdmad_control_wait(struct rdmad_session *s, bool (*ready)(struct rdmad_session *, void *),
                        void *arg, uint64_t deadline_ns) {
    for (;;) {
        rdmad_control_look(s);
        if (ready(s, arg) || rdmad_is_lost(s) || rdmad_poll_timeout(deadline_ns) == 0)
            return;
        if (s->receiving || !control_is_ours(s)) { /* somebody else receives, or nobody can */
            rdmad_cond_wait(&s->changed, &s->lock, deadline_ns);
            continue;
        }
        struct pollfd p = {.fd = s->sock, .events = POLLIN};
        s->receiving = true;
        pthread_mutex_unlock(&s->lock);
        poll(&p, 1, rdmad_poll_timeout(deadline_ns));
        pthread_mutex_lock(&s->lock);
        s->receiving = false;
        rdmad_control_receive(s);
        pthread_cond_broadcast(&s->changed); /* somebody else must sleep on the socket now */
    }
}

static bool session_is_open(struct rdmad_session *s, void *unused) {
    (void)unused;
    return rdmad_is_open(s);
}

bool rdmad_control_wait_open(struct rdmad_session *s, uint64_t deadline_ns) {
    rdmad_control_wait(s, session_is_open, NULL, deadline_ns);
    return rdmad_is_open(s);
}

static bool call_done(struct rdmad_session *s, void *arg) {
    (void)s;
    return ((struct rdmad_call *)arg)->done;
}

/* With the lock: a request as a packet, with a number of its own; how long it is. */
static size_t packet_make(struct rdmad_session *s, char packet[RDMAD_MSG_MAX], uint16_t type,
                          const void *request, size_t size) {
    struct rdmad_msg_header h = {.magic = RDMAD_WIRE_MAGIC,
                                 .version = s->version,
                                 .type = type,
                                 .length = (uint32_t)(sizeof(h) + size)};
    assert(h.length <= RDMAD_MSG_MAX);
    if (++s->seq == 0)
        s->seq = 1; /* 0 is the events' */
    h.seq = s->seq;
    memcpy(packet, &h, sizeof(h));
    memcpy(packet + sizeof(h), request, size);
    return h.length;
}

void rdmad_control_post(struct rdmad_session *s, uint16_t type, const void *request, size_t size) {
    char packet[RDMAD_MSG_MAX];
    size = packet_make(s, packet, type, request, size);
    (void)rdmad_fdmsg_send(s->sock, packet, size, NULL, 0);
}

/* ---- whether it hangs ---------------------------------------------------------------------- */

/* No watch has number 0, so this ends none; and that answer no daemon counts or remembers. */
static const struct rdmad_names_unwatch_req nothing = {.watch = 0};

void rdmad_control_ask(struct rdmad_session *s) {
    rdmad_control_post(s, RDMAD_MSG_NAMES_UNWATCH, &nothing, sizeof(nothing));
}

void rdmad_control_give_up(struct rdmad_session *s, const char *asked_to) {
    char text[RDMAD_TEXT_MAX + 1];
    snprintf(text, sizeof(text),
             "rdmad was asked to %s and has said nothing for %llu ms (options.call_timeout_ms): it "
             "is stopped or hangs; the session is closed, open a new one when rdmactl status "
             "answers",
             asked_to, (unsigned long long)(s->call_timeout_ns / RDMAD_NS_PER_MS));
    rdmad_control_lose(s, RDMAD_E_TIMEOUT, text);
    __atomic_store_n(&s->let_go_by_ns, 0, __ATOMIC_RELEASE); /* it was waited for enough */
}

struct patience {
    uint32_t heard; /* of the session, when there was last something new */
    unsigned quarters;
};

/* With the lock. */
static uint64_t quarter_end_ns(const struct rdmad_session *s) {
    uint64_t patience =
        s->state == RDMAD_SESSION_RESUMING ? rdmad_resume_patience_ns(s) : s->call_timeout_ns;
    return patience == UINT64_MAX ? UINT64_MAX
                                  : rdmad_ns_later(rdmad_monotonic_ns(), patience / QUARTERS);
}

/* With the lock, after a quarter in which the call did not end: whether the daemon hangs. */
static bool patience_is_over(struct rdmad_session *s, struct patience *p,
                             const struct rdmad_call *c) {
    if (s->heard != p->heard)
        *p = (struct patience){.heard = s->heard};
    else
        p->quarters++;
    /* HELLO must be the first request and answered before there is a second. */
    if (p->quarters == 1 && c->type != RDMAD_MSG_HELLO)
        rdmad_control_ask(s);
    return p->quarters >= QUARTERS;
}

/* With the lock: the call ends, and with it the session; or, if that is just being resumed, this
 * try: the daemon may be awake at the next one. */
static void call_give_up(struct rdmad_session *s, struct rdmad_call *c) {
    if (s->state == RDMAD_SESSION_RESUMING) {
        s->met_silence = true;
        rdmad_control_gone(s, "the rdmad that has come says nothing: it is stopped or hangs");
        return;
    }
    rdmad_control_give_up(s, rdmad_request_words(c->type));
    c->status = RDMAD_E_TIMEOUT;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* With the lock. 0, RDMAD_E_AGAIN, or the daemon is gone, and the call done. */
static int call_send_once(struct rdmad_session *s, struct rdmad_call *c, const char *packet,
                          size_t size) {
    int rc = rdmad_fdmsg_send(s->sock, packet, size, &c->sent_fd, c->sends_fd);
    if (rc == 0 || rc == RDMAD_E_AGAIN)
        return rc;
    rdmad_control_receive(s); /* it may have said why */
    if (!c->done)
        rdmad_control_gone(s, hung_up);
    return RDMAD_E_DAEMON_LOST;
}

/* With the lock, released while the socket is full. */
static void call_send(struct rdmad_session *s, struct rdmad_call *c, const char *packet,
                      size_t size) {
    struct patience patience = {.heard = s->heard};
    uint64_t quarter_ns = quarter_end_ns(s);
    while (!c->done) {
        if (call_send_once(s, c, packet, size) != RDMAD_E_AGAIN)
            return;
        if (rdmad_poll_timeout(quarter_ns) == 0) {
            if (patience_is_over(s, &patience, c)) {
                call_give_up(s, c);
                return;
            }
            quarter_ns = quarter_end_ns(s);
        }
        struct pollfd p = {.fd = s->sock, .events = POLLOUT};
        pthread_mutex_unlock(&s->lock);
        poll(&p, 1, rdmad_poll_timeout(quarter_ns));
        pthread_mutex_lock(&s->lock);
        rdmad_control_look(s);
    }
}

/* With the lock, released meanwhile. */
static void call_wait(struct rdmad_session *s, struct rdmad_call *c) {
    struct patience patience = {.heard = s->heard};
    for (;;) {
        rdmad_control_wait(s, call_done, c, quarter_end_ns(s));
        if (c->done)
            return;
        if (patience_is_over(s, &patience, c)) {
            call_give_up(s, c);
            return;
        }
    }
}

/* With the lock: puts it among those that are under way; how long its packet is. */
static size_t call_list(struct rdmad_session *s, struct rdmad_call *c, char packet[RDMAD_MSG_MAX]) {
    if (c->fill)
        c->fill(s, c, (void *)(uintptr_t)c->request);
    size_t size = packet_make(s, packet, c->type, c->request, c->request_size);
    c->seq = s->seq;
    c->done = c->cut = c->lacks_fds = false; /* a caller may ask again with the same record */
    c->next = s->calls;
    s->calls = c;
    return size;
}

/* With the lock, released meanwhile: its request is on the way, or it has ended. */
static void call_begin(struct rdmad_session *s, struct rdmad_call *c) {
    char packet[RDMAD_MSG_MAX];
    size_t size = call_list(s, c, packet);
    call_send(s, c, packet, size);
}

/* With the lock, released meanwhile: until there is a daemon that this thread may ask. */
static int call_await_daemon(struct rdmad_session *s) {
    if (control_is_ours(s))
        return 0;
    uint64_t patience = s->call_timeout_ns;
    if (!rdmad_is_lost(s) && !pthread_equal(s->resuming_thread, pthread_self()))
        rdmad_control_wait_open(
            s, patience == UINT64_MAX ? patience : rdmad_ns_later(rdmad_monotonic_ns(), patience));
    return control_is_ours(s) ? 0 : RDMAD_E_DAEMON_LOST;
}

/* With the lock, released meanwhile. What a daemon has not answered it takes with it, with all that
 * it had done of it, so the next one can be asked the same. Not for ever: it may be the request
 * that ends them. */
static int call_run(struct rdmad_session *s, struct rdmad_call *c) {
    for (unsigned tries = 0;; tries++) {
        int rc = call_await_daemon(s);
        if (rc)
            return rc;
        call_begin(s, c);
        call_wait(s, c);
        if (!c->cut || c->one_try || tries + 1 == TRIES)
            return 0;
    }
}

int rdmad_control_call(struct rdmad_session *s, struct rdmad_call *c) {
    assert(c->nfds <= RDMAD_MSG_MAX_FDS && (c->fds || !c->nfds) && (c->reply || !c->reply_size));
    pthread_mutex_lock(&s->lock);
    int rc = call_run(s, c);
    pthread_mutex_unlock(&s->lock);
    if (rc)
        return c->quiet ? rc : rdmad_fail_lost(s);
    if (c->status && !c->quiet)
        rdmad_fail(s, c->status, "%s", c->text);
    return c->status;
}

int rdmad_control_hand_back(struct rdmad_session *s, struct rdmad_call *c) {
    const struct timespec moment = {.tv_nsec = SHORT_MS * RDMAD_NS_PER_MS};
    int rc = rdmad_control_call(s, c);
    for (; rc == RDMAD_E_NOMEM && s->shorts < SHORTS; s->shorts++) {
        nanosleep(&moment, NULL);
        rc = rdmad_control_call(s, c);
    }
    return rc;
}

void rdmad_control_call_all(struct rdmad_session *s, struct rdmad_call *const *calls,
                            unsigned count) {
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < count; i++) {
        struct rdmad_call *c = calls[i];
        assert(c->one_try && !c->nfds);
        c->status = call_await_daemon(s);
        c->done = c->status != 0;
        if (!c->done)
            call_begin(s, c);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!calls[i]->done)
            call_wait(s, calls[i]);
    }
    pthread_mutex_unlock(&s->lock);
}

int rdmad_control_begin(struct rdmad_session *s, struct rdmad_call *c) {
    char packet[RDMAD_MSG_MAX];
    pthread_mutex_lock(&s->lock);
    int rc = control_is_ours(s) ? 0 : RDMAD_E_DAEMON_LOST;
    if (!rc) {
        size_t size = call_list(s, c, packet);
        rc = call_send_once(s, c, packet, size);
        if (rc == RDMAD_E_AGAIN)
            s->calls = c->next; /* it is the first, as the lock was held */
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

bool rdmad_control_is_done(struct rdmad_session *s, struct rdmad_call *c, uint64_t deadline_ns) {
    pthread_mutex_lock(&s->lock);
    rdmad_control_wait(s, call_done, c, deadline_ns);
    bool done = c->done;
    pthread_mutex_unlock(&s->lock);
    return done;
}

void rdmad_control_finish(struct rdmad_session *s, struct rdmad_call *c) {
    pthread_mutex_lock(&s->lock);
    call_wait(s, c);
    pthread_mutex_unlock(&s->lock);
}

/* Whoever is asked a later question may be the next daemon already, and refuse it. */
bool rdmad_control_again(const struct rdmad_session *s, struct rdmad_attempt *a, int rc) {
    uint32_t resumes = rdmad_resumes(s);
    bool cut = rc == RDMAD_E_DAEMON_LOST || resumes != a->resumes;
    a->resumes = resumes;
    return rc && cut && !rdmad_is_lost(s) && ++a->tries < TRIES;
}

int rdmad_control_tell(struct rdmad_session *s, uint16_t type, const void *request, size_t size,
                       bool quiet) {
    struct rdmad_call call = {
        .type = type, .request = request, .request_size = size, .quiet = quiet};
    return rdmad_control_call(s, &call);
}

void rdmad_control_prod(struct rdmad_session *s) {
    struct rdmad_call call = {.type = RDMAD_MSG_NAMES_UNWATCH,
                              .request = &nothing,
                              .request_size = sizeof(nothing),
                              .quiet = true,
                              .one_try = true};
    rdmad_control_call(s, &call);
}
