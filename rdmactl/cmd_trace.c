/* SPDX-License-Identifier: MIT */
/*
 * cmd_trace.c - trace: ops as they end, a line an op.
 *
 * The daemon keeps records for one connection, and that is asked ten times a second, or at once
 * while there are more. What it had to drop because that was too slow is told where it happened.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS 100
#define DOCUMENT_MAX 16384u /* ops in a document */
#define LAST_ANSWERS 16u    /* come to all that the daemon keeps */

struct trace {
    uint64_t count; /* end after so many; 0: there is no such bound */
    double until_s; /* of cli_now_s; 0: likewise */
    int fd, signals;
    uint64_t shown;
    json_int_t dropped;
    json_t *document; /* -j: what is printed at the end */
    struct failure why;
};

struct trace_filter {
    uint64_t session, slower_us;
    const char *user; /* "1000", "ann", "1000@blue" */
    const char *peer, *ops;
    bool failed, begun;
};

static const char *text_of(const json_t *row, const char *key) {
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "-";
}

static void trace_print_head(void) {
    printf("%-15s %8s %7s %-16s %-8s %10s %-5s %-22s %10s\n", "TIME", "SESSION", "UID", "PEER",
           "OP", "BYTES", "ROUTE", "STATUS", "LATENCY");
    fflush(stdout);
}

static void print_op(const json_t *row) {
    char when[32] = "?", peer[80], safe[80], latency[CELL_MAX];
    json_int_t at_us = json_integer_value(json_object_get(row, "time_us"));
    time_t at = (time_t)(at_us / 1000000);
    struct tm tm;
    if (localtime_r(&at, &tm)) {
        size_t used = strftime(when, sizeof(when), "%H:%M:%S", &tm);
        snprintf(when + used, sizeof(when) - used, ".%06d", (int)(at_us % 1000000));
    }
    if (json_is_null(json_object_get(row, "peer")))
        snprintf(peer, sizeof(peer), "-");
    else
        snprintf(peer, sizeof(peer), "%.0f %s", cli_number(row, "peer"), text_of(row, "node"));
    char user[80];
    const char *tenant = json_string_value(json_object_get(row, "tenant"));
    snprintf(user, sizeof(user), "%.0f%s%s", cli_number(row, "uid"), tenant ? "@" : "",
             tenant ? tenant : "");
    bool begun = !strcmp(text_of(row, "what"), "begun");
    printf("%-15s %8.0f %7s %-16s %-8s %10.0f %-5s %-22s %10s\n", when, cli_number(row, "session"),
           user, cli_safe_text(safe, sizeof(safe), peer), text_of(row, "op"),
           cli_number(row, "bytes"), text_of(row, "route"),
           begun ? "begun" : text_of(row, "status"),
           begun ? "-" : cli_human_us(latency, cli_number(row, "latency_us")));
}

static bool is_over(const struct trace *t) {
    if (t->document && json_array_size(json_object_get(t->document, "ops")) >= DOCUMENT_MAX) {
        json_object_set_new(t->document, "truncated", json_true());
        return true;
    }
    return t->count && t->shown >= t->count;
}

/* Of an answer, or of what is left of it. */
static void take_ops(struct trace *t, const json_t *answer) {
    json_int_t dropped = json_integer_value(json_object_get(answer, "dropped"));
    const json_t *ops = json_object_get(answer, "ops");
    for (size_t i = 0; i < json_array_size(ops) && !is_over(t); i++, t->shown++) {
        if (t->document)
            json_array_append(json_object_get(t->document, "ops"), json_array_get(ops, i));
        else
            print_op(json_array_get(ops, i));
    }
    if (!t->document && dropped > t->dropped && !is_over(t))
        printf("(%lld more ended than could be shown, and were dropped here)\n",
               (long long)(dropped - t->dropped));
    t->dropped = dropped;
    fflush(stdout);
}

/* Until the next time to ask, in so long at most. False: it was interrupted, or its time is over.
 */
static bool trace_pause(const struct trace *t, int most_ms) {
    struct pollfd wake = {.fd = t->signals, .events = POLLIN};
    double left_ms = t->until_s ? (t->until_s - cli_now_s()) * 1000 + 1 : most_ms;
    int pause_ms = left_ms < 0 ? 0 : left_ms < most_ms ? (int)left_ms : most_ms;
    if (poll(&wake, 1, pause_ms) > 0 && signals_take(t->signals))
        return false;
    return !t->until_s || cli_now_s() < t->until_s;
}

/* What came until it was told to stop is asked for, too, as far as the daemon had kept it then. */
static bool trace_watch(struct trace *t) {
    bool stop = false, more = false;
    for (unsigned last = 0; !is_over(t) && last < LAST_ANSWERS && !ferror(stdout); last += stop) {
        if (!stop)
            stop = !trace_pause(t, more ? 0 : ASK_MS);
        json_t *answer =
            daemon_ask(t->fd, "trace", json_pack("{s:b}", "more", true), PATIENCE_LOOK_MS, &t->why);
        if (!answer)
            return false;
        more = json_is_true(json_object_get(answer, "more"));
        take_ops(t, answer);
        json_decref(answer);
        if (stop && !more)
            break;
    }
    return true;
}

