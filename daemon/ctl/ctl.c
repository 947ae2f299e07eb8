/* SPDX-License-Identifier: MIT */
/*
 * ctl.c - the administration socket: accept, read lines, call, write answers.
 *
 * The happy path: on_accepted() makes a connection, ctl_conn_turn() takes a few lines of its input,
 * ctl_conn_run() turns each into a call, the method's handler answers it now or later,
 * on_answered() queues the line. A connection ends when the caller closed its side and everything
 * it asked is answered.
 *
 * Bounds: MAX_CONNS connections, the last RESERVED_CONNS of them for callers that may change
 * things, so that readers cannot lock an administrator out, and of the others half of what is left
 * for each uid; MAX_LINE bytes a line; LINES_A_TURN lines before others get the thread, and none
 * after those took TURN_NS; half of the thread for each uid (rests.h), whose connections take turns
 * when it has rested; no further line is looked at while OUTPUT_BACKLOG bytes of answers or
 * MAX_CALLS calls wait. A caller that is silent for IDLE_S or takes no answer for WRITE_S is
 * closed.
 *
 * Callers are clients, too: what they send is received as ipc/client_socket.h has it, and who
 * sends a descriptor is closed. And one to whom sending has proved to take long is not sent to for
 * a while (base/send_cost.h).
 */
#include "daemon/ctl/ctl.h"
#include "daemon/base/audit.h"
#include "daemon/base/clock.h"
#include "daemon/base/send_cost.h"
#include "daemon/ctl/call.h"
#include "daemon/ctl/rests.h"
#include "daemon/ipc/client_socket.h"
#include "daemon/ipc/listener.h"
#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_CONNS 16u
#define RESERVED_CONNS 4u
#define MAX_LINE 65536u
#define MAX_CALLS 32u
#define OUTPUT_BACKLOG 262144u
#define LINES_A_TURN 8u
#define TURN_NS (2 * NSEC_PER_MSEC)
#define READ_MAX 16384u
#define WRITE_MAX 16384 /* at once: each piece that a socket takes calls those who wait for it */
#define IDLE_S 60
#define WRITE_S 10
#define GROUPS_MAX 65536u
_Static_assert(MAX_CONNS <= RESTS_MAX, "each connection may be another uid's");

struct ctl {
    struct state *state;
    ctl_find *find;
    struct listener *listener;
    struct list conns; /* that was served last is the last */
    unsigned nconns;
    struct rests rests;
};

struct ctl_conn {
    struct ctl *ctl;
    struct list node;
    struct client_socket *sock;
    struct event *readable, *writable;
    struct event *write_again; /* when its socket has rested */
    struct event *turn;        /* in a later pass of the loop */
    struct evbuffer *input, *output;
    struct send_rest rest; /* of its own: a user has few connections */
    struct send_cost cost;
    struct ctl_calls calls; /* not answered yet */
    struct ctl_caller caller;
    struct uid_rest *uid; /* what its uid's connections took; NULL: it is not in ctl->conns yet */
    bool waits;           /* for that rest to be over, or for another of these */
    bool full;       /* as much is read as a line may have; nothing more is until it is taken */
    bool input_over; /* end of file, or a line too long */
};

/* What libevent has of it. */
static void ctl_conn_drop(struct ctl_conn *conn) {
    struct event *const events[] = {conn->readable, conn->writable, conn->write_again, conn->turn};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        if (events[i])
            event_free(events[i]);
    if (conn->input)
        evbuffer_free(conn->input);
    if (conn->output)
        evbuffer_free(conn->output);
}

static void ctl_conn_free(struct ctl_conn *conn) {
    ctl_calls_drop(&conn->calls);
    list_remove(&conn->node);
    assert(conn->ctl->nconns);
    conn->ctl->nconns--;
    rests_leave(conn->uid);
    ctl_conn_drop(conn);
    client_socket_close(conn->sock);
    free((void *)(uintptr_t)conn->caller.who.gids);
    free(conn);
}

