/* SPDX-License-Identifier: MIT */
/*
 * cmd_events.c - events and why: what the daemon remembers, a line an event.
 */
#include "rdmactl/cli.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLLOW_MS 500

/* Which events are shown; NULL: all. */
struct event_filter {
    const char *kinds; /* "link,peer" */
    const char *of;    /* "session:3", "session", "uid:1000", "peer:NAME" */
    double since_s;    /* none that is older; 0: of any age */
};

/* As in rdmad(8); a daemon that is newer may have others. */
static const char all_kinds[] =
    "admitted,refused,granted,attached,revoked,throttled,violated,admin,attach,channel,daemon,"
    "device,lease,link,op,peer,session,settings,thread";
static const char all_things[] = "session,lease,attach,link,peer,channel,op,uid";

static bool is_in(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, word, length))
            return true;
    return false;
}

/* As a word of its own. */
static bool names(const char *text, const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at++)
        if ((at == text || !strchr(letters, at[-1])) &&
            !(at[length] && strchr(letters, at[length])))
            return true;
    return false;
}

/* Its node is named only if it has proven who it is; else the sentence says what it calls itself.
 */
static bool is_of_node(const json_t *e, const char *name) {
    const char *node = json_string_value(json_object_get(e, "peer"));
    const char *object = json_string_value(json_object_get(e, "object"));
    const char *text = json_string_value(json_object_get(e, "text"));
    if (node)
        return !strcmp(node, name);
    return object && text &&
           (!strcmp(object, "peer") || !strcmp(object, "link") || !strcmp(object, "op")) &&
           names(text, name);
}

/* Beyond 2^63 it is digits. */
static uint64_t id_of(const json_t *e) {
    const json_t *id = json_object_get(e, "id");
    return json_is_string(id) ? strtoull(json_string_value(id), NULL, 10)
                              : (uint64_t)json_integer_value(id);
}

/* A user's, or a node's, is by whose doing it was, anything else by what it happened to. */
static bool is_of(const json_t *e, const char *of) {
    const size_t kind = strcspn(of, ":");
    const char *which = of[kind] ? of + kind + 1 : NULL;
    const char *object = json_string_value(json_object_get(e, "object"));
    const json_t *uid = json_object_get(e, "uid");
    uint64_t id = 0;
    bool numbered = which && args_count(which, &id);
    if (kind == 3 && !strncmp(of, "uid", 3))
        return json_is_integer(uid) && (!which || (uint64_t)json_integer_value(uid) == id);
    if (kind == 4 && !strncmp(of, "peer", 4) && which && !numbered)
        return is_of_node(e, which);
    if (kind == 7 && !strncmp(of, "session", 7) && which &&
        (uint64_t)json_integer_value(json_object_get(e, "session")) == id)
        return true;
    return object && strlen(object) == kind && !strncmp(of, object, kind) &&
           (!which || id_of(e) == id);
}

static bool event_fits(const json_t *e, const struct event_filter *f) {
    return (!f->kinds || is_in(f->kinds, json_string_value(json_object_get(e, "what")))) &&
           (!f->of || is_of(e, f->of)) && (!f->since_s || cli_number(e, "ago_s") < f->since_s);
}

/* Each of words is one of all, or some event has it at key. */
static int check_words(const char *option, const char *words, const char *all, const json_t *list,
                       const char *key) {
    char word[64], there_are[256];
    for (const char *at = words; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, ","), at);
        bool known = is_in(all, word);
        for (size_t i = 0; !known && i < json_array_size(list); i++) {
            const json_t *has = json_object_get(json_array_get(list, i), key);
            known = json_is_string(has) && !strcmp(json_string_value(has), word);
        }
        if (known)
            continue;
        size_t n = 0;
        for (const char *c = all; *c && n + 2 < sizeof(there_are); c++) {
            there_are[n++] = *c;
            if (*c == ',')
                there_are[n++] = ' ';
        }
        there_are[n] = '\0';
        return cli_usage_error("%s: there is no %s; there are %s", option, word, there_are);
    }
    return EXIT_GOOD;
}

