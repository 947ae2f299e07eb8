/* SPDX-License-Identifier: MIT */
/*
 * args.c - options from a table, with errors that say what was wrong and what is right.
 *
 * The global options are allowed everywhere, as people type them last as often as first.
 */
#include "rdmactl/cli.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MIN_MS 1
#define TIMEOUT_MAX_MS (UINT64_C(24) * 3600000)

static bool help_wanted;

static const struct opt global_opts[] = {
    {"dir", 'd', OPT_PATH, &cli.dir, 0, 0, "DIR", "the daemon's runtime directory"},
    {"timeout", 0, OPT_TIME, &cli.timeout_ms, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS, "SECONDS",
     "how long an answer of the daemon may take"},
    {"json", 'j', OPT_FLAG, &cli.json, 0, 0, NULL, "one JSON document on standard output"},
    {"help", 'h', OPT_FLAG, &help_wanted, 0, 0, NULL, "this text"},
    {0},
};

bool args_count(const char *text, uint64_t *out) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    *out = n;
    return !errno && !*end;
}

/* A number and one of the suffixes. */
static bool parse_suffixed(const char *text, const char *const *suffix, const uint64_t *factor,
                           uint64_t *out) {
    size_t digits = strspn(text, "0123456789");
    char number[24];
    if (digits >= sizeof(number))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    uint64_t n;
    if (!args_count(number, &n))
        return false;
    for (unsigned i = 0; suffix[i]; i++)
        if (!strcmp(text + digits, suffix[i]))
            return !__builtin_mul_overflow(n, factor[i], out);
    return false;
}

bool args_bytes(const char *text, uint64_t *out) {
    static const char *const suffix[] = {"", "K", "M", "G", "k", "KiB", "MiB", "GiB", NULL};
    static const uint64_t factor[] = {1,       1 << 10, 1 << 20, 1 << 30,
                                      1 << 10, 1 << 10, 1 << 20, 1 << 30};
    return parse_suffixed(text, suffix, factor, out);
}

bool args_time_ms(const char *text, uint64_t *out) {
    static const char *const suffix[] = {"ms", "s", "", "m", "h", NULL};
    static const uint64_t factor[] = {1, 1000, 1000, 60000, 3600000};
    return parse_suffixed(text, suffix, factor, out);
}

bool args_user(const char *text, uint64_t *uid) {
    if (args_count(text, uid))
        return *uid < UINT32_MAX;
    const struct passwd *user = getpwnam(text);
    if (user)
        *uid = user->pw_uid;
    return user != NULL;
}

static void option_text(const struct opt *o, char *buf, size_t size) {
    char letter[4] = {'-', o->letter, '\0'};
    snprintf(buf, size, "%s%s--%s%s%s", o->letter ? letter : "  ", o->letter ? ", " : "  ", o->name,
             o->arg ? " " : "", o->arg ? o->arg : "");
}

static void print_options(const struct opt *opts) {
    for (; opts->name; opts++) {
        char text[64];
        option_text(opts, text, sizeof(text));
        printf("  %-24s %s\n", text, opts->help);
    }
}

static int print_help(const struct command *self, const struct opt *opts) {
    printf("Usage: rdmactl [-d DIR] [-j] %s%s%s %s\n%s\n", self->object, self->verb ? " " : "",
           self->verb ? self->verb : "", self->arguments, self->help);
    printf("\nOptions:\n");
    if (opts)
        print_options(opts);
    print_options(global_opts);
    return EXIT_GOOD;
}

static const struct opt *find_in(const struct opt *opts, const char *word, size_t length) {
    for (; opts && opts->name; opts++) {
        if (word[1] != '-'
                ? opts->letter == word[1]
                : strlen(opts->name) == length - 2 && !strncmp(opts->name, word + 2, length - 2))
            return opts;
    }
    return NULL;
}

bool args_is_json(const char *word) {
    return !strcmp(word, "-j") || !strcmp(word, "--json");
}