/* The connection closes once what was written to it is sent. */
static void ctl_conn_take_no_more(struct ctl_conn *conn) {
    conn->input_over = true;
    event_del(conn->readable);
    evbuffer_drain(conn->input, evbuffer_get_length(conn->input));
}

/* In a later pass of the loop: others have the thread before that, and the handler that answers may
 * still be on ctl_conn_turn()'s stack. */
static void ctl_conn_turn_later(struct ctl_conn *conn) {
    static const struct timeval now;
    if (!event_pending(conn->turn, EV_TIMEOUT, NULL) && event_add(conn->turn, &now))
        event_active(conn->turn, EV_TIMEOUT, 0); /* out of memory: in this pass, then */
}

/* Of its uid's connections that wait, itself included, that which was served longest ago. */
static struct ctl_conn *ctl_conn_first(struct ctl_conn *conn) {
    list_for_each (node, &conn->ctl->conns) {
        struct ctl_conn *other = list_entry(node, struct ctl_conn, node);
        if (other->uid == conn->uid && (other->waits || other == conn))
            return other;
    }
    return conn;
}

/* Whether it has to wait, since its uid rests or another connection of that was there before it; it
 * has another turn then. */
static bool ctl_conn_waits(struct ctl_conn *conn, uint64_t now_ns) {
    const uint64_t left_ns = rests_left_ns(conn->uid, now_ns);
    const struct timeval rest = clock_timeval(left_ns);
    struct ctl_conn *first = ctl_conn_first(conn);
    conn->waits = left_ns || first != conn;
    if (left_ns && event_add(conn->turn, &rest))
        conn->waits = false; /* out of memory: nothing else would wake it */
    if (!left_ns && conn->waits) {
        event_active(first->turn, EV_TIMEOUT, 0);
        ctl_conn_turn_later(conn);
    }
    return conn->waits;
}

/* When its socket takes something, or has rested. Without memory for that the connection is over at
 * once: who does not read would keep it for ever. */
static void ctl_conn_write_on(struct ctl_conn *conn) {
    const struct timeval most = {.tv_sec = WRITE_S};
    uint64_t left_ns = send_cost_left_ns(&conn->cost);
    const struct timeval rest = clock_timeval(left_ns);
    if (left_ns && !event_add(conn->write_again, &rest))
        return;
    if (!event_pending(conn->writable, EV_WRITE, NULL) && event_add(conn->writable, &most))
        event_active(conn->writable, EV_TIMEOUT, 0);
}

/* Takes over line, which is NULL when memory was not enough for it: who waits for an answer that
 * cannot be given sees the connection end. */
static void ctl_conn_send(struct ctl_conn *conn, char *line) {
    if (!line || evbuffer_add(conn->output, line, strlen(line)))
        ctl_conn_take_no_more(conn);
    else
        ctl_conn_write_on(conn);
    free(line);
}

static void on_answered(struct ctl_calls *calls, char *line, bool due) {
    struct ctl_conn *conn = container_of(calls, struct ctl_conn, calls);
    if (due)
        ctl_conn_send(conn, line);
    ctl_conn_turn_later(conn);
}

/* The least that a right needs. */
static enum rule_admin admin_for(enum ctl_right right) {
    static const enum rule_admin least[] = {[CTL_SHOW] = ADMIN_OWN,
                                            [CTL_ACT] = ADMIN_ACT,
                                            [CTL_SHOW_ALL] = ADMIN_ALL,
                                            [CTL_ACT_OWN] = ADMIN_OWN,
                                            [CTL_ACT_MORE] = ADMIN_ACT};
    return least[right];
}

/* The command that makes the caller one of the group, if that would help. It names the uid: to ask
 * who that is may take a name service seconds, and all who administer would wait. */
