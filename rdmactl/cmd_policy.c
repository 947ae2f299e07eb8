/* SPDX-License-Identifier: MIT */
/*
 * cmd_policy.c - policy show, limit show and set, session kick, pause and resume: who may do what,
 * and how much.
 */
#include "rdmactl/cli.h"
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_MAX 256

/* ---- policy show ------------------------------------------------------------------------- */

/* "a, b", a text, a number, yes or no. */
static void value_text(const json_t *value, char *buf, size_t size) {
    size_t i;
    json_t *one;
    buf[0] = '\0';
    if (json_is_boolean(value))
        snprintf(buf, size, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value))
        snprintf(buf, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_string(value))
        snprintf(buf, size, "%s", json_string_value(value));
    json_array_foreach(value, i, one) {
        size_t n = strlen(buf);
        snprintf(buf + n, size - n, "%s%s", n ? ", " : "", json_string_value(one));
    }
    if (!buf[0])
        snprintf(buf, size, "-");
}

static void policy_print_rows(const json_t *list, const char *const *keys, const char *const *heads,
                              unsigned columns) {
    struct table *t = table_new(columns);
    for (unsigned c = 0; c < columns; c++)
        table_cell(t, false, heads[c]);
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        for (unsigned c = 0; c < columns; c++) {
            char text[400], safe[400];
            value_text(json_object_get(row, keys[c]), text, sizeof(text));
            table_cell(t, false, cli_safe_text(safe, sizeof(safe), text));
        }
    }
    table_print(t);
}

/* The groups of a user as this machine has them, which the daemon does not ask for: "100,27". */
static void groups_of(uid_t uid, char *buf, size_t size) {
    const struct passwd *user = getpwuid(uid);
    gid_t gids[GROUPS_MAX];
    int count = GROUPS_MAX;
    buf[0] = '\0';
    if (!user || getgrouplist(user->pw_name, user->pw_gid, gids, &count) < 0)
        return;
    for (int i = 0; i < count; i++) {
        size_t n = strlen(buf);
        snprintf(buf + n, size - n, "%s%u", n ? "," : "", (unsigned)gids[i]);
    }
}

static int uid_of(const char *text, uint64_t *out) {
    return args_user(text, out)
               ? ARGS_RUN
               : cli_usage_error("\"%s\" is neither a user id nor a user's name", text);
}