static int check_names(const struct event_filter *f, const json_t *list) {
    char thing[64];
    int code = f->kinds ? check_words("--kind", f->kinds, all_kinds, list, "what") : EXIT_GOOD;
    if (code || !f->of)
        return code;
    snprintf(thing, sizeof(thing), "%.*s", (int)strcspn(f->of, ":"), f->of);
    return check_words("--of", thing, all_things, list, "object");
}

/* Of anything but a peer only a number says which. */
static int check_filter(const struct event_filter *f) {
    uint64_t id;
    const char *colon = f->of ? strchr(f->of, ':') : NULL;
    if (f->of && (f->of[0] == ':' || !f->of[0] || (colon && !colon[1])))
        return cli_usage_error("--of: \"%s\" is not session, session:ID, uid:UID, peer:NAME or the "
                               "like",
                               f->of);
    if (colon && strncmp(f->of, "peer:", 5) != 0 && !args_count(colon + 1, &id))
        return cli_usage_error("--of: \"%s\" is no number; the show verbs list them", colon + 1);
    return ARGS_RUN;
}

static void print_event(const json_t *e) {
    char when[32] = "?", text[1100], who[100] = "";
    time_t at = (time_t)cli_number(e, "time");
    struct tm tm;
    const char *peer = json_string_value(json_object_get(e, "peer"));
    const char *tenant = json_string_value(json_object_get(e, "tenant"));
    if (localtime_r(&at, &tm))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
    if (json_is_number(json_object_get(e, "uid")))
        snprintf(who, sizeof(who), " (uid %.0f%s%.64s)", cli_number(e, "uid"), tenant ? "@" : "",
                 tenant ? tenant : "");
    else if (peer)
        snprintf(who, sizeof(who), " (%.64s)", peer);
    const char *said = json_string_value(json_object_get(e, "text"));
    printf("%s  %s %s%s: %s\n", when, json_string_value(json_object_get(e, "what")),
           json_string_value(json_object_get(e, "cause")), who,
           cli_safe_text(text, sizeof(text), said ? said : "?"));
}

/* Those that fit. Returns the number of the last of all. */
static json_int_t print_events(const json_t *list, const struct event_filter *f, json_int_t last) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row) {
        if (event_fits(row, f))
            print_event(row);
        last = json_integer_value(json_object_get(row, "number"));
    }
    fflush(stdout);
    return last;
}

/* How far events were followed. Their numbers are of one life of the daemon. */
struct followed {
    json_int_t life, last;
};

/* Whoever is hung up on by a daemon that is upgraded asks the next, which answers there. */
static json_t *ask_after(json_int_t last) {
    struct failure why;
    json_t *result = NULL;
    for (unsigned tries = 0; !result && tries < 2; tries++) {
        result = daemon_try("events", json_pack("{s:I}", "after", last), PATIENCE_LOOK_MS, &why);
        if (!result && strcmp(why.code, "RDMAD_E_DAEMON_LOST") != 0)
            break;
    }
    if (!result)
        cli_fail(why.code, "%s", why.text);
    return result;
}

/* What came since the last look; of a next life all that it remembers. NULL: no daemon answers. */
static json_t *ask_on(struct followed *at) {
    for (;;) {
        json_t *result = ask_after(at->last);
        json_int_t life = json_integer_value(json_object_get(result, "life"));
        if (!result || life == at->life)
            return result;
        json_decref(result);
        *at = (struct followed){.life = life};
    }
}