/* False: it names nobody. */
static bool add_user(json_t *params, const char *user) {
    char name[64];
    const char *at = strchr(user, '@');
    uint64_t uid = 0;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(user, "@"), user);
    if (!args_user(name, &uid) || (at && !at[1]))
        return false;
    json_object_set_new(params, "uid", json_integer((json_int_t)uid));
    if (at)
        json_object_set_new(params, "tenant", json_string(at + 1));
    return true;
}

static json_t *filter_json(const struct trace_filter *f) {
    json_t *params = json_object();
    if (f->session)
        json_object_set_new(params, "session", json_integer((json_int_t)f->session));
    if (f->user)
        add_user(params, f->user);
    if (f->peer)
        json_object_set_new(params, "peer", json_string(f->peer));
    if (f->ops)
        json_object_set_new(params, "ops", json_string(f->ops));
    if (f->slower_us)
        json_object_set_new(params, "slower_us", json_integer((json_int_t)f->slower_us));
    json_object_set_new(params, "failed", json_boolean(f->failed));
    json_object_set_new(params, "begun", json_boolean(f->begun));
    return params;
}

static bool has_value(const json_t *row, const char *key, const char *value) {
    const json_t *has = json_object_get(row, key);
    char number[32];
    snprintf(number, sizeof(number), "%.0f", json_number_value(has));
    return has && !strcmp(json_is_string(has) ? json_string_value(has) : number, value);
}

/* One of the rows of that list has the value as its number or its name; also if there is no such
 * list to see. */
static bool is_there(const char *method, const char *list, const char *value) {
    struct failure why;
    json_t *answer = daemon_try(method, NULL, PATIENCE_LOOK_MS, &why);
    const json_t *rows = json_object_get(answer, list);
    bool found = !answer || json_is_true(json_object_get(answer, "truncated"));
    for (size_t i = 0; !found && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        found = has_value(row, "id", value) || has_value(row, "node", value);
    }
    json_decref(answer);
    return found;
}

/* What is not there may come, so it is no error; but who mistypes it would wait in vain. */
static void trace_note(const struct trace_filter *f) {
    char session[32];
    snprintf(session, sizeof(session), "%llu", (unsigned long long)f->session);
    if (f->session && !is_there("session.show", "sessions", session))
        cli_note("no session %s is open here; session show lists them", session);
    if (f->peer && !is_there("peer.show", "peers", f->peer))
        cli_note("no peer %s is connected now; peer show lists them", f->peer);
}

static bool trace_run(struct trace *t, const struct trace_filter *f) {
    t->fd = daemon_dial(PATIENCE_LOOK_MS, &t->why);
    if (t->fd < 0)
        return false;
    json_t *answer = daemon_ask(t->fd, "trace", filter_json(f), PATIENCE_LOOK_MS, &t->why);
    if (answer)
        trace_note(f);
    if (answer && !t->document)
        trace_print_head();
    if (answer)
        take_ops(t, answer);
    bool good = answer && trace_watch(t);
    json_decref(answer);
    close(t->fd);
    return good;
}

int cmd_trace(const struct command *self, int argc, char **argv) {
    struct trace_filter f = {0};
    uint64_t count = 0, for_ms = 0;
    const struct opt opts[] = {
        {"count", 'n', OPT_COUNT, &count, 1, 1000000000, "COUNT", "end after so many ops"},
        {"for", 0, OPT_TIME, &for_ms, 1, 86400000, "TIME", "end after so long, as 10s"},
        {"session", 's', OPT_COUNT, &f.session, 1, INT64_MAX, "ID", "only that session's"},
        {"uid", 'u', OPT_TEXT, &f.user, 0, 0, "UID[@TENANT]",
         "only that user's, by number or name"},
        {"peer", 'p', OPT_TEXT, &f.peer, 0, 0, "NAME|ID", "only what goes to that peer"},
        {"op", 'o', OPT_TEXT, &f.ops, 0, 0, "KINDS", "only those, as read,write"},
        {"failed", 'f', OPT_FLAG, &f.failed, 0, 0, NULL, "only what was not done"},
        {"slower", 'l', OPT_COUNT, &f.slower_us, 1, UINT32_MAX, "US",
         "only what took more microseconds than that"},
        {"begun", 'b', OPT_FLAG, &f.begun, 0, 0, NULL, "ops as they begin, too"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    json_t *nothing = json_object();
    bool named = !f.user || add_user(nothing, f.user);
    json_decref(nothing);
    if (!named)
        return cli_usage_error(
            "--uid: \"%s\" names nobody: write a UID or a user's name, each with "
            "@TENANT or without",
            f.user);
    if (cli.json && !count && !for_ms)
        return cli_usage_error("-j is one JSON document, so say when it ends: -n COUNT or --for "
                               "TIME");
    struct trace t = {.count = count,
                      .until_s = for_ms ? cli_now_s() + (double)for_ms / 1000 : 0,
                      .signals = signals_catch(),
                      .document = cli.json ? json_pack("{s:[]}", "ops") : NULL};
    bool good = trace_run(&t, &f);
    close(t.signals);
    if (!good) {
        json_decref(t.document);
        return cli_fail(t.why.code, "%s", t.why.text);
    }
    if (!t.document)
        return EXIT_GOOD;
    json_object_set_new(t.document, "dropped", json_integer(t.dropped));
    return cli_print_json(t.document);
}