static const char *how_to_join(const struct ctl_conn *conn, char *buf, size_t size) {
    *buf = '\0';
    if (policy_group_would_do(conn->ctl->state->policy, &conn->caller.who, &conn->caller.policy))
        snprintf(buf, size,
                 "; what root can do: usermod -aG rdmad $(id -un %u), and then you log in anew",
                 (unsigned)conn->caller.who.uid);
    return buf;
}

static int check_right(const struct ctl_conn *conn, const struct ctl_method *method,
                       struct error *err) {
    char place[300], join[100];
    unsigned uid = (unsigned)conn->caller.who.uid;
    const struct policy_value *admin = &conn->caller.policy.value[RULE_ADMIN];
    if ((enum rule_admin)admin->number >= admin_for(method->right))
        return 0;
    policy_place(admin, place, sizeof(place));
    if (admin_for(method->right) == ADMIN_ACT)
        return error_set(err, RDMAD_E_PERM,
                         "%s changes the daemon: it is for root, uid %u, group rdmad and whom the "
                         "policy gives admin \"act\"; you are uid %u with \"%s\" (%.200s)%s",
                         method->name, (unsigned)geteuid(), uid,
                         rule_admin_word((enum rule_admin)admin->number), place,
                         how_to_join(conn, join, sizeof(join)));
    return error_set(err, RDMAD_E_PERM,
                     "%s shows what is of %s: it needs admin \"%s\" of the policy; you are uid %u "
                     "with \"%s\" (%.200s)",
                     method->name, method->right == CTL_SHOW_ALL ? "all users together" : "a user",
                     rule_admin_word(admin_for(method->right)), uid,
                     rule_admin_word((enum rule_admin)admin->number), place);
}

/* Whether the request may run; err and the rpc_code say why not. */
static int ctl_conn_admit(struct ctl_conn *conn, const struct rpc_request *rq,
                          const struct ctl_method **method, struct error *err) {
    *method = conn->ctl->find(rq->method);
    if (!*method) {
        error_set(err, RDMAD_E_INVAL, "no method \"%.60s\"; rdmactl(8) lists them", rq->method);
        return RPC_METHOD;
    }
    /* Asked for each call: the policy may have changed. */
    policy_user(conn->ctl->state->policy, &conn->caller.who, &conn->caller.policy);
    if (check_right(conn, *method, err)) {
        AUDIT(REFUSED, "permission", audit_user(conn->caller.who.uid, conn->caller.pid),
              audit_nothing(), ("%s", err->text));
        return RPC_FAILED;
    }
    return rpc_check((*method)->params, rq->params, err) ? RPC_PARAMS : 0;
}

static void ctl_conn_run(struct ctl_conn *conn, const char *line, size_t size) {
    struct rpc_request rq;
    struct error why;
    const struct ctl_method *method = NULL;
    int code = rpc_parse(line, size, &rq, &why);
    bool unreadable = code != 0; /* answered even without an id, as the standard asks */
    if (!code)
        code = ctl_conn_admit(conn, &rq, &method, &why);
    struct ctl_call *call = code ? NULL : ctl_call_new(&conn->calls, rq.id, method);
    if (!code && !call) {
        error_set(&why, RDMAD_E_NOMEM, "out of memory for the call");
        code = RPC_FAILED;
    }
    if (call) {
        if (method->right == CTL_ACT) /* all was asked that it takes */
            ctl_tell_act(call, rq.params);
        method->handler(call, rq.params);
    } else if (unreadable || rq.id) {
        ctl_conn_send(conn, rpc_error(rq.id, code, &why));
    }
    rpc_request_fini(&rq);
}

static bool backlogged(struct ctl_conn *conn) {
    return conn->calls.count >= MAX_CALLS || evbuffer_get_length(conn->output) >= OUTPUT_BACKLOG;
}

static void refuse_long_line(struct ctl_conn *conn) {
    struct error why;
    error_set(&why, RDMAD_E_LENGTH, "a line has more than %u bytes; the connection closes",
              MAX_LINE);
    ctl_conn_send(conn, rpc_error(NULL, RPC_REQUEST, &why));
    ctl_conn_take_no_more(conn);
}