/* Until a signal comes, no daemon answers or nobody takes what is printed, which main tells. */
static int follow(const struct event_filter *f, struct followed at) {
    int signals = signals_catch();
    int code = EXIT_GOOD;
    while (!ferror(stdout)) {
        struct pollfd wake = {.fd = signals, .events = POLLIN};
        if (poll(&wake, 1, FOLLOW_MS) && signals_take(signals))
            break;
        json_t *result = ask_on(&at);
        if (!result) {
            code = EXIT_FAILED;
            break;
        }
        at.last = print_events(json_object_get(result, "events"), f, at.last);
        json_decref(result);
    }
    close(signals);
    return code;
}

int cmd_events(const struct command *self, int argc, char **argv) {
    bool on = false;
    uint64_t since_ms = 0;
    struct event_filter f = {.kinds = NULL};
    const struct opt opts[] = {
        {"follow", 'f', OPT_FLAG, &on, 0, 0, NULL, "go on with what happens, until interrupted"},
        {"since", 's', OPT_TIME, &since_ms, 1000, UINT64_C(1) << 41, "TIME", "not before, as 1h"},
        {"kind", 'k', OPT_TEXT, &f.kinds, 0, 0, "KINDS", "only those, as link,refused"},
        {"of", 'o', OPT_TEXT, &f.of, 0, 0, "THING[:ID]",
         "only what happened to it, as session:3; or of uid:UID, peer:NAME"},
        {0},
    };
    int rc = args_parse(self, opts, NULL, argc, argv);
    if (rc == ARGS_RUN)
        rc = check_filter(&f);
    if (rc != ARGS_RUN)
        return rc;
    if (cli.json && on)
        return cli_usage_error("-j is one JSON document, so there is nothing to follow");
    f.since_s = (double)since_ms / 1e3;
    /* All are asked for, that the last one's number is known from which to follow. */
    json_t *result = daemon_call("events", NULL, PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    json_t *list = json_object_get(result, "events");
    rc = check_names(&f, list);
    if (rc) {
        json_decref(result);
        return rc;
    }
    for (size_t i = json_array_size(list); cli.json && i-- > 0;)
        if (!event_fits(json_array_get(list, i), &f))
            json_array_remove(list, i);
    if (cli.json)
        return cli_print_json(result);
    const struct followed at = {.life = json_integer_value(json_object_get(result, "life")),
                                .last = print_events(list, &f, 0)};
    json_decref(result);
    f.since_s = 0; /* what comes is new, however late it is looked at */
    return on ? follow(&f, at) : EXIT_GOOD;
}

int cmd_why(const struct command *self, int argc, char **argv) {
    const char *values[2] = {NULL, NULL};
    struct positionals pos = {.names = "OBJECT ID", .min = 2, .max = 2, .values = values};
    int rc = args_parse(self, NULL, &pos, argc, argv);
    if (rc != ARGS_RUN)
        return rc;
    uint64_t id;
    if (!args_count(values[1], &id))
        return cli_usage_error("\"%s\" is no number; the show verbs list them", values[1]);
    /* Of an op it may have all 64 bits, more than an integer of JSON has here. */
    json_t *number = id <= INT64_MAX ? json_integer((json_int_t)id) : json_string(values[1]);
    json_t *result = daemon_call("why", json_pack("{s:s, s:o}", "object", values[0], "id", number),
                                 PATIENCE_LOOK_MS);
    if (!result)
        return EXIT_FAILED;
    if (cli.json)
        return cli_print_json(result);
    size_t i;
    json_t *sentence;
    json_array_foreach(json_object_get(result, "now"), i, sentence) {
        char text[1100];
        printf("now  %s\n", cli_safe_text(text, sizeof(text), json_string_value(sentence)));
    }
    if (json_is_true(json_object_get(result, "truncated")))
        printf("(this is cut here, there is more; why session ID tells of one session)\n");
    print_events(json_object_get(result, "events"), &(struct event_filter){.kinds = NULL}, 0);
    const char *next = json_string_value(json_object_get(result, "next"));
    if (next)
        printf("->   %s\n", next);
    json_decref(result);
    return EXIT_GOOD;
}
