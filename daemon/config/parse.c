/* SPDX-License-Identifier: MIT */
/*
 * parse.c - from text to settings.
 *
 * Comments are overwritten by blanks, so that jansson reports true lines and columns. Then every
 * key of the tree is looked up in the table; the sections of rules are parse_rules.c's.
 */
#include "daemon/config/parse_rules.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct spot { /* in the tree */
    const char *key;
    char name[128]; /* "section.key" */
    struct text_path path;
};

static int unknown_key(const struct parse *p, const struct spot *spot) {
    struct error e;
    const char *near = setting_nearest(spot->name), *dot = strchr(spot->key, '.');
    if (dot && setting_find(spot->key))
        error_set(&e, RDMAD_E_CONFIG, "unknown key \"%s\"; write \"%.*s\": {\"%s\": ...}",
                  spot->key, (int)(dot - spot->key), spot->key, dot + 1);
    else if (near)
        error_set(&e, RDMAD_E_CONFIG, "unknown key \"%.80s\", did you mean \"%s\"?", spot->name,
                  near);
    else
        error_set(&e, RDMAD_E_CONFIG,
                  "unknown key \"%.80s\"; rdmad --print-config-reference lists them all",
                  spot->name);
    return parse_fail_key(p, &spot->path, e.text);
}

static int apply_number(const struct parse *p, const struct spot *spot, const struct setting *s,
                        const json_t *value) {
    struct error e;
    if (!json_is_integer(value))
        return parse_wrong_type(p, &spot->path, spot->name, "an integer", value);
    json_int_t n = json_integer_value(value);
    if (n < 0)
        setting_number_error(s, n, &e);
    else if (!setting_store_number(s, p->config, (uint64_t)n, &e))
        return 0;
    return parse_fail_value(p, &spot->path, e.text);
}

static int apply_text(const struct parse *p, const struct spot *spot, const struct setting *s,
                      const json_t *value) {
    struct error e;
    if (!json_is_string(value))
        return parse_wrong_type(p, &spot->path, spot->name, "a text", value);
    if (setting_store_text(s, p->config, json_string_value(value), &e))
        return parse_fail_value(p, &spot->path, e.text);
    return 0;
}

static int apply(const struct parse *p, const struct spot *spot, const json_t *value) {
    const struct setting *s = strchr(spot->key, '.') ? NULL : setting_find(spot->name);
    if (!s)
        return unknown_key(p, spot);
    if (p->places) {
        char place[sizeof(p->places->at[0])];
        size_t at = text_locate(&p->text, &spot->path, false);
        config_place(p->places, s, parse_place(p, at, place, sizeof(place)));
    }
    if (s->type == SETTING_NUMBER)
        return apply_number(p, spot, s, value);
    if (s->type == SETTING_TEXT)
        return apply_text(p, spot, s, value);
    if (!json_is_boolean(value))
        return parse_wrong_type(p, &spot->path, spot->name, "true or false", value);
    *setting_bool(s, p->config) = json_is_true(value);
    return 0;
}

static struct spot spot_of(const char *section, const char *key) {
    struct spot spot = {.key = key};
    snprintf(spot.name, sizeof(spot.name), "%s%s%s", section, *section ? "." : "", key);
    if (*section)
        spot.path = text_path_key(&spot.path, section);
    spot.path = text_path_key(&spot.path, key);
    return spot; /* a name cut short is no known key either */
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
        return parse_fail_at(p, 0, "the file must hold one object, { ... }");
    json_object_foreach(root, key, value) {
        struct spot spot = spot_of("", key);
        int failed;
        if (rules_section(key))
            failed = rules_section(key)(p, &spot.path, value);
        else if (!setting_is_section(key))
            failed = apply(p, &spot, value);
        else if (json_is_object(value))
            failed = apply_section(p, key, value);
        else
            failed = parse_wrong_type(p, &spot.path, spot.name, "an object", value);
        if (failed)
            return failed;
    }
    return 0;
}

static int parse_tree(const struct parse *p) {
    json_error_t why;
    json_t *root = json_loadb(p->text.bytes, p->text.size, JSON_REJECT_DUPLICATES, &why);
    if (!root && !why.text[0])
        return error_set(p->err, RDMAD_E_NOMEM, "%s: out of memory", p->name);
    if (!root)
        return error_set(p->err, RDMAD_E_CONFIG, "%s:%d:%d: %s", p->name, why.line,
                         why.column > 0 ? why.column : 1, why.text);
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
    text_blank_comments(copy, size);
    struct text_memo memo = {.line = 0};
    struct parse p = {.name = name,
                      .text = {.bytes = copy, .size = size, .memo = &memo},
                      .config = c,
                      .places = places,
                      .err = err};
    int failed = parse_tree(&p);
    free(copy);
    return failed;
}

int config_parse(struct config *c, const char *name, const char *text, size_t size,
                 struct error *err) {
    struct config copy = *c;
    int failed = config_begin(&copy, err);
    if (!failed)
        failed = config_parse_over(&copy, name, text, size, NULL, err);
    return config_finish(c, &copy, failed, err);
}

int config_begin(struct config *copy, struct error *err) {
    copy->rules = rules_new();
    return copy->rules ? 0 : error_set(err, RDMAD_E_NOMEM, "out of memory for the settings");
}

void config_free(struct config *c) {
    rules_free(c->rules);
    c->rules = NULL;
}

int config_finish(struct config *c, struct config *copy, int failed, struct error *err) {
    if (!failed)
        failed = config_check(copy, err);
    if (failed) {
        rules_free(copy->rules);
        return failed;
    }
    if (!copy->rules->nusers && !copy->rules->npeers && !copy->rules->nsockets)
        config_free(copy);
    rules_free(c->rules);
    *c = *copy;
    return 0;
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