static void ctl_conn_read_on(struct ctl_conn *conn) {
    const struct timeval idle = {.tv_sec = IDLE_S};
    if (!event_add(conn->readable, &idle))
        return;
    ctl_conn_take_no_more(conn); /* without memory for that nobody would see its end either */
    ctl_conn_turn_later(conn);
}

/* Takes a few lines; whether there are more, as far as it has looked. */
static bool ctl_conn_take_lines(struct ctl_conn *conn, uint64_t now_ns) {
    struct evbuffer *input = conn->input;
    bool more = true, over = false;
    uint64_t end_ns = clock_after(now_ns, TURN_NS);
    for (unsigned n = 0; n < LINES_A_TURN && more && !over && !backlogged(conn); n++) {
        size_t size;
        char *line = evbuffer_readln(input, &size, EVBUFFER_EOL_LF);
        more = line != NULL;
        if (line && size <= MAX_LINE)
            ctl_conn_run(conn, line, size);
        else if (line || evbuffer_get_length(input) > MAX_LINE)
            refuse_long_line(conn);
        else if (evbuffer_search_eol(input, NULL, NULL, EVBUFFER_EOL_LF).pos >= 0)
            ctl_conn_send(conn, NULL); /* a line is there, but no memory for it */
        free(line);
        over = clock_now_ns() >= end_ns;
    }
    return more;
}

/* Nothing is left to do for it. A last line without its end is not a call: it may have been cut
 * anywhere. */
static bool ctl_conn_is_done(const struct ctl_conn *conn) {
    return conn->input_over && !conn->calls.count && !evbuffer_get_length(conn->output) &&
           evbuffer_search_eol(conn->input, NULL, NULL, EVBUFFER_EOL_LF).pos < 0;
}

/* Takes a few lines, and frees the connection when it is done: at once, though its uid rests, for
 * others of that wait for its place. */
static void ctl_conn_turn(struct ctl_conn *conn) {
    const uint64_t began_ns = clock_now_ns();
    if (ctl_conn_is_done(conn)) {
        ctl_conn_free(conn);
        return;
    }
    if (ctl_conn_waits(conn, began_ns))
        return;
    list_remove(&conn->node);
    list_append(&conn->ctl->conns, &conn->node);
    const uint64_t cpu_ns = send_cost_cpu_ns();
    bool more = ctl_conn_take_lines(conn, began_ns);
    rests_took(conn->uid, began_ns, clock_now_ns(), send_cost_cpu_ns() - cpu_ns);
    if (more && !backlogged(conn))
        ctl_conn_turn_later(conn);
    if (conn->full && !conn->input_over && evbuffer_get_length(conn->input) <= MAX_LINE) {
        conn->full = false;
        ctl_conn_read_on(conn);
    }
    if (ctl_conn_is_done(conn))
        ctl_conn_free(conn);
}

static void on_turn(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    ctl_conn_turn(arg);
}

static void ctl_conn_write_again(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    ctl_conn_write_on(arg);
}

/* False: the connection is over. */
static bool ctl_conn_write(struct ctl_conn *conn) {
    if (!evbuffer_get_length(conn->output))
        return true;
    struct send_look look = send_cost_begin(&conn->cost);
    int n = evbuffer_write_atmost(conn->output, client_socket_fd(conn->sock), WRITE_MAX);
    if (n > 0)
        send_cost_end(&conn->cost, look);
    return n > 0 || errno == EAGAIN || errno == EINTR;
}

static void ctl_conn_writable(evutil_socket_t fd, short what, void *arg) {
    struct ctl_conn *conn = arg;
    (void)fd;
    if (what & EV_TIMEOUT || !ctl_conn_write(conn)) {
        ctl_conn_free(conn);
        return;
    }
    if (evbuffer_get_length(conn->output))
        ctl_conn_write_on(conn);
    else
        ctl_conn_turn(conn);
}

