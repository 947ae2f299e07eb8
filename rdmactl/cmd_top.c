/* SPDX-License-Identifier: MIT */
/*
 * cmd_top.c - sessions, users, links or peers by what they move right now: two looks and the
 * difference.
 *
 * On a terminal a key changes what is shown. What is asked for another way is looked at anew.
 */
#include "rdmactl/screen.h"
#include "rdmactl/top.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const key_names[] = {[SORT_BYTES] = "bytes",
                                        [SORT_OPS] = "ops",
                                        [SORT_P99] = "p99",
                                        [SORT_MEMORY] = "memory",
                                        [SORT_QUEUE] = "queue"};
static enum sort_key sort_key;

/* ---- what is shown ------------------------------------------------------------------------- */

enum view { VIEW_SESSIONS, VIEW_USERS, VIEW_LINKS, VIEW_PEERS };

static const struct {
    const char *name, *method; /* that tells what is shown */
} views[] = {[VIEW_SESSIONS] = {"sessions", "session.show"},
             [VIEW_USERS] = {"users", "user.show"},
             [VIEW_LINKS] = {"links", "link.show"},
             [VIEW_PEERS] = {"peers", "link.show"}};

struct top {
    uint64_t count, interval_ms; /* count 0: until interrupted */
    enum view view;
    bool batch;
    bool keys;              /* the terminal is ours */
    json_t *before, *after; /* looks of the same kind; after NULL: there is one only */
    double before_s, after_s;
    bool own_only;      /* links are not for whoever asks */
    bool no_buckets;    /* an older daemon, which refuses to be asked for them */
    struct failure why; /* it could not be looked */
};

/* With how long ops took. user.show tells it unasked. */
static json_t *top_ask(struct top *top, const char *method) {
    json_t *params = strcmp(method, "user.show") != 0 && !top->no_buckets
                         ? json_pack("{s:b}", "buckets", 1)
                         : NULL;
    bool asked = params != NULL;
    json_t *answer = daemon_try(method, params, PATIENCE_LOOK_MS, &top->why);
    if (answer || !asked || strcmp(top->why.code, "RDMAD_E_INVAL") != 0)
        return answer;
    top->no_buckets = true;
    return daemon_try(method, NULL, PATIENCE_LOOK_MS, &top->why);
}

static bool look_into(struct top *top, json_t *seen, const char *method) {
    json_t *more = top_ask(top, method);
    bool answered = more != NULL;
    json_object_update(seen, more);
    json_decref(more);
    return answered;
}

/* Links are of all users together. Whether that is refused is asked first, for a refusal would be
 * an event, and one in the audit. */
static bool look_at_rights(struct top *top) {
    json_t *status = daemon_try("status", NULL, PATIENCE_LOOK_MS, &top->why);
    bool answered = status != NULL;
    if (answered && strcmp(cli_text(status, "shown"), "own") == 0)
        top->own_only = true;
    json_decref(status);
    return answered;
}

/* As JSON there is all. */
static bool look_at_all(struct top *top, json_t *seen) {
    bool wanted = top->view == VIEW_LINKS || top->view == VIEW_PEERS; /* then it may be refused */
    if (!look_into(top, seen, "session.show") || !look_into(top, seen, "user.show") ||
        (!wanted && !look_at_rights(top)))
        return false;
    return top->own_only || look_into(top, seen, "link.show");
}

/* NULL: it did not answer, which is said when the terminal is as it was. */
static json_t *look(struct top *top) {
    json_t *seen = json_object();
    if (cli.json ? look_at_all(top, seen) : look_into(top, seen, views[top->view].method))
        return seen;
    json_decref(seen);
    return NULL;
}

static bool look_first(struct top *top) {
    json_decref(top->before);
    json_decref(top->after);
    top->after = NULL;
    top->before = look(top);
    top->before_s = cli_now_s();
    return top->before;
}

static bool look_again(struct top *top) {
    if (top->after) {
        json_decref(top->before);
        top->before = top->after;
        top->before_s = top->after_s;
    }
    top->after = look(top);
    top->after_s = cli_now_s();
    return top->after;
}

