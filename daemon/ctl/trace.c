/* SPDX-License-Identifier: MIT */
/*
 * trace.c - rdmactl trace: ops as they end, to who asks for them again and again on one connection.
 *
 * The first call begins a trace, those with "more" bring what came since the last, and the end of
 * the connection ends it. Between two calls records wait at the workers (plane_trace_begin), so who
 * does not ask loses some, and after a minute of silence the connection with all the rest.
 *
 * Each caller sees what is of its own sessions, and who sees everybody's sees all. That is asked
 * for each call: the policy may have changed. A trace costs each op of all sessions a look at its
 * filter, so there are TRACERS_MAX, of which callers that may not act have half, one each.
 */
#include "common/errors.h"
#include "daemon/ctl/handlers.h"
#include "daemon/ctl/rows.h"
#include "daemon/plane/plane.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACERS_MAX 4u
#define ROWS_A_CALL 512u

struct tracer {
    struct ctl_hold hold;
    struct tracer *next; /* in state->tracers */
    struct state *state;
    struct plane_trace *trace;
    uid_t uid;
    bool may_act, sees_all;
    uint64_t epoch_ns; /* added to the daemon's clock it is the time since 1970 */
};

/* As users say them and read them. */
static const char *const op_names[RDMAD_OP_COUNT] = {
    [RDMAD_OP_NOP] = "nop",       [RDMAD_OP_READ] = "read", [RDMAD_OP_WRITE] = "write",
    [RDMAD_OP_CAS] = "cas",       [RDMAD_OP_FADD] = "fadd", [RDMAD_OP_NOTIFY] = "notify",
    [RDMAD_OP_SEND] = "send",     [RDMAD_OP_RECV] = "recv", [RDMAD_OP_NOTIFIED] = "notified",
    [RDMAD_OP_CANCEL] = "cancel",
};

/* ---- who traces ----------------------------------------------------------------------------- */

static void tracer_free(struct tracer *t) {
    struct tracer **at = &t->state->tracers;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    plane_trace_end(t->trace);
    free(t);
}

static void tracer_gone(struct ctl_hold *hold) {
    tracer_free(container_of(hold, struct tracer, hold));
}

static int tracers_check_room(const struct ctl_call *call, struct error *err) {
    const uid_t uid = ctl_caller(call)->who.uid;
    unsigned all = 0, plain = 0, own = 0;
    for (const struct tracer *t = ctl_state(call)->tracers; t; t = t->next) {
        all++;
        plain += !t->may_act;
        own += !t->may_act && t->uid == uid;
    }
    if (all >= TRACERS_MAX)
        return error_set(err, RDMAD_E_LIMIT,
                         "%u trace already, which is the most, for each costs every op something; "
                         "wait for one of them to end",
                         all);
    if (ctl_may_act(call) || (!own && plain < TRACERS_MAX / 2))
        return 0;
    return error_set(err, RDMAD_E_LIMIT,
                     own ? "uid %u traces already; end that trace first"
                         : "uid %u cannot trace now: others do, and the other places are kept for "
                           "who may act; wait for one of them to end",
                     (unsigned)uid);
}

/* ---- which ops ------------------------------------------------------------------------------ */

/* "read,write" */
static int read_ops(const char *words, uint32_t *opcodes, struct error *err) {
    while (words && *words) {
        size_t length = strcspn(words, ",");
        unsigned op = 0;
        while (op < RDMAD_OP_COUNT && (!op_names[op] || strlen(op_names[op]) != length ||
                                       strncmp(op_names[op], words, length) != 0))
            op++;
        if (op == RDMAD_OP_COUNT)
            return error_set(err, RDMAD_E_INVAL,
                             "there is no op \"%.*s\": they are read, write, cas, fadd, notify, "
                             "send, recv, notified, nop and cancel",
                             length < 40 ? (int)length : 40, words);
        *opcodes |= 1u << op;
        words += length + (words[length] == ',');
    }
    return 0;
}