int cmd_policy_show(const struct command *self, int argc, char **argv) {
    static const char *const keys[] = {"key", "value", "from"};
    static const char *const heads[] = {"KEY", "VALUE", "FROM"};
    const char *text = NULL, *socket = NULL;
    const struct opt opts[] = {
        {"socket", 's', OPT_TEXT, &socket, 0, 0, "TENANT", "as somebody who comes by its socket"},
        {0},
    };
    struct positionals pos = {.names = "UID", .min = 0, .max = 1, .values = &text};
    char groups[GROUPS_MAX * 11];
    uint64_t uid = getuid();
    int rc = args_parse(self, opts, &pos, argc, argv);
    if (rc != ARGS_RUN || (text && (rc = uid_of(text, &uid)) != ARGS_RUN))
        return rc;
    json_t *params = json_object();
    if (text) {
        json_object_set_new(params, "uid", json_integer((json_int_t)uid));
        groups_of((uid_t)uid, groups, sizeof(groups));
        if (uid != getuid() && groups[0])
            json_object_set_new(params, "gids", json_string(groups));
    }
    if (socket)
        json_object_set_new(params, "socket", json_string(socket));
    json_t *result = daemon_call("policy.show", params, PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    printf("uid %.0f\n", cli_number(result, "uid"));
    policy_print_rows(json_object_get(result, "policy"), keys, heads, 3);
    json_decref(result);
    return EXIT_GOOD;
}

/* ---- limits ------------------------------------------------------------------------------ */

static const char *const limit_keys[] = {"who", "key", "value", "used", "from"};
static const char *const limit_heads[] = {"WHO", "LIMIT", "VALUE", "USED", "FROM"};

/* What of it this daemon cannot hold. */
static void print_note(const json_t *result) {
    const char *note = json_string_value(json_object_get(result, "note"));
    if (note)
        printf("note: %s\n", note);
}

static int show_limits(const struct listing *l) {
    json_t *result = daemon_call("limit.show", l->of ? json_pack("{s:s}", "who", l->of) : NULL,
                                 PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    int code = listing_filter(l, json_object_get(result, "limits"));
    if (code) {
        json_decref(result);
        return code;
    }
    if (cli.json)
        return cli_print_json(result);
    listing_begin();
    policy_print_rows(json_object_get(result, "limits"), limit_keys, limit_heads, 5);
    print_note(result);
    json_decref(result);
    return EXIT_GOOD;
}

int cmd_limit_show(const struct command *self, int argc, char **argv) {
    struct listing l = {.object = self->object};
    const struct opt opts[] = {LISTING_OPTS(&l), {0}};
    struct positionals pos = {
        .names = "uid:N[@TENANT]|peer:NAME", .min = 0, .max = 1, .values = &l.of};
    int rc = args_parse(self, opts, &pos, argc, argv);
    return rc == ARGS_RUN ? listing_show(&l, show_limits) : rc;
}

/* KEY=VALUE, where the value may have a suffix as sizes have. Appends to sets. */
static int add_set(const char *word, char *sets, size_t size) {
    const char *equals = strchr(word, '=');
    uint64_t number = 0;
    size_t n = strlen(sets);
    if (!equals || equals == word || strchr(word, ' '))
        return cli_usage_error("\"%s\" is not KEY=VALUE", word);
    bool minus = equals[1] == '-';
    if (!args_bytes(equals + 1 + minus, &number) || number > INT64_MAX)
        return cli_usage_error("\"%s\": the value must be a number, 4096, 64K, 1M or 2G", word);
    int more = snprintf(sets + n, size - n, "%s%.*s=%s%" PRIu64, n ? " " : "", (int)(equals - word),
                        word, minus ? "-" : "", number);
    if (more < 0 || (size_t)more >= size - n)
        return cli_usage_error("too much is set at a time");
    return ARGS_RUN;
}

int cmd_limit_set(const struct command *self, int argc, char **argv) {
    const char *words[34] = {NULL};
    char sets[2000] = "";
    struct positionals pos = {
        .names = "uid:N[@TENANT]|peer:NAME KEY=VALUE...", .min = 2, .max = 33, .values = words};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    for (unsigned i = 1; rc == ARGS_RUN && i < pos.count; i++)
        rc = add_set(words[i], sets, sizeof(sets));
    if (rc != ARGS_RUN)
        return rc;
    json_t *params = json_pack("{s:s, s:s}", "who", words[0], "set", sets);
    json_t *result = daemon_call("limit.set", params, PATIENCE_ACT_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    printf("%s: set until rdmad ends; a rule in its configuration (\"policy\") lasts longer\n",
           words[0]);
    print_note(result);
    json_decref(result);
    return EXIT_GOOD;
}

/* ---- sessions ---------------------------------------------------------------------------- */

/* What kick, pause and resume have in common; takes_why: --why is known. */
static int session_act(const struct command *self, int argc, char **argv, bool takes_why,
                       const char *method, const char *done) {
    const char *text = NULL, *why = NULL;
    const struct opt opts[] = {
        {"why", 'w', OPT_TEXT, &why, 0, 0, "TEXT", "what its program is told"},
        {0},
    };
    struct positionals pos = {.names = "ID", .min = 1, .max = 1, .values = &text};
    uint64_t id;
    int rc = args_parse(self, takes_why ? opts : NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    if (!args_count(text, &id) || id > INT64_MAX)
        return cli_usage_error("\"%s\" is not a session's number; session show lists them", text);
    json_t *params = json_pack("{s:I}", "id", (json_int_t)id);
    if (why)
        json_object_set_new(params, "why", json_string(why));
    json_t *result = daemon_call(method, params, PATIENCE_ACT_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    json_decref(result);
    printf("session %" PRIu64 " %s\n", id, done);
    return EXIT_GOOD;
}

int cmd_session_kick(const struct command *self, int argc, char **argv) {
    return session_act(self, argc, argv, true, "session.kick", "ends");
}

int cmd_session_pause(const struct command *self, int argc, char **argv) {
    return session_act(self, argc, argv, true, "session.pause",
                       "is paused: nothing is taken from its rings until session resume");
}

int cmd_session_resume(const struct command *self, int argc, char **argv) {
    return session_act(self, argc, argv, false, "session.resume", "goes on");
}