/* Reads one byte more than a line may have, so that a longer one shows. Returns false when the
 * connection is over. */
static bool ctl_conn_read(struct ctl_conn *conn) {
    char buf[READ_MAX];
    size_t room = MAX_LINE + 1 - evbuffer_get_length(conn->input);
    size_t size = room < sizeof(buf) ? room : sizeof(buf);
    int rc = client_socket_read(conn->sock, buf, &size);
    if (rc == RDMAD_E_AGAIN)
        return true;
    if (rc || evbuffer_add(conn->input, buf, size))
        return false;
    conn->input_over = size == 0;
    conn->full = size == room;
    if (conn->input_over || conn->full)
        event_del(conn->readable);
    return true;
}

static void ctl_conn_readable(evutil_socket_t fd, short what, void *arg) {
    struct ctl_conn *conn = arg;
    (void)fd;
    if (!(what & EV_TIMEOUT)) {
        if (ctl_conn_read(conn))
            ctl_conn_turn(conn);
        else
            ctl_conn_free(conn);
    } else if (conn->calls.count) {
        ctl_conn_read_on(conn); /* silent because it waits for our answer */
    } else {
        ctl_conn_free(conn);
    }
}

static void ctl_turn_away(struct client_socket *sock, const char *text) {
    struct error why;
    error_set(&why, RDMAD_E_LIMIT, "%s", text);
    char *line = rpc_error(NULL, RPC_FAILED, &why);
    if (line)
        (void)send(client_socket_fd(sock), line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL);
    free(line);
    client_socket_close(sock);
}

/* NULL: out of memory; sock is still the caller's. */
static struct ctl_conn *ctl_conn_new(struct ctl *ctl, struct client_socket *sock) {
    struct event_base *base = ctl->state->base;
    struct ctl_conn *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    *conn = (struct ctl_conn){.ctl = ctl, .sock = sock};
    int fd = client_socket_fd(sock);
    conn->cost.rest = &conn->rest;
    conn->input = evbuffer_new();
    conn->output = evbuffer_new();
    conn->readable = event_new(base, fd, EV_READ | EV_PERSIST, ctl_conn_readable, conn);
    conn->writable = event_new(base, fd, EV_WRITE, ctl_conn_writable, conn);
    conn->write_again = event_new(base, -1, 0, ctl_conn_write_again, conn);
    conn->turn = event_new(base, -1, 0, on_turn, conn);
    if (conn->input && conn->output && conn->readable && conn->writable && conn->write_again &&
        conn->turn)
        return conn;
    ctl_conn_drop(conn);
    free(conn);
    return NULL;
}

/* All groups, the first included; gids is the caller's to free, also after a failure. */
static int ask_caller(int fd, const struct ucred *cred, struct policy_who *out) {
    socklen_t size = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) && errno != ERANGE)
        return RDMAD_E_SYSTEM;
    gid_t *gids = size <= GROUPS_MAX * sizeof(gid_t) ? malloc(size + sizeof(gid_t)) : NULL;
    *out = (struct policy_who){.uid = cred->uid, .gids = gids, .socket = ""};
    if (!gids)
        return RDMAD_E_NOMEM;
    if (size && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, gids, &size))
        return RDMAD_E_SYSTEM;
    out->ngids = (unsigned)(size / sizeof(gid_t));
    gids[out->ngids++] = cred->gid;
    return 0;
}

/* Who may act has all places; of the others a uid has as many as it leaves free, or one. */
static bool has_room(const struct ctl *ctl, const struct ctl_caller *caller) {
    const unsigned open = MAX_CONNS - RESERVED_CONNS;
    unsigned own = 0;
    if (policy_admin(&caller->policy) == ADMIN_ACT)
        return ctl->nconns < MAX_CONNS;
    list_for_each (node, &ctl->conns)
        own += list_entry(node, struct ctl_conn, node)->caller.who.uid == caller->who.uid;
    return ctl->nconns < open && (!own || own < open - ctl->nconns);
}