/* A number is that of a peer's connection, anything else a node's name. */
static void read_peer(const char *text, struct plane_trace_filter *f) {
    char *end = NULL;
    if (!text)
        return;
    uint64_t number = strspn(text, "0123456789") ? strtoull(text, &end, 10) : 0;
    if (number && !*end)
        f->peer = number;
    else
        snprintf(f->node, sizeof(f->node), "%s", text);
}

static int read_filter(const struct ctl_call *call, const json_t *params,
                       struct plane_trace_filter *f, struct error *err) {
    const uid_t own = ctl_caller(call)->who.uid;
    *f = (struct plane_trace_filter){.session = rpc_uint(params, "session"),
                                     .slower_ns = rpc_uint(params, "slower_us") * NSEC_PER_USEC,
                                     .failed = rpc_bool(params, "failed"),
                                     .begun = rpc_bool(params, "begun"),
                                     .of_uid = json_object_get(params, "uid") != NULL,
                                     .user.uid = (uid_t)rpc_uint(params, "uid")};
    const char *tenant = rpc_text(params, "tenant");
    read_peer(rpc_text(params, "peer"), f);
    if (!ctl_sees_all(call)) {
        if (tenant || (f->of_uid && f->user.uid != own))
            return error_set(err, RDMAD_E_PERM,
                             "the ops of uid %u%s%.64s are shown to who has admin \"all\" of the "
                             "policy; you are uid %u, and see your own",
                             (unsigned)f->user.uid, tenant ? "@" : "", tenant ? tenant : "",
                             (unsigned)own);
        f->of_user = true;
        f->user = (struct user_id){.uid = own};
    }
    if (tenant) {
        if (!f->of_uid)
            return error_set(err, RDMAD_E_INVAL, "\"tenant\" goes with \"uid\": its user");
        if (rows_find_tenant(ctl_state(call), tenant, &f->user.tenant, err))
            return err->code;
        f->of_uid = false;
        f->of_user = true;
    }
    if (f->begun && (f->failed || f->slower_ns))
        return error_set(err, RDMAD_E_INVAL,
                         "when an op begins nobody knows whether it fails or how long it takes: "
                         "\"begun\" goes with neither");
    return read_ops(rpc_text(params, "ops"), &f->opcodes, err);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* 0 and what JSON has no number for: null. */
static json_t *number_or_null(uint64_t number) {
    return number && number <= INT64_MAX ? json_integer((json_int_t)number) : json_null();
}

static json_t *opcode_json(uint8_t opcode) {
    char text[16];
    if (opcode < RDMAD_OP_COUNT && op_names[opcode])
        return json_string(op_names[opcode]);
    snprintf(text, sizeof(text), "%u", opcode);
    return json_string(text);
}

/* epoch_ns: the tracer's. */
static json_t *trace_row(const struct state *st, const struct plane_traced *r, uint64_t epoch_ns) {
    const char *route = r->route == PLANE_LINK ? "link" : r->route == PLANE_LOCAL ? "local" : NULL;
    const char *status = r->begun ? NULL : !r->status ? "RDMAD_OK" : rdmad_error_name(r->status);
    return json_pack("{s:I, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:s?, s:s?, s:o}",
                     "time_us", (json_int_t)((r->at_ns + epoch_ns) / NSEC_PER_USEC), "what",
                     r->begun ? "begun" : "ended", "session", (json_int_t)r->session, "uid",
                     (json_int_t)r->user.uid, "tenant", rows_tenant(st, r->user.tenant), "op",
                     opcode_json(r->opcode), "user_data", rows_any_number(r->user_data), "lease",
                     number_or_null(r->lease), "bytes", (json_int_t)(r->bytes & INT64_MAX), "peer",
                     number_or_null(r->peer), "node", r->node[0] ? rows_text(r->node) : json_null(),
                     "route", route, "status", status, "latency_us",
                     r->begun ? json_null() : json_real((double)r->span_ns / 1e3));
}

static void tracer_reply(struct tracer *t, struct ctl_call *call) {
    struct plane_traced *records = malloc(ROWS_A_CALL * sizeof(*records));
    json_t *list = records ? json_array() : NULL;
    unsigned count = list ? plane_trace_read(t->trace, records, ROWS_A_CALL) : 0;
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(list, trace_row(t->state, &records[i], t->epoch_ns));
    free(records);
    ctl_reply(call, list ? json_pack("{s:o, s:I, s:b}", "ops", list, "dropped",
                                     (json_int_t)plane_trace_dropped(t->trace), "more",
                                     plane_trace_more(t->trace))
                         : NULL);
}

/* Taken once, so that what ended later never seems to have ended earlier. Of four tries the one
 * that was interrupted least. */
static uint64_t epoch_now(void) {
    uint64_t epoch_ns = 0, least_ns = CLOCK_NEVER;
    for (unsigned i = 0; i < 4; i++) {
        struct timespec wall;
        uint64_t before_ns = clock_now_ns();
        clock_gettime(CLOCK_REALTIME, &wall);
        uint64_t took_ns = clock_now_ns() - before_ns;
        if (took_ns >= least_ns)
            continue;
        least_ns = took_ns;
        epoch_ns =
            (uint64_t)wall.tv_sec * NSEC_PER_SEC + (uint64_t)wall.tv_nsec - before_ns - took_ns / 2;
    }
    return epoch_ns;
}

/* ---- the call ------------------------------------------------------------------------------- */

static int trace_begin(struct ctl_call *call, const json_t *params, struct tracer **out,
                       struct error *err) {
    struct state *st = ctl_state(call);
    struct plane_trace_filter filter;
    int rc = read_filter(call, params, &filter, err);
    if (!rc)
        rc = tracers_check_room(call, err);
    if (rc)
        return rc;
    struct tracer *t = calloc(1, sizeof(*t));
    struct plane_trace *trace = t ? plane_trace_begin(st->plane, &filter) : NULL;
    if (!trace) {
        free(t);
        return error_set(err, RDMAD_E_NOMEM, "out of memory for a trace");
    }
    *t = (struct tracer){.hold.gone = tracer_gone,
                         .next = st->tracers,
                         .state = st,
                         .trace = trace,
                         .uid = ctl_caller(call)->who.uid,
                         .may_act = ctl_may_act(call),
                         .sees_all = ctl_sees_all(call),
                         .epoch_ns = epoch_now()};
    st->tracers = t;
    ctl_hold(call, &t->hold);
    *out = t;
    return 0;
}

static int trace_more(struct ctl_call *call, struct tracer *t, struct error *err) {
    if (!t)
        return error_set(
            err, RDMAD_E_INVAL,
            "no trace has begun on this connection: call trace without \"more\" first");
    if (!t->sees_all || ctl_sees_all(call))
        return 0;
    ctl_hold(call, NULL);
    tracer_free(t);
    return error_set(err, RDMAD_E_PERM,
                     "the policy has changed, and lets you see what is your own only; begin anew");
}

void ctl_trace(struct ctl_call *call, const json_t *params) {
    struct ctl_hold *held = ctl_held(call);
    struct tracer *t = held ? container_of(held, struct tracer, hold) : NULL;
    struct error why;
    int rc = 0;
    if (rpc_bool(params, "more"))
        rc = trace_more(call, t, &why);
    else if (t)
        rc = error_set(&why, RDMAD_E_INVAL,
                       "a trace has begun on this connection; \"more\" goes on with it, another "
                       "connection has another");
    else
        rc = trace_begin(call, params, &t, &why);
    if (rc)
        ctl_fail(call, &why);
    else
        tracer_reply(t, call);
}