static bool is_utf8(const char *text) {
    json_t *s = json_string(text);
    json_decref(s);
    return s != NULL;
}

static int store(const struct opt *o, const char *word, const char *value) {
    uint64_t *number = o->to;
    bool good = true;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->to = true;
        return ARGS_RUN;
    case OPT_TEXT:
        if (!is_utf8(value))
            return cli_usage_error("%s: \"%s\" is not UTF-8", word, value);
        /* fallthrough */
    case OPT_PATH:
        *(const char **)o->to = value;
        return ARGS_RUN;
    case OPT_COUNT:
        good = args_count(value, number);
        break;
    case OPT_BYTES:
        good = args_bytes(value, number);
        break;
    case OPT_TIME:
        good = args_time_ms(value, number);
        break;
    }
    const char *form = o->kind == OPT_COUNT   ? "a whole number"
                       : o->kind == OPT_BYTES ? "a size like 4096, 64K, 1M or 2G"
                                              : "a time like 500ms, 2s, 5m or 1h";
    if (!good)
        return cli_usage_error("%s: \"%s\" is not %s", word, value, form);
    if (*number < o->min || *number > o->max)
        return cli_usage_error("%s: %s is out of range, %" PRIu64 " to %" PRIu64 "%s are allowed",
                               word, value, o->min, o->max, o->kind == OPT_TIME ? " ms" : "");
    return ARGS_RUN;
}

int args_timeout(const char *text) {
    const struct opt *o = global_opts;
    while (o->to != &cli.timeout_ms)
        o++;
    return store(o, "--timeout", text);
}

/* One option at argv[*i], with its value in the same word or the next. */
static int take_option(const struct command *self, const struct opt *opts, int argc, char **argv,
                       int *i) {
    const char *word = argv[*i];
    bool is_long = word[1] == '-';
    size_t length = is_long ? strcspn(word, "=") : 2;
    const struct opt *o = find_in(opts, word, length);
    if (!o)
        o = find_in(global_opts, word, length);
    if (!o)
        return cli_usage_error("unknown option %.*s; rdmactl %s%s%s --help lists them", (int)length,
                               word, self->object, self->verb ? " " : "",
                               self->verb ? self->verb : "");
    const char *attached = word[length] == '=' && is_long ? word + length + 1
                           : word[length]                 ? word + length
                                                          : NULL;
    char name[64];
    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    if (o->kind == OPT_FLAG)
        return attached ? cli_usage_error("%s takes no value", name) : store(o, name, NULL);
    if (!attached && (*i + 1 >= argc || args_is_json(argv[*i + 1])))
        return cli_usage_error("%s needs a value: %s", name, o->arg);
    return store(o, name, attached ? attached : argv[++*i]);
}

int args_parse(const struct command *self, const struct opt *opts, struct positionals *pos,
               int argc, char **argv) {
    bool only_words = false;
    struct positionals none = {.names = ""};
    if (!pos)
        pos = &none;
    for (int i = 0; i < argc; i++) {
        if (!only_words && !strcmp(argv[i], "--")) {
            only_words = true;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            int rc = take_option(self, opts, argc, argv, &i);
            if (rc != ARGS_RUN)
                return rc;
        } else if (pos->count == pos->max) {
            return cli_usage_error("unexpected argument \"%s\"; usage: rdmactl %s%s%s %s", argv[i],
                                   self->object, self->verb ? " " : "",
                                   self->verb ? self->verb : "", self->arguments);
        } else if (!pos->paths && !is_utf8(argv[i])) {
            return cli_usage_error("\"%s\" is not UTF-8", argv[i]);
        } else {
            pos->values[pos->count++] = argv[i];
        }
    }
    if (help_wanted)
        return print_help(self, opts);
    if (pos->count < pos->min)
        return cli_usage_error("%s is missing; usage: rdmactl %s%s%s %s", pos->names, self->object,
                               self->verb ? " " : "", self->verb ? self->verb : "",
                               self->arguments);
    return ARGS_RUN;
}