static void on_accepted(void *user, int fd) {
    struct ctl *ctl = user;
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t size = sizeof(who);
    struct ctl_caller caller = {0};
    bool known =
        !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) && !ask_caller(fd, &who, &caller.who);
    struct client_socket *sock =
        client_socket_new(ctl->state->porter, fd, (struct user_id){.uid = who.uid});
    if (known)
        policy_user(ctl->state->policy, &caller.who, &caller.policy);
    if (sock && known && !has_room(ctl, &caller)) {
        ctl_turn_away(sock, "too many connections to control.sock are open; close one");
        sock = NULL;
    }
    struct ctl_conn *conn = sock && known ? ctl_conn_new(ctl, sock) : NULL;
    if (!conn) {
        free((void *)(uintptr_t)caller.who.gids);
        if (sock)
            client_socket_close(sock);
        return;
    }
    conn->caller = caller;
    conn->caller.pid = who.pid;
    conn->calls = (struct ctl_calls){.state = ctl->state,
                                     .conns = &ctl->nconns,
                                     .caller = &conn->caller,
                                     .answered = on_answered};
    list_init(&conn->calls.list);
    list_append(&ctl->conns, &conn->node);
    ctl->nconns++;
    conn->uid = rests_join(&ctl->rests, who.uid);
    ctl_conn_read_on(conn);
}

static void no_descriptor(void *user, int fd) {
    struct ctl *ctl = user;
    struct client_socket *sock =
        client_socket_new(ctl->state->porter, fd, (struct user_id){.uid = (uid_t)-1});
    if (sock)
        ctl_turn_away(sock,
                      "rdmad has no descriptor left for one more connection; raise its limit of "
                      "open files (LimitNOFILE=) or lower its limits.*");
}

#define CTL_PATH_MAX (sizeof(((struct config *)0)->runtime_dir) + sizeof("/control.sock"))

static struct listener_spec ctl_spec(const struct state *st, int activated_fd,
                                     char path[CTL_PATH_MAX]) {
    snprintf(path, CTL_PATH_MAX, "%s/control.sock", st->config->runtime_dir);
    return (struct listener_spec){.path = path,
                                  .type = SOCK_STREAM,
                                  .mode = st->policy ? 0666 : 0660,
                                  .group = (gid_t)-1,
                                  .activated = activated_fd,
                                  .kept = st->kept,
                                  .refused = no_descriptor};
}

int ctl_check(const struct state *st, struct error *err) {
    char path[CTL_PATH_MAX];
    const struct listener_spec spec = ctl_spec(st, -1, path);
    return listener_check(&spec, err);
}

int ctl_listen(struct state *st, int activated_fd, ctl_find *find, struct ctl **out,
               struct error *err) {
    char path[CTL_PATH_MAX];
    const struct listener_spec spec = ctl_spec(st, activated_fd, path);
    struct ctl *ctl = calloc(1, sizeof(*ctl));
    if (!ctl)
        return error_set(err, RDMAD_E_NOMEM, "out of memory for %s", path);
    ctl->state = st;
    ctl->find = find;
    list_init(&ctl->conns);
    int rc = listener_new(st->base, &spec, on_accepted, ctl, &ctl->listener, err);
    if (rc) {
        free(ctl);
        return rc;
    }
    *out = ctl;
    return RDMAD_OK;
}

void ctl_suspend(struct ctl *ctl, bool on) {
    listener_suspend(ctl->listener, on);
}

bool ctl_tell(const struct ctl *ctl, struct kept *kept) {
    return listener_tell(ctl->listener, kept);
}

bool ctl_keep(struct ctl *ctl, struct kept *kept) {
    return listener_keep(ctl->listener, kept);
}

void ctl_free(struct ctl *ctl) {
    if (!ctl)
        return;
    listener_free(ctl->listener);
    list_for_each_safe (node, &ctl->conns) {
        ctl_conn_free(list_entry(node, struct ctl_conn, node));
    }
    free(ctl);
}
