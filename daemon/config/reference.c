/* SPDX-License-Identifier: MIT */
/*
 * reference.c - the table as a configuration file that sets every key to its default.
 */
#include "daemon/config/schema.h"
#include <inttypes.h>
#include <string.h>

#define WIDTH 100

/* Prints words as comment lines no wider than WIDTH. */
static void print_comment(FILE *out, const char *indent, const char *words) {
    size_t column = 0;
    while (*words) {
        size_t n = strcspn(words, " ");
        if (column && column + 1 + n > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        if (column)
            column += (size_t)fprintf(out, " %.*s", (int)n, words);
        else
            column = (size_t)fprintf(out, "%s// %.*s", indent, (int)n, words);
        words += n;
        words += strspn(words, " ");
    }
    fputc('\n', out);
}

static void print_default(FILE *out, const struct setting *s) {
    if (s->type == SETTING_TEXT)
        fprintf(out, "\"%s\"", s->text);
    else if (s->type == SETTING_BOOL)
        fputs(s->number ? "true" : "false", out);
    else
        fprintf(out, "%" PRIu64, s->number);
}

static void print_setting(FILE *out, const struct setting *s, const char *indent,
                          const char *name) {
    char words[1024], range[128] = "";
    if (s->type == SETTING_NUMBER)
        snprintf(range, sizeof(range), " From %" PRIu64 " to %" PRIu64 "%s%s.", s->min, s->max,
                 *s->unit ? " " : "", s->unit);
    snprintf(words, sizeof(words), "%s%s%s", s->help, range,
             s->restart ? " (Needs a restart.)" : "");
    print_comment(out, indent, words);
    fprintf(out, "%s\"%s\": ", indent, name);
    print_default(out, s);
}

/* The sections that are lists: what may be in them, and nothing in them. */
static void print_rules(FILE *out) {
    print_comment(
        out, "    ",
        "Who may do what, as rdmad.json(5) describes under POLICY. A rule for users has a "
        "match (uid or user, gid or group, socket), and sets what it is to decide: "
        "connect, admin, huge_pages, scopes, grant_rights, attach_rights, names, "
        "services, peers, weight, bytes_per_second, ops_per_second, priority, limits. One "
        "for peers matches a name and sets dials, dialled, attach, names, "
        "registered_bytes, attaches, notifications, channels, connections, "
        "messages_per_second, questions_per_second and the same share. Of the rules that match, "
        "the last that sets a key decides it.");
    fputs("    \"policy\": {\n        \"users\": [],\n        \"peers\": []\n    },\n\n", out);
    print_comment(out, "    ",
                  "More sockets for clients, one a tenant, to be mounted into containers: tenant, "
                  "path, user or uid, group or gid, mode. (Needs a restart.)");
    fputs("    \"sockets\": []\n}\n", out);
}

void config_print_reference(FILE *out) {
    char section[64] = "";
    print_comment(out, "",
                  "rdmad.json - every setting of rdmad with its default. Comments start "
                  "with // or #. A file needs only the keys that it changes; the files "
                  "of rdmad.json.d/ that end in .json follow in order of name. What does "
                  "not need a restart is read again on SIGHUP.");
    fputs("{\n", out);
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *s = &settings[i];
        const char *dot = strchr(s->key, '.');
        size_t n = dot ? (size_t)(dot - s->key) : 0;
        bool same = n == strlen(section) && !strncmp(section, s->key, n);
        if (!same && *section)
            fputs("\n    }", out);
        if (i)
            fputs(",\n\n", out);
        if (!same) {
            snprintf(section, sizeof(section), "%.*s", (int)n, s->key);
            if (n)
                fprintf(out, "    \"%s\": {\n", section);
        }
        print_setting(out, s, n ? "        " : "    ", dot ? dot + 1 : s->key);
    }
    fputs(*section ? "\n    },\n\n" : ",\n\n", out);
    print_rules(out);
}
