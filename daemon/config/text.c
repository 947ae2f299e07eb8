/* SPDX-License-Identifier: MIT */
/*
 * text.c - a walk through well-formed JSON to one value of it.
 */
#include "daemon/config/text.h"
#include <assert.h>
#include <jansson.h>
#include <string.h>

static struct text_path path_more(const struct text_path *path, struct text_step step) {
    struct text_path longer = *path;
    assert(longer.count < TEXT_STEPS_MAX);
    longer.step[longer.count++] = step;
    return longer;
}

struct text_path text_path_key(const struct text_path *path, const char *key) {
    return path_more(path, (struct text_step){.key = key});
}

struct text_path text_path_index(const struct text_path *path, size_t index) {
    return path_more(path, (struct text_step){.index = index});
}

void text_blank_comments(char *bytes, size_t size) {
    bool in_string = false, in_comment = false;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            in_string = in_comment = false; /* JSON strings end on their line */
        } else if (in_comment) {
            bytes[i] = ' ';
        } else if (in_string) {
            if (bytes[i] == '\\' && i + 1 < size && bytes[i + 1] != '\n')
                i++;
            else if (bytes[i] == '"')
                in_string = false;
        } else if (bytes[i] == '"') {
            in_string = true;
        } else if (bytes[i] == '#' || (bytes[i] == '/' && i + 1 < size && bytes[i + 1] == '/')) {
            bytes[i] = ' ';
            in_comment = true;
        }
    }
}

static char at(const struct text *t, size_t i) {
    if (i < t->size)
        return t->bytes[i];
    return 0;
}

static size_t skip_spaces(const struct text *t, size_t i) {
    while (i < t->size && strchr(" \t\n\r", t->bytes[i]) && t->bytes[i])
        i++;
    return i;
}

/* The end of the string that starts at i. */
static size_t skip_string(const struct text *t, size_t i) {
    for (i++; i < t->size && t->bytes[i] != '"'; i++)
        if (t->bytes[i] == '\\')
            i++;
    return i < t->size ? i + 1 : t->size;
}

/* The end of the value that starts at i. */
static size_t skip_value(const struct text *t, size_t i) {
    size_t depth = 0;
    do {
        char c = at(t, i);
        if (c == '"') {
            i = skip_string(t, i);
            continue;
        }
        if (!depth && c != '{' && c != '[') { /* a number or a word */
            while (i < t->size && t->bytes[i] && !strchr(",]} \t\n\r", t->bytes[i]))
                i++;
            return i;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        i++;
    } while (depth && i < t->size);
    return i;
}

/* Whether the string from..to reads word once its escapes are resolved. */
static bool string_is(const struct text *t, size_t from, size_t to, const char *word) {
    json_t *string = json_loadb(t->bytes + from, to - from, JSON_DECODE_ANY, NULL);
    const char *value = json_string_value(string);
    bool same = value && !strcmp(value, word);
    json_decref(string);
    return same;
}

/* From the object or array at i to the value of one step; *key is where its key stands. */
static size_t take_step(const struct text *t, size_t i, const struct text_step *step, size_t *key) {
    if (at(t, i) != (step->key ? '{' : '['))
        return 0;
    i = skip_spaces(t, i + 1);
    for (size_t n = 0; i < t->size && !strchr("]}", at(t, i)); n++) {
        size_t begin = i;
        bool found = !step->key && n == step->index;
        if (step->key) {
            i = skip_string(t, i);
            found = string_is(t, begin, i, step->key);
            i = skip_spaces(t, skip_spaces(t, i) + 1); /* a colon */
        }
        *key = begin;
        if (found)
            return i;
        i = skip_spaces(t, skip_value(t, i));
        if (at(t, i) == ',')
            i = skip_spaces(t, i + 1);
    }
    return 0;
}

size_t text_locate(const struct text *t, const struct text_path *path, bool want_key) {
    size_t i = skip_spaces(t, 0), key = i;
    for (unsigned n = 0; n < path->count; n++) {
        i = take_step(t, i, &path->step[n], &key);
        if (!i)
            return 0;
    }
    return want_key ? key : i;
}

void text_line(const struct text *t, size_t where, size_t *line, size_t *column) {
    *line = *column = 1;
    for (size_t i = 0; i < where && i < t->size; i++) {
        *column = t->bytes[i] == '\n' ? 1 : *column + 1;
        *line += t->bytes[i] == '\n';
    }
}