/* The row of keys. Before them it says what the terminal has no room for, because that is news. */
static void draw_keys(const struct top *top, struct table_rest rest, unsigned width) {
    char line[256], more[128] = "", rows[40] = "", columns[40] = "";
    if (rest.rows)
        snprintf(rows, sizeof(rows), "%u row%s", rest.rows, rest.rows == 1 ? "" : "s");
    if (rest.columns)
        snprintf(columns, sizeof(columns), "%s%u column%s", rest.rows ? ", " : "", rest.columns,
                 rest.columns == 1 ? "" : "s");
    if (rest.rows || rest.columns)
        snprintf(more, sizeof(more), " (no room for %s%s)", rows, columns);
    snprintf(line, sizeof(line),
             "%s by %s%s   s sessions  u users  l links  e peers   b bytes  o ops  p p99  "
             "m memory  w queue   q quit",
             views[top->view].name, key_names[sort_key], more);
    printf("%.*s\n", (int)width, line);
}

/* With the row of keys, where there are some, no more than the terminal has room for. */
static void top_draw(const struct top *top, struct table *t) {
    if (!top->batch)
        screen_clear();
    if (top->keys) {
        unsigned rows, width;
        screen_size(&rows, &width);
        rows -= 2; /* that row, and the one in which the cursor ends */
        rows += !rows;
        draw_keys(top, table_fit(t, rows, width), width);
    }
    table_print(t);
    fflush(stdout);
}

static void show_json(const struct top *top, double span_s) {
    const json_t *before = top->before, *after = top->after;
    json_t *doc = json_pack("{s:o, s:o}", "sessions",
                            top_sessions_json(json_object_get(before, "sessions"),
                                              json_object_get(after, "sessions"), span_s, sort_key),
                            "users",
                            top_users_json(json_object_get(before, "users"),
                                           json_object_get(after, "users"), span_s, sort_key));
    json_object_set_new(doc, "links",
                        top->own_only ? json_null()
                                      : top_links_json(before, after, span_s, sort_key));
    json_object_set_new(doc, "peers",
                        top->own_only ? json_null()
                                      : top_peers_json(before, after, span_s, sort_key));
    cli_print_json(doc);
}

static struct table *view_table(const struct top *top, double span_s) {
    const json_t *before = top->before, *after = top->after;
    switch (top->view) {
    case VIEW_USERS:
        return top_users(json_object_get(before, "users"), json_object_get(after, "users"), span_s,
                         sort_key);
    case VIEW_LINKS:
        return top_links(before, after, span_s, sort_key);
    case VIEW_PEERS:
        return top_peers(before, after, span_s, sort_key);
    case VIEW_SESSIONS:
        break;
    }
    return top_sessions(json_object_get(before, "sessions"), json_object_get(after, "sessions"),
                        span_s, sort_key);
}

static void show(const struct top *top) {
    double span_s = top->after_s - top->before_s;
    if (top->after && cli.json)
        show_json(top, span_s);
    else
        top_draw(top, top->after ? view_table(top, span_s) : NULL);
}

/* ---- what happens -------------------------------------------------------------------------- */

enum next { NEXT_WAIT, NEXT_LOOK, NEXT_END, NEXT_FAILED };

static enum next set_view(struct top *top, enum view view) {
    bool other = strcmp(views[view].method, views[top->view].method) != 0;
    top->view = view;
    if (other && !look_first(top))
        return NEXT_FAILED;
    show(top);
    return NEXT_WAIT;
}

static enum next set_key(const struct top *top, enum sort_key key) {
    sort_key = key;
    show(top);
    return NEXT_WAIT;
}

/* Views and sort keys by their first letters, but for peers, as p is p99, and the queue: q quits.
 */
static enum next key_pressed(struct top *top, int key) {
    static const char by_view[] = "sule", by_key[] = "bopmw";
    const char *at;
    if (key == 'q' || key < 0)
        return NEXT_END;
    if (key && (at = strchr(by_view, key)))
        return set_view(top, (enum view)(at - by_view));
    if (key && (at = strchr(by_key, key)))
        return set_key(top, (enum sort_key)(at - by_key));
    return NEXT_WAIT;
}

