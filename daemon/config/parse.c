/* SPDX-License-Identifier: MIT */
/*
 * parse.c - from text to settings.
 *
 * Comments are overwritten by blanks, so that jansson reports true lines and columns. Then every
 * key of the tree is looked up in the table. jansson keeps no positions; when a key or its value is
 * wrong, the text (known to be well-formed by then) is scanned once more for where it stands.
 */
#include "daemon/config/schema.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct spot {            /* in the tree */
    const char *section; /* "": none */
    const char *key;
    char path[128]; /* "section.key" */
};

struct parse {
    const char *name, *text; /* the file, and its text without comments */
    size_t size;
    struct config *config;
    struct config_places *places; /* NULL: nobody asks */
    struct error *err;
};

static void blank_comments(char *text, size_t size) {
    bool in_string = false, in_comment = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            in_string = in_comment = false; /* JSON strings end on their line */
        } else if (in_comment) {
            text[i] = ' ';
        } else if (in_string) {
            if (text[i] == '\\' && i + 1 < size && text[i + 1] != '\n')
                i++;
            else if (text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '#' || (text[i] == '/' && i + 1 < size && text[i + 1] == '/')) {
            text[i] = ' ';
            in_comment = true;
        }
    }
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_spaces(const struct parse *p, size_t i) {
    while (i < p->size && is_space(p->text[i]))
        i++;
    return i;
}

/* The end of the string that starts at i. */
static size_t skip_string(const struct parse *p, size_t i) {
    for (i++; i < p->size && p->text[i] != '"'; i++)
        if (p->text[i] == '\\')
            i++;
    return i < p->size ? i + 1 : p->size;
}

/* Whether the string token text[from..to) reads word once its escapes are resolved. */
static bool token_is(const struct parse *p, size_t from, size_t to, const char *word) {
    json_t *token = json_loadb(p->text + from, to - from, JSON_DECODE_ANY, NULL);
    bool same = token && !strcmp(json_string_value(token), word);
    json_decref(token);
    return same;
}

/* Where the value of a key stands, or with want_key the key itself. */
static size_t locate(const struct parse *p, const struct spot *spot, bool want_key) {
    const char *word = *spot->section ? spot->section : spot->key;
    size_t depth = 0, inside = 1; /* objects open here; the one that word must be in */
    for (size_t i = 0; i < p->size;) {
        char c = p->text[i];
        if (c != '"') {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            i++;
            continue;
        }
        size_t end = skip_string(p, i), after = skip_spaces(p, end);
        bool is_key = after < p->size && p->text[after] == ':';
        if (is_key && depth == inside && token_is(p, i, end, word)) {
            if (word == spot->key)
                return want_key ? i : skip_spaces(p, after + 1);
            word = spot->key;
            inside++;
        }
        i = end;
    }
    return 0;
}

/* "FILE:LINE:COLUMN" */
static const char *parse_place(const struct parse *p, size_t at, char *buf, size_t size) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = p->text[i] == '\n' ? 1 : column + 1;
        line += p->text[i] == '\n';
    }
    snprintf(buf, size, "%s:%zu:%zu", p->name, line, column);
    return buf;
}

/* What the file says may be shown on a terminal: no control bytes. */
static int fail_at(const struct parse *p, size_t at, const char *sentence) {
    char place[RDMAD_TEXT_MAX + 1];
    error_set(p->err, RDMAD_E_CONFIG, "%s: %s", parse_place(p, at, place, sizeof(place)), sentence);
    if (p->err)
        for (char *c = p->err->text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7f)
                *c = '?';
    return RDMAD_E_CONFIG;
}

static int fail_key(const struct parse *p, const struct spot *spot, const char *sentence) {
    return fail_at(p, locate(p, spot, true), sentence);
}

static int fail_value(const struct parse *p, const struct spot *spot, const char *sentence) {
    return fail_at(p, locate(p, spot, false), sentence);
}

static const char *type_of(const json_t *value) {
    static const char *const name[] = {
        "an object", "an array", "a text", "an integer", "a number with a fraction",
        "true",      "false",    "null"};
    return name[json_typeof(value)];
}

static int wrong_type(const struct parse *p, const struct spot *spot, const char *want,
                      const json_t *value) {
    struct error e;
    error_set(&e, RDMAD_E_CONFIG, "%.100s must be %s, this is %s", spot->path, want,
              type_of(value));
    return fail_value(p, spot, e.text);
}

static int unknown_key(const struct parse *p, const struct spot *spot) {
    struct error e;
    const char *near = setting_nearest(spot->path), *dot = strchr(spot->key, '.');
    if (dot && setting_find(spot->key))
        error_set(&e, RDMAD_E_CONFIG, "unknown key \"%s\"; write \"%.*s\": {\"%s\": ...}",
                  spot->key, (int)(dot - spot->key), spot->key, dot + 1);
    else if (near)
        error_set(&e, RDMAD_E_CONFIG, "unknown key \"%.80s\", did you mean \"%s\"?", spot->path,
                  near);
    else
        error_set(&e, RDMAD_E_CONFIG,
                  "unknown key \"%.80s\"; rdmad --print-config-reference lists them all",
                  spot->path);
    return fail_key(p, spot, e.text);
}

