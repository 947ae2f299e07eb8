/* SPDX-License-Identifier: MIT */
/*
 * act.c - the calls that change something. They answer when it is done, not when it has begun.
 */
#include "daemon/base/log.h"
#include "daemon/config/checks.h"
#include "daemon/ctl/handlers.h"
#include "daemon/peer/peer.h"
#include "daemon/state/lease.h"
#include "daemon/state/pause.h"
#include "daemon/state/session_end.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void act_done(void *arg, const struct error *result) {
    struct ctl_call *call = arg;
    if (result && result->code)
        ctl_fail(call, result);
    else
        ctl_reply(call, json_object());
}

/* What somebody does not see is not there for it. */
static bool may_act_on(const struct ctl_call *call, const struct session *s) {
    return ctl_may_act(call) || ctl_is_caller(call, s->uid, s->tenant);
}

/* For errors: " of uid 1000", or nothing for who may act on everybody's. */
static const char *of_caller(const struct ctl_call *call, char buf[24]) {
    buf[0] = '\0';
    if (!ctl_may_act(call))
        snprintf(buf, 24, " of uid %u", (unsigned)ctl_caller(call)->who.uid);
    return buf;
}

/* What is another's is answered, and told of, in the words of what is not there. */
static void fail_absent(struct ctl_call *call, const struct error *why) {
    if (ctl_may_act(call))
        ctl_fail(call, why);
    else
        ctl_refuse(call, audit_nothing(), why);
}

/* Answered when nobody can touch the memory any more. */
void ctl_lease_revoke(struct ctl_call *call, const json_t *params) {
    uint64_t id = rpc_uint(params, "id");
    struct lease *lease = lease_by_id(ctl_state(call)->leases, id);
    if (!lease || !may_act_on(call, lease->owner)) {
        struct error why;
        char whose[24];
        error_set(&why, RDMAD_E_NO_LEASE,
                  "no lease %" PRIu64 "%s is alive here; lease show --all tells what ended", id,
                  of_caller(call, whose));
        fail_absent(call, &why);
        return;
    }
    ctl_tell_act(call, params);
    lease_end(lease, RDMAD_E_LEASE_ADMIN, act_done, call);
}

/* NULL: the call was answered. */
static struct session *find_session(struct ctl_call *call, const json_t *params) {
    uint64_t id = rpc_uint(params, "id");
    struct session *s = session_find(ctl_state(call), id);
    struct error why;
    char whose[24];
    if (s && !s->closing && may_act_on(call, s))
        return s;
    error_set(&why, RDMAD_E_HANDLE,
              "no session %" PRIu64 "%s is open here; session show lists them", id,
              of_caller(call, whose));
    fail_absent(call, &why);
    return NULL;
}

/* Answered when the end has begun: what the session holds goes in the order of session_end.h. */
void ctl_session_kick(struct ctl_call *call, const json_t *params) {
    struct session *s = find_session(call, params);
    const char *said = rpc_text(params, "why");
    struct error why;
    if (!s)
        return;
    ctl_tell_act(call, params);
    error_set(&why, RDMAD_E_PERM, "uid %u ended the session%s%s",
              (unsigned)ctl_caller(call)->who.uid, said ? ": " : "", said ? said : "");
    for (char *c = why.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    session_close(s, &why);
    ctl_reply(call, json_object());
}

/* Answered when the worker reads its rings no more, or again. */
static void pause_or_resume(struct ctl_call *call, const json_t *params, bool pause) {
    struct session *s = find_session(call, params);
    struct error why;
    if (!s)
        return;
    const struct pause_order order = {.pause = pause,
                                      .uid = ctl_caller(call)->who.uid,
                                      .by_admin = ctl_may_act(call),
                                      .why = rpc_text(params, "why")};
    int rc = session_may_pause(s, &order, &why);
    if (rc == RDMAD_E_PERM) {
        ctl_refuse(call, audit_object("session", s->id), &why);
        return;
    }
    if (!rc) {
        ctl_tell_act(call, params);
        rc = session_pause(s, &order, act_done, call, &why);
    }
    if (rc)
        ctl_fail(call, &why);
}

void ctl_session_pause(struct ctl_call *call, const json_t *params) {
    pause_or_resume(call, params, true);
}

void ctl_session_resume(struct ctl_call *call, const json_t *params) {
    pause_or_resume(call, params, false);
}

void ctl_peer_add(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    const char *address = rpc_text(params, "address");
    char host[RDMAD_HOST_MAX + 1];
    uint16_t port;
    struct error why;
    const char *wrong = rdmad_hostport_parse(address, host, &port);
    if (wrong) {
        error_set(&why, RDMAD_E_INVAL, "peer address \"%s\": %s", address, wrong);
        ctl_fail(call, &why);
    } else if (st->stopping) {
        error_set(&why, RDMAD_E_SHUTDOWN, "rdmad is stopping and dials no more peers");
        ctl_fail(call, &why);
    } else {
        peer_add(st->peers, host, port, act_done, call);
    }
}

static void note_later(void *arg, const char *key) {
    json_array_append_new(arg, json_string(key));
}

/* Refused as a whole, with file, line and column, when anything is wrong. */
void ctl_reload(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    struct error why;
    (void)params;
    json_t *later = json_array();
    if (!st->reload(st, note_later, later, &why)) {
        ctl_reply(call, json_pack("{s:o}", "needs_restart", later));
        return;
    }
    json_decref(later);
    ctl_fail(call, &why);
}

/* Until the settings are read again. */
void ctl_log_level(struct ctl_call *call, const json_t *params) {
    const char *level = rpc_text(params, "level");
    const char *wrong = setting_check_log_level(level);
    struct error why;
    if (wrong) {
        error_set(&why, RDMAD_E_INVAL, "log level \"%.20s\" %s", level, wrong);
        ctl_fail(call, &why);
        return;
    }
    log_set_level(log_level_named(level));
    ctl_reply(call, json_pack("{s:s}", "level", level));
}

static void upgrade_begun(void *arg, const struct error *result) {
    struct ctl_call *call = arg;
    if (result->code)
        ctl_fail(call, result);
    else
        ctl_reply(call, json_pack("{s:s, s:I}", "version", RDMAD_VERSION, "life",
                                  (json_int_t)ctl_state(call)->life.number));
}

/* Answered when the stop for it has begun, by the life that ends. The next one's status tells how
 * it went. */
void ctl_upgrade(struct ctl_call *call, const json_t *params) {
    struct state *st = ctl_state(call);
    const char *program = rpc_text(params, "program");
    uid_t uid = ctl_caller(call)->who.uid;
    struct error why;
    if (!st->upgrade) {
        error_set(&why, RDMAD_E_UNSUPPORTED, "there is no program file to upgrade to");
        ctl_fail(call, &why);
        return;
    }
    if (program && uid != 0 && uid != geteuid()) {
        error_set(&why, RDMAD_E_PERM,
                  "only root, and the user that rdmad runs as, say what it becomes; without a file "
                  "it is upgraded to its own");
        ctl_refuse(call, audit_nothing(), &why);
        return;
    }
    ctl_tell_act(call, params);
    if (st->upgrade(st, program, upgrade_begun, call, &why))
        ctl_fail(call, &why);
}
