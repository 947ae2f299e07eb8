/* SPDX-License-Identifier: MIT */
/*
 * place.c - sentences about what is wrong in a file, each with its place.
 */
#include "daemon/config/place.h"
#include <stdio.h>

const char *parse_place(const struct parse *p, size_t at, char *buf, size_t size) {
    size_t line, column;
    text_line(&p->text, at, &line, &column);
    snprintf(buf, size, "%s:%zu:%zu", p->name, line, column);
    return buf;
}

/* What the file says may be shown on a terminal: no control bytes. */
int parse_fail_at(const struct parse *p, size_t at, const char *sentence) {
    char place[RDMAD_TEXT_MAX + 1];
    error_set(p->err, RDMAD_E_CONFIG, "%s: %s", parse_place(p, at, place, sizeof(place)), sentence);
    if (p->err)
        for (char *c = p->err->text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                *c = '?';
    return RDMAD_E_CONFIG;
}

int parse_fail_key(const struct parse *p, const struct text_path *path, const char *sentence) {
    return parse_fail_at(p, text_locate(&p->text, path, true), sentence);
}

int parse_fail_value(const struct parse *p, const struct text_path *path, const char *sentence) {
    return parse_fail_at(p, text_locate(&p->text, path, false), sentence);
}

static const char *type_of(const json_t *value) {
    static const char *const name[] = {
        "an object", "an array", "a text", "an integer", "a number with a fraction",
        "true",      "false",    "null"};
    return name[json_typeof(value)];
}

int parse_wrong_type(const struct parse *p, const struct text_path *path, const char *what,
                     const char *want, const json_t *value) {
    struct error e;
    error_set(&e, RDMAD_E_CONFIG, "%.100s must be %s, this is %s", what, want, type_of(value));
    return parse_fail_value(p, path, e.text);
}