static int apply_number(const struct parse *p, const struct spot *spot, const struct setting *s,
                        const json_t *value) {
    struct error e;
    if (!json_is_integer(value))
        return wrong_type(p, spot, "an integer", value);
    json_int_t n = json_integer_value(value);
    if (n < 0)
        setting_number_error(s, n, &e);
    else if (!setting_store_number(s, p->config, (uint64_t)n, &e))
        return 0;
    return fail_value(p, spot, e.text);
}

static int apply_text(const struct parse *p, const struct spot *spot, const struct setting *s,
                      const json_t *value) {
    struct error e;
    if (!json_is_string(value))
        return wrong_type(p, spot, "a text", value);
    if (setting_store_text(s, p->config, json_string_value(value), &e))
        return fail_value(p, spot, e.text);
    return 0;
}

static int apply(const struct parse *p, const struct spot *spot, const json_t *value) {
    const struct setting *s = strchr(spot->key, '.') ? NULL : setting_find(spot->path);
    if (!s)
        return unknown_key(p, spot);
    if (p->places) {
        char place[sizeof(p->places->at[0])];
        config_place(p->places, s, parse_place(p, locate(p, spot, false), place, sizeof(place)));
    }
    if (s->type == SETTING_NUMBER)
        return apply_number(p, spot, s, value);
    if (s->type == SETTING_TEXT)
        return apply_text(p, spot, s, value);
    if (!json_is_boolean(value))
        return wrong_type(p, spot, "true or false", value);
    *setting_bool(s, p->config) = json_is_true(value);
    return 0;
}

static struct spot spot_of(const char *section, const char *key) {
    struct spot spot = {.section = section, .key = key};
    snprintf(spot.path, sizeof(spot.path), "%s%s%s", section, *section ? "." : "", key);
    return spot; /* a path cut short is no known key either */
}

static int apply_section(const struct parse *p, const char *section, json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        struct spot spot = spot_of(section, key);
        if (apply(p, &spot, value))
            return RDMAD_E_CONFIG;
    }
    return 0;
}

static int apply_root(const struct parse *p, json_t *root) {
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        return fail_at(p, 0, "the file must hold one object, { ... }");
    json_object_foreach(root, key, value) {
        struct spot spot = spot_of("", key);
        int failed;
        if (!setting_is_section(key))
            failed = apply(p, &spot, value);
        else if (json_is_object(value))
            failed = apply_section(p, key, value);
        else
            failed = wrong_type(p, &spot, "an object", value);
        if (failed)
            return failed;
    }
    return 0;
}

static int parse_tree(const struct parse *p) {
    json_error_t why;
    json_t *root = json_loadb(p->text, p->size, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        error_set(p->err, RDMAD_E_CONFIG, "%s:%d:%d: %s", p->name, why.line,
                  why.column > 0 ? why.column : 1, why.text);
        return RDMAD_E_CONFIG;
    }
    int failed = apply_root(p, root);
    json_decref(root);
    return failed;
}

int config_parse_over(struct config *c, const char *name, const char *text, size_t size,
                      struct config_places *places, struct error *err) {
    char *copy = malloc(size + 1);
    if (!copy)
        return error_set(err, RDMAD_E_NOMEM, "%s: out of memory", name);
    memcpy(copy, text, size);
    blank_comments(copy, size);
    struct parse p = {
        .name = name, .text = copy, .size = size, .config = c, .places = places, .err = err};
    int failed = parse_tree(&p);
    free(copy);
    return failed;
}

int config_parse(struct config *c, const char *name, const char *text, size_t size,
                 struct error *err) {
    struct config copy = *c;
    int failed = config_parse_over(&copy, name, text, size, NULL, err);
    if (!failed)
        failed = config_check(&copy, err);
    if (!failed)
        *c = copy;
    return failed;
}

int config_set(struct config *c, const char *key, const char *value, struct error *err) {
    const struct setting *s = setting_find(key);
    if (!s)
        return error_set(err, RDMAD_E_CONFIG, "unknown key \"%s\"", key);
    if (s->type == SETTING_TEXT)
        return setting_store_text(s, c, value, err);
    if (s->type == SETTING_NUMBER) {
        char *end;
        bool digits = *value >= '0' && *value <= '9';
        uint64_t n = strtoull(value, &end, 10);
        if (!digits || *end)
            return error_set(err, RDMAD_E_CONFIG, "%s \"%s\": must be an integer", key, value);
        return setting_store_number(s, c, n, err); /* ULLONG_MAX of an overflow is out of range */
    }
    if (strcmp(value, "true") && strcmp(value, "false"))
        return error_set(err, RDMAD_E_CONFIG, "%s \"%s\": must be true or false", key, value);
    *setting_bool(s, c) = !strcmp(value, "true");
    return 0;
}

void config_set_at(struct config_places *places, const char *key, const char *option) {
    config_place(places, setting_find(key), option);
}
