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

static bool is_end(const struct text *t, size_t i) {
    return i >= t->size || strchr("]}", at(t, i));
}

/* Behind the value at i: the next element, the next key, or the end. */
static size_t skip_to_next(const struct text *t, size_t i) {
    i = skip_spaces(t, skip_value(t, i));
    return at(t, i) == ',' ? skip_spaces(t, i + 1) : i;
}

/* From the object at i to the value of a key, which stands at *key. */
static size_t take_key(const struct text *t, size_t i, const char *name, size_t *key) {
    if (at(t, i) != '{')
        return 0;
    for (i = skip_spaces(t, i + 1); !is_end(t, i); i = skip_to_next(t, i)) {
        *key = i;
        i = skip_string(t, i);
        bool found = string_is(t, *key, i, name);
        i = skip_spaces(t, skip_spaces(t, i) + 1); /* a colon */
        if (found)
            return i;
    }
    return 0;
}

/* From one element to the one that is so many behind it. */
static size_t take_elements(const struct text *t, size_t i, size_t many) {
    for (; many && !is_end(t, i); many--)
        i = skip_to_next(t, i);
    return is_end(t, i) ? 0 : i;
}

static bool is_first_array(const struct text_path *path, unsigned step) {
    for (unsigned n = 0; n < step; n++)
        if (!path->step[n].key)
            return false;
    return true;
}

/* Whether the way to b, or to what is behind it in its array, begins as the way to a does. */
static bool leads_on(const struct text_path *a, const struct text_path *b) {
    unsigned last = a->count - 1;
    if (!a->count || a->count > b->count || b->step[last].key ||
        b->step[last].index < a->step[last].index)
        return false;
    for (unsigned n = 0; n < last; n++)
        if (!b->step[n].key || strcmp(a->step[n].key, b->step[n].key) != 0)
            return false;
    return true;
}

static size_t take_element(const struct text *t, size_t i, const struct text_path *path,
                           unsigned step) {
    struct text_memo *m = t->memo;
    size_t many = path->step[step].index;
    if (step + 1 == m->path.count && leads_on(&m->path, path)) {
        i = m->element;
        many -= m->path.step[step].index;
    } else if (at(t, i) != '[') {
        return 0;
    } else {
        i = skip_spaces(t, i + 1);
    }
    i = take_elements(t, i, many);
    if (i && is_first_array(path, step)) {
        m->path = *path;
        m->path.count = step + 1;
        m->element = i;
    }
    return i;
}

size_t text_locate(const struct text *t, const struct text_path *path, bool want_key) {
    size_t i = skip_spaces(t, 0), key = i;
    unsigned n = leads_on(&t->memo->path, path) ? t->memo->path.count - 1 : 0;
    for (; n < path->count; n++) {
        const char *name = path->step[n].key;
        i = name ? take_key(t, i, name, &key) : (key = take_element(t, i, path, n));
        if (!i)
            return 0;
    }
    return want_key ? key : i;
}

void text_line(const struct text *t, size_t where, size_t *line, size_t *column) {
    struct text_memo *m = t->memo;
    if (!m->line || where < m->counted) {
        m->counted = 0;
        m->line = m->column = 1;
    }
    for (; m->counted < where && m->counted < t->size; m->counted++) {
        bool ends = t->bytes[m->counted] == '\n';
        m->column = ends ? 1 : m->column + 1;
        m->line += ends;
    }
    *line = m->line;
    *column = m->column;
}