/* Until the next look is due, or all is over. */
static enum next await(struct top *top, int signals) {
    enum next next = NEXT_WAIT;
    while (next == NEXT_WAIT) {
        double left_ms = ((top->after ? top->after_s : top->before_s) - cli_now_s()) * 1000 +
                         (double)top->interval_ms;
        struct pollfd wake[] = {{.fd = signals, .events = POLLIN},
                                {.fd = top->keys ? STDIN_FILENO : -1, .events = POLLIN}};
        int n = poll(wake, 2, left_ms > 0 ? (int)left_ms + 1 : 0);
        if (n == 0)
            next = NEXT_LOOK;
        else if (n > 0 && wake[0].revents && signals_take(signals))
            next = NEXT_END;
        else if (n > 0 && wake[1].revents)
            next = key_pressed(top, screen_key());
    }
    return next;
}

static int top_watch(struct top *top) {
    int signals = signals_catch();
    enum next next = look_first(top) ? NEXT_WAIT : NEXT_FAILED;
    if (next == NEXT_WAIT)
        top->keys = !top->batch && screen_begin();
    if (top->keys)
        show(top); /* the keys, while there is one look only */
    for (uint64_t shown = 0;
         next == NEXT_WAIT && !ferror(stdout) && (!top->count || shown < top->count); shown++) {
        next = await(top, signals);
        if (next != NEXT_LOOK)
            break;
        next = look_again(top) ? NEXT_WAIT : NEXT_FAILED;
        if (next == NEXT_WAIT)
            show(top);
    }
    screen_end();
    json_decref(top->before);
    json_decref(top->after);
    close(signals);
    if (next == NEXT_END && cli.json)
        return cli_fail("RDMAD_E_CANCELED", "interrupted before the second look");
    return next == NEXT_FAILED ? cli_fail(top->why.code, "%s", top->why.text) : EXIT_GOOD;
}

static bool take_sort_key(const char *name) {
    for (unsigned i = 0; i < sizeof(key_names) / sizeof(key_names[0]); i++) {
        if (strcmp(key_names[i], name) != 0)
            continue;
        sort_key = (enum sort_key)i;
        return true;
    }
    return false;
}

int cmd_top(const struct command *self, int argc, char **argv) {
    bool batch = false;
    bool by_user = false, by_links = false, by_peers = false;
    const char *sort = "bytes";
    uint64_t count = 0, interval_ms = 1000;
    const struct opt opts[] = {
        {"batch", 'b', OPT_FLAG, &batch, 0, 0, NULL, "plain text, for a pipe or a file"},
        {"count", 'n', OPT_COUNT, &count, 1, 1000000, "COUNT", "end after so many looks"},
        {"interval", 'i', OPT_TIME, &interval_ms, 100, 3600000, "TIME", "between looks (1s)"},
        {"sort", 's', OPT_TEXT, &sort, 0, 0, "KEY",
         "bytes, ops, p99, memory or queue: the most first"},
        {"users", 'u', OPT_FLAG, &by_user, 0, 0, NULL, "users, with all their sessions"},
        {"links", 'l', OPT_FLAG, &by_links, 0, 0, NULL, "links to peers"},
        {"peers", 'p', OPT_FLAG, &by_peers, 0, 0, NULL, "peers, with all links to each"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if (!take_sort_key(sort))
        return cli_usage_error("top sorts by bytes, ops, p99, memory or queue, not by \"%s\"",
                               sort);
    if (by_user + by_links + by_peers > 1)
        return cli_usage_error("top shows users (-u), links (-l) or peers (-p), one of them at a "
                               "time; -j has all");
    if (cli.json && count > 1)
        return cli_usage_error("-j is one JSON document, so one look: use -n 1");
    struct top top = {.count = cli.json ? 1 : count,
                      .interval_ms = interval_ms,
                      .view = by_links   ? VIEW_LINKS
                              : by_peers ? VIEW_PEERS
                              : by_user  ? VIEW_USERS
                                         : VIEW_SESSIONS,
                      .batch = batch || cli.json || !isatty(STDOUT_FILENO)};
    return top_watch(&top);
}
